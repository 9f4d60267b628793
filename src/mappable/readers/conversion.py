"""Conversion of an image collection to a folder with `places.parquet` and packed pixels."""

import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mappable.arrays import Ints, evenly
from mappable.errors import BadInputError
from mappable.formats import Format
from mappable.locks import alone_in
from mappable.places.checks import AGAIN, check_images, outlier_rows
from mappable.places.edits import Edit, Rotate, edit_images
from mappable.places.files import TABLE, load_places, save_places
from mappable.places.images import Fit, Size, upright_size
from mappable.places.joining import in_frame_of
from mappable.places.notes import Findings
from mappable.places.packing import OnBadImage, pack_images
from mappable.places.roles import keep_splits
from mappable.places.routes import thinned
from mappable.places.table import Places
from mappable.readers.registry import find_reader
from mappable.readers.toolkit import CONVERTED

FORMAT = Format(
    "mappable conversion",
    2,
    "choose another folder, or use --overwrite",
    sealed_since=2,
    earliest=1,
)
LOOKED_AT = 200  # images whose size is looked at
SAME_SHAPE = 0.02  # largest relative difference between aspect ratios that count as one


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
    spacing: float | None = None,
    drop_outliers: bool = False,
    like: Places | None = None,
    rotate: Rotate = "0",
    crop_border: str | None = None,
    undistort: bool = True,
) -> Places:
    """Read `root` with `reader` and its `options`, pack the images at `size` and write the table to
    `out`.

    A second run continues where the first one stopped, and repeats no work. It keeps the splits of
    the existing table, unless the reader sets splits. A bad image raises an error
    (`on_bad="stop"`), or is dropped from the table and listed in its notes (`on_bad="drop"`). If
    `out` holds another set, or this set read with other options, an error is raised unless
    `overwrite` is True. `size` is (width, height). `dimensions` is 3 if z counts in distances, else
    2 (default: as the reader sets it).

    `like` gives the frame, such as that of a map: the positions are converted to it. `spacing`
    keeps one image per step along each sequence. `drop_outliers` leaves out positions that jump, or
    are far from all others.

    `undistort` straightens images with lens distortion, if the reader knows their lenses.
    `crop_border` then cuts percent off all images, "left,top,right,bottom". `rotate` turns them
    clockwise by degrees. Copies of the images are written below `out`.
    """
    out, home, chosen = Path(out), Path(root).resolve(), find_reader(reader)
    size, values = size or chosen.image_size, chosen.values(dict(options or {}))
    ask = chosen.function("lenses") if undistort and pixels and home.exists() else None
    edit = Edit.parse(rotate, crop_border, ask(Path(root), **values) if ask else {})
    given = {name: str(value) for name, value in values.items() if value is not None}
    given |= {"edited": edit.name} if edit else {}
    given |= {"like": ", ".join(like.frames)} if like is not None else {}
    source = {"reader": reader, "root": str(home), "options": given}
    if (home.parent if home.is_file() else home).is_relative_to(out.resolve()):
        raise BadInputError(
            f"{out}: the collection itself is in this folder; choose another folder for the output"
        )
    if spacing is not None and not 0 < spacing < np.inf:
        raise BadInputError(f"--spacing is {spacing:g}, expected a number above 0")
    if not overwrite:
        _check_same_set(out, source)
    places, found = chosen.read(Path(root), values), Findings()
    if like is not None:
        places = in_frame_of(places, like)
    places = places if dimensions is None else places.replace(dimensions=dimensions)
    places = _chosen(places, spacing, drop_outliers, found)
    with alone_in(out, "converting images"):
        if not overwrite and (out / TABLE).is_file() and not any(places.split):
            places = keep_splits(load_places(out / TABLE), places, found)
        if edit:
            places = edit_images(places, out, edit, on_bad, found)
        if pixels:
            _note_sizes(places, size, fit, found)
            packed, bad = pack_images(
                places, out, size=size, fit=fit, on_bad=on_bad, verify=verify, workers=workers
            )
            dropped = {Path(error.path): error for error in bad}
            found.note("images were dropped", map(str, bad))
            places = places[np.array([file not in dropped for file in places.files], dtype=bool)]
            if len(places) == 0:
                elsewhere = "if the images are in another folder, name it: --images FOLDER"
                start = "(start: --option images=FOLDER)"
                remedy = (
                    f"; {elsewhere} {start}" if "images" in values and not values["images"] else ""
                )
                raise BadInputError(
                    f"{root}: no image could be decoded; first problem: {bad[0]}{remedy}"
                )
            _note_twins(places, packed.rows(places), found)
            found.add(*check_images(places, packed.load, _command(source, out)))
        places = places.noting(*found)
        record: dict[str, Any] = source | {"dimensions": places.dimensions, "places": len(places)}
        record |= {"size": list(size), "fit": fit, "verified": verify} if pixels else {}
        save_places(places, out / TABLE)
        FORMAT.write(out / CONVERTED, record)
    return places


