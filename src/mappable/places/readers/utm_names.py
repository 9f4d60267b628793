"""Images with positions in their names, `@east@north@…@.jpg`: the convention of the place recognition field.

    ROOT/                             or ROOT may be `images`, one split, or any folder of such files
      images/
        train/                        also val, test
          database/                   also gallery
            @east@north@zone@letter@latitude@longitude@pano_id@tile@heading@pitch@roll@height@timestamp@note@.jpg
          queries/                    also queries_night or similar: the condition is then `night`
          database_images_paths.txt   optional: images in `database`, one relative path per line

Only east and north, in metres, are required. Other fields may be empty, and fields at the end may be missing.

- Folders train, val and test become the splits train, calibration and test. Folders database and queries become the
  roles reference and query.
- A folder is a sequence. `place_id` is the path that begins with the folder of the split, whichever folder ROOT is.
- zone together with letter or latitude gives the CRS. Near a zone border or the equator, images are converted to the
  zone of most images around them, which keeps distances across the border right. Groups of images in different zones,
  with tens of kilometres and no image between them, get separate frames. Without zones the frame is `local`.
- heading is in degrees clockwise from north. In crops of San Francisco XL it is the heading of the left edge. height in
  metres becomes z.
- timestamp is `YYYYMMDD_hhmmss`, ISO 8601 or a number since 1970. A date without a time of day cannot order images: the
  time is then unknown.
- A note that begins with `day` or `night` gives the condition, unless the folder does.

If the list `<folder>_images_paths.txt` exists, the reader takes the list and does not search that folder. A search is
slow for millions of images.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mappable.arrays import Floats, Ints, Strings
from mappable.errors import BadInputError, shown
from mappable.files import reading
from mappable.places import geodesy
from mappable.places.angles import yaw_from_compass
from mappable.places.frames import Frame
from mappable.places.images import SUFFIXES
from mappable.places.notes import Note, warn
from mappable.places.readers import join, walk
from mappable.places.table import NO_TIME, Places
from mappable.places.zones import home_zones, zone_code
from mappable.times import from_datetime, guess_unit, nanoseconds

FIELDS = 14  # number of fields in a full name
USED = {"zone": 3, "letter": 4, "latitude": 5, "heading": 9, "height": 12, "timestamp": 13, "note": 14}
SPLITS = {"train": "train", "val": "calibration", "test": "test"}
ROLE_FOLDER = re.compile(r"(?:(database|gallery)|(?:queries|query))(?:_(.+))?")

YEAR, MONTH, DAY = r"(?:18|19|20|21)\d\d", r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
DATE = re.compile(rf"{YEAR}(?:-?{MONTH}(?:-?{DAY})?)?")
COMPACT_TIME = re.compile(rf"({YEAR}{MONTH}{DAY})(?:[_T-](\d\d(?:\d\d){{0,2}})|(\d{{4}}|\d{{6}}))")
ISO_TIME = re.compile(rf"{YEAR}-\d\d-\d\d[T ]\d\d:.*")
NUMBER_SINCE_1970 = re.compile(r"1\d{9}(?:\.\d+)?|1\d{12}|1\d{15}|1\d{18}")  # 2001 to 2033 in s, ms, us or ns

Notes = tuple[Note, ...]
Columns = dict[str, list[str]]


class Folder(NamedTuple):
    """What the folder of an image tells; `name` is its path, beginning with the folder of the split."""

    name: str
    split: str
    role: str
    condition: str


def read(root: Path) -> Places:
    if not root.is_dir():
        raise BadInputError(f"{root}: not a folder")
    paths, east, north, columns, notes = _parse(_image_paths(root))
    if not paths:
        return Places(path=[], x=[], y=[], frames=Frame("local"), root=root, notes=notes)
    frames, frame, x, y, frame_notes = _positions(paths, east, north, columns)
    heading, heading_notes = _numbers(paths, columns["heading"], "heading")
    height, height_notes = _numbers(paths, columns["height"], "height")
    time, time_notes = _times(paths, columns["timestamp"])
    folders = _folders(root, paths)
    sequence = [folder.name or "." for folder in folders]
    if len(frames) > 1:  # a sequence must lie in one frame
        sequence = [f"{folder}/{name}" for folder, name in zip(sequence, frame, strict=True)]
    names = [path.rpartition("/")[2] for path in paths]
    places = Places(
        path=paths,
        place_id=[
            f"{folder.name}/{name}" if folder.name else name for folder, name in zip(folders, names, strict=True)
        ],
        root=root,
        frames=frames,
        frame=frame,
        x=x,
        y=y,
        z=height,
        yaw=yaw_from_compass(np.deg2rad(heading)),
        time=time,
        sequence=sequence,
        condition=[folder.condition or _condition(note) for folder, note in zip(folders, columns["note"], strict=True)],
        split=[folder.split for folder in folders],
        role=[folder.role for folder in folders],
        notes=notes + frame_notes + heading_notes + height_notes + time_notes,
    )
    return places[np.argsort(time, kind="stable")]  # file names are sorted by position, not by time


def _image_paths(root: Path) -> Iterator[str]:
    """The images below `root`, sorted by folder and name; a list next to a folder replaces the search in it."""
    for folder, inside, names in walk(root):
        here = (root / folder).absolute()
        file = here.with_name(f"{here.name}_images_paths.txt")
        if file.is_file():
            inside.clear()
            yield from (join(folder, path) for path in _listed_paths(file, root / folder))
        else:
            yield from (join(folder, name) for name in names if _suffix(name) in SUFFIXES)


def _listed_paths(file: Path, folder: Path) -> list[str]:
    """The paths in a list of images, relative to `folder`; only the first one must exist on disk."""
    with reading(file):
        lines = file.read_text("utf-8-sig").split("\n")
    found: dict[str, None] = {}
    for row, line in enumerate(lines, start=1):
        path = line.strip().replace("\\", "/").removeprefix("./")
        if not path:
            continue
        problem = ""
        if path.startswith("/") or path[1:2] == ":" or (".." in path and ".." in path.split("/")):
            problem = f"leads outside {folder}"
        elif path in found:
            problem = "is a duplicate"
        elif not found and not (folder / path).is_file():
            problem = f"is not a file in {folder}; if the list is out of date, remove it"
        if problem:
            raise BadInputError(f"{file}, row {row}: {shown(line.strip())} {problem}")
        found[path] = None
    if not found:
        raise BadInputError(f"{file}: the list is empty; remove it, and {folder} is searched")
    return list(found)


def _parse(paths: Iterable[str]) -> tuple[list[str], Floats, Floats, Columns, Notes]:
    """The paths whose names match, their east and north, and columns of the other used fields ("" if missing)."""
    matching, east, north, others = [], [], [], []
    columns: dict[str, list[str]] = {name: [] for name in USED}
    wanted = [(columns[name].append, position) for name, position in USED.items()]
    missing = [""] * FIELDS
    for path in paths:
        name = path.rpartition("/")[2]
        fields = name.rpartition(".")[0].split("@")
        try:
            position = _position(name, fields)
        except ValueError as problem:
            others.append(f"{path}: {problem}")
            continue
        matching.append(path)
        east.append(position[0])
        north.append(position[1])
        fields += missing
        for append, place in wanted:
            append(fields[place])
    notes = warn("images were left out, because their names are not @east@north@…", others)
    return matching, np.array(east), np.array(north), columns, notes


def _position(name: str, fields: list[str]) -> tuple[float, float]:
    """East and north; raises a ValueError with the reason if the name does not hold them."""
    if _suffix(name) not in SUFFIXES:
        raise ValueError("not an image file")
    if fields[0] or len(fields) < 3:
        raise ValueError("does not begin with @" if fields[0] else "east and north are missing")
    east, north = _number(fields[1]), _number(fields[2])
    if not math.isfinite(east) or not math.isfinite(north):
        what, text = ("north", fields[2]) if math.isfinite(east) else ("east", fields[1])
        raise ValueError(f"{what} {shown(text)} is not a finite number")
    return east, north


def _suffix(name: str) -> str:
    return "." + name.rpartition(".")[2].lower()


def _number(text: str) -> float:
    """The text as a number; NaN if it is not a number."""
    try:
        return math.nan if "_" in text else float(text)  # Python would accept 1_000 as a number
    except ValueError:
        return math.nan


def _numbers(paths: list[str], texts: list[str], what: str, limit: float = math.inf) -> tuple[Floats, Notes]:
    """An optional field as numbers. NaN if it is empty or, with a note, if it is not a number within the limit."""
    values, bad = np.full(len(texts), np.nan), []
    for row, text in enumerate(texts):
        if text:
            number = _number(text)
            if math.isfinite(number) and abs(number) <= limit:
                values[row] = number
            else:
                bad.append(f"{paths[row]}: {shown(text)}")
    known = "a number" if math.isinf(limit) else f"a number between {-limit:g} and {limit:g}"
    return values, warn(f"names have a {what} that is not {known} (set to unknown)", bad)


def _positions(
    paths: list[str], x: Floats, y: Floats, columns: Columns
) -> tuple[list[Frame], Strings, Floats, Floats, Notes]:
    """The frames, the name of each image's frame, and its coordinates there; `x` and `y` are east and north."""
    zone, notes = _zones(paths, columns)
    known = zone > 0
    homes = home_zones(x, y, zone)
    for source, home in sorted(set(zip(zone[zone != homes].tolist(), homes[zone != homes].tolist(), strict=True))):
        rows = (zone == source) & (homes == home)
        x[rows], y[rows] = geodesy.transform(x[rows], y[rows], f"EPSG:{source}", f"EPSG:{home}")
        old, new = (geodesy.utm_name(f"EPSG:{code}") for code in (source, home))
        text = (
            f"{np.count_nonzero(rows):,} images were converted from {old} to {new}, the zone of the images around them"
        )
        notes += (Note(text, warning=False),)
    codes = np.unique(homes[known]).tolist()
    if not codes:
        notes += (Note("no name has a UTM zone and hemisphere, so east and north are used as metres of a local map"),)
    elif not known.all():
        alone = len(codes) == 1  # the convention itself compares east and north regardless of zones
        where = f"zone of the other images, {geodesy.utm_name(f'EPSG:{codes[0]}')}" if alone else "separate frame local"
        without = [paths[row] for row in np.flatnonzero(~known)]
        notes += warn(f"names have no UTM zone and hemisphere: their images were put into the {where}", without)
        homes[~known] = codes[0] if alone else 0
    frames, name = [], np.full(len(paths), "", dtype=object)
    for code in np.unique(homes).tolist():
        rows, crs = homes == code, f"EPSG:{code}" if code else None
        frame = Frame.near(geodesy.utm_name(crs) if crs else "local", x[rows], y[rows], crs)
        name[rows] = frame.name
        x[rows] -= frame.origin[0]
        y[rows] -= frame.origin[1]
        frames.append(frame)
    return frames, name, x, y, notes


