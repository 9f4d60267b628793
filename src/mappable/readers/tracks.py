"""Tracks: positions over time, and the poses of images at their times."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError, BadRowError
from mappable.places.angles import interpolate_yaw
from mappable.places.frames import Frame, Vector
from mappable.places.notes import Findings
from mappable.places.rotations import viewing_yaw
from mappable.places.table import Places
from mappable.readers.toolkit import drive_table
from mappable.tables import Table


@dataclass(frozen=True)
class Track:
    """Samples in strictly increasing time (ns): positions (n, 3) and yaw in radians; z and yaw are NaN if unknown."""

    time: Ints
    xyz: Floats
    yaw: Floats

    def __post_init__(self) -> None:
        if len(self.time) == 0:
            raise BadInputError("the track has no samples")
        late = np.flatnonzero(np.diff(self.time) <= 0)
        if len(late):
            row = int(late[0]) + 1
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
        return PosesAt(xyz, yaw, before, after, share, gap_s=span / 1e9, inside=inside)


@dataclass(frozen=True)
class PosesAt:
    """Interpolated poses, with the numbers of the samples before and after, and the time between them in seconds."""

    xyz: Floats
    yaw: Floats
    before: Ints
    after: Ints
    share: Floats
    gap_s: Floats
    inside: Bools

    def usable(self, names: list[str], max_gap_s: float, track: str, found: Findings) -> Ints:
        """The rows inside the track and not in a gap; the names of the other images are noted."""
        if not max_gap_s > 0:
            raise BadInputError(f"max_gap_s is {max_gap_s}, expected a number above 0")
        in_gap = self.inside & (self.gap_s > max_gap_s)
        found.note(f"images are outside {track} (left out)", (names[row] for row in np.flatnonzero(~self.inside)))
        gaps = (f"{names[row]} ({self.gap_s[row]:.3g} s)" for row in np.flatnonzero(in_gap))
        found.note(f"images are in a gap of more than {max_gap_s:g} s in {track} (left out)", gaps)
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


def short_path(file: Path) -> str:
    """The file and the two folders that it is in."""
    return "/".join(file.parts[-3:])


def in_time_order(table: Table, time: Ints, found: Findings, rows: Ints | None = None) -> Ints:
    """The rows of a table of poses in strictly increasing time; unordered and repeated times are noted."""
    rows = np.arange(len(time)) if rows is None else rows
    kept, late, again = rising(time[rows])
    name = short_path(table.file)
    for text, which in (
        ("poses were out of time order in their file and were sorted", late),
        ("poses have the same time as an earlier pose (left out)", again),
    ):
        found.note(text, (f"{name}, row {table.row_numbers[rows[row]]}" for row in which))
    return rows[kept]


@dataclass(frozen=True)
class PoseTrack:
    """Samples over time, positions in a frame, and unit quaternions (n, 4) from body to original coordinates."""

    track: Track
    quaternions: Floats

    @classmethod
    def ordered(cls, table: Table, time: Ints, xyz: Floats, quaternions: Floats, found: Findings) -> "PoseTrack":
        """The rows of a table in order of time."""
        rows = in_time_order(table, time, found)
        return cls(Track(time[rows], xyz[rows], np.full(len(rows), np.nan)), quaternions[rows])

    def at(self, time: Ints) -> tuple[PosesAt, Rotation]:
        """The poses at `time`, at least one, and the rotations from body to original coordinates."""
        poses = self.track.at(time)
        start, end = (Rotation.from_quat(self.quaternions[rows]) for rows in (poses.before, poses.after))
        share = np.where(poses.inside, poses.share, 0.0)[:, None]
        return poses, start * Rotation.from_rotvec(share * (start.inv() * end).as_rotvec())  # the shorter arc


@dataclass(frozen=True)
class TimedImages:
    """Images of one folder: paths relative to the root, times in ns, and their origin (`named_at`) for errors."""

    paths: list[str]
    time: Ints
    named_at: list[str]


def place_images(
    root: Path,
    frame: Frame,
    images: TimedImages,
    trajectory: PoseTrack,
    max_gap_s: float,
    axis: Vector,
    found: Findings,
    sequence: str,
) -> Places:
    """The images with the poses at their times, looking along `axis` of the body; images without a pose are noted."""
    if not images.paths:  # SciPy before 1.17 cannot make empty rotations
        return drive_table(root, frame, sequence, [], np.empty((0, 3)))
    poses, turns = trajectory.at(images.time)
    rows = poses.usable(images.paths, max_gap_s, "the trajectory", found)
    paths = [images.paths[row] for row in rows]
    yaw = viewing_yaw(frame.from_original(turns.apply(axis)[rows]))
    vertical = (path for path, angle in zip(paths, yaw, strict=True) if np.isnan(angle))
    found.note("images look straight up or down, so their yaw is unknown", vertical)
    try:
        return drive_table(root, frame, sequence, paths, poses.xyz[rows], yaw=yaw, time=images.time[rows])
    except BadRowError as error:
        raise BadInputError(f"{images.named_at[rows[error.row]]}: {error.problem}") from None


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


def course(track: Track, time: Ints, jitter: float) -> Floats:
    """The direction of travel at `time` (ns), interpolated between the middles of the legs from corner to corner.

    It is NaN for a track that never moves by `jitter`.
    """
    corners = arc_length(track, jitter)[1]
    if len(corners) < 2:
        return np.full(len(time), np.nan)
    legs, times = np.diff(track.xyz[corners], axis=0), track.time[corners]
    return Track(times[:-1] + np.diff(times) // 2, legs, np.arctan2(legs[:, 1], legs[:, 0])).at(time).yaw
