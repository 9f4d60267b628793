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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError, shown
from mappable.places import geodesy
from mappable.places.angles import yaw_from_compass
from mappable.places.frames import Frame
from mappable.places.notes import Findings, Note
from mappable.places.readers import chosen
from mappable.places.table import NO_TIME, Places
from mappable.tables import Table, read_table
from mappable.times import guess_unit, nanoseconds

VALIDATION = frozenset({"cph", "sf"})
TEST = frozenset({"miami", "athens", "buenosaires", "stockholm", "bengaluru", "kampala"})
ROLES = {"database": "reference", "query": "query"}  # by folder
TABLES = ("postprocessed.csv", "raw.csv", "seq_info.csv")
Subtask = Literal["none", "all", "summer2winter", "winter2summer", "day2night", "night2day", "old2new", "new2old"]
FLAGS = {"true": True, "1": True, "false": False, "0": False, "": False}
DAY = re.compile(r"\d{4}-?\d\d-?\d\d")
AGREEMENT = 5000.0  # largest distance in metres, generous, between GPS and corrected position of one image

SKIPPED = "folders were left out, because a table or the images are missing"
UNMATCHED = "images were left out, because they are missing in a table or on disk"
REPEATED = "rows have the same key as an earlier row and were left out"
UNLOCATED = "images were left out, because easting or northing is missing"
CONTRADICTORY = "images were left out, because easting and northing are far from longitude and latitude"

Columns = dict[str, Any]  # arrays of one length, by name


class City(NamedTuple):
    """A city's folder; `inside` is its path below ROOT with a slash at the end, "" for ROOT itself."""

    name: str
    folder: Path
    inside: str


class Choice(NamedTuple):
    """Which images of a city the user wants."""

    panoramas: Literal["drop", "keep"]
    view: Literal["all", "forward", "backward", "sideways"]
    subtask: Subtask


@dataclass
class Gathered:
    """Material for notes, collected over all cities."""

    findings: Findings = field(default_factory=Findings)
    unwanted: dict[str, int] = field(default_factory=dict)
    zones: list[Note] = field(default_factory=list)

    def notes(self) -> list[Note]:
        unwanted = [Note(f"{count:,} {what} were left out", warning=False) for what, count in self.unwanted.items()]
        return [*self.findings.notes(), *unwanted, *self.zones]


def read(
    root: Path,
    *,
    cities: Annotated[str | None, "cities to read, separated by commas (default: all)"] = None,
    panoramas: Annotated[Literal["drop", "keep"], "what to do with panoramas"] = "drop",
    view: Annotated[
        Literal["all", "forward", "backward", "sideways"], "viewing direction of the images to keep"
    ] = "all",
    subtask: Annotated[Subtask, "keep only the images of this task of the benchmark"] = "none",
) -> Places:
    gathered, frames, parts = Gathered(), [], []
    for city in _cities(root, cities):
        sides = [_read_side(city, side, Choice(panoramas, view, subtask), gathered) for side in ROLES]
        columns = _joined([side for side in sides if side is not None and len(side["path"])])
        if columns:
            frame, columns = _in_frame(city.name, columns, gathered)
            frames.append(frame)
            parts.append(columns)
    columns = _joined(parts)
    notes = gathered.notes()
    if not columns:  # the notes explain why nothing is left, so all of them become warnings
        notes = [replace(note, warning=True) for note in notes]
        return Places(path=[], x=[], y=[], frames=Frame("msls"), root=root, notes=notes)
    without_time = np.count_nonzero(columns["time"] == NO_TIME)
    if without_time:
        notes.append(Note(f"{without_time:,} images have at most a date: their time is unknown", warning=False))
    return Places(**columns, frames=frames, root=root, notes=notes)


def _cities(root: Path, wanted: str | None) -> list[City]:
    """The wanted cities in ROOT, sorted by name."""
    if not root.is_dir():
        raise BadInputError(f"{root}: not a folder")
    candidates = [(root, "")]
    for inside in ("train_val/", "test/", ""):
        if (root / inside).is_dir():
            candidates += [(folder, f"{inside}{folder.name}/") for folder in (root / inside).iterdir()]
    found: dict[str, City] = {}
    for folder, inside in candidates:
        if any((folder / side).is_dir() for side in ROLES):
            name = Path(os.path.normpath(folder.absolute())).name
            if name in found:
                raise BadInputError(f"{root}: duplicate city {name}, in {found[name].folder} and in {folder}")
            found[name] = City(name, folder, inside)
    if not found:
        raise BadInputError(f"{root}: no city found; expected train_val/<city>/query or database, or test/<city>/…")
    return [found[name] for name in chosen(root, wanted, sorted(found), "city")]


