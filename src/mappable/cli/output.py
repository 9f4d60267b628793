"""Print results as tables and lines on the terminal, or as JSON."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import harmonic_mean
from typing import TYPE_CHECKING, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from mappable.arrays import Ints
    from mappable.evaluation.models import Model
    from mappable.evaluation.result import Result
    from mappable.evaluation.summary import RowSummary
    from mappable.learning.auto import Plan
    from mappable.learning.choosing import Chosen
    from mappable.maps.landmarks import Landmarks
    from mappable.places.notes import Note
    from mappable.places.summary import Summary
    from mappable.places.table import Places

# wide: a narrow terminal wraps long lines itself, but rich would cut off numbers.
CONSOLE_COLUMNS = 10_000
SEQUENCES_SHOWN = 40  # rows of the table of sequences
Record = Mapping[str, Any]


def new_console() -> Console:
    """A console that prints text unchanged, with lines of any length."""
    return Console(width=CONSOLE_COLUMNS, highlight=False, markup=False, emoji=False)


def print_json(result: Any) -> None:
    typer.echo(json.dumps(result, indent=2))


def print_record(record: Record, as_json: bool = False) -> None:
    """Print a record as JSON, or with one line per value."""
    if as_json:
        print_json(record)
        return
    lines = dict(_lines(record))
    width = max(map(len, lines))
    for name, text in lines.items():
        typer.echo(f"{name:<{width}}  {text}")


def _lines(record: Record, group: str = "") -> Iterable[tuple[str, str]]:
    """The names and texts of all values; the values of a record inside are named after it."""
    for key, value in record.items():
        name = group + (key.replace("_", " ") or "none")
        if isinstance(value, Mapping):
            yield from _lines(value, f"{name}: ")
        elif text := _text(value):
            yield name, text


def _text(value: Any) -> str:
    """A value as users read it; "" for None and for empty values."""
    if isinstance(value, list | tuple):
        return ", ".join(filter(None, map(_text, value)))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "" if value is None else str(value)


def print_records(records: Sequence[Record], title: str | None = None) -> None:
    """Print a table with one row per record, and one column per key that is not empty in all of
    them.
    """
    names = {key: None for record in records for key in record}
    columns = {key: [_text(record.get(key)) for record in records] for key in names}
    shown = {key: texts for key, texts in columns.items() if any(texts)}
    numbers = [
        key.replace("_", " ")
        for key in shown
        if any(isinstance(record.get(key), int | float) for record in records)
    ]
    headings = [key.replace("_", " ") for key in shown]
    print_table(headings, zip(*shown.values(), strict=True), numbers=numbers, title=title)


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    numbers: Collection[str],
    title: str | None = None,
) -> None:
    """Print a table; columns whose heading is in `numbers` are aligned right."""
    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    for heading in headings:
        table.add_column(
            Text(heading), justify="right" if heading in numbers else "left", no_wrap=True
        )
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    new_console().print(table)


def print_summary(summary: "Summary") -> None:
    """Print counts per sequence, extent, spacing and warnings; the table has at most
    SEQUENCES_SHOWN rows.
    """
    sequences = [asdict(sequence) for sequence in summary.sequences]
    frames = [asdict(frame) for frame in summary.frames]
    facts = {
        name: getattr(summary, name)
        for name in ("places", "conditions", "splits", "with_yaw", "with_time")
    }
    print_records(sequences[:SEQUENCES_SHOWN], title=f"{len(sequences):,} sequences")
    print_records(frames, title="frames")
    print_record(facts)
    print_notes(summary.notes)


def print_notes(notes: "Iterable[Note]") -> None:
    """Print notes, each with its first items."""
    console = new_console()
    for note in notes:
        first, *items = note.lines()
        console.print(Text.assemble(("warning: ", "yellow") if note.warning else "note: ", first))
        for item in items:
            console.print(item)


def print_world(folder: Path, places: "Places") -> None:
    """Print the summary of a simulated world, its statistics, and whether its images match the
    frozen world.
    """
    from mappable.places.summary import summarize
    from mappable.places.world_record import read_record
    from mappable.worlds import find_world

    print_summary(summarize(places))
    record = read_record(folder)
    preset = record["preset"]
    typer.echo("")
    print_record(
        dict(find_world(preset).describe(record)) | {"hash of the images": record["image_hash"]}
    )
    if record["every"] > 1:
        kept = f"these numbers describe one image in {record['every']}"
        typer.echo(f"note: {kept}, not the length and spacing of a full run")
    if record["frozen"]:
        typer.echo(f"the images are those of the frozen {preset}")
    elif record["frozen"] is False:
        reason = (
            "most likely, another processor or library rounds differently, and results differ only"
            " slightly"
        )
        typer.echo(f"note: the images differ from those of the frozen {preset}; {reason}")


def print_training(out: Path, as_json: bool = False) -> None:
    """Print time and speed of a training run, and the monitor's accuracy before and after."""
    from mappable.learning.metrics import read_metrics

    lines = read_metrics(out)
    steps = [line for line in lines if "loss" in line]
    shares = [line["accuracy"] for line in lines if "accuracy" in line]
    facts = {
        "encoder": str(out / "encoder.safetensors"),
        "iterations": max(line["iteration"] for line in lines) if steps else 0,
        "seconds": steps[-1]["seconds"] if steps else 0.0,
        # The harmonic mean is the number of all images divided by the total time.
        "images_per_second": (
            harmonic_mean([line["images_per_second"] for line in steps]) if steps else None
        ),
        "accuracy": [shares[0], shares[-1]] if shares and steps else shares,
    }
    print_record(facts, as_json)


