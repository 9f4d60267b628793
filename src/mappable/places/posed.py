"""Images with times and a trajectory of poses: the pose of each image, and what was left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError, BadRowError
from mappable.places.frames import Frame, Vector
from mappable.places.notes import Findings
from mappable.places.rotations import viewing_yaw
from mappable.places.table import Places
from mappable.places.tracks import PosesAt, Track, rising
from mappable.tables import Table

TOLERANCE = 0.05  # largest difference between the length of a quaternion and 1


@dataclass(frozen=True)
class TimedImages:
    """Images of one folder: paths relative to the root, times in ns, and their origin (`named_at`) for errors."""

    paths: list[str]
    time: Ints
    named_at: list[str]


@dataclass(frozen=True)
class PoseTrack:
    """Samples over time, positions in a frame, and unit quaternions (n, 4) from body to original coordinates."""

    track: Track
    quaternions: Floats

    @classmethod
    def ordered(cls, table: Table, time: Ints, xyz: Floats, quaternions: Floats, found: Findings) -> "PoseTrack":
        """The rows of a table in order of time; unordered and repeated times go to `found`."""
        order, late, again = rising(time)
        name = f"{table.file.parent.name}/{table.file.name}"
        for text, rows in (
            ("poses were out of time order in their trajectory and were sorted", late),
            ("poses have the same time as another pose and were left out", again),
        ):
            found[text] += [f"{name}, row {table.row_numbers[row]}" for row in rows]
        unknown = np.full(len(order), np.nan)  # yaws come from the quaternions
        return cls(Track(time[order], xyz[order], unknown), quaternions[order])

    def at(self, time: Ints, axis: Vector) -> tuple[PosesAt, Floats]:
        """The poses at `time`, and the direction (n, 3) of the body's `axis` in original coordinates."""
        if not len(time):  # scipy before 1.17 cannot make empty rotations
            return self.track.at(time), np.empty((0, 3))
        poses, turns = self.turned(time)
        return poses, turns.apply(axis)

    def turned(self, time: Ints) -> tuple[PosesAt, Rotation]:
        """The poses at `time`, at least one, and the rotations from body to original coordinates."""
        poses = self.track.at(time)
        since = np.where(poses.inside, time - self.track.time[poses.before], 0)
        share = np.divide(since, poses.gap_s * 1e9, out=np.zeros(len(time)), where=poses.gap_s > 0)
        start, end = (Rotation.from_quat(self.quaternions[rows]) for rows in (poses.before, poses.after))
        return poses, start * Rotation.from_rotvec(share[:, None] * (start.inv() * end).as_rotvec())  # the shorter arc


def unit_quaternions(table: Table, names: Sequence[str]) -> Floats:
    """The quaternions in four columns, in the order of `names`; raise if one is not of length 1."""
    quaternions = np.column_stack([table.numbers(name) for name in names])
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(quaternions, axis=1, keepdims=True)
    wrong = np.flatnonzero(np.abs(lengths - 1) > TOLERANCE)
    if len(wrong):
        row = int(wrong[0])
        values = " ".join(table.columns[name][row] for name in names)
        raise BadInputError(
            f"{table.file}, row {table.row_numbers[row]}: the quaternion {values} has length {lengths[row, 0]:g}, not 1"
        )
    unit: Floats = quaternions / lengths
    return unit


def place_images(
    root: Path,
    frame: Frame,
    images: TimedImages,
    trajectory: PoseTrack,
    max_gap_s: float,
    axis: Vector,
    found: Findings,
    sequence: str | None = None,
) -> Places:
    """The images with the poses at their times; images without a pose go to `found`."""
    at, directions = trajectory.at(images.time, axis)
    rows = at.usable(images.paths, max_gap_s, "the trajectory", found)
    paths = [images.paths[row] for row in rows]
    yaw = viewing_yaw(frame.from_original(directions[rows]))
    found["images look straight up or down, so their yaw is unknown"] += [
        path for path, angle in zip(paths, yaw, strict=True) if np.isnan(angle)
    ]
    name = sequence or frame.name
    try:
        return Places(
            path=paths,
            place_id=[f"{name}/{PurePosixPath(path).stem}" for path in paths],
            root=root,
            frames=frame,
            x=at.xyz[rows, 0],
            y=at.xyz[rows, 1],
            z=at.xyz[rows, 2],
            yaw=yaw,
            time=images.time[rows],
            sequence=name,
        )
    except BadRowError as error:
        raise BadInputError(f"{images.named_at[rows[error.row]]}: {error.problem}") from None
