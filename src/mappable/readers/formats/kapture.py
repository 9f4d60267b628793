"""kapture folders: images with poses of cameras, or of rigs of cameras, in kapture's text files.

    ROOT/
      sensors/
        sensors.txt               device, name, camera, model, width, height, parameters: its lenses undistort images
        records_camera.txt        timestamp, device, image path
        trajectories.txt          timestamp, device or rig, quaternion w x y z, translation: from world to device
        rigs.txt                  optional: rig, device, quaternion, translation: from rig to device
        records_data/             the images

A kapture folder states neither unit nor up. Both are found as in the reader `colmap`: up is
estimated from the cameras, and positions are in `units` until `--scale` or `--known` gives metres.
Use `--scale 1` for a folder in metres.

`mappable convert` undistorts images by the models of `sensors.txt`, as in the reader `colmap`,
unless `--no-undistort` is given. Images without a pose are left out and listed. The images of one
device are one sequence, in order of their timestamps. Timestamps of 13 digits or more are times;
smaller ones are only an order.
"""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import MAX_COORDINATE, Floats
from mappable.errors import BadInputError
from mappable.places.lenses import Lens
from mappable.places.notes import Findings
from mappable.places.table import NO_TIME, Places
from mappable.readers.colmap import QUATERNION, SHIFT, lens_of
from mappable.readers.models import CameraModel, KnownOption, ScaleOption, UpOption
from mappable.readers.toolkit import columns, unit_quaternions
from mappable.tables import Table, read_values
from mappable.times import guess_unit, nanoseconds

LAYOUT = ("sensors/records_camera.txt",)
REMARK = "in units; add --scale or --known for metres"
RECORDS = "sensors/records_camera.txt"
RECORD = ("timestamp", "device", "path")
POSE = ("qw", "qx", "qy", "qz", *SHIFT)
SENSOR = ("device", "name", "kind", "model", "width", "height", "parameters")
FEWEST_DIGITS = 13  # of a timestamp that is a time
Poses = dict[tuple[str, str], Floats]  # matrices (4, 4) by the values of the first two columns


def read(
    root: Path,
    found: Findings,
    *,
    up: UpOption = "estimate",
    scale: ScaleOption = None,
    known: KnownOption = None,
) -> Places:
    trajectories, rigs = root / "sensors/trajectories.txt", root / "sensors/rigs.txt"
    if not (root / RECORDS).is_file() or not trajectories.is_file():
        raise BadInputError(f"{root}: no {RECORDS} and sensors/trajectories.txt of kapture")
    records = read_values(root / RECORDS, RECORD)
    poses = _poses(trajectories, ("timestamp", "device"))
    mounted = _poses(rigs, ("rig", "device")) if rigs.is_file() else {}
    poses = {
        (stamp, device): mount @ pose
        for (rig, device), mount in mounted.items()
        for (stamp, body), pose in poses.items()
        if body == rig
    } | poses
    keys = [*zip(records.columns["timestamp"], records.columns["device"], strict=True)]
    posed = [row for row, key in enumerate(keys) if key in poses]
    lost = (
        path for path, key in zip(records.columns["path"], keys, strict=True) if key not in poses
    )
    found.note("images have no pose (left out)", lost)
    if not posed:
        raise BadInputError(f"{trajectories}: no image of records_camera.txt has a pose")
    kept, matrices = records.at(posed), np.array([poses[keys[row]] for row in posed])
    model = CameraModel.from_world(kept.columns["path"], matrices[:, :3, :3], matrices[:, :3, 3])
    values: dict[str, Any] = {
        "time": _times(kept),
        "sequence": kept.columns["device"],
        "root": root / "sensors/records_data",
    }
    with kept.naming_rows():
        return model.place(root.resolve().name, found, up, scale, known, **values)


def lenses(root: Path, **_: object) -> dict[str, Lens]:
    """The lenses of distorted images, by their paths."""
    file = root / "sensors/sensors.txt"
    if not file.is_file() or not (root / RECORDS).is_file():
        return {}
    sensors = read_values(file, SENSOR, rest=True, skip_short=True)
    sensors = sensors.at(
        [row for row, kind in enumerate(sensors.columns["kind"]) if kind == "camera"]
    )
    numbers = sensors.parse(
        "parameters", lambda text: [float(word) for word in text.split(",")], "expected numbers"
    )
    sizes = columns(sensors, ("width", "height")).tolist()
    models = zip(sensors.columns["model"], sizes, numbers, strict=True)
    known = {
        device: lens_of(sensors.where(row), *model)
        for row, (device, model) in enumerate(zip(sensors.columns["device"], models, strict=True))
    }
    records = read_values(root / RECORDS, RECORD)
    pairs = zip(records.columns["path"], records.columns["device"], strict=True)
    return {path: lens for path, device in pairs if (lens := known.get(device)) and lens.distorts}


def _poses(file: Path, keys: tuple[str, str]) -> Poses:
    """The poses of a file: from world, or from rig, to device."""
    table = read_values(file, (*keys, *POSE))
    matrices = np.tile(np.eye(4), (len(table), 1, 1))
    matrices[:, :3, :3] = Rotation.from_quat(unit_quaternions(table, QUATERNION)).as_matrix()
    matrices[:, :3, 3] = columns(table, SHIFT, -MAX_COORDINATE, MAX_COORDINATE)
    names = zip(*(table.columns[key] for key in keys), strict=True)
    return dict(zip(names, matrices, strict=True))


def _times(records: Table) -> list[int]:
    stamps = records.columns["timestamp"]
    if min(len(stamp) for stamp in stamps) < FEWEST_DIGITS:
        return [NO_TIME] * len(stamps)
    return records.parse(
        "timestamp", lambda text: nanoseconds(text, guess_unit(text)), "expected a number"
    )