def converting_again(table: Path) -> str:
    """The command that converts the images of a table again; a pattern of it if `convert` did not
    write the table.
    """
    file = (table if table.is_dir() else table.parent) / CONVERTED
    return _command(FORMAT.read(file), file.parent) if file.is_file() else AGAIN


def _command(record: Mapping[str, Any], out: Path) -> str:
    words = [
        "mappable",
        "convert",
        str(record["reader"]),
        str(record["root"]),
        str(out),
        "--overwrite",
    ]
    return shlex.join(words)


def _chosen(places: Places, spacing: float | None, drop_outliers: bool, found: Findings) -> Places:
    """The places without outliers and at a spacing, as asked for."""
    if drop_outliers:
        outliers = outlier_rows(places)
        found.note("outliers were dropped", places.place_id[outliers], warning=False)
        places = places[np.setdiff1d(np.arange(len(places)), outliers)]
    if spacing is not None:
        rows = thinned(places, spacing)
        text = (
            f"{len(places) - len(rows):,} places closer than {spacing:g} along their sequence were"
            " left out"
        )
        found.say(text, warning=False)
        places = places[rows]
    return places


def _note_sizes(places: Places, size: Size, fit: Fit, found: Findings) -> None:
    """Images of several shapes, with what happens to them."""
    looked_at = places.path[evenly(len(places), LOOKED_AT)]
    sizes = Counter(known for path in looked_at if (known := upright_size(places.root / path)))
    shapes = [width / height for width, height in sizes]
    if shapes and max(shapes) > (1 + SAME_SHAPE) * min(shapes):
        effect = {
            "crop": "the middle of each is kept, and the rest cut off; --fit pad keeps all",
            "pad": "each gets black bars",
            "stretch": "each is distorted",
        }
        counts = (f"{width}x{height}: {count:,}" for (width, height), count in sizes.most_common())
        text = f"sizes of images, of {len(looked_at):,} that were looked at, differ in shape"
        found.note(f"{text}; packed at {size[0]}x{size[1]}, {effect[fit]}", counts)


def _note_twins(places: Places, rows: Ints, found: Findings) -> None:
    """Files with the content of an earlier file: they share a row of the pack (`rows`)."""
    _, first, number = np.unique(rows, return_index=True, return_inverse=True)
    original = first[number]
    copies = np.flatnonzero(original != np.arange(len(rows)))
    apart = np.linalg.norm(places.positions[copies] - places.positions[original[copies]], axis=1)
    items = []
    for copy, other, distance in zip(copies, original[copies], apart, strict=True):
        same_frame = places.frame[copy] == places.frame[other]
        where = (
            f"{distance:.1f} {places.frames[places.frame[copy]].unit} apart"
            if same_frame
            else "in another frame"
        )
        items.append(f"{places.path[copy]} is {places.path[other]}, {where}")
    found.note(
        "images have the content of an earlier image; if both train and test, results look too"
        " good",
        items,
    )


def _check_same_set(out: Path, source: dict[str, Any]) -> None:
    if not (out / CONVERTED).is_file():
        return
    with FORMAT.reading(out / CONVERTED):
        before = FORMAT.read(out / CONVERTED)
        given = " ".join(f"{name}={value}" for name, value in before["options"].items())
        what = f"{before['root']} read by {before['reader']} {given}".strip()
    if {key: before.get(key) for key in source} != source:
        raise BadInputError(f"{out}: holds {what}; choose another folder, or use --overwrite")
