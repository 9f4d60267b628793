"""TUM RGB-D: a list of images with times and a trajectory; also any other images with a TUM trajectory.

    ROOT/                           or ROOT contains several such folders
      rgb.txt                       `time path` per line (1305031102.175304 rgb/1305031102.175304.png)
      groundtruth.txt               `time tx ty tz qx qy qz qw` per line: seconds, metres, from camera to world
      rgb/1305031102.175304.png

Spaces or tabs separate the values. Lines that begin with # are comments. Without `rgb.txt`, the reader takes the images
in `rgb/` or `images/`; their names are their times in seconds.

The pose of an image is interpolated between the trajectory rows before and after it: the position linearly, the
orientation by slerp. An image is left out and listed if it is outside the trajectory, or if the two rows are more than
`max_gap_s` apart. A view within one degree of the vertical has no yaw.

Each folder is a sequence in its own frame. Both have the name of the folder. The frames are separate because the files
do not tell whether two trajectories share a world.

With `plane=xy`, z of the trajectory points up, as in rooms with motion capture. With `plane=xz`, the trajectory is in
the coordinates of its first camera, as visual SLAM writes it: x = X, y = Z, z = -Y. The method `to_original` of the
frame gives the original coordinates back.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import numpy as np

from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.rotations import AXES, PLANES
from mappable.places.table import Places
from mappable.readers.toolkit import below, columns, homes, is_image, join, joined, list_folder, unit_quaternions
from mappable.readers.tracks import PoseTrack, TimedImages, place_images
from mappable.tables import read_words
from mappable.times import nanoseconds
from mappable.trajectories import TUM, read_tum

LAYOUT = ("groundtruth.txt", "*/groundtruth.txt")
SOURCES = ("rgb.txt", "rgb", "images")
DECIMAL = re.compile(r"\d{1,10}(\.\d+)?", re.ASCII)


def read(
    root: Path,
    found: Findings,
    *,
    trajectory: Annotated[str, "name of the file with the poses"] = "groundtruth.txt",
    images: Annotated[
        str | None, "list of images, or folder of images named by time (default: rgb.txt, else rgb or images)"
    ] = None,
    max_gap_s: Annotated[float, "largest time in seconds between the poses before and after an image"] = 0.2,
    plane: Annotated[Literal["xy", "xz"], "horizontal plane of the trajectory: xy if z is up, xz if y is down"] = "xy",
    looking: Annotated[Literal["z", "x"], "forward axis: z of a camera, x of a robot body"] = "z",
) -> Places:
    sources = (images,) if images else SOURCES
    folders = homes(root, trajectory, f"no file {trajectory} here or in a subfolder")
    if root not in folders.values():
        others = (one.name for one in sorted(root.iterdir()) if one.name not in folders and _source(one, sources))
        found.note(f"folders have no {trajectory}", others)
    tables = []
    for name, folder in folders.items():
        source = _source(folder, sources)
        if source is None:
            found.note(f"folders have none of: {', '.join(sources)}", [name])
            continue
        frame = Frame(name, axes=PLANES[plane])
        poses = _poses(folder / trajectory, frame, found)
        timed = _listed(root, folder, source) if source.is_file() else _named(root, source, found)
        tables.append(place_images(root, frame, timed, poses, max_gap_s, AXES[looking], found, name))
    return joined(root, tables)


def _source(folder: Path, sources: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in sources if (folder / name).exists()), None)


def _poses(file: Path, frame: Frame, found: Findings) -> PoseTrack:
    table = read_tum(file)
    if len(table) == 0:
        raise BadInputError(f"{file}: no poses")
    xyz = frame.from_original(columns(table, TUM[1:4]))
    return PoseTrack.ordered(table, table.times("time", "s"), xyz, unit_quaternions(table, TUM[4:]), found)


def _listed(root: Path, folder: Path, file: Path) -> TimedImages:
    """The images of a list of times and paths."""
    table = read_words(file, ["time", "path"])
    inside = PurePosixPath(below(root, folder))
    paths = [(inside / path).as_posix() for path in table.columns["path"]]
    return TimedImages(paths, table.times("time", "s"), [f"{file}, row {number}" for number in table.row_numbers])


def _named(root: Path, folder: Path, found: Findings) -> TimedImages:
    """The images of a folder, whose names are their times in seconds."""
    names = [name for name in list_folder(folder) if is_image(name)]
    timed = {name: None for name in names if DECIMAL.fullmatch(name.rpartition(".")[0])}
    inside = below(root, folder)
    paths = {name: join(inside, name) for name in names}
    found.note("images are not named <seconds>.png", (paths[name] for name in names if name not in timed))
    time = np.array([nanoseconds(name.rpartition(".")[0]) for name in timed], dtype=np.int64)
    kept = [paths[name] for name in timed]
    return TimedImages(kept, time, kept)
