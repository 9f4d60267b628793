"""Tracks: positions over time, and the poses of images at their times."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.places.angles import interpolate_yaw
from mappable.places.frames import Frame, Vector
from mappable.places.notes import Findings
from mappable.places.rotations import viewing_yaw
from mappable.places.table import Places
from mappable.readers.toolkit import drive_table, naming, short_path, unknown
from mappable.tables import Table


@dataclass(frozen=True)
class Track:
    """Samples in strictly increasing time (ns): positions (n, 3) and yaw in radians; z and yaw are
    NaN if unknown.

    `turns` are the rotations from body to original coordinates, if they are known.
    """

    time: Ints
    xyz: Floats
    yaw: Floats
    turns: Rotation | None = None

    def __post_init__(self) -> None:
        if len(self.time) == 0:
            raise BadInputError("the track has no samples")
        late = np.flatnonzero(np.diff(self.time) <= 0)
        if len(late):
            row = int(late[0]) + 1
            raise BadInputError(
                f"sample {row} of the track: time is {self.time[row]}, expected more than"
                f" {self.time[row - 1]}"
            )

    @classmethod
    def ordered(
        cls,
        table: Table,
        time: Ints,
        xyz: Floats,
        found: Findings,
        yaw: Floats | None = None,
        turns: Any = None,
    ) -> "Track":
        """The rows of a table in order of time; unordered and repeated times are noted. `turns` are
        quaternions.
        """
        rows, late, again = rising(time)
        where = short_path(table.file)
        for text, bad in (
            ("poses were out of time order in their file and were sorted", late),
            ("poses have the same time as an earlier pose (left out)", again),
        ):
            found.note(text, (f"{where}, row {table.row_numbers[row]}" for row in bad))
        rotations = None if turns is None else Rotation.from_quat(turns[rows])
        return cls(
            time[rows], xyz[rows], unknown(len(rows)) if yaw is None else yaw[rows], rotations
        )

    def at(self, time: Ints) -> "PosesAt":
        """The poses at `time` (ns), linear between the samples before and after; yaw turns along
        the shorter arc.

        For a time outside the track, `inside` is False and the pose is that of the nearest end of
        the track.
        """
        after = np.searchsorted(self.time, time).clip(max=len(self.time) - 1)
        before = np.where(self.time[after] <= time, after, (after - 1).clip(min=0))
        span = (self.time[after] - self.time[before]).astype(np.float64)
        share = np.divide(
            time - self.time[before], span, out=np.zeros(len(span)), where=span > 0
        ).clip(0, 1)
        xyz = self.xyz[before] + share[:, None] * (self.xyz[after] - self.xyz[before])
        yaw = interpolate_yaw(self.yaw[before], self.yaw[after], share)
        inside = (time >= self.time[0]) & (time <= self.time[-1])
        return PosesAt(self, xyz, yaw, before, after, share, gap_s=span / 1e9, inside=inside)


@dataclass(frozen=True)
class PosesAt:
    """Interpolated poses of a track, with the samples before and after, and the time between them
    in seconds.
    """

    track: Track
    xyz: Floats
    yaw: Floats
    before: Ints
    after: Ints
    share: Floats
    gap_s: Floats
    inside: Bools

    @property
    def turns(self) -> Rotation:
        """The rotations at the times, along the shorter arc; the track must have some."""
        samples = self.track.turns or Rotation.identity(len(self.track.time))
        start, end = samples[self.before], samples[self.after]
        share = np.where(self.inside, self.share, 0.0)[:, None]
        return start * Rotation.from_rotvec(share * (start.inv() * end).as_rotvec())

    def usable(self, names: list[str], max_gap_s: float, track: str, found: Findings) -> Ints:
        """The rows inside the track and not in a gap; the names of the other images are noted."""
        if not max_gap_s > 0:
            raise BadInputError(f"max_gap_s is {max_gap_s}, expected a number above 0")
        in_gap = self.inside & (self.gap_s > max_gap_s)
        found.note(
            f"images are outside {track} (left out)",
            (names[row] for row in np.flatnonzero(~self.inside)),
        )
        gaps = (f"{names[row]} ({self.gap_s[row]:.3g} s)" for row in np.flatnonzero(in_gap))
        found.note(f"images are in a gap of more than {max_gap_s:g} s in {track} (left out)", gaps)
        return np.flatnonzero(self.inside & ~in_gap)


def rising(time: Ints) -> tuple[Ints, Ints, Ints]:
    """Prepare samples for a track. Returns three arrays of rows.

    First the rows to keep, in strictly increasing time. Then the rows that came after a later time.
    Then the rows that have the time of an earlier row and are left out.
    """
    order = np.argsort(time, kind="stable")
    late = np.flatnonzero(time < np.maximum.accumulate(time))
    repeats = np.append(False, np.diff(time[order]) == 0)
    return order[~repeats], late, order[repeats]


@dataclass(frozen=True)
class TimedImages:
    """Images of one drive: paths relative to the root, times in ns, and where each is written, for
    errors.
    """

    paths: list[str]
    time: Ints
    where: Callable[[int], str]

    @classmethod
    def listed(cls, table: Table, column: str, inside: Path | str, unit: Any) -> "TimedImages":
        """The images of a table with a column `time` and a column of files in the folder `inside`."""
        folder = "" if str(inside) == "." else f"{inside}/"
        paths = [f"{folder}{file}" for file in table.columns[column]]
        return cls(paths, table.times("time", unit), table.where)

    @classmethod
    def numbered(cls, images: Mapping[int, str], scale: int = 1) -> "TimedImages":
        """Images by the number in their names, which is their time in units of `scale` nanoseconds."""
        paths = list(images.values())
        return cls(paths, np.array(list(images), dtype=np.int64) * scale, lambda row: paths[row])

    def place(
        self,
        root: Path,
        frame: Frame,
        sequence: str,
        track: Track,
        max_gap_s: float,
        found: Findings,
        name: str = "the trajectory",
        axis: Vector | None = None,
        **values: Any,
    ) -> Places:
        """The images with the poses at their times; images without a pose are noted.

        With `axis`, they look along this axis of the body of the track; else they have the yaw of
        the track.
        """
        poses = track.at(self.time)
        rows = poses.usable(self.paths, max_gap_s, name, found)
        paths, yaw = [self.paths[row] for row in rows], poses.yaw[rows]
        if axis and len(rows):  # SciPy before 1.17 cannot make empty rotations
            yaw = viewing_yaw(frame.from_original(poses.turns.apply(axis)[rows]))
            vertical = (path for path, angle in zip(paths, yaw, strict=True) if np.isnan(angle))
            found.note("images look straight up or down, so their yaw is unknown", vertical)
        with naming(lambda row: self.where(int(rows[row]))):
            columns = {"yaw": yaw, "time": self.time[rows]} | values
            return drive_table(root, frame, sequence, paths, poses.xyz[rows], **columns)


def arc_length(track: Track, jitter: float) -> tuple[Floats, Ints]:
    """The horizontal distance of each sample along the track, and the rows of the corners of the
    track.

    A new corner is where the position is at least `jitter` away from the last corner. Between
    corners, only the largest distance from the last corner counts. So the noise of a standing
    receiver adds no length, however long it stands.
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
    """The direction of travel at `time` (ns), interpolated between the middles of the legs from
    corner to corner.

    It is NaN for a track that never moves by `jitter`.
    """
    corners = arc_length(track, jitter)[1]
    if len(corners) < 2:
        return unknown(len(time))
    legs, times = np.diff(track.xyz[corners], axis=0), track.time[corners]
    return (
        Track(times[:-1] + np.diff(times) // 2, legs, np.arctan2(legs[:, 1], legs[:, 0]))
        .at(time)
        .yaw
    )
