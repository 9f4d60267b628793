"""Odometry of a recording: how a robot moved by its own account, kept next to the images for localization."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

from mappable.arrays import Floats, Ints
from mappable.checksums import seal
from mappable.containers import read_parquet
from mappable.errors import BadInputError
from mappable.files import write_atomically
from mappable.formats import KEY, Format

FORMAT = Format("mappable odometry", 1, "convert the recording again", sealed_since=1)
FILE = "odometry.parquet"  # in the folder of the frames of a recording
COLUMNS = ("x", "y", "yaw", "xx", "xy", "yy", "yaw_yaw")


@dataclass(frozen=True)
class RecordedOdometry:
    """Poses in the odometry's own frame, which drifts: x and y in metres, yaw in radians, in rising time (ns).

    `covariance` (n, 4) holds xx, xy and yy in square metres, and the variance of the yaw in square radians; NaN if the
    robot states none.
    """

    time: Ints
    pose: Floats
    covariance: Floats

    def __len__(self) -> int:
        return len(self.time)


def save_odometry(odometry: RecordedOdometry, file: Path, topic: str) -> None:
    """Write a Parquet file with the columns time, x, y, yaw, xx, xy, yy and yaw_yaw; unknown values are null."""
    numbers = np.column_stack([odometry.pose, odometry.covariance])
    columns = {
        name: pyarrow.array(values, mask=np.isnan(values)) for name, values in zip(COLUMNS, numbers.T, strict=True)
    }
    table = pyarrow.table({"time": odometry.time} | columns)
    packed = io.BytesIO()
    pyarrow.parquet.write_table(
        table.replace_schema_metadata({KEY: FORMAT.text({"topic": topic}, indent=None)}), packed
    )
    content = seal(packed.getvalue())
    write_atomically(file, lambda stream: stream.write(content))


def load_odometry(file: Path | str) -> RecordedOdometry:
    """Read a file that `save_odometry` wrote."""
    file = Path(file)
    with FORMAT.reading(file):
        if not file.is_file():
            raise FileNotFoundError(2, "no such file", str(file))
        table = read_parquet(file)
        FORMAT.parse((table.schema.metadata or {}).get(KEY.encode()), file)
        time = table["time"].to_numpy()
        numbers = np.column_stack([table[name].fill_null(np.nan).to_numpy() for name in COLUMNS])
    if not np.isfinite(numbers[:, :3]).all() or (np.diff(time) <= 0).any():
        raise BadInputError(f"{file}: poses are not finite, or not in rising time; convert the recording again")
    return RecordedOdometry(time, numbers[:, :3], numbers[:, 3:])
