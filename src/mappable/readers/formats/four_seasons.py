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
from mappable.places.rotations import AXES, viewing_yaw
from mappable.places.table import Places
from mappable.readers.toolkit import TOLERANCE, columns, homes, numbered_images, paired, unit_quaternions
from mappable.tables import Table, read_values

LAYOUT = ("GNSSPoses.txt", "*/GNSSPoses.txt")
COLUMNS = ("number", "x", "y", "z", "qx", "qy", "qz", "qw", "scale")
TRANSFORMS = ("transform_S_AS", "TS_cam_imu", "transform_w_gpsw", "transform_gps_imu", "transform_e_gpsw")
LARGEST_BYTES = 2**16  # of Transformations.txt
LONGEST = 1e8  # metres in coordinates of the Earth
AHEAD = 10.0  # metres along the optical axis, whose direction on the map is the yaw
Transform = tuple[Rotation, Floats]  # x -> rotation x + translation


def read(
    root: Path,
    found: Findings,
    *,
    camera: Annotated[Literal["cam0", "cam1"], "folder of images: left or right"] = "cam0",
    images: Annotated[Literal["undistorted_images", "distorted_images"], "folder of cameras"] = "undistorted_images",
) -> Places:
    recordings = homes(root, "GNSSPoses.txt", "no GNSSPoses.txt here or in a subfolder")
    blind = [name for name, home in recordings.items() if not (home / images / camera).is_dir()]
    found.note(f"recordings have no {images}/{camera} and were left out", blind)
    paths, times, names = list[str](), list[int](), list[str]()
    centers, ahead = [np.empty((0, 3))], [np.empty((0, 3))]
    for name, home in recordings.items():
        if name in blind:
            continue
        table = read_values(home / "GNSSPoses.txt", COLUMNS)
        numbers = table.times("number", "ns").tolist()
        repeated = np.ones(len(numbers), dtype=bool)
        repeated[np.unique(numbers, return_index=True)[1]] = False
        table.refuse(repeated, "number", "is in an earlier row")
        named = numbered_images(root, home / images / camera, found, r"\d+", "<nanoseconds>.png")
        kept, rows = paired(named, numbers, name, found, few=True)
        table = table.at(rows.tolist())
        if kept:
            at, direction = _on_earth(home / "Transformations.txt", table)
            centers.append(at)
            ahead.append(at + AHEAD * direction)
        paths += kept
        times += [numbers[row] for row in rows]
        names += [name] * len(kept)
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
    )


def _on_earth(file: Path, table: Table) -> tuple[Floats, Floats]:
    """Positions (n, 3) of cameras, and directions of their optical axes, in coordinates of the Earth (ECEF)."""
    turns = Rotation.from_quat(unit_quaternions(table, ("qx", "qy", "qz", "qw")))
    xyz, scale = columns(table, ("x", "y", "z"), -1e6, 1e6), table.numbers("scale", 1e-3, 1e3)
    to_world, _, from_gnss, _, to_earth = _transforms(file)
    world = (to_world[0].apply(xyz) + to_world[1]) * scale[:, None]
    gnss = from_gnss[0].inv().apply(world - from_gnss[1])
    turn = to_earth[0] * from_gnss[0].inv() * to_world[0] * turns
    return to_earth[0].apply(gnss) + to_earth[1], turn.apply(AXES["z"])


def _transforms(file: Path) -> list[Transform]:
    with reading(file):
        text = file.read_text() if file.stat().st_size <= LARGEST_BYTES else ""
    found: list[Transform] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.replace(",", " ").split()
        if line.startswith("#") or len(words) < 7 or len(found) == len(TRANSFORMS):
            continue
        try:
            values = np.array([float(word) for word in words[:7]])
        except ValueError:
            raise BadInputError(f"{file}, row {number}: {shown(line[:60])}, expected seven numbers") from None
        length = np.linalg.norm(values[3:])
        if not (np.abs(values) <= LONGEST).all() or abs(length - 1) > TOLERANCE:
            raise BadInputError(f"{file}, row {number}: {TRANSFORMS[len(found)]} is not a translation and a rotation")
        found.append((Rotation.from_quat(values[3:]), values[:3]))
    if len(found) < len(TRANSFORMS):
        raise BadInputError(f"{file}: {len(found)} transforms, expected {', '.join(TRANSFORMS)}")
    return found
