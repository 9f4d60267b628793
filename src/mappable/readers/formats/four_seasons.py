"""4Seasons: drives through Munich and around it in all seasons, with positions from RTK and visual odometry.

    ROOT/                                        or ROOT may be one recording
      recording_2020-03-24_17-36-22/
        undistorted_images/cam0/1585067782….png  the name is the number in GNSSPoses.txt: the time in nanoseconds
        GNSSPoses.txt                            number, translation, quaternion x y z w, scale, …: only keyframes
        Transformations.txt                      five transforms, each in a line of seven numbers

Only keyframes have a pose. Other images are counted and left out. All recordings share one UTM
frame.

The position of a keyframe is its translation, in the world of `transform_S_AS`, times its scale.
The inverse of `transform_w_gpsw` leads to the GNSS frame, and `transform_e_gpsw` to the Earth. The
tools that the set's authors publish (libartipy) apply the scale at the same step. yaw is the
direction of the optical axis.

Written from these tools and the description of the set; not tried on real files.
"""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.errors import BadInputError
from mappable.places.frames import frame_from_latlon
from mappable.places.geodesy import from_ecef, project
from mappable.places.notes import Findings
from mappable.places.rotations import AXES, viewing_yaw
from mappable.places.table import Places
from mappable.readers.toolkit import (
    columns,
    having,
    homes,
    numbered_images,
    paired,
    unit_quaternions,
)
from mappable.readers.transforms import Transform
from mappable.tables import Table, read_values

LAYOUT = ("GNSSPoses.txt", "*/GNSSPoses.txt")
QUATERNION = ("qx", "qy", "qz", "qw")
COLUMNS = ("number", "x", "y", "z", *QUATERNION, "scale")
TRANSFORMS = (
    "transform_S_AS",
    "TS_cam_imu",
    "transform_w_gpsw",
    "transform_gps_imu",
    "transform_e_gpsw",
)
LONGEST = 1e8  # metres in coordinates of the Earth
AHEAD = 10.0  # metres along the optical axis, whose direction on the map is the yaw


def read(
    root: Path,
    found: Findings,
    *,
    camera: Annotated[Literal["cam0", "cam1"], "folder of images: left or right"] = "cam0",
    images: Annotated[
        Literal["undistorted_images", "distorted_images"], "folder of cameras"
    ] = "undistorted_images",
) -> Places:
    recordings = homes(root, "GNSSPoses.txt", "no GNSSPoses.txt here or in a subfolder")
    recordings = having(
        recordings, f"{images}/{camera}", found, f"recordings have no {images}/{camera} (left out)"
    )
    paths, times, names = list[str](), list[int](), list[str]()
    centers, ahead = list[np.ndarray](), list[np.ndarray]()
    for name, home in recordings.items():
        table = read_values(home / "GNSSPoses.txt", COLUMNS)
        numbers = table.times("number", "ns").tolist()
        repeated = np.ones(len(numbers), dtype=bool)
        repeated[np.unique(numbers, return_index=True)[1]] = False
        table.refuse(repeated, "number", "is in an earlier row")
        named = numbered_images(root, home / images / camera, found, r"\d+", "<nanoseconds>.png")
        kept, rows = paired(named, numbers, name, found, few=True)
        if kept:
            poses = _on_earth(home / "Transformations.txt", table.at(rows.tolist()))
            centers.append(poses.shift)
            ahead.append(poses.shift + AHEAD * poses.turn.apply(AXES["z"]))
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


def _on_earth(file: Path, table: Table) -> Transform:
    """The poses of cameras in coordinates of the Earth (ECEF)."""
    slam = _poses(table, 1e6)
    scale = table.numbers("scale", 1e-3, 1e3)
    transforms = read_values(file, COLUMNS[1:-1], skip_short=True)
    if len(transforms) < len(TRANSFORMS):
        raise BadInputError(
            f"{file}: {len(transforms)} transforms, expected {', '.join(TRANSFORMS)}"
        )
    to_world, _, from_gnss, _, to_earth = (
        _poses(transforms.at([row]), LONGEST) for row in range(len(TRANSFORMS))
    )
    world = to_world @ slam
    return to_earth @ Transform(world.turn, world.shift * scale[:, None]).seen_from(from_gnss)


def _poses(table: Table, largest: float) -> Transform:
    xyz = columns(table, ("x", "y", "z"), -largest, largest)
    return Transform(Rotation.from_quat(unit_quaternions(table, QUATERNION)), xyz)
