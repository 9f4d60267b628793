"""4Seasons: drives through Munich and around it in all seasons, with positions from RTK and visual odometry.

    ROOT/                                        or ROOT may be one recording
      recording_2020-03-24_17-36-22/
        undistorted_images/cam0/1585067782….png  the name is the number in GNSSPoses.txt: the time in nanoseconds
        GNSSPoses.txt                            number, translation, quaternion x y z w, scale, …: only keyframes
        Transformations.txt                      five transforms, each in a line of seven numbers

Only keyframes have a pose. Other images are counted and left out. All recordings share one UTM frame.

The position of a keyframe is its translation, in the world of `transform_S_AS`, times its scale. The inverse of
`transform_w_gpsw` leads to the GNSS frame, and `transform_e_gpsw` to the Earth. The tools that the set's authors
publish (libartipy) apply the scale at the same step. yaw is the direction of the optical axis.

Written from these tools and the description of the set; not tried on real files.
"""

import re
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import Floats
from mappable.errors import BadInputError, shown
from mappable.files import reading
from mappable.places.frames import frame_from_latlon
from mappable.places.geodesy import from_ecef, project
from mappable.places.notes import Findings
from mappable.places.posed import TOLERANCE, unit_quaternions
from mappable.places.rotations import viewing_yaw
from mappable.places.table import Places
from mappable.tables import read_values

COLUMNS = ("number", "x", "y", "z", "qx", "qy", "qz", "qw", "scale")
TRANSFORMS = ("transform_S_AS", "TS_cam_imu", "transform_w_gpsw", "transform_gps_imu", "transform_e_gpsw")
LARGEST_BYTES = 2**16  # of Transformations.txt
SUFFIXES = (".png", ".jpg")
LONGEST = 1e8  # metres in coordinates of the Earth
AHEAD = 10.0  # metres along the optical axis, whose direction on the map is the yaw
Transform = tuple[Rotation, Floats]  # x -> rotation x + translation


def read(
    root: Path,
    *,
    camera: Annotated[Literal["cam0", "cam1"], "folder of images: left or right"] = "cam0",
    images: Annotated[Literal["undistorted_images", "distorted_images"], "folder of cameras"] = "undistorted_images",
) -> Places:
    recordings = (
        [root] if (root / "GNSSPoses.txt").is_file() else sorted(f.parent for f in root.glob("*/GNSSPoses.txt"))
    )
    if not recordings:
        raise BadInputError(f"{root}: no GNSSPoses.txt here or in a subfolder")
    found, paths, times, names = Findings(), list[str](), list[int](), list[str]()
    centers, ahead = [], []
    for recording in recordings:
        name = recording.resolve().name
        folder = recording / images / camera
        if not folder.is_dir():
            found[f"recordings have no {images}/{camera} and were left out"].append(name)
            continue
        files = {file.stem: file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES}
        table = read_values(recording / "GNSSPoses.txt", COLUMNS)
        table = table.at([row for row, number in enumerate(table.columns["number"]) if number in files])
        if len(table) < len(files):
            found["recordings have images without a pose (left out)"].append(
                f"{name}: {len(files) - len(table):,} of {len(files):,}"
            )
        if not len(table):
            continue
        turns = Rotation.from_quat(unit_quaternions(table, ("qx", "qy", "qz", "qw")))
        xyz = np.column_stack([table.numbers(axis, -1e6, 1e6) for axis in ("x", "y", "z")])
        at, direction = _on_earth(recording / "Transformations.txt", xyz, turns, table.numbers("scale", 1e-3, 1e3))
        times += table.times("number", "ns").tolist()
        paths += [files[number].relative_to(root).as_posix() for number in table.columns["number"]]
        names += [name] * len(table)
        centers.append(at)
        ahead.append(at + AHEAD * direction)
    if not paths:
        raise BadInputError(f"{root}: no image in {images}/{camera} has a pose in GNSSPoses.txt")
    latitude, longitude, z = from_ecef(np.concatenate(centers))
    frame, x, y = frame_from_latlon(latitude, longitude)
    latitude, longitude, height = from_ecef(np.concatenate(ahead))
    east, north = project(latitude, longitude, frame.crs or "")
    view = np.column_stack([east - frame.origin[0] - x, north - frame.origin[1] - y, height - z])
    view /= np.linalg.norm(view, axis=1, keepdims=True)
    return Places(
        path=paths,
        root=root,
        frames=frame,
        x=x,
        y=y,
        z=z,
        yaw=viewing_yaw(view),
        time=times,
        sequence=names,
        notes=tuple(found.notes()),
    ).in_time_order()


def _on_earth(file: Path, xyz: Floats, turns: Rotation, scale: Floats) -> tuple[Floats, Floats]:
    """Positions (n, 3) of cameras, and directions of their optical axes, in coordinates of the Earth (ECEF)."""
    to_world, _, from_gnss, _, to_earth = _transforms(file)
    world = (to_world[0].apply(xyz) + to_world[1]) * scale[:, None]
    gnss = from_gnss[0].inv().apply(world - from_gnss[1])
    turn = to_earth[0] * from_gnss[0].inv() * to_world[0] * turns
    return to_earth[0].apply(gnss) + to_earth[1], turn.apply([0.0, 0.0, 1.0])


def _transforms(file: Path) -> list[Transform]:
    with reading(file):
        text = file.read_text() if file.stat().st_size <= LARGEST_BYTES else ""
    found: list[Transform] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = re.split(r"[,\s]+", line.strip())
        if line.startswith("#") or len(words) < 7 or len(found) == len(TRANSFORMS):
            continue
        try:
            values = np.array([float(word) for word in words[:7]])
        except ValueError:
            raise BadInputError(f"{file}, line {number}: {shown(line[:60])}, expected seven numbers") from None
        length = np.linalg.norm(values[3:])
        if not (np.abs(values) <= LONGEST).all() or abs(length - 1) > TOLERANCE:
            raise BadInputError(f"{file}, line {number}: {TRANSFORMS[len(found)]} is not a translation and a rotation")
        found.append((Rotation.from_quat(values[3:]), values[:3]))
    if len(found) < len(TRANSFORMS):
        raise BadInputError(f"{file}: {len(found)} transforms, expected {', '.join(TRANSFORMS)}")
    return found
