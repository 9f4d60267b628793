"""Conversion of an image collection to a folder with `places.parquet` and packed pixels."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.formats import Format
from mappable.places.files import TABLE, load_places, save_places
from mappable.places.images import Fit, Size
from mappable.places.mending import Mending, Rotate, find_oddities, mend_images, sample_rows
from mappable.places.notes import Note, warn
from mappable.places.packing import OnBadImage, pack_images
from mappable.places.readers import CONVERTED, find_reader, read_places
from mappable.places.roles import split_of
from mappable.places.table import Places

FORMAT = Format("mappable conversion", 2, "choose another folder, or use --overwrite", sealed_since=2, earliest=1)


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
    rotate: Rotate = "0",
    crop_border: str | None = None,
    undistort: bool = True,
) -> Places:
    """Read `root` with `reader` and its `options`, pack the images at `size` and write the table to `out`.

    A second run continues where the first one stopped, and repeats no work. It keeps the splits of the existing table,
    unless the reader sets splits. A bad image raises an error (`on_bad="stop"`), or is dropped from the table and
    listed in its notes (`on_bad="drop"`). If `out` holds another set, or this set read with other options, an error is
    raised unless `overwrite` is True. `size` is (width, height). `dimensions` is 3 if z counts in distances, else 2
    (default: as the reader sets it).

    `undistort` straightens images with lens distortion, if the reader knows their lenses. `crop_border` then cuts
    percent off all images, "left,top,right,bottom". `rotate` turns them clockwise by degrees. Copies of the images are
    written below `out`.
    """
    out, home, options = Path(out), Path(root).resolve(), options or {}
    found = find_reader(reader)
    size = size or found.image_size
    values = {option.name: options.get(option.name, option.default) for option in found.options}
    given = {name: str(value) for name, value in values.items() if value is not None}
    lenses = found.lenses(Path(root), **values) if undistort and pixels and found.lenses and home.exists() else {}
    mending = Mending.parse(rotate, crop_border, lenses)
    given |= {"mended": mending.name} if mending else {}
    source = {"reader": reader, "root": str(home), "options": given}
    if (home.parent if home.is_file() else home).is_relative_to(out.resolve()):
        raise BadInputError(f"{out}: the collection itself is in this folder; choose another folder for the output")
    if not overwrite:
        _check_same_set(out, source)
    places = read_places(reader, root, **options)
    if dimensions is not None:
        places = places.replace(dimensions=dimensions)
    if not overwrite and (out / TABLE).is_file() and not any(places.split):
        places = _with_splits_of(load_places(out / TABLE), places)
    if mending:
        places = mend_images(places, out, mending, on_bad)
    if pixels:
        packed, bad = pack_images(places, out, size=size, fit=fit, on_bad=on_bad, verify=verify, workers=workers)
        dropped = {Path(error.path): error for error in bad}
        kept = np.array([file not in dropped for file in places.files], dtype=bool)
        places = places[kept].noting(*warn("images were dropped", (str(error) for error in bad)))
        sample = places[sample_rows(len(places))]
        places = places.noting(*_twins(places, packed.rows(places)), *find_oddities(packed.load(sample)))
    if len(places) == 0:
        elsewhere = "if the images are in another folder, name it: --images FOLDER (start: --option images=FOLDER)"
        remedy = f"; {elsewhere}" if "images" in values and not values["images"] else ""
        raise BadInputError(f"{root}: no image could be decoded; first problem: {places.notes[-1].items[0]}{remedy}")
    record: dict[str, Any] = source | {"dimensions": places.dimensions, "places": len(places)}
    record |= {"size": list(size), "fit": fit, "verified": verify} if pixels else {}
    save_places(places, out / TABLE)
    FORMAT.write(out / CONVERTED, record)
    return places


def _twins(places: Places, rows: Ints) -> tuple[Note, ...]:
    """A warning about files with the content of an earlier file: they share a row of the pack (`rows`)."""
    _, first, number = np.unique(rows, return_index=True, return_inverse=True)
    original = first[number]
    copies = np.flatnonzero(original != np.arange(len(rows)))
    apart = np.linalg.norm(places.positions[copies] - places.positions[original[copies]], axis=1)
    items = []
    for copy, other, distance in zip(copies, original[copies], apart, strict=True):
        same_frame = places.frame[copy] == places.frame[other]
        where = f"{distance:.1f} {places.frames[places.frame[copy]].unit} apart" if same_frame else "in another frame"
        items.append(f"{places.path[copy]} is {places.path[other]}, {where}")
    return warn("images have the content of an earlier image; if both train and test, results look too good", items)


def _with_splits_of(before: Places, places: Places) -> Places:
    """The places with the splits of the table `before`, and a note.

    A new place gets the split of its sequence; in a new sequence it is for training, or for test if it is a query.
    """
    if not any(before.split):
        return places
    by_place, by_sequence = (
        dict(zip(names, before.split, strict=True)) for names in (before.place_id, before.sequence)
    )
    column = [
        by_place.get(place_id, split_of(role, by_sequence.get(sequence, "train")))
        for place_id, sequence, role in zip(places.place_id, places.sequence, places.role, strict=True)
    ]
    note = Note("the splits of the existing table were kept; --overwrite discards them", warning=False)
    return places.replace(split=column).noting(note)


def _check_same_set(out: Path, source: dict[str, Any]) -> None:
    if not (out / CONVERTED).is_file():
        return
    with FORMAT.reading(out / CONVERTED):
        before = FORMAT.read(out / CONVERTED)
        given = " ".join(f"{name}={value}" for name, value in before["options"].items())
        what = f"{before['root']} read by {before['reader']} {given}".strip()
    if {key: before.get(key) for key in source} != source:
        raise BadInputError(f"{out}: holds {what}; choose another folder, or use --overwrite")
