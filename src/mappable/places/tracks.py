"""Tracks: positions over time, and the pose at the time of each image."""

import math
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.places.angles import interpolate_yaw


@dataclass(frozen=True)
class Track:
    """Samples in strictly rising time (ns): positions (n, 3), z NaN where unknown, and yaw in radians or NaN."""

    time: Ints
    xyz: Floats
    yaw: Floats

    def __post_init__(self) -> None:
        if len(self.time) == 0:
            raise BadInputError("the track has no samples")
        if (np.diff(self.time) <= 0).any():
            row = int(np.flatnonzero(np.diff(self.time) <= 0)[0]) + 1
            raise BadInputError(
                f"the track's time {self.time[row]} in sample {row} does not follow {self.time[row - 1]}"
            )

    def at(self, time: Ints) -> "PosesAt":
        """The poses at `time` (ns), linear between the two samples that bracket each; yaw along the shorter arc.

        A time outside the track has no bracket: `inside` is False there and its pose is that of the track's end.
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
    """Interpolated poses with, for each, the samples used and how many seconds lie between them."""

    xyz: Floats
    yaw: Floats
    before: Ints
    after: Ints
    gap_s: Floats
    inside: Bools


def rising(time: Ints) -> tuple[Ints, Ints, Ints]:
    """What makes samples a track: the rows to keep, in strictly rising time; then, of all rows, those that came after a
    later time, and those that repeat the time of an earlier row and are left out."""
    order = np.argsort(time, kind="stable")
    late = np.flatnonzero(time < np.maximum.accumulate(time))
    repeats = np.append(False, np.diff(time[order]) == 0)
    return order[~repeats], late, order[repeats]


def arc_length(track: Track, jitter: float) -> tuple[Floats, Ints]:
    """How far along the track each of its samples lies, seen from above, and the rows of its corners.

    A new corner is where the position has left the last one by `jitter`. Until then only the furthest reach from the
    last corner counts, so that the noise of a standing receiver adds no length, however long it stands.
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


def course(track: Track, time: Ints, jitter: float) -> Floats:
    """The direction of motion at `time` (ns), which turns evenly from the middle of one leg between corners to the
    next; NaN for a track that never moves by `jitter`."""
    corners = arc_length(track, jitter)[1]
    if len(corners) < 2:
        return np.full(len(time), np.nan)
    legs, times = np.diff(track.xyz[corners], axis=0), track.time[corners]
    return Track(times[:-1] + np.diff(times) // 2, legs, np.arctan2(legs[:, 1], legs[:, 0])).at(time).yaw
