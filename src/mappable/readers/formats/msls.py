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

- Each city is a frame. Its CRS is the UTM zone in which easting and northing agree with longitude and latitude. Images
  of a city in the neighboring zone are converted to the zone of the other images.
- Splits: cph and sf are calibration. miami, athens, buenosaires, stockholm, bengaluru, kampala and all other cities in
  the folder `test` are test. The remaining cities are train.
- Roles: images in query are queries, images in database are references.
- A sequence is `<city>/<query or database>/<sequence key>`, in order of frame_number.
- Time: the published captured_at is a date. A date cannot order images, so the time is then unknown. If captured_at has
  a time of day, it is used.
- The condition is day or night. yaw comes from `ca`, in degrees clockwise from north. z is unknown.

The subtask `all` is the selection of images of the benchmark, not every image. `none` reads every image.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from mappable.arrays import Bools
from mappable.errors import BadInputError, shown
from mappable.places import geodesy
from mappable.places.angles import yaw_from_compass
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.table import NO_TIME, Places
from mappable.readers.toolkit import below, chosen, join, joined, list_folder
from mappable.tables import Table, read_table
from mappable.times import guess_unit, nanoseconds

LAYOUT = ("train_val", "*/database/postprocessed.csv", "database/postprocessed.csv")
VALIDATION = frozenset({"cph", "sf"})
TEST = frozenset({"miami", "athens", "buenosaires", "stockholm", "bengaluru", "kampala"})
ROLES = {"database": "reference", "query": "query"}  # by folder
TABLES = ("postprocessed.csv", "raw.csv", "seq_info.csv")
Panoramas = Literal["drop", "keep"]
View = Literal["all", "forward", "backward", "sideways"]
Subtask = Literal["none", "all", "summer2winter", "winter2summer", "day2night", "night2day", "old2new", "new2old"]
FLAGS = {"true": True, "1": True, "false": False, "0": False, "": False}
DAY = re.compile(r"\d{4}-?\d\d-?\d\d")
AGREEMENT = 5000.0  # largest distance in metres, generous, between GPS and corrected position of one image
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
        sides = [_side(root, name, known[name] / side, panoramas, view, subtask, found) for side in ROLES]
        sides = [side for side in sides if len(side.get("path", ()))]
        if sides:
            tables.append(_in_frame(root, name, sides, found))
    places = joined(root, tables)
    without_time = int(np.count_nonzero(places.time == NO_TIME))
    if without_time:
        found.say(f"{without_time:,} images have at most a date: their time is unknown", warning=False)
    return places


def _cities(root: Path) -> dict[str, Path]:
    """The folders of the cities in ROOT by name."""
    if not root.is_dir():
        raise BadInputError(f"{root}: not a folder")
    folders = [root, *(one for inside in ("train_val", "test", ".") for one in sorted((root / inside).glob("*")))]
    known: dict[str, Path] = {}
    for folder in folders:
        if any((folder / side).is_dir() for side in ROLES):
            name = Path(os.path.normpath(folder.absolute())).name
            if name in known:
                raise BadInputError(f"{root}: duplicate city {name}, in {known[name]} and in {folder}")
            known[name] = folder
    if not known:
        raise BadInputError(f"{root}: no city found; expected train_val/<city>/query or database, or test/<city>/…")
    return known


def _split(name: str, city: Path) -> str:
    if name in VALIDATION:
        return "calibration"
    below_test = Path(os.path.normpath(city.absolute())).parent.name == "test"
    return "test" if name in TEST or below_test else "train"


def _side(
    root: Path, city: str, folder: Path, panoramas: Panoramas, view: View, subtask: Subtask, found: Findings
) -> Columns:
    """The wanted images of a city's database or query folder, in order of sequence and frame number."""
    label = f"{city}/{folder.name}"
    missing = [name for name in (*TABLES, "images") if not (folder / name).exists()]
    if missing:
        text = "folders were left out, because a table or the images are missing"
        found.note(text, [f"{label}: no {', '.join(missing)}"])
        return {}
    keys, (post, raw, info) = _matched(label, folder, found)
    sequence = info.texts("sequence_id" if "sequence_id" in info.columns else "sequence_key")
    light = zip(post.texts("night"), _flags(post, "night"), strict=True)
    inside = below(root, folder)
    texts = {
        "path": [join(inside, f"images/{key}.jpg") for key in keys],
        "place_id": [f"{label}/{key}" for key in keys],
        "sequence": [f"{label}/{one}" for one in sequence],
        "condition": [("night" if dark else "day") if text else "" for text, dark in light],
        "split": [_split(city, folder.parent)] * len(keys),
        "role": [ROLES[folder.name]] * len(keys),
    }
    columns: Columns = {name: np.array(column, dtype=object) for name, column in texts.items()} | {
        "x": post.numbers("easting", missing_allowed=True),
        "y": post.numbers("northing", missing_allowed=True),
        "longitude": raw.numbers("lon", -180, 180, missing_allowed=True),
        "latitude": raw.numbers("lat", -90, 90, missing_allowed=True),
        "yaw": yaw_from_compass(np.deg2rad(raw.numbers("ca", missing_allowed=True))),
        "time": np.array(raw.parse("captured_at", _time, "expected a date or a time"), dtype=np.int64),
    }
    kept = ~np.isnan(columns["x"]) & ~np.isnan(columns["y"])
    found.note("images were left out, because easting or northing is missing", columns["place_id"][~kept])
    unwanted: dict[str, list[bool]] = {}
    if panoramas == "drop":
        unwanted["panoramas"] = _flags(raw, "pano")
    if view != "all":
        unwanted[f"images that do not look {view}"] = [one.lower() != view for one in post.texts("view_direction")]
    if subtask != "none":
        wanted = _subtask_keys(folder / "subtask_index.csv", subtask)
        unwanted[f"images outside the subtask {subtask}"] = [key not in wanted for key in keys]
    for what, flags in unwanted.items():
        out = np.array(flags, dtype=bool) & kept
        found.note(f"{what} were left out", columns["place_id"][out], warning=False)
        kept &= ~out
    order = np.lexsort((info.numbers("frame_number"), np.unique(columns["sequence"], return_inverse=True)[1]))
    order = order[kept[order]]
    return {name: column[order] for name, column in columns.items()}


