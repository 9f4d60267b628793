"""`mappable places`: show a table of places, and split it into training, calibration and test."""

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.common import AsJson, OverwriteFiles, Table, check_outputs, print_json
from mappable.cli.output import print_summary
from mappable.errors import BadInputError
from mappable.places.files import TABLE, load_places, save_places
from mappable.places.picture import draw_map
from mappable.places.roles import split_of

SPLITS = ("train", "calibration", "test")
NAMES_IN_ERROR = 10  # sequences that an error lists

app = typer.Typer(
    help="Show tables of places, and split them into training, calibration and test.", no_args_is_help=True
)


@app.command()
def show(
    table: Table,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw a map of the places to this file.", metavar="FILE")
    ] = None,
    overwrite: OverwriteFiles = False,
    as_json: AsJson = False,
) -> None:
    """Show counts per sequence and condition, extent, spacing and warnings."""
    from mappable.places.summary import summarize

    check_outputs(overwrite, picture)
    places = load_places(table)
    summary = summarize(places)
    if as_json:
        print_json(asdict(summary))
    else:
        print_summary(summary)
    if picture is not None:
        draw_map(places, picture)
        typer.echo(f"map picture: {picture}", err=True)


@app.command()
def split(
    table: Table,
    calibration: Annotated[
        str, typer.Option(help="Sequences that calibrate maps (default: none).", metavar="SEQUENCE,SEQUENCE")
    ] = "",
    test: Annotated[
        str,
        typer.Option(help="Sequences that `mappable evaluate` locates (default: none).", metavar="SEQUENCE,SEQUENCE"),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Reserve whole sequences for calibration and test; all other images train, except queries, which test.

    This replaces the earlier split of the table. Packed images do not change. `mappable places show` lists the names
    of the sequences.
    """
    places = load_places(table)
    sequences = places.sequences()
    reserved: dict[str, str] = {}
    for value, names in (("calibration", calibration), ("test", test)):
        for name in _names(names, sequences):
            if name not in sequences:
                raise BadInputError(f"{table}: has no sequence {name!r}; {_listed(sequences)}")
            if name in reserved:
                raise BadInputError(f"sequence {name!r} is given twice; give it once, for calibration or for test")
            reserved[name] = value
    if not reserved:
        raise BadInputError("no sequence to reserve: give --calibration, --test or both")
    both = zip(places.sequence, places.role, strict=True)
    column = [reserved.get(sequence, split_of(role)) for sequence, role in both]
    if "train" not in column:
        raise BadInputError(f"{table}: no sequence is left for training; {_listed(sequences)}")
    save_places(places.replace(split=column), table / TABLE if table.is_dir() else table)
    counts = {}
    for one in SPLITS:
        named = [sequence for sequence, value in zip(places.sequence, column, strict=True) if value == one]
        counts[one] = {"sequences": len(set(named)), "places": len(named)}
    if as_json:
        print_json(counts)
        return
    for one, count in counts.items():
        plural = "s" * (count["sequences"] != 1)
        typer.echo(f"{one}: {count['sequences']:,} sequence{plural}, {count['places']:,} places")


def _names(text: str, known: Collection[str]) -> list[str]:
    """The names in a list separated by commas, or one name that contains commas itself."""
    return [text] if text and text in known else [name.strip() for name in text.split(",") if name.strip()]


def _listed(sequences: Collection[str]) -> str:
    """A clause with the names of the sequences, at most NAMES_IN_ERROR of them."""
    some = ", ".join(repr(name) for name in list(sequences)[:NAMES_IN_ERROR])
    rest = f" and {len(sequences) - NAMES_IN_ERROR:,} more" if len(sequences) > NAMES_IN_ERROR else ""
    return f"its sequences are {some}{rest}" if len(sequences) > 1 else f"its only sequence is {some}"
