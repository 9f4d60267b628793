"""Conversion: any collection that a reader knows becomes a folder with `places.parquet` and packed pixels."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mappable.errors import BadInputError
from mappable.formats import Format
from mappable.places.files import TABLE, load_places, save_places
from mappable.places.images import Fit, Size
from mappable.places.notes import Note, warn
from mappable.places.packing import OnBadImage, pack_images
from mappable.places.readers import CONVERTED, find_reader, read_places
from mappable.places.roles import split_of
from mappable.places.table import Places

FORMAT = Format("mappable conversion", 1, "choose another folder, or overwrite it (--overwrite)")


def convert(
    reader: str,
    root: Path | str,
    out: Path | str,
    *,
    options: Mapping[str, Any] | None = None,
    dimensions: Literal[2, 3] | None = None,
    size: Size | None = None,
    fit: Fit = "crop",
    on_bad: OnBadImage = "stop",
    verify: bool = False,
    pixels: bool = True,
    overwrite: bool = False,
    workers: int | None = None,
) -> Places:
    """Read `root` with `reader` and its `options`, pack the images at `size` and write the table to `out`.

    Running it again goes on where it stopped and redoes nothing; what was kept from training stays so, where the
    reader knows of no splits itself. Bad images stop it (`on_bad="stop"`), or are dropped from the table and listed
    in its notes. An `out` that holds another set, or this one read with other options, is refused unless `overwrite`
    says so. `size` is (width, height); `dimensions` says whether z counts, if given.
    """
    out, home, options = Path(out), Path(root).resolve(), options or {}
    found = find_reader(reader)
    size = size or found.image_size
    values = {option.name: options.get(option.name, option.default) for option in found.options}
    how = {name: str(value) for name, value in values.items() if value is not None}
    source = {"reader": reader, "root": str(home), "options": how}
    if (home.parent if home.is_file() else home).is_relative_to(out.resolve()):
        raise BadInputError(f"{out}: the collection itself lies there; choose another folder for what is made of it")
    if not overwrite:
        _refuse_another_set(out, source)
    places = read_places(reader, root, **options)
    if dimensions is not None:
        places = places.replace(dimensions=dimensions)
    if not overwrite and (out / TABLE).is_file() and not any(places.split):
        places = _split_as(load_places(out / TABLE), places)
    if pixels:
        _, bad = pack_images(places, out, size=size, fit=fit, on_bad=on_bad, verify=verify, workers=workers)
        dropped = {Path(error.path): error for error in bad}
        kept = np.array([file not in dropped for file in places.files], dtype=bool)
        places = places[kept].noting(*warn("images were dropped", (str(error) for error in bad)))
    if len(places) == 0:
        raise BadInputError(f"{root}: no image could be decoded; the first problem is {places.notes[-1].items[0]}")
    record: dict[str, Any] = source | {"dimensions": places.dimensions, "places": len(places)}
    record |= {"size": list(size), "fit": fit, "verified": verify} if pixels else {}
    save_places(places, out / TABLE)
    FORMAT.write(out / CONVERTED, record)
    return places


def _split_as(before: Places, places: Places) -> Places:
    """The places split as before, with a note; new ones are split as their sequence, or train, and queries do not."""
    if not any(before.split):
        return places
    known, usual = (dict(zip(names, before.split, strict=True)) for names in (before.place_id, before.sequence))
    column = [
        known.get(place_id, split_of(role, usual.get(sequence, "train")))
        for place_id, sequence, role in zip(places.place_id, places.sequence, places.role, strict=True)
    ]
    told = Note("the split is the one that the table had; --overwrite forgets it", warning=False)
    return places.replace(split=column).noting(told)


def _refuse_another_set(out: Path, source: dict[str, Any]) -> None:
    if not (out / CONVERTED).is_file():
        return
    with FORMAT.reading(out / CONVERTED):
        before = FORMAT.read(out / CONVERTED)
        how = " ".join(f"{name}={value}" for name, value in before["options"].items())
        what = f"{before['root']} read by {before['reader']} {how}".strip()
    if {key: before.get(key) for key in source} != source:
        raise BadInputError(f"{out}: holds {what}; choose another folder, or overwrite it (--overwrite)")