def _zones(paths: list[str], columns: Columns) -> tuple[Ints, Notes]:
    """The EPSG code of the UTM zone of each image; 0 if unknown."""
    latitude, notes = _numbers(paths, columns["latitude"], "latitude", limit=90)
    side = np.nan_to_num(np.sign(latitude)).tolist()
    codes, problems = np.zeros(len(paths), dtype=np.int64), dict[str, list[str]]()
    seen: dict[tuple[str, str, float], tuple[int, str]] = {}
    for row, key in enumerate(zip(columns["zone"], columns["letter"], side, strict=True)):
        if key not in seen:
            seen[key] = zone_code(*key)
        codes[row], problem = seen[key]
        if problem:
            problems.setdefault(problem, []).append(paths[row])
    return codes, notes + tuple(note for problem, items in problems.items() for note in warn(problem, items))


def _times(paths: list[str], texts: list[str]) -> tuple[Ints, Notes]:
    """The times, with notes on dates without a time of day and on unreadable times."""
    seen: dict[str, int | None] = {"": NO_TIME}
    times, dates, others = np.full(len(texts), NO_TIME), 0, []
    for row, text in enumerate(texts):
        if text not in seen:
            seen[text] = _time(text)
        time = seen[text]
        if time is None:
            others.append(f"{paths[row]}: {shown(text)}")
        else:
            times[row] = time
            dates += bool(text) and time == NO_TIME
    notes = warn("names have an unreadable timestamp (time unknown)", others)
    if dates:
        notes += (Note(f"{dates:,} names have only a date, which cannot order images (time unknown)", warning=False),)
    return times, notes


