"""`mappable recover study`: how well positions can be recovered, on made-up routes."""

from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import AsJson, print_json
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.recovery.study.comparison import Summary


def study(
    kind: Annotated[str, typer.Option(help="Kinds of routes: {routes}.", metavar="KIND,KIND")] = "open,loop",
    noise: Annotated[str, typer.Option(help="Noise of the ranges: {noises}.", metavar="NOISE,NOISE")] = "mid,learned",
    count: Annotated[int, typer.Option(help="Images per route.", min=3)] = 400,
    length: Annotated[
        float | None, typer.Option(help="Route length in metres (default: 672, or one metre per image in a city).")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Repetitions per case.", min=1)] = 10,
    anchors: Annotated[str, typer.Option(help="Also try with N known positions.", metavar="N,N")] = "10,20",
    methods: Annotated[
        str, typer.Option(help="Methods: {methods}.", metavar="METHOD,METHOD")
    ] = "default,geodesic,smacof",
    same_route: Annotated[
        bool, typer.Option("--same-route", help="Repeat with other images of one route, not with other routes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run methods on made-up routes with known noise, and compare them with shapes that use no ranges.

    `learned` is the noise of a trained encoder; low, mid and high are kinder. A method that does not beat the straight
    line or the circle has not recovered a shape.
    """
    from mappable.recovery.methods import method
    from mappable.recovery.study.comparison import cases, run_study, study_to_json, summarise
    from mappable.recovery.study.simulator import KINDS

    kinds = _listed(kind)
    for one in kinds:
        if one not in KINDS:
            raise BadInputError(f"there is no route {one!r}; there are {', '.join(KINDS)}")
    known = [_whole(text) for text in _listed(anchors)]
    wanted = cases(
        kinds,  # type: ignore[arg-type]
        _listed(noise),
        count=count,
        seeds=seeds,
        anchors=known,
        length=length,
        same_route=same_route,
    )
    rows = run_study(wanted, _listed(methods))
    if as_json:
        print_json(study_to_json(rows))
        return
    _print_study(summarise(rows), f"{count:,} images a route")
    for name in _listed(methods):
        if count > method(name).most:
            typer.echo(f"{name} is made for at most {method(name).most} images and was left out")


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise BadInputError(f"{text!r} is not a number of known positions")
    return int(text)


def _print_study(rows: "list[Summary]", what: str) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from mappable.cli.output import WIDE

    console = Console(width=WIDE, highlight=False, markup=False, emoji=False)
    numbers = ("median %", "from", "to", "mean ± std", "rigid %", "of gyration %", "CPU s")
    title = f"{what}: error as a percentage of the path, medians of {max(row.repetitions for row in rows)}"
    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    for heading in ("route", "noise", "known", "method"):
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    before: tuple[str, str, int] | None = None
    for row in rows:
        group = (row.kind, row.noise, row.anchors)
        if before not in (None, group):
            table.add_section()
        shown = ["", "", ""] if group == before else [row.kind, row.noise, str(row.anchors or "")]
        before = group
        values = (row.similarity, row.lowest, row.highest)
        table.add_row(
            *shown, row.method, *(f"{value:.2f}" for value in values), f"{row.mean:.2f} ± {row.deviation:.2f}",
            f"{row.rigid:.2f}", f"{row.of_gyration:.1f}", f"{row.seconds:.2f}" if row.seconds else "",
        )  # fmt: skip
    console.print(table)
    console.print("known positions are never aligned; all others after the best alignment, with scale and mirror")
