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

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.places.columns import timestamps
from mappable.places.frames import Frame, frame_from_latlon
from mappable.places.images import SUFFIXES
from mappable.places.joining import concatenate
from mappable.places.notes import Findings
from mappable.places.readers import chosen
from mappable.places.rotations import CAMERA_PLANE, are_rotations, viewing_yaw
from mappable.places.table import NO_TIME, Places
from mappable.tables import read_words

Camera = Literal["auto", "image_0", "image_1", "image_2", "image_3"]
ROW = [
    f"{part}{row}" for row in (1, 2, 3) for part in ("rx", "ry", "rz", "t")
]  # names of the 12 matrix entries, row by row
OXTS = ["latitude", "longitude", "altitude", "roll", "pitch", "yaw", *(f"value {n}" for n in range(7, 31))]
NUMBERED = re.compile(r"\d+", re.ASCII)


def read(
    root: Path,
    *,
    camera: Annotated[Camera, "folder of images; auto takes image_2 (left, color) if it exists, else image_0"] = "auto",
    sequences: Annotated[str | None, "drives to read, such as 00,05,07 (default: all drives with poses)"] = None,
) -> Places:
    found = Findings()
    raw = _raw_drives(root)
    if raw:
        return _read_raw(root, raw, camera, sequences, found)
    if (root / "poses.txt").is_file():
        folder = next((name for name in ("images", *get_args(Camera)[1:]) if (root / name).is_dir()), "images")
        if not (root / folder).is_dir():
            raise BadInputError(f"{root}: found poses.txt, but no folder images next to it")
        drive = _read_drive(root.resolve(), root.resolve(), folder, root / "poses.txt", found)
        return drive.noting(*found.notes())
    base = root if (root / "sequences").is_dir() else root / "dataset"
    if not (base / "sequences").is_dir():
        raise BadInputError(f"{root}: no folder sequences here or in dataset, no poses.txt, and no folder oxts/data")
    names = _choose(base, sequences, found)
    camera = _camera(base, names) if camera == "auto" else camera
    drives = [Places(path=[], x=[], y=[], frames=(), root=root)]
    for name in names:
        folder = base / "sequences" / name
        if (folder / camera).is_dir():
            drives.append(_read_drive(root, folder, camera, base / "poses" / f"{name}.txt", found))
        else:
            found[f"drives have no folder {camera}"].append(name)
    return concatenate(drives).noting(*found.notes())


def _read_drive(root: Path, folder: Path, camera: str, poses: Path, found: Findings) -> Places:
    name = folder.name
    frame = Frame(f"kitti-{name}", axes=CAMERA_PLANE)
    xyz, yaw = _read_poses(poses, frame)
    times = folder / "times.txt"
    if times.is_file():
        time = read_words(times, ["time"]).times("time", "s")
    else:
        found["drives have no times.txt, so their times are unknown"].append(name)
        time = np.full(len(xyz), NO_TIME)
    if len(time) != len(xyz):
        raise BadInputError(f"{times}: {len(time)} times, expected {len(xyz)}, one per pose in {poses}")
    files = _images_by_number(folder / camera, len(xyz), found)
    without_image = (row for row in range(len(xyz)) if row not in files)
    found["poses have no image"] += [f"{name}/{camera}/{row:06d}" for row in without_image]
    rows = np.array(sorted(files), dtype=np.int64)
    return Places(
        path=[files[row].relative_to(root).as_posix() for row in rows],
        place_id=[f"{name}/{camera}/{files[row].stem}" for row in rows],
        root=root,
        frames=frame,
        x=xyz[rows, 0],
        y=xyz[rows, 1],
        z=xyz[rows, 2],
        yaw=yaw[rows],
        time=time[rows],
        sequence=name,
    )


def _raw_drives(root: Path) -> list[Path]:
    """The drives of KITTI raw: the root itself, its folders, or those of its dates."""
    if not root.is_dir():
        return []
    levels = ([root], root.iterdir(), (drive for date in root.iterdir() if date.is_dir() for drive in date.iterdir()))
    return next((found for level in levels if (found := sorted(d for d in level if (d / "oxts/data").is_dir()))), [])


def _read_raw(root: Path, drives: list[Path], camera: Camera, wanted: str | None, found: Findings) -> Places:
    names = {drive.resolve().name: drive for drive in drives}
    listed = {name: names[name] for name in chosen(root, wanted, names, "drive")}
    folder = f"image_0{camera[-1]}" if camera != "auto" else "image_02"
    if camera == "auto" and not any((drive / folder / "data").is_dir() for drive in listed.values()):
        folder = "image_00"
    tables, degrees = [], []
    for name, drive in listed.items():
        if name.endswith("_extract"):
            raise BadInputError(f"{drive}: images and positions are not synchronized; use the drive that ends in _sync")
        if not (drive / folder / "data").is_dir():
            found[f"drives have no folder {folder}"].append(name)
            continue
        place, table = _read_raw_drive(root, drive, name, folder, found)
        degrees.append(place)
        tables.append(table)
    if not tables:
        raise BadInputError(f"{root}: no drive has images in {folder}/data")
    latitude, longitude = np.concatenate(degrees).T
    frame, x, y = frame_from_latlon(latitude, longitude, "kitti")
    ends = np.cumsum([len(table) for table in tables])[:-1]
    placed = [
        table.replace(x=east, y=north, frames=frame, frame="kitti")
        for table, east, north in zip(tables, np.split(x, ends), np.split(y, ends), strict=True)
    ]
    return concatenate(placed).noting(*found.notes())


