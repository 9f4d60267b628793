"""Points of a track, as a file has them: times and positions in degrees or in metres."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.places.notes import Note


@dataclass(frozen=True)
class TrackPoints:
    """The points of one file in strictly increasing time (ns), in the coordinates of the file.

    `east` and `north` are longitude and latitude in degrees if `in_degrees` is True, else x and y. `up` is altitude or
    z. `yaw` is in radians counter-clockwise from east. `up` and `yaw` are NaN if unknown. `labels` has the name of each
    point in the file, for messages.
    """

    file: Path
    labels: list[str]
    time: Ints
    east: Floats
    north: Floats
    up: Floats
    yaw: Floats
    in_degrees: bool
    notes: tuple[Note, ...] = ()
    since_start: bool = False  # times count from the first frame of a video, as in its own telemetry
    start: int | None = None  # then: the time (ns since 1970) of the first frame, if the telemetry knows it

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, rows: Ints | Bools) -> "TrackPoints":
        labels = np.array(self.labels, dtype=object)[rows].tolist()
        columns = {name: getattr(self, name)[rows] for name in ("time", "east", "north", "up", "yaw")}
        return replace(self, labels=labels, **columns)
