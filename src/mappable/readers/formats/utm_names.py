"""Images with positions in their names, `@east@north@…@.jpg`: the convention of the place recognition field.

    ROOT/                             or ROOT may be `images`, one split, or any folder of such files
      images/
        train/                        also val, test
          database/                   also gallery
            @east@north@zone@letter@latitude@longitude@pano_id@tile@heading@pitch@roll@height@timestamp@note@.jpg
          queries/                    also queries_night or similar: the condition is then `night`
          database_images_paths.txt   optional: images in `database`, one relative path per line

Only east and north, in metres, are required. Other fields may be empty, and fields at the end may
be missing.

- Folders train, val and test become the splits train, calibration and test. Folders database and
  queries become the roles reference and query.
- A folder is a sequence. `place_id` is the path that begins with the folder of the split, whichever
  folder ROOT is.
- zone together with letter or latitude gives the CRS. Near a zone border or the equator, images are
  converted to the zone of most images around them, which keeps distances across the border right.
  Groups of images in different zones, with tens of kilometres and no image between them, get
  separate frames. Without zones the frame is `local`.
- heading is in degrees clockwise from north. In crops of San Francisco XL it is the heading of the
  left edge. height in metres becomes z.
- timestamp is `YYYYMMDD_hhmmss`, ISO 8601 or a number since 1970. A date without a time of day
  cannot order images: the time is then unknown.
- A note that begins with `day` or `night` gives the condition, unless the folder does.

If the list `<folder>_images_paths.txt` exists, the reader takes the list and does not search that
folder. A search is slow for millions of images.
"""

import math
import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError, shown
from mappable.files import reading
from mappable.places import geodesy
from mappable.places.angles import yaw_from_compass
from mappable.places.frames import Frame
from mappable.places.notes import Findings
from mappable.places.table import NO_TIME, Places
from mappable.readers.toolkit import is_image, join, no_places, walk
from mappable.readers.zones import crs_of, home_zones, move, zone_code
from mappable.times import from_datetime, guess_unit, nanoseconds

LAYOUT = ("@*@*@*", "*/@*@*@*", "*/*/@*@*@*", "*/*/*/@*@*@*")
FIELDS = 15  # parts of a full name between its @
EAST, NORTH, ZONE, LETTER, LATITUDE, HEADING, HEIGHT, TIMESTAMP, NOTE = 1, 2, 3, 4, 5, 9, 12, 13, 14
SPLITS = {"train": "train", "val": "calibration", "test": "test"}
ROLE_FOLDER = re.compile(r"(?:(database|gallery)|(?:queries|query))(?:_(.+))?")

DATE = re.compile(r"(?:18|19|20|21)\d\d(?:-?[01]\d(?:-?[0-3]\d)?)?")
COMPACT_TIME = re.compile(r"(\d{8})[_T-]?((?:\d\d){1,3})")
# 2001 to 2033 in s, ms, us or ns.
NUMBER_SINCE_1970 = re.compile(r"1\d{9}(?:\.\d+)?|1\d{12}|1\d{15}|1\d{18}")
Value = TypeVar("Value")


class _Folder(NamedTuple):
    """What the folder of an image tells; `name` is its path, beginning with the folder of the
    split.
    """

    name: str
    split: str
    role: str
    condition: str


class _Names:
    """The images whose names hold a position: their paths, and the fields of their names."""

    def __init__(self, paths: Iterator[str], found: Findings) -> None:
        self.found, self.paths, rows = found, list[str](), list[list[str]]()
        others, missing = [], [""] * FIELDS
        for path in paths:
            name = path.rpartition("/")[2]
            fields = name.rpartition(".")[0].split("@")
            if is_image(name) and _is_placed(fields):
                self.paths.append(path)
                rows.append(fields + missing)
            else:
                others.append(f"{path}: {_problem(name, fields)}")
        self.columns = [*zip(*rows, strict=False)]
        found.note("images were left out, because their names are not @east@north@…", others)

    def parse(
        self, field: int, convert: Callable[[str], Value | None], default: Value, problem: str
    ) -> list[Value]:
        """A field of all names; the default if it is empty or, with a note, if `convert` returns
        None.
        """
        texts = self.columns[field]
        known = {text: convert(text) for text in set(texts)} | {"": default}
        values = [known[text] for text in texts]
        bad = [row for row, value in enumerate(values) if value is None]
        self.found.note(problem, (f"{self.paths[row]}: {shown(texts[row])}" for row in bad))
        return [default if value is None else value for value in values]

    def numbers(self, field: int, what: str, limit: float = math.inf) -> Floats:
        def convert(text: str) -> float | None:
            number = _number(text)
            return number if math.isfinite(number) and abs(number) <= limit else None

        expected = "a number" if math.isinf(limit) else f"a number between {-limit:g} and {limit:g}"
        problem = f"names have a {what} that is not {expected} (set to unknown)"
        return np.array(self.parse(field, convert, math.nan, problem))


