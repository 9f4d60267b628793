"""KITTI: numbered images of drives by car. The odometry benchmark, KITTI raw, and images next to one file of poses.

The odometry benchmark:

    ROOT/                      or ROOT/dataset/
      sequences/
        00/
          image_2/000000.png   one of image_0 to image_3; .jpg works too
          times.txt            seconds since the start of the drive, one per line (1.036224e-01)
      poses/
        00.txt                 12 numbers per line: the 3x4 matrix from camera to world, row by row

The number in the name of an image is its row in `poses` and in `times.txt`, counted from 0. A drive without poses (11
to 21 of the benchmark) is left out and listed, and so is every image without a pose.

Each drive has its own frame (`kitti-00`). Its original coordinates are those of the first camera: X to the right, Y
down, Z forward. A place has x = X, y = Z and z = -Y. Its yaw is the direction of the optical axis: pi/2 at the start.
The method `to_original` of the frame gives the original coordinates back.

The poses are those of camera 0. The other cameras are within 0.6 m of it and look the same way. They get the same pose.

Images next to one file of poses, in the same form, are one drive with the name of the folder:

    ROOT/
      poses.txt
      images/000000.png        or image_0 to image_3
      times.txt                optional

KITTI raw, synced and rectified:

    ROOT/                                     or ROOT may be one date, or one drive
      2011_09_26/
        2011_09_26_drive_0001_sync/
          image_02/data/0000000000.png        one of image_00 to image_03
          image_02/timestamps.txt             2011-09-26 13:02:25.964389445
          oxts/data/0000000000.txt            30 numbers: latitude, longitude, altitude, roll, pitch, yaw, …

All drives of KITTI raw share one UTM frame. The position is that of the GPS unit, about 1 m behind the cameras. The
option `camera` is the same: `image_2` is image_02. Options choose drives by name, such as 2011_09_26_drive_0001_sync.
"""

from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.places.frames import Frame, frame_from_latlon
from mappable.places.notes import Findings
from mappable.places.rotations import CAMERA_PLANE, viewing_yaw
from mappable.places.table import NO_TIME, Places
from mappable.readers.toolkit import (
    chosen,
    drive_table,
    homes,
    image_times,
    joined,
    numbered_images,
    paired,
    read_poses,
)
from mappable.tables import read_words

LAYOUT = ("sequences/*/image_?", "dataset/sequences", "oxts/data", "*/oxts/data", "*/*/oxts/data", "poses.txt")
Camera = Literal["auto", "image_0", "image_1", "image_2", "image_3"]
POSE = [f"{part}{row}" for row in (1, 2, 3) for part in ("rx", "ry", "rz", "t")]  # the matrix, row by row
OXTS = ["latitude", "longitude", "altitude", "roll", "pitch", "yaw", *(f"value {n}" for n in range(7, 31))]
LIMITS = {"latitude": 90.0, "longitude": 180.0}
LAYOUTS = "no folder sequences here or in dataset, no poses.txt, and no folder oxts/data"


def read(
    root: Path,
    found: Findings,
    *,
    camera: Annotated[Camera, "folder of images; auto takes image_2 (left, color) if it exists, else image_0"] = "auto",
    sequences: Annotated[str | None, "drives to read, such as 00,05,07 (default: all drives with poses)"] = None,
) -> Places:
    if (root / "poses.txt").is_file():
        folder = next((name for name in ("images", *get_args(Camera)[1:]) if (root / name).is_dir()), None)
        if folder is None:
            raise BadInputError(f"{root}: found poses.txt, but no folder images next to it")
        return _drive(root, root, folder, root / "poses.txt", found)
    base = root if (root / "sequences").is_dir() else root / "dataset"
    if not (base / "sequences").is_dir():
        drives = homes(root, "oxts/data", LAYOUTS, levels=3)
        return _raw(root, {name: drives[name] for name in chosen(root, sequences, drives, "drive")}, camera, found)
    names = _with_poses(base, sequences, found)
    if camera == "auto":
        color = any((base / "sequences" / name / "image_2").is_dir() for name in names)
        camera = "image_2" if color else "image_0"
    blind = [name for name in names if not (base / "sequences" / name / camera).is_dir()]
    found.note(f"drives have no folder {camera}", blind)
    tables = [
        _drive(root, base / "sequences" / name, camera, base / f"poses/{name}.txt", found)
        for name in names
        if name not in blind
    ]
    return joined(root, tables)


