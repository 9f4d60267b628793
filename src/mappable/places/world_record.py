"""The folder of a simulated world: names of its files, and `world.json`, which describes what was drawn.

OUT/
  world.json               preset, size, parts, radii, aliased places, statistics, hashes of the images, whether frozen
  places.parquet           the table
  images/train-sun/00000.png
  pixels/                  the same images, packed
  contact-sheet.jpg        a picture of sample images
"""

from pathlib import Path
from typing import Any

from mappable.formats import Format

RECORD, IMAGES, SHEET = "world.json", "images", "contact-sheet.jpg"
FORMAT = Format(
    "mappable world",
    2,
    "choose another folder, or remove it and run `mappable simulate` again",
    sealed_since=2,
    earliest=1,
)


def write_record(folder: Path, fields: dict[str, Any]) -> None:
    FORMAT.write(folder / RECORD, fields)


def read_record(folder: Path) -> dict[str, Any]:
    """The content of `world.json`."""
    return FORMAT.read(folder / RECORD)
