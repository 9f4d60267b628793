"""`mappable places`: what a converted set holds, and which of it is kept from training."""

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mappable.cli.common import AsJson, OverwriteFiles, Table, check_new, print_json
from mappable.cli.output import print_summary
from mappable.errors import BadInputError
from mappable.places.files import TABLE, load_places, save_places
from mappable.places.picture import draw_map
from mappable.places.roles import split_of

SPLITS = ("train", "calibration", "test")
LISTED = 10  # names of sequences in an error

app = typer.Typer(help="Look at tables of places, and split them.", no_args_is_help=True)


@app.command()
def show(
    table: Table,
    picture: Annotated[Path | None, typer.Option(help="Also draw a map of the places.", metavar="FILE")] = None,
    overwrite: OverwriteFiles = False,
    as_json: AsJson = False,
) -> None:
    """Show counts per sequence and condition, extent, spacing and warnings."""
    from mappable.places.summary import summarize

    check_new(overwrite, picture)
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
    calibration: Annotated[str, typer.Option(help="Sequences that calibrate maps.", metavar="SEQUENCE,SEQUENCE")] = "",
    test: Annotated[
        str, typer.Option(help="Sequences that `mappable evaluate` locates.", metavar="SEQUENCE,SEQUENCE")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Keep whole sequences from training; all others train, whatever the table said before, but queries are for test.

    The names of sequences are those of `mappable places show`. Packed images stay as they are.
    """
    places = load_places(table)
    sequences = places.sequences()
    kept: dict[str, str] = {}
    for value, names in (("calibration", calibration), ("test", test)):
        for name in _names(names, sequences):
            if name not in sequences:
                raise BadInputError(f"{table}: there is no sequence {name!r}; {_listed(sequences)}")
            if name in kept:
                raise BadInputError(f"the sequence {name!r} is given twice: it is for calibration or for test, once")
            kept[name] = value
    if not kept:
        raise BadInputError("no sequence is to be kept from training: give --calibration, --test or both")
    both = zip(places.sequence, places.role, strict=True)
    column = [kept.get(sequence, split_of(role)) for sequence, role in both]
    if "train" not in column:
        raise BadInputError(f"{table}: no sequence is left to train on; {_listed(sequences)}")
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
    """The names that commas part, or the one name that has commas itself."""
    return [text] if text and text in known else [name.strip() for name in text.split(",") if name.strip()]


def _listed(sequences: Collection[str]) -> str:
    """The names that there are, of many the first."""
    some = ", ".join(repr(name) for name in list(sequences)[:LISTED])
    return f"there {'is' if len(sequences) == 1 else 'are'} {some}{' and others' * (len(sequences) > LISTED)}"
