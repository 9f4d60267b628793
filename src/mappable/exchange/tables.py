"""Tables, JSON, and trajectories in the TUM format, which evo reads."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from mappable.exchange.poses import Poses
from mappable.files import write_text
from mappable.trajectories import write_tum

AXES = "xyz"


def write_json(file: Path, poses: Poses) -> int:
    """Write a list with all fields of each image."""
    write_text(file, json.dumps([pose.record for pose in poses.poses], indent=2) + "\n")
    return len(poses)


def write_csv(file: Path, poses: Poses) -> int:
    """Write one row per image, without a value where it is unknown.

    Coordinates become x, y (and z). The covariance becomes covariance_xx, covariance_xy,
    covariance_yy and so on. Candidates and places become one cell with the ids of their landmarks,
    separated by "|".
    """
    rows = [cells(pose.record) for pose in poses.poses]
    widest: dict[str, Any] = max(rows, key=len, default={})
    columns = dict.fromkeys([*widest, *(name for row in rows for name in row)])
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(file, text.getvalue())
    return len(poses)


def write_trajectory(file: Path, poses: Poses) -> int:
    """Write the trusted positions of one drive. Orientations are rotations about z by the heading.

    Times are seconds since 1970 if all images have a time, and otherwise the number of the image.
    """
    positions = np.full((len(poses), 3), np.nan)
    headings = np.full(len(poses), np.nan)
    for number, pose in poses.trusted:
        positions[number] = pose.xyz
        headings[number] = np.nan if pose.heading is None else pose.heading
    write_tum(file, positions, np.array(poses.stamps) / 1e9, headings)
    return len(poses.trusted)


def check_drive(poses: Poses) -> str | None:
    """Why the images are not one drive, which is all that a TUM file stores; None if they are."""
    names = [] if poses.places is None else sorted(set(poses.places.sequence))
    if len(names) > 1:
        return (
            f"the images are of {len(names):,} sequences, such as {names[0]!r}, but a TUM file"
            " stores one drive"
        )
    return None


def cells(record: dict[str, Any]) -> dict[str, Any]:
    """The columns of a row, and their values."""
    row: dict[str, Any] = {}
    for name, value in record.items():
        if name in ("coordinates", "position"):
            row |= dict(zip(AXES, value, strict=False))
        elif name == "covariance":
            size = len(record.get("coordinates") or record["position"])
            for second in range(size):
                for first in range(second + 1):
                    row[f"{name}_{AXES[first]}{AXES[second]}"] = (
                        "" if value is None else value[first][second]
                    )
        elif name in ("candidates", "places"):
            row[name] = "|".join(near["landmark"] for near in value)
        else:
            row[name] = "" if value is None else value
    return row