def read(root: Path, found: Findings) -> Places:
    names = _Names(_image_paths(root), found)
    if not names.paths:
        return no_places(root)
    frames, frame, x, y = _positions(names, found)
    time = np.array(
        names.parse(TIMESTAMP, _time, NO_TIME, "names have an unreadable timestamp (time unknown)")
    )
    dates = sum(bool(DATE.fullmatch(text)) for text in names.columns[TIMESTAMP] if text)
    if dates:
        found.say(
            f"{dates:,} names have only a date, which cannot order images (time unknown)",
            warning=False,
        )
    above = _above(root)
    known = cache(lambda name: _folder(name, above))
    folders = [known(path.rpartition("/")[0]) for path in names.paths]
    sequence = [folder.name or "." for folder in folders]
    if len(frames) > 1:  # a sequence must lie in one frame
        sequence = [f"{folder}/{name}" for folder, name in zip(sequence, frame, strict=True)]
    notes = (note.partition("_")[0] for note in names.columns[NOTE])
    conditions = (note if note in ("day", "night") else "" for note in notes)
    files = (path.rpartition("/")[2] for path in names.paths)
    places = Places(
        path=names.paths,
        place_id=[join(folder.name, file) for folder, file in zip(folders, files, strict=True)],
        root=root,
        frames=frames,
        frame=frame,
        x=x,
        y=y,
        z=names.numbers(HEIGHT, "height"),
        yaw=yaw_from_compass(np.deg2rad(names.numbers(HEADING, "heading"))),
        time=time,
        sequence=sequence,
        condition=[
            folder.condition or one for folder, one in zip(folders, conditions, strict=True)
        ],
        split=[folder.split for folder in folders],
        role=[folder.role for folder in folders],
    )
    return places[np.argsort(time, kind="stable")]  # file names are sorted by position, not by time


def _image_paths(root: Path) -> Iterator[str]:
    """The images below `root`, sorted by folder and name; a list next to a folder replaces the
    search in it.
    """
    for folder, inside, names in walk(root):
        here = (root / folder).absolute()
        file = here.with_name(f"{here.name}_images_paths.txt")
        if file.is_file():
            inside.clear()
            yield from (join(folder, path) for path in _listed_paths(file, root / folder))
        else:
            yield from (join(folder, name) for name in names if is_image(name))


def _listed_paths(file: Path, folder: Path) -> list[str]:
    """The paths in a list of images, relative to `folder`; only the first one must exist on disk."""
    with reading(file):
        lines = file.read_text("utf-8-sig").split("\n")
    listed: dict[str, None] = {}
    for row, line in enumerate(lines, start=1):
        path = line.strip().replace("\\", "/").removeprefix("./")
        problem = ""
        if path.startswith("/") or path[1:2] == ":" or ".." in path.split("/"):
            problem = f"leads outside {folder}"
        elif path in listed:
            problem = "is a duplicate"
        elif path and not listed and not (folder / path).is_file():
            problem = f"is not a file in {folder}; if the list is out of date, remove it"
        if problem:
            raise BadInputError(f"{file}, row {row}: {shown(line.strip())} {problem}")
        listed |= {path: None} if path else {}
    if not listed:
        raise BadInputError(f"{file}: the list is empty; remove it, and {folder} is searched")
    return list(listed)


def _is_placed(fields: list[str]) -> bool:
    """True if the fields of a name hold east and north."""
    numbers = len(fields) > NORTH and not fields[0]
    return (
        numbers and math.isfinite(_number(fields[EAST])) and math.isfinite(_number(fields[NORTH]))
    )


