"""Odometry files: poses over time become relative motions between the images of a drive.

| columns | meaning |
|---|---|
| i, j, x, y (z) | displacements along the axes of the map |
| i, j, forward, left, turn | relative motions, seen from point i; turn in radians |
| time, x, y, yaw | poses in any frame, yaw in radians |
| TUM: time x y z qx qy qz qw | poses in any frame |
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from mappable.arrays import MAX_COORDINATE, Bools, Floats
from mappable.errors import BadInputError, listed
from mappable.recovery.anchored.relative import rotations
from mappable.recovery.files import ODOMETRY_SIGMA, TUM_SUFFIXES, point_column, position_columns, sigma_column
from mappable.recovery.hints import Motions, Odometry
from mappable.tables import Table, read_table
from mappable.times import guess_unit
from mappable.trajectories import read_tum

# Noise of motions between poses; recovery estimates how much larger or smaller it is.
STEP_SIGMA, STEP_SHARE = 0.02, 0.02  # metres, and share of the distance
TURN_SIGMA, TURN_SHARE = 0.005, 0.02  # radians, and share of the turn
PAUSE, LONGEST_PAUSE = 20.0, 2.0  # times the usual interval, and seconds: no motion is read across a longer pause
WANTED = "i, j and x, y, or i, j and forward, left, turn, or time and x, y, yaw"


@dataclass(frozen=True)
class Track:
    """Poses in the odometry's own frame, in rising time: `seconds` (m,), `positions` (m, k), `frames` (m, k, k)."""

    file: Path
    seconds: Floats
    positions: Floats
    frames: Floats

    def motions(self, count: int, seconds: Floats | None, dimensions: int) -> Motions:
        """Return the motions from each of `count` points to the next; `seconds` (count,) are their times, if known.

        Without times, the track must have one pose per point. A track in 3-D gives motions in the plane too, by its
        rotation about z. Points before, after or in a pause of the track get no motions.
        """
        if self.positions.shape[1] < dimensions:
            raise BadInputError(f"{self.file}: poses have 2 dimensions, expected {dimensions}")
        positions, frames, joined = self._per_point(count, seconds)
        if dimensions == 2 and positions.shape[1] == 3:
            positions, frames = positions[:, :2], rotations(np.arctan2(frames[:, 1, 0], frames[:, 0, 0]))
        i = np.flatnonzero(joined)
        back = frames[i].transpose(0, 2, 1)
        metres = np.einsum("mab,mb->ma", back, positions[i + 1] - positions[i])
        return make_motions(i, i + 1, metres, back @ frames[i + 1])

    def _per_point(self, count: int, seconds: Floats | None) -> tuple[Floats, Floats, Bools]:
        """Return the pose of each point, by its time or by its row, and which steps (count - 1,) the track covers."""
        steps = np.diff(self.seconds)
        pauses = steps > max(PAUSE * float(np.median(steps)), LONGEST_PAUSE)
        within = np.zeros(0, dtype=bool)
        if seconds is not None:
            within = (seconds >= self.seconds[0]) & (seconds <= self.seconds[-1])
        if seconds is None or within.sum() < 2:
            if len(self.seconds) == count:
                return self.positions, self.frames, ~pauses
            if seconds is None:
                raise BadInputError(
                    f"{self.file}: the file has {len(self.seconds):,} poses for {count:,} points without times: give"
                    " one pose per point"
                )
            raise BadInputError(
                f"{self.file}: the poses are from {self.seconds[0]:.3f} to {self.seconds[-1]:.3f} s, but the images"
                f" from {seconds.min():.3f} to {seconds.max():.3f} s: give odometry of the same drive"
            )
        before = np.searchsorted(self.seconds, seconds, "right") - 1
        passed = np.concatenate([[0], np.cumsum(pauses)])[before]
        within &= ~np.append(pauses, False)[before] | (seconds == self.seconds[before])  # not inside a pause
        times = np.clip(seconds, self.seconds[0], self.seconds[-1])
        positions = np.stack([np.interp(times, self.seconds, column) for column in self.positions.T], 1)
        return positions, self._turned(times), within[:-1] & within[1:] & (np.diff(passed) == 0)

    def _turned(self, times: Floats) -> Floats:
        if self.frames.shape[1] == 3:
            turned: Floats = Slerp(self.seconds, Rotation.from_matrix(self.frames))(times).as_matrix()
            return turned
        yaw = np.unwrap(np.arctan2(self.frames[:, 1, 0], self.frames[:, 0, 0]))
        return rotations(np.interp(times, self.seconds, yaw))


