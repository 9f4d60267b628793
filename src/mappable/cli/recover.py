"""`mappable recover`: positions from distances alone, from a file or from images."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mappable.cli.common import AsJson, Device, EncoderFile, MapFolder, Overwrite, Seed, check_new, packed, print_json
from mappable.cli.names import ListingCommand
from mappable.errors import BadInputError

if TYPE_CHECKING:
    from mappable.arrays import Floats
    from mappable.recovery.task import Measured, Task

Out = Annotated[Path, typer.Argument(metavar="OUT", help="Folder for positions.csv, trajectory.txt and summary.json.")]
Known = Annotated[Path | None, typer.Option(help="Known positions: point,x,y[,z][,sigma].", metavar="CSV")]
Ways = Annotated[
    Path | None,
    typer.Option(help="With --anchors: displacements along the map's axes, i,j,x,y[,z][,sigma].", metavar="CSV"),
]
Bends = Annotated[
    Path | None,
    typer.Option(
        help="With --anchors: changes of direction, point,radians[,sigma]; left turns are positive.", metavar="CSV"
    ),
]
Unordered = Annotated[
    bool, typer.Option("--unordered", help="The points are not the images of one drive in order: assume no steps.")
]
Steps = Annotated[
    bool,
    typer.Option(
        "--assume-steps",
        help="Assume a usual step where no range joins a point to the next, as `recover images` does.",
    ),
]
Truth = Annotated[
    Path | None,
    typer.Option(
        help="True positions to score against: x,y[,z] of all points, point,x,y[,z] of some, TUM (.txt) or places.",
        metavar="FILE",
    ),
]
Dimensions = Annotated[
    int | None, typer.Option(help="Dimensions: 2 or 3 (default: those of the anchors, else 2).", min=2, max=3)
]
Method = Annotated[str, typer.Option(help="Method: {methods}.")]
Radius = Annotated[float | None, typer.Option(help="Use only ranges of at most this length.", metavar="METRES")]
Drawn = Annotated[bool, typer.Option("--figure", help="Also draw recovery.png.")]


app = typer.Typer(
    help="Recover positions from distances: from a file, or from images and what a map knows of their features.",
    no_args_is_help=True,
)


@app.command("file", cls=ListingCommand)
def from_file(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Ranges (.csv or .parquet: i,j,metres[,sigma]) or a matrix of squared distances (.npy).",
        ),
    ],
    out: Out,
    anchors: Known = None,
    odometry: Ways = None,
    turns: Bends = None,
    unordered: Unordered = False,
    truth: Truth = None,
    dimensions: Dimensions = None,
    method: Method = "default",
    scale: Annotated[float, typer.Option(help="For a matrix: square metres per unit of squared distance.")] = 1.0,
    radius: Radius = None,
    mask: Annotated[
        Path | None, typer.Option(help="For a matrix: use only the pairs that are true in this one.", metavar="NPY")
    ] = None,
    assume_steps: Steps = False,
    figure: Drawn = False,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Recover the positions of images from measured distances between some of them.

    Points are numbered from 0 in the order of their images. Without known positions the map has coordinates of its own,
    and what the distances leave open is said; with them it is in theirs, with covariances.
    """
    from mappable.recovery.task import Task

    hints = anchors, odometry, turns, not unordered, assume_steps
    task = Task(*hints, truth, dimensions, method, radius, seed, _truth)
    _recover(task, lambda: _from_file(file, scale, radius, mask), out, figure, overwrite, as_json)


@app.command("images", cls=ListingCommand)
def from_images(
    folder: MapFolder,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="Folder of images, or made by `mappable convert`; its positions are not used."
        ),
    ],
    out: Out,
    encoder: EncoderFile = None,
    device: Device = "auto",
    anchors: Known = None,
    odometry: Ways = None,
    turns: Bends = None,
    unordered: Unordered = False,
    truth: Truth = None,
    dimensions: Dimensions = None,
    method: Method = "default",
    radius: Radius = None,
    figure: Drawn = False,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Recover the positions of images from the feature distances between them, by the calibration of a map.

    Points are the images in the order of their names, or of the rows of a table; all of them must decode. The map need
    not show the same place; its landmarks are not used. Where no range joins an image to the next, a usual step is
    assumed, and the result says so. Images that do not tell how far apart they are, are refused.
    """
    from mappable.recovery.task import Task

    task = Task(anchors, odometry, turns, not unordered, True, truth, dimensions, method, radius, seed, _truth)
    _recover(task, lambda: _from_images(path, folder, encoder, device, not unordered), out, figure, overwrite, as_json)


def _recover(
    task: "Task", measure: Callable[[], "Measured"], out: Path, figure: bool, overwrite: bool, as_json: bool
) -> None:
    from mappable.recovery.task import POSITIONS, recover_to_folder

    check_new(overwrite, out / POSITIONS)
    report = recover_to_folder(task, measure, out, figure=figure)
    if as_json:
        print_json(asdict(report))
        return
    for line in report.lines():
        typer.echo(line)
    typer.echo(f"written to {out}")


def _from_images(path: Path, folder: Path, encoder: Path | None, device: str, ordered: bool) -> "Measured":
    from mappable.maps.encoders import encoder_of
    from mappable.maps.export import seconds_of
    from mappable.maps.map import Map
    from mappable.maps.queries import ranges_of_images
    from mappable.places.unposed import find_images
    from mappable.recovery.task import Measured

    opened = Map.open(folder)
    places = find_images([path], opened.places.decoding)
    loaded = encoder_of(opened, encoder, device)
    ranges = ranges_of_images(opened, loaded, places, packed(path, places, loaded), ordered=ordered)
    facts = {"map": str(folder), "encoder": opened.encoder, "images": places.place_id.tolist()}
    return Measured(ranges, str(path), facts, seconds_of(places))


def _from_file(file: Path, scale: float, radius: float | None, mask: Path | None) -> "Measured":
    from mappable.recovery.files import read_matrix, read_ranges
    from mappable.recovery.task import Measured

    if file.suffix == ".npy":
        ranges = read_matrix(file, scale=scale, radius=radius, mask=mask)
    elif mask is not None or scale != 1.0:
        raise BadInputError(f"{file}: --scale and --mask are for a matrix in a .npy file, not for ranges")
    else:
        ranges = read_ranges(file)
    return Measured(ranges, str(file), {"file": str(file)})


def _truth(file: Path, count: int) -> "Floats":
    from mappable.places.unposed import is_table
    from mappable.recovery.files import read_truth

    if not is_table(file):
        return read_truth(file, count)
    from mappable.places.files import load_places

    positions = load_places(file).positions
    if len(positions) != count:
        raise BadInputError(f"{file}: has {len(positions):,} places, but there are {count:,} points")
    return positions
