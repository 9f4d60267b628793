"""KITTI odometry: numbered images of drives by car, with one file of poses per drive.

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
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.images import SUFFIXES
from mappable.places.joining import concatenate
from mappable.places.notes import Findings
from mappable.places.rotations import CAMERA_PLANE, are_rotations, viewing_yaw
from mappable.places.table import NO_TIME, Places
from mappable.tables import read_words

Camera = Literal["auto", "image_0", "image_1", "image_2", "image_3"]
ROW = [
    f"{part}{row}" for row in (1, 2, 3) for part in ("rx", "ry", "rz", "t")
]  # names of the 12 matrix entries, row by row
TOLERANCE = 1e-2  # largest deviation of R R^T from the identity; the poses of the benchmark have seven digits
NUMBERED = re.compile(r"\d+", re.ASCII)


def read(
    root: Path,
    *,
    camera: Annotated[Camera, "folder of images; auto takes image_2 (left, color) if it exists, else image_0"] = "auto",
    sequences: Annotated[str | None, "drives to read, such as 00,05,07 (default: all drives with poses)"] = None,
) -> Places:
    base = root if (root / "sequences").is_dir() else root / "dataset"
    if not (base / "sequences").is_dir():
        raise BadInputError(f"{root}: found no folder sequences here or in dataset")
    found = Findings()
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
    names = list(dict.fromkeys(name.strip() for name in wanted.split(",")))
    for name in names:
        if name not in known:
            raise BadInputError(f"{base}: no sequence {name!r}; found: {', '.join(known) or 'none'}")
        if name not in posed:
            raise BadInputError(f"{base}: sequence {name!r} has no poses (poses/{name}.txt is missing)")
    return names


def _camera(base: Path, names: Sequence[str]) -> Literal["image_0", "image_2"]:
    return "image_2" if any((base / "sequences" / name / "image_2").is_dir() for name in names) else "image_0"


def _read_poses(file: Path, frame: Frame) -> tuple[Floats, Floats]:
    """Positions (n, 3) and yaws of the optical axis (n,) in the frame."""
    table = read_words(file, ROW)
    matrices = np.stack([table.numbers(name) for name in ROW], axis=1).reshape(-1, 3, 4)
    wrong = np.flatnonzero(~are_rotations(matrices[:, :, :3], TOLERANCE))
    if len(wrong):
        rows = "; ".join(" ".join(f"{value:g}" for value in row) for row in matrices[wrong[0], :, :3])
        raise BadInputError(f"{file}, row {table.row_numbers[wrong[0]]}: [{rows}] is not a rotation matrix")
    optical_axis = matrices[:, :, 2] / np.linalg.norm(matrices[:, :, 2], axis=1, keepdims=True)
    return frame.from_original(matrices[:, :, 3]), viewing_yaw(frame.from_original(optical_axis))