def print_plan(plan: "Plan") -> None:
    """Print on standard error what `auto` chose, and why."""
    width, widest = (
        max(len(getattr(one, name)) for one in plan.reasons) for name in ("name", "value")
    )
    for one in plan.reasons:
        typer.echo(f"  {one.name:<{width}}  {one.value:<{widest}}  {one.why}", err=True)
    if plan.trained is None:
        typer.echo(f"no training: {plan.why_not}", err=True)
        shelf = plan.off_the_shelf
        typer.echo(
            f"  you get the off-the-shelf encoder {shelf.weights}, with clusters of your images",
            err=True,
        )
    else:
        rows = (
            "the images of the split calibration"
            if not len(plan.held_out)
            else "a stretch of the route"
        )
        typer.echo(f"  {rows} will judge whether training helped", err=True)
    typer.echo("  change any value with --set NAME=VALUE; see all with --show-settings", err=True)


def print_chosen(chosen: "Chosen", out: Path, as_json: bool = False) -> None:
    """Print which encoder was kept, and why."""
    print_record({"encoder": str(out / "encoder.safetensors")} | asdict(chosen), as_json)


def print_used_images(places: "Places", doing: str, **rows: "Ints") -> None:
    """Print how many images of a table a command uses and how many it leaves out, on one line of
    standard error.
    """
    from mappable.places.roles import describe_use

    typer.echo(describe_use(places, doing, **rows), err=True)


def print_accuracy(results: "Sequence[Result]", page: Path | None, as_json: bool = False) -> None:
    """Print one line per model (correct queries, median error, gain over the first model) and the
    report's path.
    """
    if as_json:
        typer.echo(json.dumps(accuracy_json(results, page), indent=2))
        return
    models, summaries = _summaries(results)
    if summaries:
        _print_models(models, summaries)
    typer.echo(f"report: {page}")


def accuracy_json(results: "Sequence[Result]", page: Path | None) -> dict[str, Any]:
    return {"report": page and str(page), "models": [asdict(one) for one in _summaries(results)[1]]}


def _summaries(results: "Sequence[Result]") -> "tuple[list[Model], list[RowSummary]]":
    """The models with a known accuracy, and a summary of each."""
    from mappable.evaluation.models import models_of
    from mappable.evaluation.result import Accuracy
    from mappable.evaluation.summary import summary_of

    models = models_of(results, Accuracy)
    return models, [summary_of(model.results) for model in models]


def _print_models(models: "Sequence[Model]", summaries: "Sequence[RowSummary]") -> None:
    from mappable.evaluation.summary import difference

    first = models[0].results[0]
    radii = [
        f"within {radius:g} {first.unit}"
        for radius in (first.positive_radius, first.negative_radius)
    ]
    headings = (*radii, "median error", f"gain {radii[0]}")
    rows = []
    for model, one in zip(models, summaries, strict=True):
        gain = difference(model.results, models[0].results) if model is not models[0] else None
        gained = "" if gain is None else f"{gain.mean:+.1f}"
        if gain is not None and gain.interval is not None:
            gained += f" ({gain.interval.low:+.1f} to {gain.interval.high:+.1f})"
        seeds = f", {len(one.seeds)} seeds" if len(one.seeds) > 1 else ""
        median = f"{one.median.mean:.1f} {first.unit}"
        rows.append(
            (
                one.title + seeds,
                f"{one.positive.mean:.1f} %",
                f"{one.negative.mean:.1f} %",
                median,
                gained,
            )
        )
    print_table(("", *headings), rows, numbers=headings)
    typer.echo(
        f"{summaries[0].queries:,} test images; gains in percentage points, with 95 % intervals"
    )


def print_map(shown: "Landmarks", as_json: bool = False, **more: Any) -> None:
    """Print a summary of a map; its warnings go to standard error."""
    from mappable.maps.summary import summarize_map

    record = asdict(summarize_map(shown))
    if as_json:
        print_json(record | more)
        return
    notes = record.pop("notes")
    print_record(record | {"milvus": getattr(shown.store, "uri", "")})
    for note in notes:
        typer.echo(f"warning: {note}", err=True)
