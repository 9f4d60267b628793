"""Boreas: drives through Toronto in all seasons, with positions to a few centimetres. Free to download (CC BY 4.0).

    ROOT/                                  or ROOT may be one drive
      boreas-2021-01-26-11-22/             one folder per drive; the name is its local time
        camera/1611678158447226.png        the name is the time in microseconds; .jpg works too
        applanix/camera_poses.csv          GPSTime, easting, northing, altitude, …, roll, pitch, heading, …

Download a drive without an account, for example:

    aws s3 sync --no-sign-request s3://boreas/boreas-2021-01-26-11-22/camera ROOT/boreas-2021-01-26-11-22/camera
    aws s3 sync --no-sign-request s3://boreas/boreas-2021-01-26-11-22/applanix ROOT/boreas-2021-01-26-11-22/applanix

The 13 columns of the poses are read in their order: time, x, y, z, three velocities, roll, pitch, yaw, three angular
velocities. An image has the pose with its time. All drives share one frame, `boreas`: x is east, y is north, z is up,
from the first position of the first drive. yaw is the viewing direction of the camera. Drives of the benchmark's test
have no poses. They are left out and listed, and so are images without a pose.

`--spacing 2` keeps one image every 2 m of a drive, so a standing car adds no images.

`protocol=seasons` states splits by date and by region. All of them are ours, not the benchmark's:

- Training: 2020-12-01 (snow), 2021-04-08 and 2021-05-13 (sun), 2021-07-20 (rain), 2021-07-27 (overcast).
- Calibration: 2021-10-15 (overcast).
- Test: 2021-01-26-11-22 (snow), 2021-04-29 (rain), 2021-06-17 and 2021-09-02 (sun), 2021-09-14 (night).
- Region B is the northern quarter of the route, by the images of 2020-12-01. No image of it is for training,
  calibration or test. There, 2020-12-01 is the reference, and the test drives are queries. A strip of 50 m south of
  region B is left out.

Not tried on whole drives: only the format of the poses was compared with real rows.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.joining import concatenate
from mappable.places.notes import Findings, Note, warn
from mappable.places.rotations import viewing_yaw
from mappable.places.table import Places
from mappable.places.tracks import Track, arc_length, first_of_each_step, rising
from mappable.tables import read_values

DRIVE = re.compile(r"boreas-\d{4}-\d\d-\d\d-\d\d-\d\d")
IMAGE = re.compile(r"(\d{13,17})\.(png|jpg|jpeg)", re.ASCII)
POSES = Path("applanix/camera_poses.csv")
NAMES = ("t", "x", "y", "z", "vx", "vy", "vz", "roll", "pitch", "yaw", "wz", "wy", "wx")
BOREAS = Frame("boreas")
SEASONS = {  # drive: (split, condition)
    "boreas-2020-12-01-13-26": ("train", "snow"),
    "boreas-2021-04-08-12-44": ("train", "sun"),
    "boreas-2021-05-13-16-11": ("train", "sun"),
    "boreas-2021-07-20-17-33": ("train", "rain"),
    "boreas-2021-07-27-14-43": ("train", "overcast"),
    "boreas-2021-10-15-12-35": ("calibration", "overcast"),
    "boreas-2021-01-26-11-22": ("test", "snow"),
    "boreas-2021-04-29-15-55": ("test", "rain"),
    "boreas-2021-06-17-17-52": ("test", "sun"),
    "boreas-2021-09-02-11-42": ("test", "sun"),
    "boreas-2021-09-14-20-00": ("test", "night"),
}
REFERENCE = "boreas-2020-12-01-13-26"
REGION_B, STRIP = 0.75, 50.0  # quantile of northing at which region B begins; metres left out south of it


def read(
    root: Path,
    *,
    spacing: Annotated[float, "metres between images along a drive; 0 takes all images"] = 0.0,
    protocol: Annotated[
        Literal["all", "seasons"], "all drives on disk, without splits; or eleven drives with splits by date and region"
    ] = "all",
) -> Places:
    if not 0 <= spacing < np.inf:
        raise BadInputError(f"spacing is {spacing}, expected a number of 0 or more")
    drives = _find_drives(root)
    notes: list[Note] = []
    if protocol == "seasons":
        notes += warn(
            f"of the {len(SEASONS)} drives of the protocol are missing", sorted(SEASONS.keys() - drives.keys())
        )
        drives = {name: drive for name, drive in drives.items() if name in SEASONS}
    found = Findings()
    tables = [Places(path=[], x=[], y=[], frames=BOREAS, root=root)]
    tables += [_read_drive(root, name, drive, spacing, found) for name, drive in drives.items()]
    places = concatenate([table for table in tables if len(table)] or tables)
    if protocol == "seasons" and len(places):
        places = _with_regions(places)
    return places.noting(*notes, *found.notes())


def _find_drives(root: Path) -> dict[str, Path]:
    """The folders of drives by name: the root itself, or its folders."""
    if (root / "camera").is_dir():
        return {root.resolve().name: root}
    folders = sorted(folder for folder in root.iterdir() if folder.is_dir()) if root.is_dir() else []
    drives = {
        folder.name: folder for folder in folders if DRIVE.fullmatch(folder.name) and (folder / "camera").is_dir()
    }
    if not drives:
        raise BadInputError(f"{root}: no drive found; expected folders such as boreas-2021-01-26-11-22 with camera/")
    return drives


def _read_drive(root: Path, name: str, drive: Path, spacing: float, found: Findings) -> Places:
    nothing = Places(path=[], x=[], y=[], frames=BOREAS, root=root)
    if not (drive / POSES).is_file():
        found["drives have no applanix/camera_poses.csv and were left out"].append(name)
        return nothing
    time, xyz, yaw = _read_poses(drive / POSES)
    files = _images(drive / "camera", found)
    row_of = {moment: row for row, moment in enumerate(time.tolist())}
    found["images have no pose"] += [f"{name}/{file}" for moment, file in files.items() if moment not in row_of]
    without = sum(moment not in files for moment in row_of)
    if without:
        found["drives have poses without an image"].append(f"{name}: {without:,} of {len(row_of):,}")
    moments = [moment for moment in files if moment in row_of]
    if not moments:
        return nothing
    rows = np.array([row_of[moment] for moment in moments], dtype=np.int64)
    if spacing > 0:
        length = arc_length(Track(time[rows] * 1000, xyz[rows], yaw[rows]), spacing / 2)[0]
        kept = np.flatnonzero(first_of_each_step(length, spacing))
        rows, moments = rows[kept], [moments[row] for row in kept]
    inside = drive.relative_to(root).as_posix()
    folder = "camera" if inside == "." else f"{inside}/camera"
    return Places(
        path=[f"{folder}/{files[moment]}" for moment in moments],
        place_id=[f"{name}/{moment}" for moment in moments],
        root=root,
        x=xyz[rows, 0],
        y=xyz[rows, 1],
        z=xyz[rows, 2],
        yaw=yaw[rows],
        time=time[rows] * 1000,
        frames=BOREAS,
        sequence=name,
        condition=SEASONS.get(name, ("", ""))[1],
    )


def _images(folder: Path, found: Findings) -> dict[int, str]:
    """The images of a drive in order of time: time in microseconds to file name."""
    with os.scandir(folder) as entries:  # plain names, because 100,000 Path objects are slow
        names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    images = {}
    for name in names:
        match = IMAGE.fullmatch(name)
        if match:
            images[int(match[1])] = name
        else:
            found["files are not named <microseconds>.png"].append(f"{folder.parent.name}/{name}")
    return dict(sorted(images.items()))


def _read_poses(file: Path) -> tuple[Ints, Floats, Floats]:
    """Times in microseconds, rising; positions (n, 3); and yaws of the optical axis."""
    table = read_values(file, NAMES, header=True)  # by position: the files have other names than their description
    time = np.array(table.parse("t", _microseconds, "expected microseconds since 1970"), dtype=np.int64)
    xyz = np.column_stack([table.numbers(name) for name in ("x", "y", "z")])
    angles = np.column_stack([table.numbers(name, -2 * np.pi, 2 * np.pi) for name in ("roll", "pitch", "yaw")])
    # The pose is C1(roll) C2(pitch) C3(yaw) of Barfoot's passive rotations, whose signs are those of the inverse.
    optical_axis = Rotation.from_euler("XYZ", -angles).apply((0.0, 0.0, 1.0))
    kept, late, _ = rising(time)
    if len(late):
        raise table.bad(int(late[0]), "t", "expected a time after that of the row before")
    return time[kept], xyz[kept], viewing_yaw(optical_axis)[kept]


def _microseconds(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 13 <= len(text) <= 16):
        raise ValueError(text)
    return int(text)


def _with_regions(places: Places) -> Places:
    """The splits by date in region A, and roles in region B; images in the strip between both are left out."""
    reference = places.where(sequence=REFERENCE)
    if not len(reference):
        raise BadInputError(f"{places.root}: protocol=seasons needs {REFERENCE}, which is the reference of region B")
    border = float(np.quantile(reference.y, REGION_B))
    split = np.array([SEASONS[name][0] for name in places.sequence], dtype=object)
    north, strip = places.y >= border, (places.y < border) & (places.y >= border - STRIP)
    role = np.full(len(places), "", dtype=object)
    role[north & (places.sequence == REFERENCE)] = "reference"
    role[north & (split == "test")] = "query"
    split[north] = ""
    kept = ~strip & ~(north & (role == ""))
    text = f"region B begins {border:,.0f} m north of the origin: {int((kept & north).sum()):,} images"
    return places.replace(split=split, role=role)[kept].noting(Note(text, warning=False))