def _matched(label: str, folder: Path, found: Findings) -> tuple[list[str], list[Table]]:
    """The keys that are in all tables and on disk, in the order of the first table, and these rows of each table."""
    tables = [read_table(folder / name) for name in TABLES]
    on_disk = {name.removesuffix(".jpg") for name in list_folder(folder / "images") if name.endswith(".jpg")}
    indexes = []
    for table in tables:
        index: dict[str, int] = {}
        again = []
        for row, key in enumerate(table.texts("key")):
            if index.setdefault(key, row) != row:
                again.append(f"{table.file}, row {table.row_numbers[row]}: key {shown(key)}")
        found.note("rows have the same key as an earlier row and were left out", again)
        indexes.append(index)
    everywhere = on_disk.intersection(*indexes)
    sources = {**dict(zip(TABLES, indexes, strict=True)), "images": on_disk}
    lost = []
    for key in sorted(on_disk.union(*indexes) - everywhere):
        absent = ", ".join(name for name, source in sources.items() if key not in source)
        lost.append(f"{label}/{key}: not in {absent}")
    found.note("images were left out, because they are missing in a table or on disk", lost)
    keys = [key for key in indexes[0] if key in everywhere]
    return keys, [table.at([index[key] for key in keys]) for table, index in zip(tables, indexes, strict=True)]


def _subtask_keys(file: Path, subtask: str) -> set[str]:
    table = read_table(file)
    start, _, end = subtask.partition("2")  # the file abbreviates summer2winter as s2w
    flags = _flags(table, f"{start[0]}2{end[0]}" if end and subtask not in table.columns else subtask)
    return {key for key, flag in zip(table.texts("key"), flags, strict=True) if flag}


def _flags(table: Table, name: str) -> list[bool]:
    """A column of True and False; an empty value is False."""

    def convert(text: str) -> bool:
        if text.lower() not in FLAGS:
            raise ValueError
        return FLAGS[text.lower()]

    return table.parse(name, convert, "expected True or False")


def _time(text: str) -> int:
    """Nanoseconds since 1970; NO_TIME for a date without time of day and for an empty text."""
    if not text or DAY.fullmatch(text):
        return NO_TIME
    return nanoseconds(text, guess_unit(text))


def _in_frame(root: Path, city: str, sides: list[Columns], found: Findings) -> Places:
    """The places of a city in its frame: the UTM zone in which most easting and northing agree with lon and lat."""
    columns: Columns = {name: np.concatenate([side[name] for side in sides]) for name in sides[0]}
    longitude, latitude = columns.pop("longitude"), columns.pop("latitude")
    known = np.isfinite(longitude) & np.isfinite(latitude)
    cells = np.unique(np.floor(np.column_stack([latitude, longitude]))[known], axis=0)  # a degree lies in one zone
    near: dict[str, Bools] = {}
    for crs in sorted({geodesy.utm_crs(*cell) for cell in cells.tolist()}):
        east, north = geodesy.project(latitude, longitude, crs)
        near[crs] = np.hypot(columns["x"] - east, columns["y"] - north) <= AGREEMENT
    home = max(near, key=lambda crs: np.count_nonzero(near[crs]), default=None)
    good = ~known | np.any([*near.values(), np.zeros(len(known), dtype=bool)], axis=0)
    if home is None or 2 * np.count_nonzero(good & known) < np.count_nonzero(known):
        found.say(f"{city}: easting and northing agree with lon and lat in no UTM zone: the frame has no CRS")
        good[:], home = True, None
    for crs, agrees in near.items():
        if home and (rows := agrees & ~near[home]).any():
            x, y = columns["x"][rows], columns["y"][rows]
            columns["x"][rows], columns["y"][rows] = geodesy.transform(x, y, crs, home)
            zones = f"from {geodesy.utm_name(crs)} to {geodesy.utm_name(home)}, the zone of the others"
            found.say(f"{city}: {np.count_nonzero(rows):,} images were converted {zones}", warning=False)
    far = "images were left out, because easting and northing are far from longitude and latitude"
    found.note(far, columns["place_id"][~good])
    columns = {name: column[good] for name, column in columns.items()}
    frame = Frame.near(city, columns["x"], columns["y"], home)
    columns["x"], columns["y"] = columns["x"] - frame.origin[0], columns["y"] - frame.origin[1]
    return Places(**columns, frames=frame, root=root)
