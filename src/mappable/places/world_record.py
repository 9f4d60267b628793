"""The folder of a simulated world: what its files are called, and `world.json`, which says what was drawn.

OUT/
  world.json               preset, size, parts, radii, what looks alike, statistics, hashes of the images, if frozen
  places.parquet           the table
  images/train-sun/00000.png
  pixels/                  the same images, packed
  contact-sheet.jpg        to look at
"""

from pathlib import Path
from typing import Any

from mappable.formats import Format

RECORD, IMAGES, SHEET = "world.json", "images", "contact-sheet.jpg"
FORMAT = Format("mappable world", 1, "choose another folder, or remove it and run `mappable simulate` again")


def write_record(folder: Path, fields: dict[str, Any]) -> None:
    FORMAT.write(folder / RECORD, fields)


def read_record(folder: Path) -> dict[str, Any]:
    """What `world.json` says."""
    return FORMAT.read(folder / RECORD)
