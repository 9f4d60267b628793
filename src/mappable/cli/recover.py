"""`mappable recover`: recover positions from distances, which come from a file or from images."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import (
    AsJson,
    DescriptorsFile,
    Device,
    EncoderFile,
    Fingerprint,
    MapFolder,
    Overwrite,
    Seed,
    TrustCode,
    check_new,
    encoder_or_descriptors,
    packed_images,
    print_json,
)
from mappable.cli.names import ListingCommand
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.arrays import Floats
    from mappable.features.image_encoder import ImageEncoder
    from mappable.maps.landmarks import Landmarks
    from mappable.odometry import Track
    from mappable.places.odometry import RecordedOdometry
    from mappable.places.table import Places
    from mappable.recovery.hints import Motions
    from mappable.recovery.task import Measured, Task


OutFolder = Annotated[
    Path, typer.Argument(metavar="OUT", help="Folder for positions.csv, trajectory.txt and summary.json.")
]
AnchorsFile = Annotated[
    Path | None, typer.Option(help="Table of known positions, in metres: point,x,y[,z][,sigma].", metavar="CSV")
]
OdometryFile = Annotated[
    Path | None,
    typer.Option(
        help="Odometry: TUM file, table (time,x,y,yaw; time,forward,left,turn; or i,j,forward,left,turn), "
        "odometry.parquet of `mappable convert`, or bag.",
        metavar="FILE",
    ),
]
OdometryTopic = Annotated[
    str | None, typer.Option(help="Only for a bag: topic of the odometry (default: the only one).", metavar="TOPIC")
]
Unordered = Annotated[
    bool,
    typer.Option(
        "--unordered", help="Assume no steps between points, because they are not the images of one drive in order."
    ),
]
AssumeSteps = Annotated[
    bool,
    typer.Option(
        "--assume-steps",
        help="Assume a usual step where no range connects a point to the next, as `recover images` does.",
    ),
]
TruthFile = Annotated[
    Path | None,
    typer.Option(
        help="True positions in metres, to score the result. A table x,y[,z] of all points or point,x,y[,z] of some, "
        "a TUM file (.txt), or places.",
        metavar="FILE",
    ),
]
Dimensions = Annotated[
    int | None,
    typer.Option(help="Number of coordinates, 2 or 3 (default: the same as the anchors, else 2).", min=2, max=3),
]
Method = Annotated[str, typer.Option(help="Recovery method: {methods}. Anchors need the method default.")]
Radius = Annotated[
    float | None,
    typer.Option(help="Use only ranges of at most this length (default: all ranges).", metavar="METRES"),
]
WithGraph = Annotated[
    bool,
    typer.Option("--graph", help="With --odometry: also write poses and motions as a pose graph to OUT/graph.g2o."),
]
WithFigure = Annotated[bool, typer.Option("--figure", help="Also draw the positions to OUT/recovery.png.")]


app = typer.Typer(
    help="Recover positions from distances: from a file, or from images by the calibration of a map.",
    no_args_is_help=True,
)


@app.command("file", cls=ListingCommand)
def from_file(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Table of ranges (.csv or .parquet: i,j,metres[,sigma]), matrix of squared distances (.npy), or "
            "pose graph (.g2o).",
        ),
    ],
    out: OutFolder,
    anchors: AnchorsFile = None,
    odometry: OdometryFile = None,
    odometry_topic: OdometryTopic = None,
    unordered: Unordered = False,
    truth: TruthFile = None,
    dimensions: Dimensions = None,
    method: Method = "default",
    scale: Annotated[float, typer.Option(help="Only for a matrix: square metres per unit of squared distance.")] = 1.0,
    radius: Radius = None,
    mask: Annotated[
        Path | None,
        typer.Option(
            help="Only for a matrix: use only the pairs that are true in this matrix (default: all).", metavar="NPY"
        ),
    ] = None,
    assume_steps: AssumeSteps = False,
    figure: WithFigure = False,
    graph: WithGraph = False,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Recover the positions of images from measured distances between some of the images.

    Points are numbered from 0 in the order of their images. With --anchors, the result is in the coordinates of the
    anchors, with covariances. Without anchors, the result has its own coordinates, and the output lists what the
    distances leave undetermined.
    """
    from mappable.recovery.task import Task

    hints = anchors, odometry, not unordered, assume_steps
    readers = _read_truth, _odometry_reader(odometry_topic)
    task = Task(*hints, truth, dimensions, method, radius, seed, graph, *readers)
    _recover(task, lambda: _from_file(file, scale, radius, mask), out, figure, overwrite, as_json)


