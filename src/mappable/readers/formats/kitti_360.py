"""KITTI-360: drives through the suburbs of Karlsruhe, with poses of the camera in one world.

    ROOT/
      data_2d_raw/2013_05_28_drive_0000_sync/
        image_00/data_rect/0000000000.png          image_00 or image_01
        image_00/timestamps.txt                    2013-05-28 08:46:02.904000000; optional
      data_poses/2013_05_28_drive_0000_sync/
        cam0_to_world.txt                          17 numbers per row: number of the image, 4x4 matrix

Only images with a pose are read; the others are counted. All drives share the frame `kitti-360`: z
is up, in metres. yaw is the direction of the optical axis of image_00. image_01, 0.6 m to its
right, gets the same pose.

Written from the description of the set; not tried on real files.
"""

from pathlib import Path
from typing import Annotated, Literal

from mappable.errors import BadInputError
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.rotations import viewing_yaw
from mappable.places.table import Places
from mappable.readers.toolkit import (
    chosen,
    drive_table,
    having,
    image_times,
    joined,
    numbered_images,
    paired,
    read_poses,
)

LAYOUT = ("data_poses/*/cam0_to_world.txt",)
KITTI_360 = Frame("kitti-360")
COLUMNS = ["number", *(f"m{row}{column}" for row in range(1, 5) for column in range(1, 5))]


def read(
    root: Path,
    found: Findings,
    *,
    camera: Annotated[Literal["image_00", "image_01"], "folder of images"] = "image_00",
    sequences: Annotated[str | None, "drives to read, separated by commas (default: all)"] = None,
) -> Places:
    drives = sorted(file.parent.name for file in root.glob("data_poses/*/cam0_to_world.txt"))
    if not drives:
        raise BadInputError(f"{root}: no file data_poses/*/cam0_to_world.txt")
    folders = {
        name: root / "data_2d_raw" / name / camera
        for name in chosen(root, sequences, drives, "drive")
    }
    folders = having(
        folders, "data_rect", found, f"drives have no folder {camera}/data_rect and were left out"
    )
    return joined(root, [_drive(root, name, folder, found) for name, folder in folders.items()])


def _drive(root: Path, name: str, folder: Path, found: Findings) -> Places:
    table, matrices = read_poses(root / "data_poses" / name / "cam0_to_world.txt", COLUMNS, rows=4)
    numbers = table.times("number", "ns")
    images = numbered_images(root, folder / "data_rect", found, r"\d+", "<number>.png")
    paths, rows = paired(images, numbers.tolist(), name, found, few=True)
    values = {
        "yaw": viewing_yaw(matrices[rows, :3, 2]),
        "time": image_times(folder / "timestamps.txt", numbers[rows]),
    }
    prefix = f"{name}/{folder.name}"
    return drive_table(root, KITTI_360, name, paths, matrices[rows, :3, 3], prefix=prefix, **values)