def make_motions(i: object, j: object, metres: Floats, turned: Floats) -> Motions:
    """Return motions with the usual noise of odometry."""
    angle = np.arccos(np.clip((np.einsum("maa->m", turned) - (turned.shape[1] - 2)) / 2, -1, 1))
    step = STEP_SIGMA + STEP_SHARE * np.linalg.norm(metres, axis=1)
    return Motions(i, j, metres, turned, (step, TURN_SIGMA + TURN_SHARE * angle))  # type: ignore[arg-type]


def read_odometry(file: Path | str) -> Odometry | Motions | Track:
    """Read displacements along the map's axes, relative motions, or poses over time."""
    path = Path(file)
    if path.suffix in TUM_SUFFIXES:
        table = read_tum(path)
        quaternions = np.stack([table.numbers(name) for name in ("qx", "qy", "qz", "qw")], 1)
        table.refuse(np.abs(np.linalg.norm(quaternions, axis=1) - 1) > 0.05, "qw", "does not make a rotation")
        return _track(
            table, table.numbers("time"), position_columns(table), Rotation.from_quat(quaternions).as_matrix()
        )
    table = read_table(path)
    names = set(table.columns)
    if {"i", "j", "forward", "left", "turn"} <= names:
        return _motions(table)
    if {"i", "j", "x", "y"} <= names:
        i, j = point_column(table, "i"), point_column(table, "j")
        table.refuse(i == j, "j", "must differ from i")
        return Odometry(i, j, position_columns(table), sigma_column(table, ODOMETRY_SIGMA))
    if {"time", "x", "y", "yaw"} <= names and len(table):
        time = table.times("time", guess_unit(table.texts("time")[0])) / 1e9
        positions = np.stack([table.numbers(axis) for axis in "xy"], 1)
        return _track(table, time, positions, rotations(table.numbers("yaw")))
    raise BadInputError(f"{path}: it has the columns {listed(table.columns)}, expected {WANTED}")


def _motions(table: Table) -> Motions:
    i, j = point_column(table, "i"), point_column(table, "j")
    table.refuse(i == j, "j", "must differ from i")
    metres = np.stack([table.numbers(name, -MAX_COORDINATE, MAX_COORDINATE) for name in ("forward", "left")], 1)
    turned = rotations(table.numbers("turn", -2 * np.pi, 2 * np.pi))  # more may be degrees
    usual = make_motions(i, j, metres, turned)
    if "sigma" not in table.columns and "sigma_turn" not in table.columns:
        return usual
    spread = [sigma_column(table, np.sqrt(usual.covariance[:, axis, axis]), name) for axis, name in SIGMAS]
    return Motions(i, j, metres, turned, (spread[0], spread[1]))


SIGMAS = ((0, "sigma"), (2, "sigma_turn"))


def _track(table: Table, seconds: Floats, positions: Floats, frames: Floats) -> Track:
    if len(seconds) < 2:
        raise BadInputError(f"{table.file}: the file has {len(seconds)} poses; give at least two")
    table.refuse(np.diff(seconds, prepend=seconds[0] - 1) <= 0, "time", "expected a time later than in the row before")
    return Track(table.file, seconds, positions, frames)
