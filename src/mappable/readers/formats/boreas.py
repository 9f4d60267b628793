"""Boreas: drives through Toronto in all seasons, with positions to a few centimetres. Free to download (CC BY 4.0).

    ROOT/                                  or ROOT may be one drive
      boreas-2021-01-26-11-22/             one folder per drive; the name is its local time
        camera/1611678158447226.png        the name is the time in microseconds; .jpg works too
        applanix/camera_poses.csv          GPSTime, easting, northing, altitude, …, roll, pitch, heading, …

Download a drive without an account, for example:

    aws s3 sync --no-sign-request s3://boreas/boreas-2021-01-26-11-22/camera
    ROOT/boreas-2021-01-26-11-22/camera aws s3 sync --no-sign-request
    s3://boreas/boreas-2021-01-26-11-22/applanix ROOT/boreas-2021-01-26-11-22/applanix

The 13 columns of the poses are read in their order: time, x, y, z, three velocities, roll, pitch,
yaw, three angular velocities. An image has the pose with its time. All drives share one frame,
`boreas`: x is east, y is north, z is up, from the first position of the first drive. yaw is the
viewing direction of the camera. Drives of the benchmark's test have no poses. They are left out and
listed, and so are images without a pose.

`--spacing 2` of `mappable convert` keeps one image every 2 m of a drive, so a standing car adds no
images.

`protocol=seasons` states splits by date and by region. All of them are ours, not the benchmark's:

- Training: 2020-12-01 (snow), 2021-04-08 and 2021-05-13 (sun), 2021-07-20 (rain), 2021-07-27
  (overcast).
- Calibration: 2021-10-15 (overcast).
- Test: 2021-01-26-11-22 (snow), 2021-04-29 (rain), 2021-06-17 and 2021-09-02 (sun), 2021-09-14
  (night).
- Region B is the northern quarter of the route, by the images of 2020-12-01. No image of it is for
  training, calibration or test. There, 2020-12-01 is the reference, and the test drives are
  queries. A strip of 50 m south of region B is left out.

Not tried on whole drives: only the format of the poses was compared with real rows.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.rotations import AXES, viewing_yaw
from mappable.places.table import Places
from mappable.readers.toolkit import (
    columns,
    drive_table,
    having,
    homes,
    joined,
    numbered_images,
    paired,
)
from mappable.readers.tracks import rising
from mappable.tables import read_values

LAYOUT = ("boreas-*/camera", "applanix/camera_poses.csv")
POSES = "applanix/camera_poses.csv"
COLUMNS = ("t", "x", "y", "z", "vx", "vy", "vz", "roll", "pitch", "yaw", "wz", "wy", "wx")
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
# Quantile of northing at which region B begins; metres left out south of it.
REGION_B, STRIP = 0.75, 50.0


def read(
    root: Path,
    found: Findings,
    *,
    protocol: Annotated[
        Literal["all", "seasons"],
        "all drives on disk, without splits; or eleven drives with splits by date and region",
    ] = "all",
) -> Places:
    drives = homes(
        root,
        "camera",
        "no drive found; expected folders such as boreas-2021-01-26-11-22 with camera/",
    )
    if protocol == "seasons":
        missing = sorted(SEASONS.keys() - drives.keys())
        found.note(f"of the {len(SEASONS)} drives of the protocol are missing", missing)
        drives = {name: drive for name, drive in drives.items() if name in SEASONS}
    drives = having(drives, POSES, found, f"drives have no {POSES} and were left out")
    places = joined(root, [_drive(root, name, drive, found) for name, drive in drives.items()])
    return _with_regions(places, found) if protocol == "seasons" and len(places) else places


def _drive(root: Path, name: str, drive: Path, found: Findings) -> Places:
    # By position: names differ from the description.
    table = read_values(drive / POSES, COLUMNS, header=True)
    time = table.times("t", "us")
    angles = columns(table, ("roll", "pitch", "yaw"), -2 * np.pi, 2 * np.pi)
    # The pose is C1(roll) C2(pitch) C3(yaw) of Barfoot's passive rotations, whose signs are those
    # of the inverse.
    yaw = viewing_yaw(Rotation.from_euler("XYZ", -angles).apply(AXES["z"]))
    kept, late, _ = rising(time)
    if len(late):
        raise table.bad(int(late[0]), "t", "expected a time after that of the row before")
    images = numbered_images(root, drive / "camera", found, r"\d{13,16}", "<microseconds>.png")
    paths, rows = paired(images, (time[kept] // 1000).tolist(), name, found)
    rows = kept[rows]
    values: dict[str, Any] = {
        "yaw": yaw[rows],
        "time": time[rows],
        "condition": SEASONS.get(name, ("", ""))[1],
    }
    return drive_table(root, BOREAS, name, paths, columns(table, ("x", "y", "z"))[rows], **values)


def _with_regions(places: Places, found: Findings) -> Places:
    """The splits by date in region A, and roles in region B; images in the strip between both are
    left out.
    """
    reference = places.where(sequence=REFERENCE)
    if not len(reference):
        raise BadInputError(
            f"{places.root}: protocol=seasons needs {REFERENCE}, which is the reference of region B"
        )
    border = float(np.quantile(reference.y, REGION_B))
    split = np.array([SEASONS[name][0] for name in places.sequence], dtype=object)
    north = places.y >= border
    role = np.full(len(places), "", dtype=object)
    role[north & (places.sequence == REFERENCE)] = "reference"
    role[north & (split == "test")] = "query"
    split[north] = ""
    kept = np.where(north, role != "", places.y < border - STRIP)
    text = (
        f"region B begins {border:,.0f} m north of the origin: {int((kept & north).sum()):,} images"
    )
    found.say(text, warning=False)
    return places.replace(split=split, role=role)[kept]
