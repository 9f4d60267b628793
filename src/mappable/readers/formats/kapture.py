"""kapture folders: images with poses of cameras, or of rigs of cameras, in kapture's text files.

    ROOT/
      sensors/
        sensors.txt               device, name, camera, model, width, height, parameters: its lenses undistort images
        records_camera.txt        timestamp, device, image path
        trajectories.txt          timestamp, device or rig, quaternion w x y z, translation: from world to device
        rigs.txt                  optional: rig, device, quaternion, translation: from rig to device
        records_data/             the images

A kapture folder states neither unit nor up. Both are found as in the reader `colmap`: up is estimated from the cameras,
and positions are in `units` until `--scale` or `--known` gives metres. Use `--scale 1` for a folder in metres.

`mappable convert` undistorts images by the models of `sensors.txt`, as in the reader `colmap`, unless `--no-undistort`
is given. Images without a pose are left out and listed. The images of one device are one sequence, in order of their
timestamps. Timestamps of 13 digits or more are times; smaller ones are only an order.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import Floats
from mappable.errors import BadInputError, shown
from mappable.files import reading
from mappable.places.lenses import Lens
from mappable.places.notes import Findings
from mappable.places.table import NO_TIME, Places
from mappable.readers.colmap import lens_of
from mappable.readers.models import CameraModel, Up, place_model
from mappable.readers.toolkit import columns, unit_quaternions
from mappable.tables import Table, read_values
from mappable.times import guess_unit, nanoseconds

LAYOUT = ("sensors/records_camera.txt",)
REMARK = "in units; add --scale or --known for metres"
RECORDS = "sensors/records_camera.txt"
RECORD = ("timestamp", "device", "path")
POSE = ("qw", "qx", "qy", "qz", "tx", "ty", "tz")
Transform = tuple[Floats, Floats]  # rotation (3, 3) and translation: x -> rotation x + translation
FEWEST_DIGITS = 13  # of a timestamp that is a time


def read(
    root: Path,
    found: Findings,
    *,
    up: Annotated[Up, "direction of up in the world: estimate, or an axis"] = "estimate",
    scale: Annotated[float | None, "metres per unit of the poses, if known"] = None,
    known: Annotated[Path | None, "table with positions of at least two images"] = None,
) -> Places:
    trajectories = root / "sensors/trajectories.txt"
    if not (root / RECORDS).is_file() or not trajectories.is_file():
        raise BadInputError(f"{root}: no {RECORDS} and sensors/trajectories.txt of kapture")
    records = read_values(root / RECORDS, RECORD)
    poses = _poses(read_values(trajectories, ("timestamp", "device", *POSE)))
    rigs = _rigs(root / "sensors/rigs.txt")
    stamps, devices, paths = (records.columns[name] for name in RECORD)
    pose_of = {row: _pose(poses, rigs, stamps[row], devices[row]) for row in range(len(records))}
    posed = {row: pose for row, pose in pose_of.items() if pose is not None}
    found.note("images have no pose (left out)", (paths[row] for row in pose_of if row not in posed))
    if not posed:
        raise BadInputError(f"{trajectories}: no image of records_camera.txt has a pose")
    kept = records.at([*posed])
    turns, shifts = (np.array(values) for values in zip(*posed.values(), strict=True))
    model = CameraModel.from_world(kept.columns["path"], turns, shifts)
    placed = place_model(model, root.resolve().name, found, up, scale, known)
    with kept.naming_rows():
        values = {"time": _times(kept), "sequence": kept.columns["device"]}
        return placed.places(kept.columns["path"], root=root / "sensors/records_data", **values)


def lenses(root: Path, **_: object) -> dict[str, Lens]:
    """The lenses of distorted images, by their paths."""
    file = root / "sensors/sensors.txt"
    if not file.is_file() or not (root / RECORDS).is_file():
        return {}
    known = dict[str, Lens | None]()
    with reading(file):
        lines = file.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        words = [word.strip() for word in line.split(",")]
        if len(words) > 5 and words[2] == "camera" and not line.startswith("#"):
            try:
                numbers = [float(word) for word in words[4:]]
            except ValueError:
                raise BadInputError(f"{file}, row {number}: {shown(line)}, expected numbers after the model") from None
            known[words[0]] = lens_of(f"{file}, row {number}", words[3], numbers[:2], numbers[2:])
    records = read_values(root / RECORDS, RECORD)
    pairs = zip(records.columns["path"], records.columns["device"], strict=True)
    return {path: lens for path, device in pairs if (lens := known.get(device)) and lens.distorts}


def _poses(table: Table) -> dict[tuple[str, str], Transform]:
    turns = Rotation.from_quat(unit_quaternions(table, ("qx", "qy", "qz", "qw"))).as_matrix()
    shifts = columns(table, ("tx", "ty", "tz"), -1e9, 1e9)
    keys = zip(*(table.columns[name] for name in list(table.columns)[:2]), strict=True)
    return {key: (turns[row], shifts[row]) for row, key in enumerate(keys)}


def _rigs(file: Path) -> dict[str, list[tuple[str, Transform]]]:
    """The rigs of each device, each with the transform from rig to device."""
    rigs: dict[str, list[tuple[str, Transform]]] = {}
    if file.is_file():
        for (rig, device), transform in _poses(read_values(file, ("rig", "device", *POSE))).items():
            rigs.setdefault(device, []).append((rig, transform))
    return rigs


def _pose(
    poses: dict[tuple[str, str], Transform], rigs: dict[str, list[tuple[str, Transform]]], stamp: str, device: str
) -> Transform | None:
    """The transform from world to device: its own, or that of a rig it is on."""
    if (stamp, device) in poses:
        return poses[stamp, device]
    for rig, (turn, shift) in rigs.get(device, ()):
        if (stamp, rig) in poses:
            own_turn, own_shift = poses[stamp, rig]
            return turn @ own_turn, turn @ own_shift + shift
    return None


def _times(records: Table) -> list[int]:
    stamps = records.columns["timestamp"]
    if min(len(stamp) for stamp in stamps) < FEWEST_DIGITS:
        return [NO_TIME] * len(stamps)
    return records.parse("timestamp", lambda text: nanoseconds(text, guess_unit(text)), "expected a number")
