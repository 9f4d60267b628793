"""Recordings (videos, bags): choose images along a track, and keep the chosen ones in a folder of frames."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.formats import Format
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.routes import first_of_each_step
from mappable.places.table import Places
from mappable.readers.toolkit import drive_table
from mappable.readers.tracks import Track, arc_length, course

FORMAT = Format("mappable frames", 2, "remove that folder", sealed_since=2, earliest=1)
LONGEST_OFFSET = 1e9  # seconds, about thirty years; a larger offset is a mistake


@dataclass(frozen=True)
class Recording:
    """Images over time: `time` (ns, rising) and `names` (of their files, without suffix) of all
    images.

    `name` is the name of the sequence, and `file` the recording itself. `kind` is its plural in
    messages: "videos".
    """

    kind: str
    name: str
    file: Path
    time: Ints
    names: list[str]

    def choose(
        self,
        route: Track,
        spacing: float,
        max_gap_s: float,
        found: Findings,
        usable: Bools | bool = True,
    ) -> Ints:
        """The rows of the chosen images: the first at or after each step of `spacing` along the
        track.

        A spacing of 0 takes all images. Images outside the track, or in a gap of it, are never
        chosen.
        """
        poses = route.at(self.time)
        in_gap = poses.inside & (poses.gap_s > max_gap_s)
        found.note(
            f"parts of {self.kind} are outside their track (left out)",
            self._stretches(~poses.inside),
        )
        gap = (
            f"parts of {self.kind} are in a gap of more than {max_gap_s:g} s in their track (left"
            " out)"
        )
        found.note(gap, self._stretches(in_gap))
        if not poses.inside.any():
            spans = f"the recording ({span(self.time)}) and its track ({span(route.time)})"
            found.say(f"{self.file.name}: {spans} do not overlap; set --offset-s")
        rows = np.flatnonzero(poses.inside & ~in_gap & usable)
        if len(rows) == 0 or spacing == 0:
            return rows
        length = arc_length(route, spacing / 2)[0]
        along = np.interp(self.time[rows] - route.time[0], route.time - route.time[0], length)
        return rows[first_of_each_step(along, spacing)]

    def _stretches(self, mask: Bools) -> list[str]:
        """One line of text for each run of images in which `mask` is True."""
        edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
        return [
            f"{self.file.name}: {end - begin:,} frames, {span(self.time[begin:end])}"
            for begin, end in zip(edges[::2], edges[1::2], strict=True)
        ]

    def places(
        self,
        rows: Ints,
        suffixes: list[str],
        folder: Path,
        frame: Frame,
        route: Track,
        course_jitter: float | None,
    ) -> Places:
        """The table of the images `rows`, whose files are in `folder`.

        With `course_jitter`, a track without headings gets the direction of travel (`course`).
        """
        time, names = self.time[rows], [self.names[row] for row in rows]
        poses = route.at(time)
        yaw: Floats = poses.yaw
        if course_jitter is not None and np.isnan(route.yaw).all():
            yaw = course(route, time, course_jitter)
        paths = [
            f"{folder.name}/{name}{suffix}" for name, suffix in zip(names, suffixes, strict=True)
        ]
        return drive_table(folder.parent, frame, self.name, paths, poses.xyz, yaw=yaw, time=time)


def check_numbers(
    spacing: float, max_gap_s: float, offset_s: float = 0.0, zero_spacing: bool = False
) -> None:
    """Raise if an option of a reader of recordings is out of its range."""
    if not 0 < spacing < math.inf and not (zero_spacing and spacing == 0):
        raise BadInputError(
            f"--spacing is {spacing}, expected a number"
            f" {'of 0 or more' if zero_spacing else 'above 0'}"
        )
    if not 0 < max_gap_s < math.inf:
        raise BadInputError(f"--max-gap-s is {max_gap_s}, expected a number above 0")
    if not abs(offset_s) <= LONGEST_OFFSET:
        raise BadInputError(f"--offset-s is {offset_s}, expected seconds, at most thirty years")


def span(time: Ints) -> str:
    """The first and the last of some times, for messages."""
    begin, end = np.datetime_as_string(time[[0, -1]].astype("datetime64[ns]"), unit="ms")
    return f"{begin}Z to {end}Z"


def frames_folder(recording: Path, name: str, frames: Path | None) -> Path:
    """The folder for the frames of a recording: next to it, or below the folder `frames`."""
    return frames / name if frames else recording.with_name(f"{name}-frames")


def claim(record: Path, own: Mapping[str, Any], recording: Path) -> None:
    """Reserve the folder of the file `record` for one recording, so that frames of two recordings
    never mix.
    """
    folder = record.parent
    if record.is_file():
        if FORMAT.read(record) != own:
            raise BadInputError(
                f"{folder}: holds frames of something other than {recording}; remove this folder"
            )
    elif folder.exists() and any(not file.name.startswith(".") for file in folder.iterdir()):
        raise BadInputError(f"{folder}: holds other files; choose another folder with --frames")
    else:
        FORMAT.write(record, own)
