"""Tracks: positions over time, and poses at given times."""

import math
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.places.angles import interpolate_yaw
from mappable.places.notes import Findings


@dataclass(frozen=True)
class Track:
    """Samples in strictly increasing time (ns): positions (n, 3) and yaw in radians; z and yaw are NaN if unknown."""

    time: Ints
    xyz: Floats
    yaw: Floats

    def __post_init__(self) -> None:
        if len(self.time) == 0:
            raise BadInputError("the track has no samples")
        if (np.diff(self.time) <= 0).any():
            row = int(np.flatnonzero(np.diff(self.time) <= 0)[0]) + 1
            raise BadInputError(
                f"sample {row} of the track: time is {self.time[row]}, expected more than {self.time[row - 1]}"
            )

    def at(self, time: Ints) -> "PosesAt":
        """The poses at `time` (ns), linear between the samples before and after; yaw turns along the shorter arc.

        For a time outside the track, `inside` is False and the pose is that of the nearest end of the track.
        """
        after = np.searchsorted(self.time, time).clip(max=len(self.time) - 1)
        before = np.where(self.time[after] <= time, after, (after - 1).clip(min=0))
        span = (self.time[after] - self.time[before]).astype(np.float64)
        share = np.divide(time - self.time[before], span, out=np.zeros(len(span)), where=span > 0).clip(0, 1)
        xyz = self.xyz[before] + share[:, None] * (self.xyz[after] - self.xyz[before])
        yaw = interpolate_yaw(self.yaw[before], self.yaw[after], share)
        inside = (time >= self.time[0]) & (time <= self.time[-1])
        return PosesAt(xyz, yaw, before, after, gap_s=span / 1e9, inside=inside)


@dataclass(frozen=True)
class PosesAt:
    """Interpolated poses, with the numbers of the samples before and after, and the time between them in seconds."""

    xyz: Floats
    yaw: Floats
    before: Ints
    after: Ints
    gap_s: Floats
    inside: Bools

    def usable(self, names: list[str], max_gap_s: float, track: str, found: Findings) -> Ints:
        """The rows inside the track and not in a gap; the names of the other images go to `found`."""
        if not max_gap_s > 0:
            raise BadInputError(f"max_gap_s is {max_gap_s}, expected a number above 0")
        in_gap = self.inside & (self.gap_s > max_gap_s)
        found[f"images are outside {track}"] += [names[row] for row in np.flatnonzero(~self.inside)]
        found[f"images are in a gap of more than {max_gap_s:g} s in {track}"] += [
            f"{names[row]} ({self.gap_s[row]:.3g} s)" for row in np.flatnonzero(in_gap)
        ]
        return np.flatnonzero(self.inside & ~in_gap)


def rising(time: Ints) -> tuple[Ints, Ints, Ints]:
    """Prepare samples for a track. Returns three arrays of rows.

    First the rows to keep, in strictly increasing time. Then the rows that came after a later time. Then the rows that
    have the time of an earlier row and are left out.
    """
    order = np.argsort(time, kind="stable")
    late = np.flatnonzero(time < np.maximum.accumulate(time))
    repeats = np.append(False, np.diff(time[order]) == 0)
    return order[~repeats], late, order[repeats]


def arc_length(track: Track, jitter: float) -> tuple[Floats, Ints]:
    """The horizontal distance of each sample along the track, and the rows of the corners of the track.

    A new corner is where the position is at least `jitter` away from the last corner. Between corners, only the largest
    distance from the last corner counts. So the noise of a standing receiver adds no length, however long it stands.
    """
    reached, corners, length, reach = [], [0], 0.0, 0.0
    positions = track.xyz[:, :2].tolist()
    last = positions[0]
    for row, position in enumerate(positions):
        reach = max(reach, math.dist(position, last))
        if reach >= jitter:
            corners.append(row)
            last, length, reach = position, length + reach, 0.0
        reached.append(length + reach)
    return np.array(reached), np.array(corners)


def first_of_each_step(along: Floats, spacing: float) -> Bools:
    """Mask of the first place at or after each step of `spacing`, by rising distances along a track."""
    step = np.floor((along - along[0]) / spacing + 1e-6)  # the tolerance counts a place that is just short of a step
    first: Bools = np.diff(step, prepend=-1) > 0
    return first


def course(track: Track, time: Ints, jitter: float) -> Floats:
    """The direction of travel at `time` (ns), interpolated between the middles of the legs from corner to corner.

    It is NaN for a track that never moves by `jitter`.
    """
    corners = arc_length(track, jitter)[1]
    if len(corners) < 2:
        return np.full(len(time), np.nan)
    legs, times = np.diff(track.xyz[corners], axis=0), track.time[corners]
    return Track(times[:-1] + np.diff(times) // 2, legs, np.arctan2(legs[:, 1], legs[:, 0])).at(time).yaw
