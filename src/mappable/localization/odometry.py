"""Odometry from a file: how a robot moved between two times."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.localization.localizer import Odometry
from mappable.tables import read_table
from mappable.times import guess_unit

POSES, MOTIONS = ("x", "y", "yaw"), ("forward", "left", "turn")


@dataclass(frozen=True)
class OdometryTrack:
    """Poses by odometry in rising time (n,), in nanoseconds: x and y in metres, and yaw in radians without jumps."""

    time: Ints
    poses: Floats  # (n, 3)

    def between(self, first: float, second: float) -> Odometry | None:
        """The motion between two times in seconds; None if the file does not cover both."""
        seconds = (self.time - self.time[0]) / 1e9
        times = np.array([first, second]) - self.time[0] / 1e9
        if times.min() < seconds[0] - 1e-6 or times.max() > seconds[-1] + 1e-6:
            return None
        before, after = np.column_stack([np.interp(times, seconds, column) for column in self.poses.T])
        (x, y), turn = (after - before)[:2], float(after[2] - before[2])
        cos, sin = np.cos(before[2]), np.sin(before[2])
        return Odometry(float(cos * x + sin * y), float(cos * y - sin * x), turn)


def read_odometry(file: Path) -> OdometryTrack:
    """Read a table (.csv, .parquet) with `time`, and x, y, yaw of poses or forward, left, turn of motions.

    Times are numbers (seconds up to 11 digits, else ms, us or ns) or ISO 8601. Poses are in any frame. A motion is from
    the row before to its own row, in the robot's frame at the row before. Angles are in radians, counter-clockwise.
    """
    table = read_table(file)
    names = next((names for names in (POSES, MOTIONS) if set(names) <= set(table.columns)), None)
    if names is None or "time" not in table.columns:
        wanted = "time and x, y, yaw, or time and forward, left, turn"
        raise BadInputError(f"{file}: it has the columns {', '.join(table.columns)}, expected {wanted}")
    if not len(table):
        raise BadInputError(f"{file}: the table has no rows; give at least two")
    time = table.times("time", guess_unit(table.texts("time")[0]))
    table.refuse(np.diff(time, prepend=time[0] - 1) <= 0, "time", "expected a time later than in the row before")
    numbers = np.column_stack([table.numbers(name) for name in names])
    return OdometryTrack(time, _unwrapped(numbers) if names == POSES else _added_up(numbers))


def _unwrapped(poses: Floats) -> Floats:
    return np.column_stack([poses[:, :2], np.unwrap(poses[:, 2])])


def _added_up(motions: Floats) -> Floats:
    """Poses (n, 3) from motions (n, 3); the first motion comes from an unknown time, and does not count."""
    turned = np.cumsum(np.append(0.0, motions[1:, 2]))
    before = np.append(0.0, turned[:-1])
    forward, left = motions[:, 0].copy(), motions[:, 1].copy()
    forward[0] = left[0] = 0.0
    x = np.cumsum(np.cos(before) * forward - np.sin(before) * left)
    y = np.cumsum(np.sin(before) * forward + np.cos(before) * left)
    return np.column_stack([x, y, turned])
