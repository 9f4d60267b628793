"""Shared by several commands: types of arguments and options, and functions that open tables and images."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mappable.cli.output import print_json as print_json
from mappable.cli.output import print_used_images
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.exchange.poses import Poses
    from mappable.features.image_encoder import ImageEncoder
    from mappable.maps.landmarks import Landmarks
    from mappable.places.decoding import RawDecoding
    from mappable.places.pixels import Images
    from mappable.places.table import Places

# Exit code: the command finished, but standard error names something that is missing.
INCOMPLETE = 3


def map_folder(folder: Path | None) -> Path | None:
    """The folder of a map; of a folder that `mappable start` wrote, the map in it."""
    from mappable.maps.folder import find_map

    return None if folder is None else find_map(folder)


MapFolder = Annotated[
    Path,
    typer.Argument(
        metavar="MAP",
        help="Folder written by `mappable map build` or `mappable start`.",
        callback=map_folder,
    ),
]
Table = Annotated[
    Path,
    typer.Argument(
        metavar="PLACES",
        help="Folder written by `mappable convert` or `mappable simulate`, or a table of places.",
    ),
]
ImagePaths = Annotated[
    list[Path],
    typer.Argument(
        metavar="IMAGES...",
        help="Image files, folders of images, or folders written by `mappable convert`.",
    ),
]
ENCODER_HELP = (
    "File encoder.safetensors, an .onnx file, or the folder of a training run or a map. For an"
    " encoder of others, also its name ({encoders}), its description (.yaml), or"
    " hub:OWNER/REPO@COMMIT:ENTRY."
)
EncoderSource = Annotated[str, typer.Argument(metavar="ENCODER", help=ENCODER_HELP)]
Split = Literal["train", "calibration", "test"]
OnlySplit = Annotated[
    Split | None, typer.Option("--split", help="Use only the places of this split (default: all).")
]
Device = Annotated[
    str,
    typer.Option(
        help="Device that computes: auto, cpu, cuda or cuda:N. auto uses a GPU if there is one."
    ),
]
BackendOption = Annotated[
    Literal["torch", "onnx"] | None,
    typer.Option(
        "--backend",
        help=(
            "Library that runs the encoder; onnx means onnxruntime (default: onnx for an .onnx"
            " file, else torch). onnx exports any other encoder to the cache, once."
        ),
    ),
]
EncoderFile = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="Encoder, for a map that keeps no copy (default: the map's).",
        metavar="FILE",
    ),
]
TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Run the code of a torch.hub model without asking. Read the code first.",
    ),
]
DescriptorsFile = Annotated[
    Path | None,
    typer.Option(
        "--descriptors",
        help=(
            "Descriptors of the images, to use instead of an encoder. A folder written by `mappable"
            " embed`, an .npy file with one row per image, or an .h5 file of hloc."
        ),
        metavar="FILE",
    ),
]
Fingerprint = Annotated[
    str | None,
    typer.Option(
        "--fingerprint",
        help="Name of the encoder, if the descriptor file does not record one.",
        metavar="NAME",
    ),
]
AsSequence = Annotated[
    bool,
    typer.Option(
        "--sequence",
        help=(
            "Treat the images of each folder, or of each sequence in a table, as one drive in"
            " order."
        ),
    ),
]
Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "--out",
        help=(
            "Also write the positions to this file, in the format of its suffix: .csv, .json, .tum"
            " (evo), .geojson, .kml, .mcap (ROS), .rrd (rerun), .kapture (a folder), .colmap or"
            " .pairs (hloc). May be repeated."
        ),
        metavar="FILE",
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print the result as JSON; standard output contains nothing else."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing result in OUT.")]
OverwriteFiles = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]


def check_out(outputs: Sequence[Path], poses: "Poses", overwrite: bool, *others: Path) -> None:
    """Raise, before the work starts, if an output or one of the other files cannot be written."""
    from mappable.exchange.writers import check_outputs, files_of

    check_new(overwrite, *files_of(outputs), *others)
    check_outputs(outputs, poses)


def write_out(outputs: Sequence[Path], poses: "Poses") -> None:
    """Write positions to each output, and say how many."""
    from mappable.exchange.writers import write_poses

    for sentence in write_poses(outputs, poses):
        typer.echo(sentence, err=True)


def check_new(overwrite: bool, *files: Path | None) -> None:
    """Raise, before the work starts, if a file exists or cannot be written; None stands for no
    file.
    """
    from mappable.files import check_writable

    for file in files:
        if file is not None:
            check_writable(file)
            if file.exists() and not overwrite:
                raise BadInputError(
                    f"{file}: exists already; choose another name, or replace it with --overwrite"
                )


def packed_images(table: Path, places: "Places", encoder: "ImageEncoder") -> "Images | None":
    """The packed images of the places at the encoder's size, or None if the table's folder does not
    have them.
    """
    from mappable.features.foreign.filed import FiledDescriptors
    from mappable.places.cache import find_packed

    if isinstance(encoder, FiledDescriptors):
        return None  # its descriptors are found by id, and pixels have none
    return find_packed(table, places, encoder.about.size, encoder.about.fit)


def packed_or_files(
    table: Path, places: "Places", encoder: "ImageEncoder", decoding: "RawDecoding | None" = None
) -> "Places | Images":
    """The packed images, or else the places, whose files are decoded later.

    Raw images are decoded by `decoding`, which is that of the map.
    """
    places = places.decoded_as(decoding)
    images = packed_images(table, places, encoder)
    return places if images is None else images


def encoder_or_descriptors(
    opened: "Landmarks",
    places: "Places | None",
    *,
    encoder: str | None = None,
    descriptors: Path | None = None,
    fingerprint: str | None = None,
    device: str = "auto",
    backend: Literal["torch", "onnx"] | None = None,
    trust_code: bool = False,
) -> "ImageEncoder":
    """The encoder of a map, or the descriptors of `places` in a file; raise if they do not fit the
    map.
    """
    from mappable.features.descriptors import read_descriptors
    from mappable.features.foreign.filed import FiledDescriptors
    from mappable.maps.encoders import encoder_of

    if descriptors is None:
        if fingerprint is not None:
            raise BadInputError(
                "--fingerprint needs --descriptors FILE, whose encoder it names: give both"
            )
        return encoder_of(opened, encoder, device, backend, trust_code=trust_code)
    if encoder is not None:
        raise BadInputError("--encoder and --descriptors exclude each other: give one of them")
    described = read_descriptors(descriptors, places)
    for note in described.notes:
        typer.echo(f"warning: {note}", err=True)
    filed = FiledDescriptors(descriptors, described, fingerprint)
    opened.check_encoder(filed.fingerprint)
    if filed.dimensions != opened.store.dimensions:
        needed = f"but those of the map have {opened.store.dimensions:,}"
        raise BadInputError(
            f"{descriptors}: descriptors have {filed.dimensions:,} numbers, {needed}"
        )
    return filed


def load_some_places(table: Path) -> "Places":
    """The places of a table; raises if the table has no rows."""
    from mappable.places.files import load_places

    places = load_places(table)
    if not len(places):
        raise BadInputError(f"{table}: the table has no places; give a table with at least one row")
    return places


def load_queries(table: Path) -> "Places":
    """The queries of a table; prints how many there are, and raises if there are none."""
    from mappable.places.files import load_places
    from mappable.places.roles import rows_to_locate

    places = load_places(table)
    rows = rows_to_locate(places)
    if not len(rows):
        problem = "no place has the split 'test', or the role 'query' and no split"
        raise BadInputError(
            f"{table}: {problem}; reserve a sequence for tests with `mappable places split --test`"
        )
    print_used_images(places, "locating", queries=rows)
    return places[rows]


def warn_if_paths_changed(before: "Landmarks", after: "Landmarks") -> None:
    """Warn if the image paths of existing landmarks are now relative to another folder."""
    if after.places.root != before.places.root:
        change = (
            f"image paths in the map are now relative to {after.places.root}; ids are unchanged"
        )
        typer.echo(
            f"warning: some added images are outside {before.places.root}: {change}", err=True
        )


def report_failures(failures: Sequence[str]) -> None:
    """Print each failure, such as an unreadable image; exit with the code INCOMPLETE if there are
    any.
    """
    for failure in failures:
        typer.echo(f"error: {failure}", err=True)
    if failures:
        raise typer.Exit(INCOMPLETE)
