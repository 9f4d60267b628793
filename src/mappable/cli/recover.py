"""`mappable recover`: recover positions from distances, which come from a file or from images."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import (
    AsJson,
    DescriptorsFile,
    Fingerprint,
    Overwrite,
    check_new,
    encoder_or_descriptors,
    map_folder,
    packed_images,
    print_json,
)
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.arrays import Floats
    from mappable.recovery.task import Measured


def recover(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|MAP IMAGES",
            help=(
                "FILE: a table of ranges (.csv or .parquet: i,j,metres[,sigma]), a matrix of"
                " squared distances in "
                "square metres (.npy), or a pose graph (.g2o). MAP IMAGES: a map, and a folder of"
                " images or a folder "
                "written by `mappable convert`, whose positions are not used."
            ),
        ),
    ],
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="Folder for positions, trajectory, summary and a picture."
        ),
    ],
    descriptors: DescriptorsFile = None,
    fingerprint: Fingerprint = None,
    anchors: Annotated[
        Path | None,
        typer.Option(
            help="Table of known positions, in metres: point,x,y[,z][,sigma].", metavar="CSV"
        ),
    ] = None,
    odometry: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Odometry: TUM file, table (time,x,y,yaw; time,forward,left,turn; or"
                " i,j,forward,left,turn), "
                "or odometry.parquet of `mappable convert`. Also writes OUT/graph.g2o."
            ),
            metavar="FILE",
        ),
    ] = None,
    unordered: Annotated[
        bool,
        typer.Option(
            "--unordered",
            help=(
                "Assume no steps between points, because they are not the images of one drive in"
                " order."
            ),
        ),
    ] = False,
    truth: Annotated[
        Path | None,
        typer.Option(
            help=(
                "True positions in metres, to score the result. A table x,y[,z] of all points or"
                " point,x,y[,z] of "
                "some, a TUM file (.txt), or places."
            ),
            metavar="FILE",
        ),
    ] = None,
    dimensions: Annotated[
        int | None,
        typer.Option(
            help="Number of coordinates, 2 or 3 (default: the same as the anchors, else 2).",
            min=2,
            max=3,
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(help="Recovery method: {methods}. Anchors need the method default.")
    ] = "default",
    radius: Annotated[
        float | None,
        typer.Option(
            help="Use only ranges of at most this length (default: all ranges).", metavar="METRES"
        ),
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Recover positions from measured distances between points, or between images by the
    calibration of a map.

    Points are numbered from 0: the images in the order of their names, or of the rows of a table.
    All images must decode. The map may be of another place, because its landmarks are not used.

    With --anchors, the result is in the coordinates of the anchors, with covariances. Without
    anchors, the result has its own coordinates, and the output lists what the distances leave
    undetermined.

    Where no distance connects an image to the next, the command assumes a usual step, and the
    result says so. It assumes none between the points of a file. The command fails if the feature
    distances do not tell how far apart the images are.
    """
    from mappable.recovery.files import POSITIONS
    from mappable.recovery.task import Task, recover_to_folder

    if len(sources) > 2:
        raise typer.BadParameter(
            "give one file of distances, or a map and the images", param_hint="FILE|MAP IMAGES"
        )
    *maps, file = sources
    of_images = bool(maps)
    if descriptors is not None and not of_images:
        raise BadInputError(
            "--descriptors are those of images: give MAP IMAGES, or leave the option out"
        )
    check_new(overwrite, out / POSITIONS)
    task = Task(
        anchors=anchors,
        odometry=odometry,
        ordered=not unordered,
        assume_steps=of_images,
        truth=truth,
        dimensions=dimensions,
        method=method,
        radius=radius,
        read_truth=_read_truth,
    )

    def measure() -> "Measured":
        if of_images:
            return _of_images(maps[0], file, descriptors, fingerprint, ordered=not unordered)
        return _of_file(file)

    report = recover_to_folder(task, measure, out)
    if as_json:
        print_json(asdict(report))
        return
    for line in report.lines():
        typer.echo(line)
    typer.echo(f"written to {out}")


def _of_images(
    folder: Path, images: Path, descriptors: Path | None, fingerprint: str | None, *, ordered: bool
) -> "Measured":
    from mappable.exchange.poses import seconds_of
    from mappable.localization.map import Map
    from mappable.localization.ranging import ranges_of_images
    from mappable.maps.landmarks import Landmarks
    from mappable.readers.unposed import find_images
    from mappable.recovery.task import Measured

    landmarks = Landmarks.open(map_folder(folder) or folder)
    places = find_images([images], landmarks.places.decoding)
    encoder = encoder_or_descriptors(
        landmarks, places, descriptors=descriptors, fingerprint=fingerprint
    )
    ranges = ranges_of_images(
        Map(landmarks, encoder), places, packed_images(images, places, encoder), ordered=ordered
    )
    facts = {"map": str(folder), "encoder": landmarks.encoder, "images": places.place_id.tolist()}
    return Measured(ranges, str(images), facts, seconds_of(places))


def _of_file(file: Path) -> "Measured":
    from mappable.recovery.files import read_matrix, read_ranges
    from mappable.recovery.task import Measured

    if file.suffix == ".g2o":
        from mappable.recovery.g2o import read_g2o
        from mappable.recovery.ranges import Ranges

        graph = read_g2o(file)
        ranges = Ranges(len(graph.names), [], [], [], [])
        return Measured(
            ranges,
            str(file),
            {"file": str(file), "names": graph.names.tolist()},
            motions=graph.motions,
        )
    read = read_matrix if file.suffix == ".npy" else read_ranges
    return Measured(read(file), str(file), {"file": str(file)})


def _read_truth(file: Path, count: int) -> "Floats":
    from mappable.readers.unposed import is_table
    from mappable.recovery.files import read_truth

    if not is_table(file):
        return read_truth(file, count)
    from mappable.places.files import load_places

    positions = load_places(file).positions
    if len(positions) != count:
        raise BadInputError(
            f"{file}: has {len(positions):,} places, expected one for each of {count:,} points"
        )
    return positions
