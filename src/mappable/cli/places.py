"""`mappable places`: show and check a table of places, and split it into training, calibration and test."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from mappable.arrays import Pixels
from mappable.cli.common import AsJson, Outputs, OverwriteFiles, Table, check_new, print_json
from mappable.cli.output import print_notes, print_summary
from mappable.errors import BadInputError
from mappable.locks import alone_in
from mappable.places.files import TABLE, load_places, save_places
from mappable.places.notes import Findings, Note
from mappable.places.picture import draw_map
from mappable.places.roles import split_sequences
from mappable.places.table import Places

SPLITS = ("train", "calibration", "test")
CHECKED_SIZE = (160, 120)  # pixels of images that are not packed
Color = Literal["condition", "sequence", "overlap"]
NAMES_IN_ERROR = 10  # sequences that an error lists

app = typer.Typer(
    help="Show and check tables of places, and split them into training, calibration and test.",
    no_args_is_help=True,
)


@app.command()
def show(
    table: Table,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw a map of the places to this file.", metavar="FILE")
    ] = None,
    color: Annotated[
        Color | None,
        typer.Option(
            help="With --picture: what the colors show. overlap: the number of other visits to the same place "
            "(default: condition if there are any, else sequence)."
        ),
    ] = None,
    out: Outputs = None,
    overwrite: OverwriteFiles = False,
    as_json: AsJson = False,
) -> None:
    """Show counts per sequence and condition, extent, spacing and warnings."""
    from mappable.exchange.poses import poses_of_places
    from mappable.exchange.writers import check_outputs, files_of, write_poses
    from mappable.places.summary import summarize
    from mappable.readers.conversion import converting_again

    outputs = out or []
    check_new(overwrite, picture, *files_of(outputs))
    places = load_places(table)
    if outputs:
        positions = poses_of_places(places)
        check_outputs(outputs, positions)
        for sentence in write_poses(outputs, positions):
            typer.echo(sentence, err=True)
    summary = summarize(places, converting_again(table))
    if as_json:
        print_json(asdict(summary))
    else:
        print_summary(summary)
    if picture is not None:
        draw_map(places, picture, color)
        typer.echo(f"map picture: {picture}", err=True)


@app.command()
def check(table: Table, as_json: AsJson = False) -> None:
    """Check positions, visits and images; each warning names the option of `mappable convert` that mends it.

    `mappable convert` and `mappable places show` print the same list.
    """
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
        str, typer.Option(help="Sequences that calibrate maps (default: none).", metavar="SEQUENCE,SEQUENCE")
    ] = "",
    test: Annotated[
        str,
        typer.Option(help="Sequences that `mappable evaluate` locates (default: none).", metavar="SEQUENCE,SEQUENCE"),
    ] = "",
    train: Annotated[
        str,
        typer.Option(
            help="Sequences that train; others without a use get no split (default: all others).",
            metavar="SEQUENCE,SEQUENCE",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Reserve whole sequences for calibration and test; all other images train, except queries, which test.

    This replaces the earlier split of the table. Packed images do not change. `mappable places show` lists the names
    of the sequences.
    """
    load_places(table)  # raises before there is a lock
    with alone_in(table if table.is_dir() else table.parent, "changing the table"):
        places = load_places(table)
        column = split_sequences(places, *_reserved(table, places, calibration, test, train))
        if "train" not in column:
            raise BadInputError(f"{table}: no sequence is left for training; {_listed(places.sequences())}")
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


def _reserved(table: Path, places: Places, calibration: str, test: str, train: str) -> tuple[dict[str, str], str]:
    """The split of each sequence that is named, and the split of the others."""
    sequences = places.sequences()
    reserved: dict[str, str] = {}
    for split, names in (("calibration", calibration), ("test", test), ("train", train)):
        for name in _names(names, sequences):
            if name not in sequences:
                raise BadInputError(f"{table}: has no sequence {name!r}; {_listed(sequences)}")
            if name in reserved:
                raise BadInputError(f"sequence {name!r} is given twice; give it once, for one split")
            reserved[name] = split
    if not reserved:
        raise BadInputError("no sequence to reserve: give --calibration, --test or --train")
    return reserved, "" if train else "train"


def findings(places: Places, table: Path) -> list[Note]:
    """All notes about the table of places and their images, those of its conversion first."""
    from mappable.places.checks import check as check_positions
    from mappable.places.checks import check_images
    from mappable.readers.conversion import converting_again

    again = converting_again(table)
    images = check_images(places, partial(_small_pixels, table), again) if len(places) else ()
    return [*Findings([*places.notes, *check_positions(places, again), *_new(images, places.notes)])]


def _new(notes: Sequence[Note], known: Sequence[Note]) -> list[Note]:
    """The notes that are not known, such as by `convert`, which stores what it finds about images."""
    texts = {note.text for note in known}
    return [note for note in notes if note.text not in texts]


def _small_pixels(table: Path, places: Places) -> Pixels:
    """Pixels of places: packed ones of any size, or else decoded files."""
    from mappable.places.cache import find_pack
    from mappable.places.images import load_image

    if (table / "pixels").is_dir() and (pack := find_pack(table)).holds(places):
        return pack.load(places)
    return np.stack([load_image(file, CHECKED_SIZE, "crop", places.decoding) for file in places.files])


def _names(text: str, known: Collection[str]) -> list[str]:
    """The names in a list separated by commas, or one name that contains commas itself."""
    return [text] if text and text in known else [name.strip() for name in text.split(",") if name.strip()]


def _listed(sequences: Collection[str]) -> str:
    """A clause with the names of the sequences, at most NAMES_IN_ERROR of them."""
    some = ", ".join(repr(name) for name in list(sequences)[:NAMES_IN_ERROR])
    rest = f" and {len(sequences) - NAMES_IN_ERROR:,} more" if len(sequences) > NAMES_IN_ERROR else ""
    return f"its sequences are {some}{rest}" if len(sequences) > 1 else f"its only sequence is {some}"
