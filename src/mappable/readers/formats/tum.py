"""TUM RGB-D: a list of images with times and a trajectory; also any other images with a TUM trajectory.

    ROOT/                           or ROOT contains several such folders
      rgb.txt                       `time path` per line (1305031102.175304 rgb/1305031102.175304.png)
      groundtruth.txt               `time tx ty tz qx qy qz qw` per line: seconds, metres, from camera to world
      rgb/1305031102.175304.png

Spaces or tabs separate the values. Lines that begin with # are comments. Without `rgb.txt`, the
reader takes the images in `rgb/` or `images/`; their names are their times in seconds.

The pose of an image is interpolated between the trajectory rows before and after it: the position
linearly, the orientation by slerp. An image is left out and listed if it is outside the trajectory,
or if the two rows are more than `max_gap_s` apart. A view within one degree of the vertical has no
yaw.

Each folder is a sequence in its own frame. Both have the name of the folder. The frames are
separate because the files do not tell whether two trajectories share a world.

With `plane=xy`, z of the trajectory points up, as in rooms with motion capture. With `plane=xz`,
the trajectory is in the coordinates of its first camera, as visual SLAM writes it: x = X, y = Z, z
= -Y. The method `to_original` of the frame gives the original coordinates back.
"""

from pathlib import Path
from typing import Annotated, Literal

from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.rotations import AXES, PLANES
from mappable.places.table import Places
from mappable.readers.toolkit import (
    below,
    columns,
    homes,
    joined,
    numbered_images,
    unit_quaternions,
)
from mappable.readers.tracks import TimedImages, Track
from mappable.tables import read_words
from mappable.trajectories import TUM, read_tum

LAYOUT = ("groundtruth.txt", "*/groundtruth.txt")
DECIMAL = r"\d{1,10}(\.\d+)?"
SOURCES = ("rgb.txt", "rgb", "images")


def read(
    root: Path,
    found: Findings,
    *,
    trajectory: Annotated[str, "name of the file with the poses"] = "groundtruth.txt",
    images: Annotated[
        str | None,
        "list of images, or folder of images named by time (default: rgb.txt, else rgb or images)",
    ] = None,
    max_gap_s: Annotated[
        float, "largest time in seconds between the poses before and after an image"
    ] = 0.2,
    plane: Annotated[
        Literal["xy", "xz"], "horizontal plane of the trajectory: xy if z is up, xz if y is down"
    ] = "xy",
    looking: Annotated[Literal["z", "x"], "forward axis: z of a camera, x of a robot body"] = "z",
) -> Places:
    sources = (images,) if images else SOURCES
    folders = homes(root, trajectory, f"no file {trajectory} here or in a subfolder")
    if root not in folders.values():
        others = (
            one.name
            for one in sorted(root.iterdir())
            if one.name not in folders and _source(one, sources)
        )
        found.note(f"folders have no {trajectory}", others)
    tables = []
    for name, folder in folders.items():
        source = _source(folder, sources)
        if source is None:
            found.note(f"folders have none of: {', '.join(sources)}", [name])
            continue
        frame = Frame(name, axes=PLANES[plane])
        if source.is_file():
            timed = TimedImages.listed(
                read_words(source, ["time", "path"]), "path", below(root, folder) or ".", "s"
            )
        else:
            timed = TimedImages.numbered(
                numbered_images(root, source, found, DECIMAL, "<seconds>.png", "s")
            )
        track = _track(folder / trajectory, frame, found)
        tables.append(timed.place(root, frame, name, track, max_gap_s, found, axis=AXES[looking]))
    return joined(root, tables)


def _source(folder: Path, sources: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in sources if (folder / name).exists()), None)


def _track(file: Path, frame: Frame, found: Findings) -> Track:
    table = read_tum(file)
    if len(table) == 0:
        raise BadInputError(f"{file}: no poses")
    xyz, turns = frame.from_original(columns(table, TUM[1:4])), unit_quaternions(table, TUM[4:])
    return Track.ordered(table, table.times("time", "s"), xyz, found, turns=turns)
