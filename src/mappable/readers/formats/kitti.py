"""KITTI: numbered images of drives by car. The odometry benchmark, KITTI raw, and images next to one file of poses.

The odometry benchmark:

    ROOT/                      or ROOT/dataset/
      sequences/
        00/
          image_2/000000.png   one of image_0 to image_3; .jpg works too
          times.txt            seconds since the start of the drive, one per line (1.036224e-01)
      poses/
        00.txt                 12 numbers per line: the 3x4 matrix from camera to world, row by row

The number in the name of an image is its row in `poses` and in `times.txt`, counted from 0. A drive
without poses (11 to 21 of the benchmark) is left out and listed, and so is every image without a
pose.

Each drive has its own frame (`kitti-00`). Its original coordinates are those of the first camera: X
to the right, Y down, Z forward. A place has x = X, y = Z and z = -Y. Its yaw is the direction of
the optical axis: pi/2 at the start. The method `to_original` of the frame gives the original
coordinates back.

The poses are those of camera 0. The other cameras are within 0.6 m of it and look the same way.
They get the same pose.

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

All drives of KITTI raw share one UTM frame. The position is that of the GPS unit, about 1 m behind
the cameras. The option `camera` is the same: `image_2` is image_02. Options choose drives by name,
such as 2011_09_26_drive_0001_sync.
"""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from mappable.errors import BadInputError
from mappable.places.frames import Frame, frame_from_latlon
from mappable.places.notes import Findings
from mappable.places.rotations import CAMERA_PLANE, viewing_yaw
from mappable.places.table import NO_TIME, Places
from mappable.readers.toolkit import (
    chosen,
    drive_table,
    having,
    homes,
    image_times,
    joined,
    numbered_images,
    paired,
    read_poses,
)
from mappable.tables import read_words

LAYOUT = (
    "sequences/*/image_?",
    "dataset/sequences",
    "oxts/data",
    "*/oxts/data",
    "*/*/oxts/data",
    "poses.txt",
)
Camera = Literal["auto", "image_0", "image_1", "image_2", "image_3"]
# The matrix, row by row.
POSE = [f"{part}{row}" for row in (1, 2, 3) for part in ("rx", "ry", "rz", "t")]
OXTS = [
    "latitude",
    "longitude",
    "altitude",
    "roll",
    "pitch",
    "yaw",
    *(f"value {n}" for n in range(7, 31)),
]
LIMITS = {"latitude": 90.0, "longitude": 180.0, "altitude": np.inf, "yaw": np.inf}
LAYOUTS = "no folder sequences here or in dataset, no poses.txt, and no folder oxts/data"


def read(
    root: Path,
    found: Findings,
    *,
    camera: Annotated[
        Camera, "folder of images; auto takes image_2 (left, color) if it exists, else image_0"
    ] = "auto",
    sequences: Annotated[
        str | None, "drives to read, such as 00,05,07 (default: all drives with poses)"
    ] = None,
) -> Places:
    if (root / "poses.txt").is_file():
        folders = [
            folder for pattern in ("images", "image_?") for folder in sorted(root.glob(pattern))
        ]
        if not folders:
            raise BadInputError(f"{root}: found poses.txt, but no folder images next to it")
        return _drive(root, root.resolve().name, folders[0], root / "poses.txt", found)
    base = root if (root / "sequences").is_dir() else root / "dataset"
    if not (base / "sequences").is_dir():
        drives = homes(root, "oxts/data", LAYOUTS, levels=3)
        return _raw(
            root,
            {name: drives[name] for name in chosen(root, sequences, drives, "drive")},
            camera,
            found,
        )
    names = sorted(folder.name for folder in (base / "sequences").iterdir() if folder.is_dir())
    poses = {
        name: base / f"poses/{name}.txt" for name in chosen(base, sequences, names, "sequence")
    }
    found.note("drives have no poses", (name for name, file in poses.items() if not file.is_file()))
    drives = {name: base / "sequences" / name for name, file in poses.items() if file.is_file()}
    folder = _camera(drives, "image_2", "image_0") if camera == "auto" else camera
    drives = having(drives, folder, found, f"drives have no folder {folder}")
    return joined(
        root,
        [_drive(root, name, drive / folder, poses[name], found) for name, drive in drives.items()],
    )


