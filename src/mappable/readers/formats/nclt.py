"""NCLT: runs of a robot through a campus, indoors and outdoors, over fifteen months, in one frame.

    ROOT/
      2012-01-08/
        lb3/Cam5/1326030975726043.tiff     the name is the time in microseconds; Cam5 looks forward; .png and .jpg work
      groundtruth_2012-01-08.csv           or in the folder of the run, or in ground_truth/

The rows of ground truth are time in microseconds, x (north), y (east), z (down), roll, pitch,
heading, in metres and radians. A place has x east, y north and z up, in the frame `nclt` that all
runs share. yaw is the heading of the robot for Cam5, and unknown for the other cameras.

Positions are interpolated between the rows before and after an image. Rows that are not numbers are
skipped. An image outside the rows, or in a gap, is left out and listed. The images of NCLT lie on
their side: use `--rotate 90`.

Written from the description of the set; not tried on real files.
"""

import re
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from mappable.errors import BadInputError
from mappable.places.angles import yaw_from_compass
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.table import Places
from mappable.readers.toolkit import columns, homes, joined, numbered_images, unknown
from mappable.readers.tracks import TimedImages, Track
from mappable.tables import read_values

LAYOUT = ("groundtruth_????-??-??.csv", "*/lb3/Cam?", "lb3/Cam?")
RUN = re.compile(r"\d{4}-\d\d-\d\d")
FORWARD = "Cam5"
COLUMNS = ("t", "north", "east", "down", "roll", "pitch", "heading")
NCLT = Frame("nclt")


def read(
    root: Path,
    found: Findings,
    *,
    camera: Annotated[
        Literal["Cam1", "Cam2", "Cam3", "Cam4", "Cam5"], "camera of the Ladybug"
    ] = "Cam5",
    max_gap_s: Annotated[
        float, "largest time in seconds between the positions before and after an image"
    ] = 0.5,
) -> Places:
    missing = f"no run found; expected folders such as 2012-01-08/lb3/{camera}"
    tables = []
    for name, run in homes(root, f"lb3/{camera}", missing).items():
        around = run.resolve().parent
        folders = (run, around, around / "ground_truth")
        truth = next(
            (file for folder in folders if (file := folder / f"groundtruth_{name}.csv").is_file()),
            None,
        )
        if RUN.fullmatch(name) and truth is None:
            found.note("runs have no groundtruth_<run>.csv and were left out", [name])
        elif truth is not None:
            named = numbered_images(
                root, run / "lb3" / camera, found, r"\d{16}", "<microseconds>.tiff", "us"
            )
            track = _track(truth, camera == FORWARD, found)
            images = TimedImages.numbered(named)
            prefix = f"{name}/{camera}"
            tables.append(
                images.place(
                    root, NCLT, name, track, max_gap_s, found, "the ground truth", prefix=prefix
                )
            )
    return joined(root, tables)


def _track(file: Path, forward: bool, found: Findings) -> Track:
    """The positions of the robot, and its heading if the camera looks `forward`."""
    table = read_values(file, COLUMNS)
    values = zip(*(table.columns[name] for name in COLUMNS), strict=True)
    known = [row for row, words in enumerate(values) if "nan" not in " ".join(words).lower()]
    found.count(
        "files have rows without a position", file.name, len(table) - len(known), len(table)
    )
    if not known:
        raise BadInputError(f"{file}: no row has a position")
    table = table.at(known)
    xyz = columns(table, ("east", "north", "down")) * (1, 1, -1)
    yaw = (
        yaw_from_compass(table.numbers("heading", -2 * np.pi, 2 * np.pi))
        if forward
        else unknown(len(table))
    )
    return Track.ordered(table, table.times("t", "us"), xyz, found, yaw)