def _problem(name: str, fields: list[str]) -> str:
    """Why the name of an image does not hold east and north."""
    if not is_image(name):
        return "not an image file"
    if fields[0] or len(fields) <= NORTH:
        return "does not begin with @" if fields[0] else "east and north are missing"
    what, field = ("north", NORTH) if math.isfinite(_number(fields[EAST])) else ("east", EAST)
    return f"{what} {shown(fields[field])} is not a finite number"


def _number(text: str) -> float:
    """The text as a number; NaN if it is not a number."""
    try:
        return math.nan if "_" in text else float(text)  # Python would accept 1_000 as a number
    except ValueError:
        return math.nan


def _positions(names: _Names, found: Findings) -> tuple[list[Frame], list[str], Floats, Floats]:
    """The frames, the name of each image's frame, and its coordinates there."""
    x, y = (np.array(names.columns[field], dtype=np.float64) for field in (EAST, NORTH))
    zone = _zones(names, found)
    known, homes = zone > 0, home_zones(x, y, zone)
    move(x, y, zone, homes, found)
    codes = np.unique(homes[known]).tolist()
    if not codes:
        found.say(
            "no name has a UTM zone and hemisphere, so east and north are used as metres of a"
            " local map"
        )
    else:
        alone = len(codes) == 1  # the convention itself compares east and north regardless of zones
        where = (
            f"zone of the other images, {geodesy.utm_name(crs_of(codes[0]))}"
            if alone
            else "separate frame local"
        )
        without = (names.paths[row] for row in np.flatnonzero(~known))
        found.note(
            f"names have no UTM zone and hemisphere: their images were put into the {where}",
            without,
        )
        homes[~known] = codes[0] if alone else 0
    frames, name = [], np.full(len(x), "", dtype=object)
    for code in np.unique(homes).tolist():
        rows, crs = homes == code, crs_of(code) if code else None
        frame = Frame.near(geodesy.utm_name(crs) if crs else "local", x[rows], y[rows], crs)
        name[rows] = frame.name
        x[rows] -= frame.origin[0]
        y[rows] -= frame.origin[1]
        frames.append(frame)
    return frames, name.tolist(), x, y


def _zones(names: _Names, found: Findings) -> Ints:
    """The EPSG code of the UTM zone of each image; 0 if unknown."""
    side = np.nan_to_num(np.sign(names.numbers(LATITUDE, "latitude", limit=90))).tolist()
    code_of = cache(zone_code)
    zones = [
        code_of(*key) for key in zip(names.columns[ZONE], names.columns[LETTER], side, strict=True)
    ]
    for text in sorted({problem for _, problem in zones if problem}):
        found.note(
            text,
            (
                path
                for path, (_, problem) in zip(names.paths, zones, strict=True)
                if problem == text
            ),
        )
    return np.array([code for code, _ in zones], dtype=np.int64)


def _time(text: str) -> int | None:
    """Nanoseconds since 1970; NO_TIME for a year, month or day; None if it is unreadable or
    ambiguous.
    """
    if DATE.fullmatch(text):
        return NO_TIME
    try:
        if NUMBER_SINCE_1970.fullmatch(text):
            return nanoseconds(text, guess_unit(text))
        if match := COMPACT_TIME.fullmatch(text):
            return from_datetime(datetime.fromisoformat(f"{match[1]}T{match[2]:0<6}"))
        return nanoseconds(text) if ":" in text else None
    except ValueError:
        return None


def _above(root: Path) -> list[str]:
    """The names at the end of ROOT that name a split or a role."""
    parent, name = Path(os.path.normpath(root.absolute())).parts[-2:]
    if ROLE_FOLDER.fullmatch(name):
        return [parent, name] if parent in SPLITS else [name]
    return [name] if name in SPLITS else []


def _folder(name: str, above: list[str]) -> _Folder:
    """What a folder below ROOT tells; `above` is used if the folder names no split."""
    parts = name.removeprefix("images").removeprefix("/").split("/") if name else []
    parts = parts if parts != [""] else []
    if not SPLITS.keys() & parts:
        parts = above + parts
    split = next((SPLITS[part] for part in parts if part in SPLITS), "")
    match = next((match for match in map(ROLE_FOLDER.fullmatch, parts) if match), None)
    role = "" if match is None else "reference" if match[1] else "query"
    return _Folder("/".join(parts), split, role, (match[2] or "") if match else "")