def _with_poses(base: Path, wanted: str | None, found: Findings) -> list[str]:
    """The drives to read: the wanted ones, or all with poses; the others are noted."""
    names = sorted(folder.name for folder in (base / "sequences").iterdir() if folder.is_dir())
    posed = [name for name in names if (base / f"poses/{name}.txt").is_file()]
    if wanted is None:
        found.note("drives have no poses", (name for name in names if name not in posed))
        return posed
    for name in chosen(base, wanted, names, "sequence"):
        if name not in posed:
            raise BadInputError(f"{base}: sequence {name!r} has no poses (poses/{name}.txt is missing)")
    return chosen(base, wanted, names, "sequence")


def _drive(root: Path, folder: Path, camera: str, poses: Path, found: Findings) -> Places:
    name = folder.resolve().name
    frame = Frame(f"kitti-{name}", axes=CAMERA_PLANE)
    _, matrices = read_poses(poses, POSE)
    axis = matrices[:, :, 2] / np.linalg.norm(matrices[:, :, 2], axis=1, keepdims=True)
    xyz, yaw = frame.from_original(matrices[:, :, 3]), viewing_yaw(frame.from_original(axis))
    time, times = np.full(len(xyz), NO_TIME), folder / "times.txt"
    if times.is_file():
        time = read_words(times, ["time"]).times("time", "s")
    else:
        found.note("drives have no times.txt, so their times are unknown", [name])
    if len(time) != len(xyz):
        raise BadInputError(f"{times}: {len(time)} times, expected {len(xyz)}, one per pose in {poses}")
    images = numbered_images(root, folder / camera, found, r"\d+", "<number>.png")
    paths, rows = paired(images, range(len(xyz)), name, found)
    values = {"yaw": yaw[rows], "time": time[rows]}
    return drive_table(root, frame, name, paths, xyz[rows], prefix=f"{name}/{camera}", **values)


def _raw(root: Path, drives: dict[str, Path], camera: Camera, found: Findings) -> Places:
    """The drives of KITTI raw; their positions become metres together, in one frame."""
    folder = f"image_0{camera[-1]}" if camera != "auto" else "image_02"
    if camera == "auto" and not any((drive / folder / "data").is_dir() for drive in drives.values()):
        folder = "image_00"
    found.note(f"drives have no folder {folder}", (n for n, drive in drives.items() if not (drive / folder).is_dir()))
    parts = [
        _raw_drive(root, name, drive, folder, found) for name, drive in drives.items() if (drive / folder).is_dir()
    ]
    if not parts:
        raise BadInputError(f"{root}: no drive has images in {folder}/data")
    latitude, longitude = np.concatenate([degrees for degrees, _ in parts]).T
    frame, x, y = frame_from_latlon(latitude, longitude, "kitti")
    places = joined(root, [table for _, table in parts])
    return places.replace(x=x, y=y, frames=frame)


def _raw_drive(root: Path, name: str, drive: Path, camera: str, found: Findings) -> tuple[Floats, Places]:
    """Latitude and longitude (n, 2) of the images of a drive with a position, and their table without x and y."""
    if name.endswith("_extract"):
        raise BadInputError(f"{drive}: images and positions are not synchronized; use the drive that ends in _sync")
    known = {int(file.stem): file for file in sorted((drive / "oxts/data").glob("*.txt")) if file.stem.isdecimal()}
    images = numbered_images(root, drive / camera / "data", found, r"\d+", "<number>.png")
    paths, rows = paired(images, list(known), name, found)
    if not paths:
        raise BadInputError(f"{drive}: no image in {camera}/data has a file in oxts/data")
    numbers = np.array(list(known))[rows]
    values = np.array([_oxts(known[number]) for number in numbers.tolist()])
    stamps = drive / camera / "timestamps.txt"
    found.note("drives have no timestamps.txt, so their times are unknown", [] if stamps.is_file() else [name])
    xyz = np.column_stack([np.zeros((len(rows), 2)), values[:, 2]])
    more = {"yaw": values[:, 5], "time": image_times(stamps, numbers)}
    return values[:, :2], drive_table(root, Frame("kitti"), name, paths, xyz, prefix=f"{name}/{camera}", **more)


def _oxts(file: Path) -> list[float]:
    """Latitude, longitude, altitude, roll, pitch and yaw; yaw is in radians, counter-clockwise from east."""
    table = read_words(file, OXTS)
    if len(table) != 1:
        raise BadInputError(f"{file}: {len(table)} rows, expected one with {len(OXTS)} numbers")
    limits = {name: LIMITS.get(name, np.inf) for name in OXTS[:6]}
    return [float(table.numbers(name, -limit, limit)[0]) for name, limit in limits.items()]
