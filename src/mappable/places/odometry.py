"""Odometry of a recording: how a robot moved by its own account, kept next to the images for localization."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow

from mappable.arrays import Floats, Ints
from mappable.formats import Format

FORMAT = Format("mappable odometry", 1, "convert the recording again", sealed_since=1)
FILE = "odometry.parquet"  # in the folder of the frames of a recording
COLUMNS = ("x", "y", "yaw", "xx", "xy", "yy", "yaw_yaw")


@dataclass(frozen=True)
class RecordedOdometry:
    """Poses in the odometry's own frame, which drifts: x and y in metres, yaw in radians, in rising
    time (ns).

    `covariance` (n, 4) holds xx, xy and yy in square metres, and the variance of the yaw in square
    radians; NaN if the robot states none.
    """

    time: Ints
    pose: Floats
    covariance: Floats

    def __len__(self) -> int:
        return len(self.time)


def save_odometry(odometry: RecordedOdometry, file: Path, topic: str) -> None:
    """Write a Parquet file with the columns time, x, y, yaw, xx, xy, yy and yaw_yaw; unknown values
    are null.

    `mappable.odometry.read_track` reads it, like any table of poses over time.
    """
    numbers = np.column_stack([odometry.pose, odometry.covariance])
    columns = {
        name: pyarrow.array(values, mask=np.isnan(values))
        for name, values in zip(COLUMNS, numbers.T, strict=True)
    }
    FORMAT.write_parquet(file, pyarrow.table({"time": odometry.time} | columns), {"topic": topic})
