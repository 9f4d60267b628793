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
from mappable.places.images import SUFFIXES
from mappable.places.joining import concatenate
from mappable.places.notes import Findings
from mappable.places.posed import PoseTrack, TimedImages, place_images, unit_quaternions
from mappable.places.rotations import AXES, PLANES
from mappable.places.table import Places
from mappable.tables import read_words
from mappable.times import nanoseconds
from mappable.trajectories import TUM, read_tum

POSITION, QUATERNION = TUM[1:4], TUM[4:]
DECIMAL = re.compile(r"\d+(\.\d+)?", re.ASCII)


def read(
    root: Path,
    *,
    trajectory: Annotated[str, "name of the file with the poses"] = "groundtruth.txt",
    images: Annotated[
        str | None, "list of images, or folder of images named by time (default: rgb.txt, else rgb or images)"
    ] = None,
    max_gap_s: Annotated[float, "largest time in seconds between the poses before and after an image"] = 0.2,
    plane: Annotated[Literal["xy", "xz"], "horizontal plane of the trajectory: xy if z is up, xz if y is down"] = "xy",
    looking: Annotated[Literal["z", "x"], "forward axis: z of a camera, x of a robot body"] = "z",
) -> Places:
    found = Findings()
    sequences = [Places(path=[], x=[], y=[], frames=(), root=root)]
    sources = (images,) if images else ("rgb.txt", "rgb", "images")
    for folder in _folders(root, trajectory, sources, found):
        frame = Frame(folder.resolve().name, axes=PLANES[plane])
        poses = _read_trajectory(folder / trajectory, frame, found)
        listed = _find_images(root, folder, sources, found)
        sequences.append(place_images(root, frame, listed, poses, max_gap_s, AXES[looking], found))
    return concatenate(sequences).noting(*found.notes())


def _folders(root: Path, trajectory: str, sources: tuple[str, ...], found: Findings) -> list[Path]:
    """The root if it has a trajectory, else its folders that have one; folders with only images go to `found`."""
    if (root / trajectory).is_file():
        return [root]
    inside = sorted(folder for folder in root.iterdir() if folder.is_dir()) if root.is_dir() else []
    folders = [folder for folder in inside if (folder / trajectory).is_file()]
    if not folders:
        raise BadInputError(f"{root}: no file {trajectory} here or in a subfolder")
    without = (folder for folder in inside if folder not in folders)
    with_images = [folder.name for folder in without if any((folder / source).exists() for source in sources)]
    found[f"folders have no {trajectory}"] += with_images
    return folders


def _read_trajectory(file: Path, frame: Frame, found: Findings) -> PoseTrack:
    """The poses in time order, positions in the frame; unordered and repeated times go to `found`."""
    table = read_tum(file)
    if len(table) == 0:
        raise BadInputError(f"{file}: no poses")
    time = table.times("time", "s")
    xyz = frame.from_original(np.column_stack([table.numbers(name) for name in POSITION]))
    return PoseTrack.ordered(table, time, xyz, unit_quaternions(table, QUATERNION), found)


def _find_images(root: Path, folder: Path, sources: tuple[str, ...], found: Findings) -> TimedImages:
    """The images of the first source that exists: a list or a folder."""
    source = next((folder / name for name in sources if (folder / name).exists()), None)
    if source is None:
        found[f"folders have none of: {', '.join(sources)}"].append(folder.resolve().name)
        return TimedImages([], np.zeros(0, dtype=np.int64), [])
    prefix = PurePosixPath(folder.relative_to(root).as_posix())
    if not source.is_dir():
        table = read_words(source, ["time", "path"])
        paths = [(prefix / path).as_posix() for path in table.columns["path"]]
        return TimedImages(paths, table.times("time", "s"), [f"{source}, row {number}" for number in table.row_numbers])
    files = sorted(file for file in source.iterdir() if file.suffix.lower() in SUFFIXES and file.name[0] != ".")
    times = {file.relative_to(root).as_posix(): _time_in_name(file) for file in files}
    found["image names are not times in seconds"] += [path for path, time in times.items() if time is None]
    known = {path: time for path, time in times.items() if time is not None}
    return TimedImages(list(known), np.array(list(known.values()), dtype=np.int64), list(known))


def _time_in_name(file: Path) -> int | None:
    try:
        return nanoseconds(file.stem) if DECIMAL.fullmatch(file.stem) else None
    except ValueError:
        return None