@app.command("images", cls=ListingCommand)
def from_images(
    folder: MapFolder,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="Folder of images, or a folder written by `mappable convert`, whose positions are not used.",
        ),
    ],
    out: OutFolder,
    descriptors: DescriptorsFile = None,
    fingerprint: Fingerprint = None,
    encoder: EncoderFile = None,
    trust_code: TrustCode = False,
    device: Device = "auto",
    anchors: AnchorsFile = None,
    odometry: OdometryFile = None,
    odometry_topic: OdometryTopic = None,
    unordered: Unordered = False,
    truth: TruthFile = None,
    dimensions: Dimensions = None,
    method: Method = "default",
    radius: Radius = None,
    figure: WithFigure = False,
    graph: WithGraph = False,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Recover the positions of images from the feature distances between them, by the calibration of a map.

    Points are the images in the order of their names, or of the rows of a table. All images must decode. The map may
    be of another place, because its landmarks are not used.

    Where no range connects an image to the next, the command assumes a usual step, and the result says so. The command
    fails if the feature distances do not tell how far apart the images are.
    """
    from mappable.recovery.task import Task

    hints = anchors, odometry, not unordered, True
    readers = _read_truth, _odometry_reader(odometry_topic)
    task = Task(*hints, truth, dimensions, method, radius, seed, graph, *readers)

    def load(opened: "Landmarks", places: "Places") -> "ImageEncoder":
        return encoder_or_descriptors(
            opened,
            places,
            encoder=encoder,
            descriptors=descriptors,
            fingerprint=fingerprint,
            device=device,
            trust_code=trust_code,
        )

    _recover(task, lambda: _from_images(path, folder, load, not unordered), out, figure, overwrite, as_json)


def _recover(
    task: "Task", measure: Callable[[], "Measured"], out: Path, figure: bool, overwrite: bool, as_json: bool
) -> None:
    from mappable.recovery.files import POSITIONS
    from mappable.recovery.task import recover_to_folder

    check_new(overwrite, out / POSITIONS)
    report = recover_to_folder(task, measure, out, figure=figure)
    if as_json:
        print_json(asdict(report))
        return
    for line in report.lines():
        typer.echo(line)
    typer.echo(f"written to {out}")


def _from_images(
    path: Path, folder: Path, load: "Callable[[Landmarks, Places], ImageEncoder]", ordered: bool
) -> "Measured":
    from mappable.exchange.poses import seconds_of
    from mappable.localization.map import Map
    from mappable.localization.ranging import ranges_of_images
    from mappable.maps.landmarks import Landmarks
    from mappable.readers.unposed import find_images
    from mappable.recovery.task import Measured

    opened = Landmarks.open(folder)
    places = find_images([path], opened.places.decoding)
    loaded = load(opened, places)
    ranges = ranges_of_images(Map(opened, loaded), places, packed_images(path, places, loaded), ordered=ordered)
    facts = {"map": str(folder), "encoder": opened.encoder, "images": places.place_id.tolist()}
    return Measured(ranges, str(path), facts, seconds_of(places))


def _from_file(file: Path, scale: float, radius: float | None, mask: Path | None) -> "Measured":
    from mappable.recovery.files import read_matrix, read_ranges
    from mappable.recovery.task import Measured

    if file.suffix == ".g2o":
        from mappable.recovery.g2o import read_g2o
        from mappable.recovery.ranges import Ranges

        graph = read_g2o(file)
        ranges = Ranges(len(graph.names), [], [], [], [])
        return Measured(ranges, str(file), {"file": str(file), "names": graph.names.tolist()}, motions=graph.motions)
    if file.suffix == ".npy":
        ranges = read_matrix(file, scale=scale, radius=radius, mask=mask)
    elif mask is not None or scale != 1.0:
        raise BadInputError(f"{file}: --scale and --mask need a matrix in an .npy file; leave them out for ranges")
    else:
        ranges = read_ranges(file)
    return Measured(ranges, str(file), {"file": str(file)})


def _odometry_reader(topic: str | None) -> "Callable[[Path], Motions | Track]":
    def read(file: Path) -> "Motions | Track":
        from mappable.readers.bags import SUFFIXES
        from mappable.recovery.files import read_odometry

        if file.is_dir() or file.suffix.lower() in SUFFIXES:
            from mappable.readers.bag_logs import read_bag_odometry

            return _recorded_track(file, read_bag_odometry(file, topic))
        if topic is not None:
            raise BadInputError(f"{file}: --odometry-topic is only for bags: leave it out")
        if file.name == "odometry.parquet":
            from mappable.places.odometry import load_odometry

            return _recorded_track(file, load_odometry(file))
        return read_odometry(file)

    return read


def _recorded_track(file: Path, recorded: "RecordedOdometry") -> "Track":
    from mappable.odometry import Track, rotations

    if len(recorded) < 2:
        raise BadInputError(f"{file}: has {len(recorded)} poses of odometry; at least two are needed")
    return Track(file, recorded.time / 1e9, recorded.pose[:, :2], rotations(recorded.pose[:, 2]))


def _read_truth(file: Path, count: int) -> "Floats":
    from mappable.readers.unposed import is_table
    from mappable.recovery.files import read_truth

    if not is_table(file):
        return read_truth(file, count)
    from mappable.places.files import load_places

    positions = load_places(file).positions
    if len(positions) != count:
        raise BadInputError(f"{file}: has {len(positions):,} places, expected one for each of {count:,} points")
    return positions