def _read_raw_drive(root: Path, drive: Path, name: str, camera: str, found: Findings) -> tuple[Floats, Places]:
    """Latitude and longitude (n, 2) of the images of a drive with a position, and their table without x and y."""
    known = {int(file.stem): file for file in sorted((drive / "oxts/data").iterdir()) if NUMBERED.fullmatch(file.stem)}
    files = _images_by_number(drive / camera / "data", max(known, default=-1) + 1, found)
    found["images have no pose"] += [f"{name}/{camera}/{files[row].name}" for row in files if row not in known]
    rows = sorted(row for row in files if row in known)
    if not rows:
        raise BadInputError(f"{drive}: no image in {camera}/data has a file in oxts/data")
    numbers = np.array([_oxts(known[row]) for row in rows])
    stamps = drive / camera / "timestamps.txt"
    if not stamps.is_file():
        found["drives have no timestamps.txt, so their times are unknown"].append(name)
    nowhere = np.zeros(len(rows))
    table_of_places = Places(
        path=[files[row].relative_to(root).as_posix() for row in rows],
        place_id=[f"{name}/{camera}/{files[row].stem}" for row in rows],
        root=root,
        frames=Frame("kitti"),
        x=nowhere,
        y=nowhere,
        z=numbers[:, 2],
        yaw=numbers[:, 5],
        time=timestamps(stamps, rows),
        sequence=name,
    )
    return numbers[:, :2], table_of_places


def _oxts(file: Path) -> list[float]:
    """Latitude, longitude, altitude, roll, pitch and yaw; yaw is in radians, counter-clockwise from east."""
    table = read_words(file, OXTS)
    if len(table) != 1:
        raise BadInputError(f"{file}: {len(table)} rows, expected one with {len(OXTS)} numbers")
    limits = {"latitude": 90.0, "longitude": 180.0}
    return [float(table.numbers(name, -limits.get(name, np.inf), limits.get(name, np.inf))[0]) for name in OXTS[:6]]


def _images_by_number(folder: Path, count: int, found: Findings) -> dict[int, Path]:
    """The images whose number is below `count`; other images go to `found`."""
    files: dict[int, Path] = {}
    for file in sorted(folder.iterdir()):
        label = f"{folder.parent.name}/{folder.name}/{file.name}"
        if file.suffix.lower() not in SUFFIXES or file.name.startswith("."):
            continue
        if not NUMBERED.fullmatch(file.stem):
            found["image names are not numbers"].append(label)
        elif int(file.stem) >= count:
            found["images have no pose"].append(label)
        elif int(file.stem) in files:
            found["images have the same number as another image"].append(label)
        else:
            files[int(file.stem)] = file
    return files


def _choose(base: Path, wanted: str | None, found: Findings) -> list[str]:
    """The drives to read: the wanted ones, or all with poses; drives without poses go to `found`."""
    folders = (folder.name for folder in (base / "sequences").iterdir() if folder.is_dir())
    known = sorted(name for name in folders if not name.startswith("."))
    posed = [name for name in known if (base / "poses" / f"{name}.txt").is_file()]
    if wanted is None:
        found["drives have no poses"] += [name for name in known if name not in posed]
        return posed
    names = chosen(base, wanted, known, "sequence")
    for name in names:
        if name not in posed:
            raise BadInputError(f"{base}: sequence {name!r} has no poses (poses/{name}.txt is missing)")
    return names


def _camera(base: Path, names: Sequence[str]) -> Literal["image_0", "image_2"]:
    return "image_2" if any((base / "sequences" / name / "image_2").is_dir() for name in names) else "image_0"


def _read_poses(file: Path, frame: Frame) -> tuple[Floats, Floats]:
    """Positions (n, 3) and yaws of the optical axis (n,) in the frame."""
    table = read_words(file, ROW)
    matrices = np.stack([table.numbers(name) for name in ROW], axis=1).reshape(-1, 3, 4)
    wrong = np.flatnonzero(~are_rotations(matrices[:, :, :3]))
    if len(wrong):
        rows = "; ".join(" ".join(f"{value:g}" for value in row) for row in matrices[wrong[0], :, :3])
        raise BadInputError(f"{file}, row {table.row_numbers[wrong[0]]}: [{rows}] is not a rotation matrix")
    optical_axis = matrices[:, :, 2] / np.linalg.norm(matrices[:, :, 2], axis=1, keepdims=True)
    return frame.from_original(matrices[:, :, 3]), viewing_yaw(frame.from_original(optical_axis))