def _split(city: City) -> str:
    if city.name in VALIDATION:
        return "calibration"
    below_test = Path(os.path.normpath(city.folder.absolute())).parent.name == "test"
    return "test" if city.name in TEST or below_test else "train"


def _read_side(city: City, side: str, choice: Choice, gathered: Gathered) -> Columns | None:
    """The wanted images of a city's database or query folder, in order of sequence and frame number."""
    folder, label = city.folder / side, f"{city.name}/{side}"
    missing = [name for name in TABLES if not (folder / name).is_file()]
    missing += [] if (folder / "images").is_dir() else ["images"]
    if missing:
        gathered.findings[SKIPPED].append(f"{label}: no {', '.join(missing)}")
        return None
    tables = [read_table(folder / name) for name in TABLES]
    keys, (post, raw, info) = _matched(label, tables, _keys_on_disk(folder / "images"), gathered)
    columns = _columns(city, side, keys, post, raw, info)
    located = ~np.isnan(columns["x"]) & ~np.isnan(columns["y"])
    gathered.findings[UNLOCATED] += columns["place_id"][~located].tolist()
    codes = np.unique(columns["sequence"], return_inverse=True)[1]
    order = np.lexsort((info.numbers("frame_number"), codes))
    kept = order[(located & _wanted(folder, keys, post, raw, choice, gathered))[order]]
    return {name: column[kept] for name, column in columns.items()}


def _columns(city: City, side: str, keys: list[str], post: Table, raw: Table, info: Table) -> Columns:
    """The columns of the images `keys`, from tables with the same rows; x and y are easting and northing."""
    label = f"{city.name}/{side}"
    sequences = info.texts("sequence_id" if "sequence_id" in info.columns else "sequence_key")
    nights = zip(post.texts("night"), _flags(post, "night"), strict=True)
    texts = {
        "path": [f"{city.inside}{side}/images/{key}.jpg" for key in keys],
        "place_id": [f"{label}/{key}" for key in keys],
        "sequence": [f"{label}/{sequence}" for sequence in sequences],
        "condition": [("night" if night else "day") if text else "" for text, night in nights],
        "split": [_split(city)] * len(keys),
        "role": [ROLES[side]] * len(keys),
    }
    return {
        **{name: np.array(column, dtype=object) for name, column in texts.items()},
        "x": post.numbers("easting", missing_allowed=True),
        "y": post.numbers("northing", missing_allowed=True),
        "longitude": raw.numbers("lon", -180, 180, missing_allowed=True),
        "latitude": raw.numbers("lat", -90, 90, missing_allowed=True),
        "yaw": yaw_from_compass(np.deg2rad(raw.numbers("ca", missing_allowed=True))),
        "time": np.array(raw.parse("captured_at", _time, "expected a date or a time"), dtype=np.int64),
    }


def _keys_on_disk(images: Path) -> set[str]:
    with os.scandir(images) as entries:
        return {entry.name[:-4] for entry in entries if entry.name.endswith(".jpg") and entry.name[0] != "."}


def _matched(label: str, tables: list[Table], on_disk: set[str], gathered: Gathered) -> tuple[list[str], list[Table]]:
    """The keys that are in all tables and on disk, in the order of the first table, and these rows of each table."""
    indexes = []
    for table in tables:
        index: dict[str, int] = {}
        for row, key in enumerate(table.texts("key")):
            if index.setdefault(key, row) != row:
                gathered.findings[REPEATED].append(f"{table.file}, row {table.row_numbers[row]}: key {shown(key)}")
        indexes.append(index)
    sources = {**dict(zip(TABLES, indexes, strict=True)), "images": on_disk}
    everywhere = on_disk.intersection(*indexes)
    keys = [key for key in indexes[0] if key in everywhere]
    if any(len(source) > len(keys) for source in sources.values()):
        for key in sorted(on_disk.union(*indexes) - everywhere):
            missing_in = ", ".join(name for name, source in sources.items() if key not in source)
            gathered.findings[UNMATCHED].append(f"{label}/{key}: not in {missing_in}")
    return keys, [table.at([index[key] for key in keys]) for table, index in zip(tables, indexes, strict=True)]


