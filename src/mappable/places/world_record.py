"""The folder of a simulated world: what its files are called, and `world.json`, which says what was drawn.

OUT/
  world.json               preset, size, parts, radii, what looks alike, statistics, hashes of the images, if frozen
  places.parquet           the table
  images/train-sun/00000.png
  pixels/                  the same images, packed
  contact-sheet.jpg        to look at
"""

import json
from pathlib import Path
from typing import Any

from mappable.errors import BadInputError
from mappable.files import write_atomically

RECORD, IMAGES, SHEET = "world.json", "images", "contact-sheet.jpg"
FORMAT, VERSION = "mappable world", 1


def write_record(folder: Path, fields: dict[str, Any]) -> None:
    text = json.dumps({"format": FORMAT, "version": VERSION} | fields, indent=2)
    write_atomically(folder / RECORD, lambda stream: stream.write(text.encode()))


def read_record(folder: Path) -> dict[str, Any]:
    """What `world.json` says; a missing or damaged one is refused."""
    file = folder / RECORD
    try:
        record = json.loads(file.read_text("utf-8"))
        if record["format"] != FORMAT:
            raise ValueError(f"its format is {record['format']!r}")
        later = record["version"] > VERSION
    except FileNotFoundError:
        raise BadInputError(f"{file}: not there, so {folder} is no folder written by `mappable simulate`") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"damaged, or not written by `mappable simulate` ({error}); remove the folder, or choose another"
        raise BadInputError(f"{file}: {what}") from None
    if later:
        raise BadInputError(f"{file}: written by a later version of mappable (format {record['version']})")
    return dict(record)
