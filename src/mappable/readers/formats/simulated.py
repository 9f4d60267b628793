"""Simulated worlds: the output of `mappable simulate`, all of it or some parts.

    ROOT/
      world.json                   describes what was drawn
      places.parquet               the table
      images/train-sun/00000.png   one folder per run

Positions, including z, are exact. Splits and roles follow the protocol of the preset. Runs without
a split are references and queries in the parts that no training run visits.
"""

from pathlib import Path
from typing import Annotated

from mappable.errors import BadInputError
from mappable.places.files import TABLE, load_places
from mappable.places.notes import Findings
from mappable.places.table import Places
from mappable.places.world_record import RECORD, read_record
from mappable.readers.toolkit import chosen

LAYOUT = (RECORD,)
SIZE = (160, 120)


def read(
    root: Path,
    found: Findings,
    *,
    parts: Annotated[str | None, "parts to read, such as main,wing (default: all)"] = None,
) -> Places:
    record = read_record(root)
    if "image_hash" not in record:
        raise BadInputError(
            f"{root / RECORD}: the simulation did not finish; run the same command again"
        )
    places = load_places(root / TABLE)
    try:
        known = {part: tuple(runs) for part, runs in record["parts"].items()}
        count = int(record["places"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadInputError(f"{root / RECORD}: damaged; run the same simulation again") from None
    if len(places) != count:
        what = f"{len(places):,} places, expected {count:,} as in {RECORD}"
        raise BadInputError(f"{root / TABLE}: {what}; run `mappable simulate` again")
    if parts is None:
        return places
    return places.where(
        sequence=[run for name in chosen(root, parts, known, "part") for run in known[name]]
    )
