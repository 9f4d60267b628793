"""EuRoC: flights and walks with images, times and ground truth; also TUM-VI and others in the same layout.

    ROOT/                                      or ROOT contains several such folders
      mav0/
        cam0/
          data.csv                             time in nanoseconds, file name
          data/1403636579763555584.png
          sensor.yaml                          T_BS: the pose of the camera on the body; optional
        state_groundtruth_estimate0/data.csv   time, position, quaternion w x y z, …; or mocap0/data.csv

Ground truth is the pose of the body, in a world with z up, in metres. With T_BS, it becomes the
pose of the camera. Without, a note says so, and the view is that of the z axis of the body. The
pose of an image is interpolated between the rows before and after it. An image outside the
trajectory, or in a gap, is left out and listed.

Each folder is a sequence in its own frame. `--frame NAME` states that all share one world, as the
runs in one motion capture room do.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import yaml
from scipy.spatial.transform import Rotation

from mappable.arrays import MAX_COORDINATE
from mappable.errors import BadInputError
from mappable.files import reading
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.rotations import AXES
from mappable.places.table import Places
from mappable.readers.toolkit import (
    below,
    check_poses,
    columns,
    having,
    homes,
    joined,
    unit_quaternions,
)
from mappable.readers.tracks import TimedImages, Track
from mappable.readers.transforms import Transform
from mappable.tables import read_values

LAYOUT = ("mav0", "*/mav0")
TRUTHS = ("state_groundtruth_estimate0", "mocap0", "gt0")
POSE = ("time", "x", "y", "z", "qw", "qx", "qy", "qz")
LARGEST_YAML = 2**16  # bytes


def read(
    root: Path,
    found: Findings,
    *,
    camera: Annotated[str, "folder of the camera"] = "cam0",
    max_gap_s: Annotated[
        float, "largest time in seconds between the poses before and after an image"
    ] = 0.2,
    frame: Annotated[str | None, "name of the frame, if all folders share one world"] = None,
) -> Places:
    drives = homes(root, "mav0", "no folder mav0 here or in a subfolder")
    drives = having(
        drives, f"mav0/{camera}/data.csv", found, f"folders have no {camera}/data.csv (left out)"
    )
    tables = []
    for name, home in drives.items():
        truth = next(
            (file for one in TRUTHS if (file := home / "mav0" / one / "data.csv").is_file()), None
        )
        if truth is None:
            found.note("folders have no ground truth (left out)", [name])
            continue
        folder = home / "mav0" / camera
        images = TimedImages.listed(
            read_values(folder / "data.csv", ("time", "file")),
            "file",
            f"{below(root, folder)}/data",
            "ns",
        )
        track = _track(truth, _mounting(folder / "sensor.yaml", name, found), found)
        tables.append(
            images.place(root, Frame(frame or name), name, track, max_gap_s, found, axis=AXES["z"])
        )
    return joined(root, tables)


def _track(truth: Path, mounting: Transform, found: Findings) -> Track:
    """The poses of the camera."""
    table = read_values(truth, POSE)
    xyz = columns(table, ("x", "y", "z"), -MAX_COORDINATE, MAX_COORDINATE)
    body = Transform(Rotation.from_quat(unit_quaternions(table, ("qx", "qy", "qz", "qw"))), xyz)
    camera = body @ mounting
    return Track.ordered(
        table, table.times("time", "ns"), camera.shift, found, turns=camera.turn.as_quat()
    )


def _mounting(file: Path, name: str, found: Findings) -> Transform:
    """T_BS: from camera to body."""
    if not file.is_file():
        found.note("cameras have no sensor.yaml, so the pose of the body was used", [name])
        return Transform(Rotation.identity(), np.zeros(3))
    with reading(file):
        text = file.read_text() if file.stat().st_size <= LARGEST_YAML else ""
    try:
        content: Any = yaml.safe_load(text.replace("%YAML:1.0", "", 1))
        matrix = np.array(content["T_BS"]["data"], dtype=np.float64).reshape(1, 4, 4)
    except (yaml.YAMLError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise BadInputError(f"{file}: no T_BS with 16 numbers under data") from None
    check_poses(matrix, lambda _: f"{file}, T_BS")
    return Transform(Rotation.from_matrix(matrix[0, :3, :3]), matrix[0, :3, 3])