def _wanted(folder: Path, keys: list[str], post: Table, raw: Table, choice: Choice, gathered: Gathered) -> Bools:
    """Mask of the images that the user wants; the other images are counted in `gathered`."""
    unwanted: dict[str, list[bool]] = {}
    if choice.panoramas == "drop":
        unwanted["panoramas"] = _flags(raw, "pano")
    if choice.view != "all":
        views = post.texts("view_direction")
        unwanted[f"images that do not look {choice.view}"] = [view.lower() != choice.view for view in views]
    if choice.subtask != "none":
        chosen = _subtask_keys(folder / "subtask_index.csv", choice.subtask)
        unwanted[f"images outside the subtask {choice.subtask}"] = [key not in chosen for key in keys]
    wanted = np.ones(len(keys), dtype=bool)
    for what, flags in unwanted.items():
        out = wanted & np.array(flags, dtype=bool)
        wanted &= ~out
        if out.any():
            gathered.unwanted[what] = gathered.unwanted.get(what, 0) + int(out.sum())
    return wanted


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


def _joined(parts: list[Columns]) -> Columns:
    """The rows of all parts; no columns at all if there are no parts."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _in_frame(city: str, columns: Columns, gathered: Gathered) -> tuple[Frame, Columns]:
    """The frame of a city and its columns with x and y in that frame, without images of contradictory positions.

    Removes longitude and latitude from `columns`, and adds notes to `gathered`.
    """
    longitude, latitude = columns.pop("longitude"), columns.pop("latitude")
    zones = _zones(longitude, latitude)
    near = {crs: _agrees(columns["x"], columns["y"], longitude, latitude, crs) for crs in zones}
    home = max(zones, key=lambda crs: np.count_nonzero(near[crs]), default=None)
    known = np.isfinite(longitude) & np.isfinite(latitude)
    good = ~known | np.any(list(near.values()), axis=0) if home else ~known
    if home is None or 2 * np.count_nonzero(good & known) < np.count_nonzero(known):
        gathered.zones.append(
            Note(f"{city}: easting and northing agree with lon and lat in no UTM zone: the frame has no CRS")
        )
        good[:], home = True, None
    else:
        columns |= _into(home, near, city, columns, gathered)
        gathered.findings[CONTRADICTORY] += columns["place_id"][~good].tolist()
    columns = {name: column[good] for name, column in columns.items()}
    frame = Frame.near(city, columns["x"], columns["y"], home)
    columns["x"], columns["y"] = columns["x"] - frame.origin[0], columns["y"] - frame.origin[1]
    columns["frame"] = np.full(len(columns["x"]), city, dtype=object)
    return frame, columns


def _zones(longitude: Floats, latitude: Floats) -> list[str]:
    """The UTM zones in which the points lie."""
    # A cell of one degree lies in one zone.
    points = np.unique(np.floor(np.column_stack([latitude, longitude])), axis=0)
    return sorted({geodesy.utm_crs(*point) for point in points.tolist() if np.isfinite(point).all()})


def _agrees(easting: Floats, northing: Floats, longitude: Floats, latitude: Floats, crs: str) -> Bools:
    """Mask of the points whose easting and northing in `crs` agree with longitude and latitude."""
    east, north = geodesy.project(latitude, longitude, crs)
    agrees: Bools = np.hypot(easting - east, northing - north) <= AGREEMENT
    return agrees


def _into(home: str, near: Mapping[str, Bools], city: str, columns: Columns, gathered: Gathered) -> Columns:
    """x and y in the zone `home`; `near` has, per zone, a mask of the images with coordinates in that zone."""
    x, y = columns["x"].copy(), columns["y"].copy()
    for crs, agrees in near.items():
        rows = agrees & ~near[home]
        if rows.any():
            x[rows], y[rows] = geodesy.transform(x[rows], y[rows], crs, home)
            old, new = geodesy.utm_name(crs), geodesy.utm_name(home)
            count = np.count_nonzero(rows)
            text = f"{city}: {count:,} images were converted from {old} to {new}, the zone of the others"
            gathered.zones.append(Note(text, warning=False))
    return {"x": x, "y": y}
