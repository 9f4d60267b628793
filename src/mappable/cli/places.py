"""`mappable places`: show and check a table of places, and split it into training, calibration and test."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mappable.cli.common import AsJson, OverwriteFiles, Table, check_out, write_out
from mappable.cli.output import print_json, print_notes, print_records, print_summary
from mappable.errors import BadInputError, listed

if TYPE_CHECKING:
    from mappable.arrays import Pixels
    from mappable.places.notes import Note
    from mappable.places.table import Places

SPLITS = ("train", "calibration", "test")
PICTURES = (".png", ".svg", ".pdf")
CHECKED_SIZE = (160, 120)  # pixels of images that are not packed

app = typer.Typer(
    name="places",
    help="Show and check tables of places, and split them into training, calibration and test.",
    no_args_is_help=True,
)


@app.command()
def show(
    table: Table,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            help=(
                "Also write the positions to this file: a picture of the map (.png, .svg, .pdf), or"
                " the formats of "
                "`mappable locate --out`. May be repeated."
            ),
            metavar="FILE",
        ),
    ] = None,
    color: Annotated[
        Literal["condition", "sequence", "overlap"] | None,
        typer.Option(
            help=(
                "What the colors of a picture show. overlap: the number of other visits to the same"
                " place "
                "(default: condition if there are any, else sequence)."
            )
        ),
    ] = None,
    overwrite: OverwriteFiles = False,
    as_json: AsJson = False,
) -> None:
    """Show counts per sequence and condition, extent, spacing and warnings."""
    from dataclasses import asdict

    from mappable.exchange.poses import poses_of_places
    from mappable.places.files import load_places
    from mappable.places.picture import draw_map
    from mappable.places.summary import summarize
    from mappable.readers.conversion import converting_again

    pictures = [file for file in out or () if file.suffix in PICTURES]
    outputs = [file for file in out or () if file.suffix not in PICTURES]
    places = load_places(table)
    positions = poses_of_places(places)
    check_out(outputs, positions, overwrite, *pictures)
    write_out(outputs, positions)
    summary = summarize(places, converting_again(table))
    if as_json:
        print_json(asdict(summary))
    else:
        print_summary(summary)
    for picture in pictures:
        draw_map(places, picture, color)
        typer.echo(f"map picture: {picture}", err=True)


@app.command()
def check(table: Table, as_json: AsJson = False) -> None:
    """Check positions, visits and images; each warning names the option of `mappable convert` that
    mends it.

    `mappable convert` and `mappable places show` print the same list.
    """
    from mappable.places.files import load_places

    places = load_places(table)
    notes = findings(places, table)
    if as_json:
        print_json([note.to_json() for note in notes])
        return
    print_notes(notes)
    if not any(note.warning for note in notes):
        typer.echo(f"{len(places):,} places: nothing to mend")


@app.command()
def split(
    table: Table,
    calibration: Annotated[
        str,
        typer.Option(
            help="Sequences that calibrate maps (default: none).", metavar="SEQUENCE,SEQUENCE"
        ),
    ] = "",
    test: Annotated[
        str,
        typer.Option(
            help="Sequences that `mappable evaluate` locates (default: none).",
            metavar="SEQUENCE,SEQUENCE",
        ),
    ] = "",
    train: Annotated[
        str,
        typer.Option(
            help=(
                "Training sequences (default: all not named elsewhere). Unnamed sequences get no"
                " split."
            ),
            metavar="SEQUENCE,SEQUENCE",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Reserve whole sequences for calibration and test; all other images train, except queries,
    which test.

    This replaces the earlier split of the table. Packed images do not change. `mappable places
    show` lists the names of the sequences.
    """
    from mappable.locks import alone_in
    from mappable.places.files import TABLE, load_places, save_places
    from mappable.places.roles import split_sequences

    load_places(table)  # raises before there is a lock
    with alone_in(table if table.is_dir() else table.parent, "changing the table"):
        places = load_places(table)
        wanted = {"calibration": calibration, "test": test, "train": train}
        column = split_sequences(places, _reserved(table, places, wanted), "" if train else "train")
        if "train" not in column:
            known = listed(map(repr, places.sequences()))
            raise BadInputError(
                f"{table}: no sequence is left for training; its sequences are {known}"
            )
        save_places(places.replace(split=column), table / TABLE if table.is_dir() else table)
    counts = {}
    for name in SPLITS:
        sequences = [
            sequence
            for sequence, value in zip(places.sequence, column, strict=True)
            if value == name
        ]
        counts[name] = {"sequences": len(set(sequences)), "places": len(sequences)}
    if as_json:
        print_json(counts)
    else:
        print_records([{"split": name} | count for name, count in counts.items()])


def _reserved(table: Path, places: "Places", wanted: dict[str, str]) -> dict[str, str]:
    """The split of each sequence that is named."""
    sequences = places.sequences()
    reserved: dict[str, str] = {}
    for split_name, text in wanted.items():
        # A name that contains commas itself is given alone.
        names = (
            [text]
            if text in sequences
            else [name.strip() for name in text.split(",") if name.strip()]
        )
        for name in names:
            if name not in sequences:
                known = listed(map(repr, sequences))
                raise BadInputError(f"{table}: has no sequence {name!r}; its sequences are {known}")
            if name in reserved:
                raise BadInputError(
                    f"sequence {name!r} is given twice; give it once, for one split"
                )
            reserved[name] = split_name
    if not reserved:
        raise BadInputError("no sequence to reserve: give --calibration, --test or --train")
    return reserved


def findings(places: "Places", table: Path) -> "list[Note]":
    """All notes about the table of places and their images, those of its conversion first."""
    from functools import partial

    from mappable.places.checks import check as check_positions
    from mappable.places.checks import check_images
    from mappable.places.notes import Findings
    from mappable.readers.conversion import converting_again

    again = converting_again(table)
    images = check_images(places, partial(_small_pixels, table), again) if len(places) else ()
    known = {note.text for note in places.notes}  # `convert` stores what it finds about images
    new = [note for note in images if note.text not in known]
    return [*Findings([*places.notes, *check_positions(places, again), *new])]


def _small_pixels(table: Path, places: "Places") -> "Pixels":
    """Pixels of places: packed ones of any size, or else decoded files."""
    import numpy as np

    from mappable.places.cache import find_pack
    from mappable.places.images import load_image

    if (table / "pixels").is_dir() and (pack := find_pack(table)).holds(places):
        return pack.load(places)
    return np.stack(
        [load_image(file, CHECKED_SIZE, "crop", places.decoding) for file in places.files]
    )
