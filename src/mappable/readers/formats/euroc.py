"""EuRoC: flights and walks with images, times and ground truth; also TUM-VI and others in the same layout.

    ROOT/                                      or ROOT contains several such folders
      mav0/
        cam0/
          data.csv                             time in nanoseconds, file name
          data/1403636579763555584.png
          sensor.yaml                          T_BS: the pose of the camera on the body; optional
        state_groundtruth_estimate0/data.csv   time, position, quaternion w x y z, …; or mocap0/data.csv

Ground truth is the pose of the body, in a world with z up, in metres. With T_BS, it becomes the pose of the camera.
Without, a note says so, and the view is that of the z axis of the body. The pose of an image is interpolated between
the rows before and after it. An image outside the trajectory, or in a gap, is left out and listed.

Each folder is a sequence in its own frame. `--frame NAME` states that all share one world, as the runs in one motion
capture room do.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import yaml
from scipy.spatial.transform import Rotation

from mappable.arrays import MAX_COORDINATE, Floats
from mappable.errors import BadInputError
from mappable.files import reading
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.rotations import AXES, are_rotations
from mappable.places.table import Places
from mappable.readers.toolkit import below, columns, homes, joined, unit_quaternions
from mappable.readers.tracks import PoseTrack, TimedImages, place_images
from mappable.tables import Table, read_values

LAYOUT = ("mav0", "*/mav0")
TRUTHS = ("state_groundtruth_estimate0", "mocap0", "gt0")
POSE = ("time", "x", "y", "z", "qw", "qx", "qy", "qz")
LARGEST_YAML = 2**16  # bytes


def read(
    root: Path,
    found: Findings,
    *,
    camera: Annotated[str, "folder of the camera"] = "cam0",
    max_gap_s: Annotated[float, "largest time in seconds between the poses before and after an image"] = 0.2,
    frame: Annotated[str | None, "name of the frame, if all folders share one world"] = None,
) -> Places:
    tables = []
    for name, home in homes(root, "mav0", "no folder mav0 here or in a subfolder").items():
        folder = home / "mav0" / camera
        truth = next((file for one in TRUTHS if (file := home / "mav0" / one / "data.csv").is_file()), None)
        if truth is None or not (folder / "data.csv").is_file():
            what = f"no {camera}/data.csv" if truth is not None else "no ground truth"
            found.note("folders lack images or ground truth and were left out", [f"{name}: {what}"])
            continue
        poses = _camera_poses(read_values(truth, POSE), _mounting(folder / "sensor.yaml", name, found), found)
        images = _images(root, folder)
        tables.append(place_images(root, Frame(frame or name), images, poses, max_gap_s, AXES["z"], found, name))
    return joined(root, tables)


def _images(root: Path, folder: Path) -> TimedImages:
    table = read_values(folder / "data.csv", ("time", "file"))
    inside = below(root, folder / "data")
    paths = [f"{inside}/{file}" for file in table.columns["file"]]
    return TimedImages(paths, table.times("time", "ns"), [f"{table.file}, row {row}" for row in table.row_numbers])


def _mounting(file: Path, name: str, found: Findings) -> Floats | None:
    """T_BS (4, 4): from camera to body."""
    if not file.is_file():
        found.note("cameras have no sensor.yaml, so the pose of the body was used", [name])
        return None
    with reading(file):
        text = file.read_text() if file.stat().st_size <= LARGEST_YAML else ""
    try:
        content: Any = yaml.safe_load(text.replace("%YAML:1.0", "", 1))
        matrix = np.array(content["T_BS"]["data"], dtype=np.float64).reshape(4, 4)
    except (yaml.YAMLError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise BadInputError(f"{file}: no T_BS with 16 numbers under data") from None
    if not (np.abs(matrix) <= MAX_COORDINATE).all() or not are_rotations(matrix[None, :3, :3])[0]:
        raise BadInputError(f"{file}: T_BS is not a pose")
    return matrix


def _camera_poses(table: Table, mounting: Floats | None, found: Findings) -> PoseTrack:
    xyz = columns(table, ("x", "y", "z"), -MAX_COORDINATE, MAX_COORDINATE)
    quaternions = unit_quaternions(table, ("qx", "qy", "qz", "qw"))
    if mounting is not None:
        body = Rotation.from_quat(quaternions)
        xyz = xyz + body.apply(mounting[:3, 3])
        quaternions = (body * Rotation.from_matrix(mounting[:3, :3])).as_quat()
    return PoseTrack.ordered(table, table.times("time", "ns"), xyz, quaternions, found)
