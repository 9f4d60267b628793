"""`mappable compare RESULTS...`: show models side by side, and whether each is better than the first."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import AsJson, print_json
from mappable.cli.output import print_table

if TYPE_CHECKING:
    from mappable.evaluation.compare import Comparison, Line

RECALLS = ("1", "5", "10")


def compare(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS...",
            help=(
                "Files result.json of `mappable evaluate` or `mappable reproduce`, or the folders"
                " that contain them."
            ),
        ),
    ],
    by_condition: Annotated[
        bool,
        typer.Option(
            "--by-condition",
            help="Also print a table with one column per condition of the queries.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare results on the queries that all of them share.

    The first lines name landmarks, calibrations, encoders and queries that differ. Results that
    differ only in their seed are one model. A model is better or worse than the first if the 95 %
    interval of the difference excludes 0. The interval accounts for stretches of the route and for
    seeds.
    """
    from mappable.evaluation.compare import compare as compare_results

    comparison = compare_results(results)
    if as_json:
        print_json(comparison.to_json())
    else:
        _print(comparison, by_condition)


def _print(comparison: "Comparison", by_condition: bool) -> None:
    for difference in comparison.differences:
        typer.echo(f"note: {difference}")
    _print_models(comparison)
    if by_condition:
        _print_conditions(comparison)
    for note in comparison.notes:
        typer.echo(f"note: {note}")


def _print_models(comparison: "Comparison") -> None:
    unit, radii = comparison.unit, (comparison.positive_radius, comparison.negative_radius)
    columns = ["seeds", *(f"% within {radius:g} {unit}" for radius in radii), f"median {unit}"]
    recalls = [
        count for count in RECALLS if all(count in line.summary.recall for line in comparison.lines)
    ]
    columns += [*(f"recall@{count}" for count in recalls), "difference", "95 % interval"]
    rows = []
    for line in comparison.lines:
        one = line.summary
        shares = [f"{one.recall[count]:.2f}" for count in recalls]
        numbers = (
            str(len(one.seeds)),
            str(one.positive),
            str(one.negative),
            str(one.median),
            *shares,
        )
        rows.append((line.name, one.set, *numbers, *_difference(line)))
    headings = ("model", "set", *columns, "to the first")
    print_table(headings, rows, numbers=columns, title=f"{comparison.queries:,} queries")


def _difference(line: "Line") -> tuple[str, str, str]:
    ahead = line.difference
    if ahead is None:
        return "", "", ""
    interval = (
        "" if ahead.interval is None else f"{ahead.interval.low:+.2f} to {ahead.interval.high:+.2f}"
    )
    return f"{ahead.mean:+.2f}", interval, ahead.verdict


def _print_conditions(comparison: "Comparison") -> None:
    """Print a table with one column per condition; each heading has the number of queries."""
    conditions = {
        name: one["queries"] for name, one in comparison.lines[0].summary.by_condition.items()
    }
    title = f"% within {comparison.positive_radius:g} {comparison.unit}, by condition"
    columns = [f"{name} ({queries:,})" for name, queries in conditions.items()]
    rows = [
        (line.name, *(f"{line.summary.by_condition[name]['positive']:.2f}" for name in conditions))
        for line in comparison.lines
    ]
    print_table(("model", *columns), rows, numbers=columns, title=title)
