"""NCLT: runs of a robot through a campus, indoors and outdoors, over fifteen months, in one frame.

    ROOT/
      2012-01-08/
        lb3/Cam5/1326030975726043.tiff     the name is the time in microseconds; Cam5 looks forward; .png and .jpg work
      groundtruth_2012-01-08.csv           or in the folder of the run, or in ground_truth/

The rows of ground truth are time in microseconds, x (north), y (east), z (down), roll, pitch, heading, in metres and
radians. A place has x east, y north and z up, in the frame `nclt` that all runs share. yaw is the heading of the robot
for Cam5, and unknown for the other cameras.

Positions are interpolated between the rows before and after an image. Rows that are not numbers are skipped. An image
outside the rows, or in a gap, is left out and listed. The images of NCLT lie on their side: use `--rotate 90`.

Written from the description of the set; not tried on real files.
"""

import re
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.places.angles import yaw_from_compass
from mappable.places.frames import Frame
from mappable.places.images import SUFFIXES
from mappable.places.joining import concatenate
from mappable.places.notes import Findings
from mappable.places.table import Places
from mappable.places.tracks import Track, rising
from mappable.tables import read_values

RUN = re.compile(r"\d{4}-\d\d-\d\d")
TIME = re.compile(r"\d{16}", re.ASCII)
FORWARD = "Cam5"
NAMES = ("t", "north", "east", "down", "roll", "pitch", "heading")
NCLT = Frame("nclt")


def read(
    root: Path,
    *,
    camera: Annotated[Literal["Cam1", "Cam2", "Cam3", "Cam4", "Cam5"], "camera of the Ladybug"] = "Cam5",
    max_gap_s: Annotated[float, "largest time in seconds between the positions before and after an image"] = 0.5,
) -> Places:
    folders = [root] if RUN.fullmatch(root.resolve().name) else sorted(root.iterdir()) if root.is_dir() else []
    runs = [one for one in folders if RUN.fullmatch(one.resolve().name) and (one / "lb3" / camera).is_dir()]
    if not runs:
        raise BadInputError(f"{root}: no run found; expected folders such as 2012-01-08/lb3/{camera}")
    found = Findings()
    tables = [Places(path=[], x=[], y=[], frames=NCLT, root=root)]
    for run in runs:
        name = run.resolve().name
        homes = (run, run.resolve().parent, run.resolve().parent / "ground_truth")
        truth = next((file for home in homes if (file := home / f"groundtruth_{name}.csv").is_file()), None)
        if truth is None:
            found["runs have no groundtruth_<run>.csv and were left out"].append(name)
            continue
        tables.append(_read_run(root, run, name, camera, _track(truth, found), max_gap_s, found))
    return concatenate(tables).noting(*found.notes())


def _read_run(root: Path, run: Path, name: str, camera: str, track: Track, max_gap_s: float, found: Findings) -> Places:
    folder = run / "lb3" / camera
    files = {file.stem: file.name for file in folder.iterdir() if file.suffix.lower() in SUFFIXES}
    found["images are not named <microseconds>.tiff"] += sorted(
        f"{name}/{file}" for stem, file in files.items() if not TIME.fullmatch(stem)
    )
    stems = sorted(stem for stem in files if TIME.fullmatch(stem))
    time: Ints = np.array([int(stem) for stem in stems], dtype=np.int64) * 1000
    at = track.at(time)
    rows = at.usable([f"{name}/{stem}" for stem in stems], max_gap_s, "the ground truth", found)
    inside = folder.relative_to(root).as_posix()
    return Places(
        path=[f"{inside}/{files[stems[row]]}" for row in rows],
        place_id=[f"{name}/{camera}/{stems[row]}" for row in rows],
        root=root,
        frames=NCLT,
        x=at.xyz[rows, 0],
        y=at.xyz[rows, 1],
        z=at.xyz[rows, 2],
        yaw=at.yaw[rows] if camera == FORWARD else None,
        time=time[rows],
        sequence=name,
    )


def _track(file: Path, found: Findings) -> Track:
    table = read_values(file, NAMES)
    known = [row for row in range(len(table)) if "nan" not in {table.columns[name][row].lower() for name in NAMES}]
    if len(known) < len(table):
        lost = f"{len(table) - len(known):,} of {len(table):,}"
        found["files have rows without a position"].append(f"{file.name}: {lost}")
    if not known:
        raise BadInputError(f"{file}: no row has a position")
    table = table.at(known)
    time = table.times("t", "us")
    xyz: Floats = np.column_stack([table.numbers("east"), table.numbers("north"), -table.numbers("down")])
    yaw = yaw_from_compass(table.numbers("heading", -2 * np.pi, 2 * np.pi))
    kept, late, _ = rising(time)
    found["rows of ground truth were out of time order and were sorted"] += [
        f"{file.name}, row {table.row_numbers[row]}" for row in late
    ]
    return Track(time[kept], xyz[kept], yaw[kept])
