"""Mapillary Street-Level Sequences (MSLS): street images of thirty cities, with positions in UTM.

    ROOT/                       or ROOT may be `train_val`, `test` or one city
      train_val/
        cph/                    one folder per city
          database/             and the same in query/
            images/<key>.jpg
            postprocessed.csv   key, easting, northing, night, view_direction
            raw.csv             key, lon, lat, ca, captured_at, pano
            seq_info.csv        key, sequence_key (or sequence_id), frame_number
            subtask_index.csv   key, all, s2w, w2s, d2n, n2d, o2n, n2o; only needed with the option `subtask`
      test/                     cities without published positions have no postprocessed.csv: they are left out

The tables may have other columns. Their rows may have any order, because rows are joined by key.

- Each city is a frame. Its CRS is the UTM zone in which easting and northing agree with longitude
  and latitude. Images of a city in the neighboring zone are converted to the zone of the other
  images.
- Splits: cph and sf are calibration. miami, athens, buenosaires, stockholm, bengaluru, kampala and
  all other cities in the folder `test` are test. The remaining cities are train.
- Roles: images in query are queries, images in database are references.
- A sequence is `<city>/<query or database>/<sequence key>`, in order of frame_number.
- Time: the published captured_at is a date. A date cannot order images, so the time is then
  unknown. If captured_at has a time of day, it is used.
- The condition is day or night. yaw comes from `ca`, in degrees clockwise from north. z is unknown.

The subtask `all` is the selection of images of the benchmark, not every image. `none` reads every
image.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from mappable.errors import BadInputError, shown
from mappable.places import geodesy
from mappable.places.angles import yaw_from_compass
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.table import NO_TIME, Places
from mappable.readers.toolkit import below, chosen, join, joined, list_folder
from mappable.readers.zones import crs_of, move
from mappable.tables import Table, read_table
from mappable.times import guess_unit, nanoseconds

LAYOUT = ("train_val", "*/database/postprocessed.csv", "database/postprocessed.csv")
SPLITS = dict.fromkeys(("cph", "sf"), "calibration") | dict.fromkeys(
    ("miami", "athens", "buenosaires", "stockholm", "bengaluru", "kampala"), "test"
)
ROLES = {"database": "reference", "query": "query"}  # by folder
TABLES = ("postprocessed.csv", "raw.csv", "seq_info.csv")
Panoramas = Literal["drop", "keep"]
View = Literal["all", "forward", "backward", "sideways"]
Subtask = Literal[
    "none", "all", "summer2winter", "winter2summer", "day2night", "night2day", "old2new", "new2old"
]
FLAGS = {"true": True, "1": True, "false": False, "0": False, "": False}
DAY = re.compile(r"\d{4}-?\d\d-?\d\d")
# Largest distance in metres, generous, between GPS and corrected position of one image.
AGREEMENT = 5000.0
Columns = dict[str, Any]  # arrays of one length, by name


def read(
    root: Path,
    found: Findings,
    *,
    cities: Annotated[str | None, "cities to read, separated by commas (default: all)"] = None,
    panoramas: Annotated[Panoramas, "what to do with panoramas"] = "drop",
    view: Annotated[View, "viewing direction of the images to keep"] = "all",
    subtask: Annotated[Subtask, "keep only the images of this task of the benchmark"] = "none",
) -> Places:
    known = _cities(root)
    tables = []
    for name in chosen(root, cities, sorted(known), "city"):
        sides = [
            _side(root, name, known[name] / side, panoramas, view, subtask, found) for side in ROLES
        ]
        sides = [side for side in sides if len(side.get("path", ()))]
        if sides:
            tables.append(_in_frame(root, name, sides, found))
    places = joined(root, tables)
    without_time = int(np.count_nonzero(places.time == NO_TIME))
    if without_time:
        found.say(
            f"{without_time:,} images have at most a date: their time is unknown", warning=False
        )
    return places


def _cities(root: Path) -> dict[str, Path]:
    """The folders of the cities in ROOT by name."""
    known: dict[str, Path] = {}
    for pattern in ("", "train_val/*", "test/*", "*"):
        for folder in sorted(root.glob(pattern)) if pattern else [root]:
            if any((folder / side).is_dir() for side in ROLES):
                name = _normal(folder).name
                if name in known:
                    raise BadInputError(
                        f"{root}: duplicate city {name}, in {known[name]} and in {folder}"
                    )
                known[name] = folder
    if not known:
        raise BadInputError(
            f"{root}: no city found; expected train_val/<city>/query or database, or test/<city>/…"
        )
    return known


def _normal(folder: Path) -> Path:
    return Path(os.path.normpath(folder.absolute()))


def _side(
    root: Path,
    city: str,
    folder: Path,
    panoramas: Panoramas,
    view: View,
    subtask: Subtask,
    found: Findings,
) -> Columns:
    """The wanted images of a city's database or query folder, in order of sequence and frame
    number.
    """
    label, inside = f"{city}/{folder.name}", below(root, folder)
    missing = [name for name in (*TABLES, "images") if not (folder / name).exists()]
    if missing:
        text = "folders were left out, because a table or the images are missing"
        found.note(text, [f"{label}: no {', '.join(missing)}"])
        return {}
    keys, (post, raw, info) = _matched(label, folder, found)
    sequence = info.texts("sequence_id" if "sequence_id" in info.columns else "sequence_key")
    light = zip(post.texts("night"), _flags(post, "night"), strict=True)
    split = SPLITS.get(city, "test" if _normal(folder).parents[1].name == "test" else "train")
    texts = {
        "path": [join(inside, f"images/{key}.jpg") for key in keys],
        "place_id": [f"{label}/{key}" for key in keys],
        "sequence": [f"{label}/{one}" for one in sequence],
        "condition": [("night" if dark else "day") if text else "" for text, dark in light],
        "split": [split] * len(keys),
        "role": [ROLES[folder.name]] * len(keys),
    }
    columns: Columns = {name: np.array(column, dtype=object) for name, column in texts.items()} | {
        "x": post.numbers("easting", missing_allowed=True),
        "y": post.numbers("northing", missing_allowed=True),
        "longitude": raw.numbers("lon", -180, 180, missing_allowed=True),
        "latitude": raw.numbers("lat", -90, 90, missing_allowed=True),
        "yaw": yaw_from_compass(np.deg2rad(raw.numbers("ca", missing_allowed=True))),
        "time": np.array(
            raw.parse("captured_at", _time, "expected a date or a time"), dtype=np.int64
        ),
    }
    kept = ~np.isnan(columns["x"]) & ~np.isnan(columns["y"])
    found.note(
        "images were left out, because easting or northing is missing", columns["place_id"][~kept]
    )
    unwanted: dict[str, list[bool]] = {}
    if panoramas == "drop":
        unwanted["panoramas"] = _flags(raw, "pano")
    if view != "all":
        unwanted[f"images that do not look {view}"] = [
            one.lower() != view for one in post.texts("view_direction")
        ]
    if subtask != "none":
        wanted = _subtask_keys(folder / "subtask_index.csv", subtask)
        unwanted[f"images outside the subtask {subtask}"] = [key not in wanted for key in keys]
    for what, flags in unwanted.items():
        out = np.array(flags, dtype=bool) & kept
        found.note(f"{what} were left out", columns["place_id"][out], warning=False)
        kept &= ~out
    order = np.lexsort(
        (info.numbers("frame_number"), np.unique(columns["sequence"], return_inverse=True)[1])
    )
    order = order[kept[order]]
    return {name: column[order] for name, column in columns.items()}


def _matched(label: str, folder: Path, found: Findings) -> tuple[list[str], list[Table]]:
    """The keys that are in all tables and on disk, in the order of the first table, and these rows
    of each table.
    """
    tables = [read_table(folder / name) for name in TABLES]
    images = list_folder(folder / "images")
    rows: dict[str, dict[str, int]] = {
        "images": {name[:-4]: 0 for name in images if name.endswith(".jpg")}
    }
    for name, table in zip(TABLES, tables, strict=True):
        rows[name] = {}
        again = [
            row
            for row, key in enumerate(table.texts("key"))
            if rows[name].setdefault(key, row) != row
        ]
        text = "rows have the same key as an earlier row and were left out"
        found.note(
            text, (f"{table.where(row)}: key {shown(table.columns['key'][row])}" for row in again)
        )
    everywhere = set.intersection(*map(set, rows.values()))
    lost = [
        f"{label}/{key}: not in"
        f" {', '.join(name for name in (*TABLES, 'images') if key not in rows[name])}"
        for key in sorted(set().union(*rows.values()) - everywhere)
    ]
    found.note("images were left out, because they are missing in a table or on disk", lost)
    keys = [key for key in rows[TABLES[0]] if key in everywhere]
    return keys, [
        table.at([rows[name][key] for key in keys])
        for name, table in zip(TABLES, tables, strict=True)
    ]


def _subtask_keys(file: Path, subtask: str) -> set[str]:
    table = read_table(file)
    start, _, end = subtask.partition("2")  # the file abbreviates summer2winter as s2w
    flags = _flags(
        table, f"{start[0]}2{end[0]}" if end and subtask not in table.columns else subtask
    )
    return {key for key, flag in zip(table.texts("key"), flags, strict=True) if flag}


def _flags(table: Table, name: str) -> list[bool]:
    """A column of True and False; an empty value is False."""
    texts = [text.lower() for text in table.texts(name)]
    table.refuse(
        np.array([text not in FLAGS for text in texts], dtype=bool), name, "expected True or False"
    )
    return [FLAGS[text] for text in texts]


def _time(text: str) -> int:
    """Nanoseconds since 1970; NO_TIME for a date without time of day and for an empty text."""
    return nanoseconds(text, guess_unit(text)) if text and not DAY.fullmatch(text) else NO_TIME


def _in_frame(root: Path, city: str, sides: list[Columns], found: Findings) -> Places:
    """The places of a city in its frame: the UTM zone in which most easting and northing agree with
    lon and lat.
    """
    columns: Columns = {name: np.concatenate([side[name] for side in sides]) for name in sides[0]}
    longitude, latitude, x, y = (columns.pop(name) for name in ("longitude", "latitude", "x", "y"))
    known = np.isfinite(longitude) & np.isfinite(latitude)
    # Each lies in one zone.
    degrees = np.unique(np.floor(np.column_stack([latitude, longitude]))[known], axis=0)
    zone = np.zeros(len(x), dtype=np.int64)
    for crs in sorted({geodesy.utm_crs(*corner) for corner in degrees.tolist()}):
        east, north = geodesy.project(latitude, longitude, crs)
        zone[np.hypot(x - east, y - north) <= AGREEMENT] = int(crs.removeprefix("EPSG:"))
    codes, counts = np.unique(zone[zone > 0], return_counts=True)
    good, frame = ~known | (zone > 0), Frame.near(city, x, y)
    if len(codes) == 0 or 2 * counts.sum() < np.count_nonzero(known):
        found.say(
            f"{city}: easting and northing agree with lon and lat in no UTM zone: the frame has"
            " no CRS"
        )
        good[:] = True
    else:
        home = int(codes[counts.argmax()])
        move(x, y, zone, np.where(zone > 0, home, 0), found, f"{city}: ")
        frame = Frame.near(city, x[good], y[good], crs_of(home))
    far = "images were left out, because easting and northing are far from longitude and latitude"
    found.note(far, columns["place_id"][~good])
    x, y = x[good] - frame.origin[0], y[good] - frame.origin[1]
    return Places(
        x=x,
        y=y,
        **{name: column[good] for name, column in columns.items()},
        frames=frame,
        root=root,
    )
