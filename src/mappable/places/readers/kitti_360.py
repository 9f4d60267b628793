"""KITTI-360: drives through the suburbs of Karlsruhe, with poses of the camera in one world.

    ROOT/
      data_2d_raw/2013_05_28_drive_0000_sync/
        image_00/data_rect/0000000000.png          image_00 or image_01
        image_00/timestamps.txt                    2013-05-28 08:46:02.904000000; optional
      data_poses/2013_05_28_drive_0000_sync/
        cam0_to_world.txt                          17 numbers per row: number of the image, 4x4 matrix

Only images with a pose are read; the others are counted. All drives share the frame `kitti-360`: z is up, in metres.
yaw is the direction of the optical axis of image_00. image_01, 0.6 m to its right, gets the same pose.

Written from the description of the set; not tried on real files.
"""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from mappable.errors import BadInputError
from mappable.places.columns import timestamps
from mappable.places.frames import Frame
from mappable.places.images import SUFFIXES
from mappable.places.joining import concatenate
from mappable.places.notes import Findings
from mappable.places.readers import chosen
from mappable.places.rotations import are_rotations, viewing_yaw
from mappable.places.table import Places
from mappable.tables import read_words

KITTI_360 = Frame("kitti-360")
NAMES = ["number", *(f"m{row}{column}" for row in range(1, 5) for column in range(1, 5))]
LAST = 10**10 - 1  # largest number in the name of an image


def read(
    root: Path,
    *,
    camera: Annotated[Literal["image_00", "image_01"], "folder of images"] = "image_00",
    sequences: Annotated[str | None, "drives to read, separated by commas (default: all)"] = None,
) -> Places:
    drives = sorted(file.parent.name for file in root.glob("data_poses/*/cam0_to_world.txt"))
    if not drives:
        raise BadInputError(f"{root}: no file data_poses/*/cam0_to_world.txt")
    wanted = chosen(root, sequences, drives, "drive")
    found = Findings()
    tables = [Places(path=[], x=[], y=[], frames=KITTI_360, root=root)]
    return concatenate([*tables, *(_read_drive(root, name, camera, found) for name in wanted)]).noting(*found.notes())


def _read_drive(root: Path, name: str, camera: str, found: Findings) -> Places:
    folder = root / "data_2d_raw" / name / camera
    if not (folder / "data_rect").is_dir():
        found[f"drives have no folder {camera}/data_rect and were left out"].append(name)
        return Places(path=[], x=[], y=[], frames=KITTI_360, root=root)
    table = read_words(root / "data_poses" / name / "cam0_to_world.txt", NAMES)
    numbers = table.numbers("number", 0, LAST).astype(np.int64)
    matrices = np.stack([table.numbers(one) for one in NAMES[1:]], axis=1).reshape(-1, 4, 4)
    wrong = np.flatnonzero(~are_rotations(matrices[:, :3, :3]))
    if len(wrong):
        raise table.bad(int(wrong[0]), "m11", "begins a matrix that is not a pose")
    files = {file.stem: file for file in (folder / "data_rect").iterdir() if file.suffix.lower() in SUFFIXES}
    images = {int(stem): file for stem, file in files.items() if stem.isascii() and stem.isdecimal()}
    rows = [row for row, number in enumerate(numbers.tolist()) if number in images]
    posed = {int(numbers[row]) for row in rows}
    for text, count, of in (
        ("drives have images without a pose", len(images.keys() - posed), len(images)),
        ("drives have poses without an image", len(numbers) - len(rows), len(numbers)),
    ):
        found[text] += [f"{name}: {count:,} of {of:,}"] if count else []
    chosen = [images[int(numbers[row])] for row in rows]
    return Places(
        path=[file.relative_to(root).as_posix() for file in chosen],
        place_id=[f"{name}/{camera}/{file.stem}" for file in chosen],
        root=root,
        frames=KITTI_360,
        x=matrices[rows, 0, 3],
        y=matrices[rows, 1, 3],
        z=matrices[rows, 2, 3],
        yaw=viewing_yaw(matrices[rows, :3, 2]),
        time=timestamps(folder / "timestamps.txt", numbers[rows].tolist()),
        sequence=name,
    )
