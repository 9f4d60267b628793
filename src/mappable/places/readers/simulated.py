"""Simulated worlds: what `mappable simulate` wrote, all of it or some of its parts.

    ROOT/
      world.json                   says what was drawn
      places.parquet               the table
      images/train-sun/00000.png   a folder a run

Positions are exact, z included. Splits and roles are those of the preset's protocol; runs that belong to no split are
references and queries of the parts that no training run sees.
"""

from pathlib import Path
from typing import Annotated

from mappable.errors import BadInputError
from mappable.places.files import TABLE, load_places
from mappable.places.table import Places
from mappable.places.world_record import RECORD, read_record

SIZE = (160, 120)


def read(
    root: Path,
    *,
    parts: Annotated[str | None, "parts to read, such as main,wing (default: all that were drawn)"] = None,
) -> Places:
    record = read_record(root)
    if "image_hash" not in record:
        raise BadInputError(f"{root / RECORD}: the simulation was not finished; run the same command again")
    places = load_places(root / TABLE)
    try:
        known = {part: tuple(runs) for part, runs in record["parts"].items()}
        count = int(record["places"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadInputError(f"{root / RECORD}: damaged; run the same simulation again") from None
    if len(places) != count:
        raise BadInputError(f"{root / TABLE}: {len(places):,} places, but {RECORD} says that {count:,} were drawn")
    if parts is None:
        return places
    names = list(dict.fromkeys(name.strip() for name in parts.split(",")))
    for name in names:
        if name not in known:
            raise BadInputError(f"{root}: there is no part {name!r}; there are {', '.join(known)}")
    return places.where(sequence=[run for name in names for run in known[name]])