def _time(text: str) -> int | None:
    """Nanoseconds since 1970; NO_TIME for a year, month or day; None if it is unreadable or ambiguous."""
    if DATE.fullmatch(text):
        return NO_TIME
    try:
        if NUMBER_SINCE_1970.fullmatch(text):
            return nanoseconds(text, guess_unit(text))
        if ISO_TIME.fullmatch(text):
            return nanoseconds(text)
        match = COMPACT_TIME.fullmatch(text)
        digits = "".join(group or "" for group in match.groups()) if match else ""
        return from_datetime(datetime.strptime(digits.ljust(14, "0"), "%Y%m%d%H%M%S")) if digits else None
    except ValueError:
        return None


def _folders(root: Path, paths: list[str]) -> list[Folder]:
    """The folder of each image."""
    top = Path(os.path.normpath(root.absolute()))
    above = [top.name] if top.name in SPLITS else []
    if ROLE_FOLDER.fullmatch(top.name):
        above = [top.parent.name, top.name] if top.parent.name in SPLITS else [top.name]
    seen: dict[str, Folder] = {}
    found = []
    for path in paths:
        name = path.rpartition("/")[0]
        if name not in seen:
            seen[name] = _folder(name, above)
        found.append(seen[name])
    return found


def _folder(name: str, above: list[str]) -> Folder:
    """What a folder below ROOT tells; `above` are names at the end of ROOT, used if the folder names no split."""
    parts = name.split("/") if name else []
    if parts[:1] == ["images"]:
        parts = parts[1:]
    if not any(part in SPLITS for part in parts):
        parts = above + parts
    split = next((SPLITS[part] for part in parts if part in SPLITS), "")
    match = next((match for match in map(ROLE_FOLDER.fullmatch, parts) if match), None)
    role = "" if match is None else "reference" if match.group(1) else "query"
    return Folder("/".join(parts), split, role, (match.group(2) or "") if match else "")


def _condition(note: str) -> str:
    """The condition at the start of a note such as `night_forward_cph`."""
    word = note.partition("_")[0]
    return word if word in ("day", "night") else ""