def _camera(drives: dict[str, Path], color: str, gray: str) -> str:
    return color if any((drive / color).is_dir() for drive in drives.values()) else gray


def _drive(root: Path, name: str, folder: Path, poses: Path, found: Findings) -> Places:
    frame = Frame(f"kitti-{name}", axes=CAMERA_PLANE)
    _, matrices = read_poses(poses, POSE)
    axis = matrices[:, :, 2] / np.linalg.norm(matrices[:, :, 2], axis=1, keepdims=True)
    xyz, yaw = frame.from_original(matrices[:, :, 3]), viewing_yaw(frame.from_original(axis))
    time, times = np.full(len(xyz), NO_TIME), folder.parent / "times.txt"
    if times.is_file():
        time = read_words(times, ["time"]).times("time", "s")
    else:
        found.note("drives have no times.txt, so their times are unknown", [name])
    if len(time) != len(xyz):
        raise BadInputError(
            f"{times}: {len(time)} times, expected {len(xyz)}, one per pose in {poses}"
        )
    images = numbered_images(root, folder, found, r"\d+", "<number>.png")
    paths, rows = paired(images, range(len(xyz)), name, found)
    values = {"yaw": yaw[rows], "time": time[rows]}
    return drive_table(
        root, frame, name, paths, xyz[rows], prefix=f"{name}/{folder.name}", **values
    )


def _raw(root: Path, drives: dict[str, Path], camera: Camera, found: Findings) -> Places:
    """The drives of KITTI raw; their positions become metres together, in one frame."""
    folder = _camera(drives, "image_02", "image_00") if camera == "auto" else f"image_0{camera[-1]}"
    drives = having(drives, f"{folder}/data", found, f"drives have no folder {folder}")
    parts = [_raw_drive(root, name, drive / folder, found) for name, drive in drives.items()]
    if not parts:
        raise BadInputError(f"{root}: no drive has images in {folder}/data")
    places = joined(root, parts)
    frame, x, y = frame_from_latlon(places.y, places.x, "kitti")
    return places.replace(x=x, y=y, frames=frame)


def _raw_drive(root: Path, name: str, folder: Path, found: Findings) -> Places:
    """The images of a drive with a position; x and y are longitude and latitude."""
    if name.endswith("_extract"):
        raise BadInputError(
            f"{folder}: images and positions are not synchronized; use the drive that ends in _sync"
        )
    files = {
        int(file.stem): file
        for file in sorted(folder.parent.glob("oxts/data/*.txt"))
        if file.stem.isdecimal()
    }
    images = numbered_images(root, folder / "data", found, r"\d+", "<number>.png")
    paths, rows = paired(images, list(files), name, found)
    if not paths:
        raise BadInputError(f"{folder}: no image has a file in oxts/data")
    numbers = np.array(list(files))[rows]
    latitude, longitude, altitude, yaw = np.array(
        [_oxts(files[number]) for number in numbers.tolist()]
    ).T
    stamps = folder / "timestamps.txt"
    found.note(
        "drives have no timestamps.txt, so their times are unknown",
        [] if stamps.is_file() else [name],
    )
    xyz = np.column_stack([longitude, latitude, altitude])
    values = {"yaw": yaw, "time": image_times(stamps, numbers)}
    return drive_table(
        root, Frame("kitti"), name, paths, xyz, prefix=f"{name}/{folder.name}", **values
    )


def _oxts(file: Path) -> list[float]:
    """Latitude, longitude, altitude and yaw; yaw is in radians, counter-clockwise from east."""
    table = read_words(file, OXTS)
    if len(table) != 1:
        raise BadInputError(f"{file}: {len(table)} rows, expected one with {len(OXTS)} numbers")
    return [float(table.numbers(name, -limit, limit)[0]) for name, limit in LIMITS.items()]
