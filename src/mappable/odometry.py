"""Odometry: how a camera or robot moved by its own account, for maps and for recovery.

| file | columns |
|---|---|
| TUM (.txt, .tum) | time x y z qx qy qz qw: poses in any frame |
| table | time, x, y, yaw: poses in any frame |
| table | time, forward, left, turn: motions, each from the row before, in the frame of that row |

Angles are in radians, positive to the left. Times of tables are numbers or ISO 8601.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError, listed
from mappable.tables import Table, read_table
from mappable.times import guess_unit
from mappable.trajectories import TUM_SUFFIXES, read_tum

PAUSE, LONGEST_PAUSE = (
    20.0,
    2.0,
)  # times the usual interval, and seconds: poses are not interpolated across a longer pause


def rotations(angles: Floats) -> Floats:
    """Return the rotations (m, 2, 2) by angles (m,) in radians."""
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)


@dataclass(frozen=True)
class Odometry:
    """Planar motion, in the frame of the robot before it.

    `forward` and `left` are in the unit of the map, usually metres. `turn` is in radians,
    counter-clockwise. `covariance` (3 x 3) belongs to (forward, left, turn).
    """

    forward: float
    left: float
    turn: float
    covariance: Sequence[Sequence[float]] | None = None

    def then(self, later: "Odometry") -> "Odometry":
        """This motion and a later one, which is in the frame of the robot after this one."""
        forward, left = rotations(np.array([self.turn]))[0] @ (later.forward, later.left)
        return Odometry(
            self.forward + float(forward), self.left + float(left), self.turn + later.turn
        )


@dataclass(frozen=True, eq=False)
class Track:
    """Poses in the odometry's own frame, which drifts, in rising time."""

    file: Path
    seconds: Floats  # (m,)
    positions: Floats  # (m, k) in metres
    frames: Floats  # (m, k, k): orientations

    def flat(self) -> "Track":
        """Return the track in the plane; rotations are those about z."""
        if self.positions.shape[1] == 2:
            return self
        yaw = np.arctan2(self.frames[:, 1, 0], self.frames[:, 0, 0])
        return Track(self.file, self.seconds, self.positions[:, :2], rotations(yaw))

    def at(self, seconds: Floats) -> tuple[Floats, Floats, Floats]:
        """Interpolate positions (n, k) and orientations (n, k, k) at times (n,).

        The last result (n,) numbers the pieces of the track between pauses; it is NaN at times that
        no piece covers.
        """
        times = np.clip(seconds, self.seconds[0], self.seconds[-1])
        positions = np.stack(
            [np.interp(times, self.seconds, column) for column in self.positions.T], 1
        )
        if positions.shape[1] == 3:
            frames = Slerp(self.seconds, Rotation.from_matrix(self.frames))(times).as_matrix()
        else:
            yaw = np.unwrap(np.arctan2(self.frames[:, 1, 0], self.frames[:, 0, 0]))
            frames = rotations(np.interp(times, self.seconds, yaw))
        pauses = self.pauses()
        before = np.searchsorted(self.seconds, times, "right") - 1
        covered = (seconds == times) & (
            ~np.append(pauses, False)[before] | (times == self.seconds[before])
        )
        pieces = np.concatenate([[0], np.cumsum(pauses)])[before]
        return positions, frames, np.where(covered, pieces, np.nan)

    def between(self, first: float, second: float) -> Odometry | None:
        """The motion between two times in the plane; None if poses are missing there."""
        positions, frames, pieces = self.flat().at(np.array([first, second]))
        if pieces[0] != pieces[1]:  # also if one is NaN
            return None
        forward, left = frames[0].T @ (positions[1] - positions[0])
        turned = frames[0].T @ frames[1]
        return Odometry(float(forward), float(left), float(np.arctan2(turned[1, 0], turned[0, 0])))

    def unmet(self, first: float, last: float) -> BadInputError:
        """The error for images, from one time to another, of which the track knows nothing."""
        poses = f"the poses are from {self.seconds[0]:.3f} to {self.seconds[-1]:.3f} s"
        images = f"the images from {first:.3f} to {last:.3f} s"
        return BadInputError(f"{self.file}: {poses}, but {images}: give odometry of the same drive")

    def pauses(self) -> Bools:
        """Return True (m - 1,) for intervals without poses."""
        steps = np.diff(self.seconds)
        long: Bools = steps > max(PAUSE * float(np.median(steps)), LONGEST_PAUSE)
        return long


def read_track(file: Path) -> Track:
    """Read poses over time."""
    if file.suffix in TUM_SUFFIXES:
        table = read_tum(file)
        quaternions = np.stack([table.numbers(name) for name in ("qx", "qy", "qz", "qw")], 1)
        table.refuse(
            np.abs(np.linalg.norm(quaternions, axis=1) - 1) > 0.05, "qw", "does not make a rotation"
        )
        positions = np.stack([table.numbers(axis) for axis in "xyz"], 1)
        return _track(
            table, table.numbers("time"), positions, Rotation.from_quat(quaternions).as_matrix()
        )
    return track_of_table(read_table(file))


def track_of_table(table: Table) -> Track:
    """Return the poses over time of a table."""
    columns = set(table.columns)
    poses, motions = ("x", "y", "yaw"), ("forward", "left", "turn")
    names = next((names for names in (poses, motions) if {"time", *names} <= columns), None)
    if names is None:
        wanted = "time and x, y, yaw, or time and forward, left, turn"
        raise BadInputError(
            f"{table.file}: it has the columns {listed(table.columns)}, expected {wanted}"
        )
    if len(table) < 2:
        raise BadInputError(f"{table.file}: the file has {len(table)} poses; give at least two")
    seconds = table.times("time", guess_unit(table.texts("time")[0])) / 1e9
    values = np.column_stack([table.numbers(name) for name in names])
    x, y, yaw = values.T if names == poses else _added_up(values)
    return _track(table, seconds, np.stack([x, y], 1), rotations(yaw))


def _added_up(motions: Floats) -> Floats:
    """Return x, y and yaw (3, m) from motions (m, 3); the first motion begins at an unknown time."""
    forward, left, turn = np.concatenate([np.zeros((1, 3)), motions[1:]]).T
    yaw = np.cumsum(turn)
    before = yaw - turn
    x = np.cumsum(np.cos(before) * forward - np.sin(before) * left)
    y = np.cumsum(np.sin(before) * forward + np.cos(before) * left)
    return np.stack([x, y, yaw])


def _track(table: Table, seconds: Floats, positions: Floats, frames: Floats) -> Track:
    if len(seconds) < 2:
        raise BadInputError(f"{table.file}: the file has {len(seconds)} poses; give at least two")
    table.refuse(
        np.diff(seconds, prepend=seconds[0] - 1) <= 0,
        "time",
        "expected a time later than in the row before",
    )
    return Track(table.file, seconds, positions, frames)
