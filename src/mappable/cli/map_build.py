"""`mappable map build PLACES OUT`: choose landmarks, describe them, and calibrate what feature distances mean."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mappable.cli.common import (
    AsJson,
    ByBackend,
    Device,
    Overwrite,
    Seed,
    Table,
    check_new,
    images_of,
    packed,
    some_places,
)
from mappable.cli.output import print_map, print_taken
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.maps.map import Map
    from mappable.places.table import Places


def build(
    table: Table,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the map.")],
    encoder: Annotated[
        Path | None,
        typer.Option(
            help="The file encoder.safetensors or an .onnx file, or the folder of a training run or a map.",
            metavar="FILE",
        ),
    ] = None,
    descriptors: Annotated[
        Path | None,
        typer.Option(
            help="Descriptors to use instead of an encoder: a folder made by `mappable embed`, an .npy file with one "
            "row per place, or hloc's .h5.",
            metavar="FILE",
        ),
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(help="Name of the encoder, if the descriptor file does not record one.", metavar="NAME"),
    ] = None,
    landmarks: Annotated[
        int | None,
        typer.Option(
            help="Choose N landmarks, spread far apart (default: the encoder's setting, else 200).",
            metavar="N",
            min=1,
        ),
    ] = None,
    spacing: Annotated[
        float | None,
        typer.Option(help="Or: choose one landmark per METRES along each sequence.", metavar="METRES"),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Or: make every reference a landmark.")] = False,
    elsewhere: Annotated[
        Path | None,
        typer.Option(
            help="Places that are not on the map: it learns to reject such images. With --descriptors a folder made "
            "by `mappable embed`.",
            metavar="PLACES",
        ),
    ] = None,
    coverage: Annotated[float, typer.Option(help="Share of images whose interval holds the true distance.")] = 0.9,
    false_accepts: Annotated[
        float, typer.Option(help="Share of images from elsewhere that may count as images on the map.")
    ] = 0.05,
    storage: Annotated[
        Literal["float32", "float16"],
        typer.Option(help="Type of stored descriptors; float16 takes half the space."),
    ] = "float32",
    approximate: Annotated[
        bool | None,
        typer.Option(
            "--approximate/--exact",
            help="Build an index for fast search (needs FAISS), or none (default: beyond 100,000 landmarks).",
        ),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    backend: ByBackend = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Build a map: choose landmarks; calibrate on the remaining images what feature distances mean in metres.

    Landmarks are chosen among the split `train` (without splits: the role `reference`, or all but queries). The split
    `calibration` measures; without one, references that are no landmarks do. The map keeps a copy of the encoder: its
    folder is all that `mappable locate` needs.
    """
    from mappable.features.descriptors import read_descriptors
    from mappable.maps.build import Options, build_map, build_map_of
    from mappable.maps.encoders import find_encoder, open_encoder
    from mappable.maps.folder import MAP, check_folder

    check_folder(out)
    check_new(overwrite, out / MAP)
    if sum((landmarks is not None, spacing is not None, every)) > 1:
        raise BadInputError("--landmarks, --spacing and --all exclude each other: give one of them")
    options: Options = {
        "landmarks": landmarks, "spacing": spacing, "every": every, "seed": seed,
        "coverage": coverage, "false_accepts": false_accepts, "storage": storage,
    }  # fmt: skip
    encoder_file = None if encoder is None else find_encoder(encoder)
    places = some_places(table)
    if descriptors is not None:
        described = read_descriptors(descriptors, places)
        for note in described.notes:
            typer.echo(f"warning: {note}", err=True)
        absent = None if elsewhere is None else read_descriptors(elsewhere)
        _print_taken(described.places)
        built = build_map_of(described, fingerprint, elsewhere=absent, **options)
    elif encoder_file is None:
        raise BadInputError("a map needs an encoder: give --encoder FILE, or --descriptors made before")
    else:
        loaded = open_encoder(encoder_file, device, backend)
        absent_images = None
        if elsewhere is not None:
            absent_images = images_of(elsewhere, some_places(elsewhere), loaded, places.decoding)
        _print_taken(places)
        built = build_map(loaded, places, packed(table, places, loaded), elsewhere=absent_images, **options)
    print_map((built.with_index(seed) if _wants_index(built, approximate) else built).save(out, encoder_file), as_json)
    typer.echo(f"written to {out}", err=as_json)


def _print_taken(places: "Places") -> None:
    references, calibration = places.references(), places.calibration()
    print_taken(places, "building the map from", references=references, calibration=calibration)


def _wants_index(built: "Map", asked: bool | None) -> bool:
    """Whether the map gets an index: as asked, else if it is large and FAISS is there."""
    from importlib.util import find_spec

    from mappable.maps.approximate import WORTHWHILE

    if asked is not None or len(built) <= WORTHWHILE:
        return bool(asked)
    if find_spec("faiss") is None:
        typer.echo("warning: without FAISS the map gets no index, and search in it is exact, but slow", err=True)
        return False
    return True
