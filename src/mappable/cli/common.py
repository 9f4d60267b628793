"""What several verbs share: types of arguments and options, and how they open encoders and images."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mappable.cli.output import print_taken
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.features.image_encoder import ImageEncoder
    from mappable.maps.map import Map
    from mappable.places.decoding import RawDecoding
    from mappable.places.pixels import Images
    from mappable.places.table import Places

PARTLY = 3  # exit code: done, but something is missing that standard error names

MapFolder = Annotated[Path, typer.Argument(metavar="MAP", help="Folder made by `mappable map build`.")]
Table = Annotated[
    Path,
    typer.Argument(
        metavar="PLACES", help="Folder made by `mappable convert` or `mappable simulate`, or a table of places."
    ),
]
ImagePaths = Annotated[
    list[Path],
    typer.Argument(metavar="IMAGES...", help="Image files, folders of images, or folders made by `mappable convert`."),
]
EncoderPath = Annotated[
    Path,
    typer.Argument(
        metavar="ENCODER",
        help="The file encoder.safetensors or an .onnx file, or the folder of a training run or a map.",
    ),
]
Split = Literal["train", "calibration", "test"]
OfSplit = Annotated[Split | None, typer.Option("--split", help="Use only the places of this split.")]
Device = Annotated[
    str, typer.Option(help="Device: auto, cpu, cuda or cuda:N. auto takes a GPU if the machine has one.")
]
ByBackend = Annotated[
    Literal["torch", "onnx"] | None,
    typer.Option(
        "--backend",
        help="Library that computes the encoder; onnx is onnxruntime (default: onnx for an .onnx file, else torch). "
        "With onnx any other encoder is exported to the cache, once.",
    ),
]
EncoderFile = Annotated[
    Path | None,
    typer.Option("--encoder", help="The encoder's file, for a map that keeps no copy of it.", metavar="FILE"),
]
Together = Annotated[
    bool,
    typer.Option("--sequence", help="Treat the images of each folder, or sequence of a table, as one drive, in order."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON; standard output holds nothing else.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the result that OUT holds.")]
OverwriteFiles = Annotated[bool, typer.Option("--overwrite", help="Replace files that exist.")]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.", min=0)]


def print_json(result: Any) -> None:
    typer.echo(json.dumps(result, indent=2))


def check_new(overwrite: bool, *files: Path | None) -> None:
    """Refuse, before the work, to replace a result or to write where that is impossible; None is no file."""
    from mappable.files import check_writable

    for file in files:
        if file is not None:
            check_writable(file)
            if file.exists() and not overwrite:
                raise BadInputError(f"{file}: exists already; choose another name, or replace it with --overwrite")


def packed(table: Path, places: "Places", encoder: "ImageEncoder") -> "Images | None":
    """The images of places as the folder of their table has them packed for the encoder, if it has."""
    from mappable.places.cache import find_packed

    return find_packed(table, places, encoder.about.size, encoder.about.fit)


def images_of(
    table: Path, places: "Places", encoder: "ImageEncoder", decoding: "RawDecoding | None" = None
) -> "Places | Images":
    """The packed images, or else the places, whose files are decoded then; raw ones as the map's `decoding` says."""
    places = places.decoded_as(decoding)
    images = packed(table, places, encoder)
    return places if images is None else images


def some_places(table: Path) -> "Places":
    """The places of a table that must have some."""
    from mappable.places.files import load_places

    places = load_places(table)
    if not len(places):
        raise BadInputError(f"{table}: names no place")
    return places


def queries_of(table: Path) -> "Places":
    """The places of a table to locate; prints how many, and refuses a table without queries."""
    from mappable.places.files import load_places
    from mappable.places.roles import asked

    places = load_places(table)
    rows = asked(places)
    if not len(rows):
        none = "no place has the split 'test', or the role 'query' and no split"
        raise BadInputError(f"{table}: {none}; keep a sequence for the test (`mappable places split --test`)")
    print_taken(places, "asking about", queries=rows)
    return places[rows]


def warn_of_new_paths(before: "Map", after: "Map") -> None:
    """Say so if the landmarks of a map that has grown are no longer under the paths that they had."""
    if after.places.root != before.places.root:
        root = f"{before.places.root}, so all paths are now relative to {after.places.root}"
        typer.echo(f"warning: images that were added lie outside of {root}; ids are as they were", err=True)


def end_with(bad: Sequence[str]) -> None:
    """Print what is missing, such as images that could not be read; if there is any, the exit code says so."""
    for error in bad:
        typer.echo(f"error: {error}", err=True)
    if bad:
        raise typer.Exit(PARTLY)
