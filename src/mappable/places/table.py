"""`Places`: the table of images with positions. Every reader returns it, and all other rooms use it."""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np

from mappable.arrays import MAX_COORDINATE, Bools, Floats, Ints, Strings
from mappable.errors import BadInputError, BadRowError, listed, shown
from mappable.places import roles
from mappable.places.angles import wrap
from mappable.places.decoding import RawDecoding
from mappable.places.frames import Frame
from mappable.places.notes import Note, warn

NO_TIME = int(np.iinfo(np.int64).min)  # stands for an unknown time
SPLITS = ("", "train", "calibration", "test")
ROLES = ("", "reference", "query")
TEXT_COLUMNS = ("place_id", "path", "frame", "sequence", "condition", "split", "role")
NUMBER_COLUMNS = ("x", "y", "z", "yaw")
COLUMNS = ("place_id", "path", "frame", "x", "y", "z", "yaw", "time", "sequence", "condition", "split", "role")

Texts = Strings | Sequence[str] | str | None
Numbers = Floats | Sequence[float] | None


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Places:
    """Images with positions: one row per image, columns as read-only arrays of equal length.

    - `x`, `y`, `z` are float64 in the unit of the frame of the row.
    - `yaw` is in radians, counter-clockwise from +x, in (-pi, pi].
    - `time` is int64 nanoseconds since 1970, or since the start of the sequence if the data set has no more.
    - Unknown values are NaN for `z` and `yaw`, `NO_TIME` for `time`, and "" for text.
    - A text column given as one string has this value in every row.
    - `path` is relative to `root`, with forward slashes. `place_id` is the path by default.
    - `dimensions` is 3 if z counts in all distances, else 2.

    Readers return the rows of each sequence in time order.
    """

    path: Strings
    frame: Strings
    x: Floats
    y: Floats
    z: Floats
    yaw: Floats
    time: Ints
    sequence: Strings
    condition: Strings
    split: Strings
    role: Strings
    place_id: Strings
    frames: Mapping[str, Frame]
    root: Path
    dimensions: Literal[2, 3] = 2
    decoding: RawDecoding | None = None
    notes: tuple[Note, ...] = field(default=())

    def __init__(
        self,
        *,
        path: Strings | Sequence[str],
        x: Floats | Sequence[float],
        y: Floats | Sequence[float],
        frames: Frame | Iterable[Frame] | Mapping[str, Frame],
        root: Path | str = ".",
        frame: Texts = None,
        z: Numbers = None,
        yaw: Numbers = None,
        time: Ints | Sequence[int] | None = None,
        sequence: Texts = None,
        condition: Texts = None,
        split: Texts = None,
        role: Texts = None,
        place_id: Strings | Sequence[str] | None = None,
        dimensions: Literal[2, 3] = 2,
        decoding: RawDecoding | None = None,
        notes: Iterable[Note] = (),
    ) -> None:
        if isinstance(frames, Mapping):
            frames = frames.values()
        known = (frames,) if isinstance(frames, Frame) else tuple(frames)
        if len({one.name for one in known}) != len(known):
            raise BadInputError(f"two frames have the same name: {', '.join(sorted(one.name for one in known))}")
        if frame is None and len(known) == 1:
            frame = known[0].name
        count = len(path)
        texts = {"path": path, "place_id": path if place_id is None else place_id, "frame": frame, "sequence": sequence}
        texts |= {"condition": condition, "split": split, "role": role}
        columns: dict[str, Any] = {name: _text_column(name, value, count) for name, value in texts.items()}
        for name, value in (("x", x), ("y", y), ("z", z), ("yaw", yaw)):
            columns[name] = _number_column(name, value, count)
        columns["yaw"] = wrap(columns["yaw"])
        columns["time"] = _time_column(time, count)
        for name, column in columns.items():
            column.flags.writeable = False
            object.__setattr__(self, name, column)
        object.__setattr__(self, "frames", {one.name: one for one in known})
        object.__setattr__(self, "root", Path(root).resolve())
        object.__setattr__(self, "dimensions", dimensions)
        object.__setattr__(self, "decoding", decoding)
        object.__setattr__(self, "notes", tuple(notes))
        _validate(self)

    def __len__(self) -> int:
        return len(self.path)

    def __getitem__(self, rows: int | slice | Ints | Bools | Sequence[int]) -> "Places":
        """The places of a slice, a mask or row numbers, in this order; for one row number a table with one row."""
        if isinstance(rows, int | np.integer):
            rows = [int(rows)]
        index = rows if isinstance(rows, slice) else np.asarray(rows, dtype=None if len(rows) else np.int64)
        columns = {name: getattr(self, name)[index] for name in COLUMNS}
        if isinstance(index, slice) or index.dtype == np.bool_ or len(np.unique(index)) == len(index):
            return self._with(**columns)
        return self.replace(**columns)  # the validation raises for repeated places

    def __eq__(self, other: object) -> bool:
        """True if columns, frames, dimensions and decoding are equal; root and notes are not compared."""
        if not isinstance(other, Places) or len(self) != len(other):
            return False
        if (self.frames, self.dimensions, self.decoding) != (other.frames, other.dimensions, other.decoding):
            return False
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=name in NUMBER_COLUMNS)
            for name in COLUMNS
        )

    def __repr__(self) -> str:
        frames = ", ".join(f"{one.name} ({one.unit})" for one in self.frames.values())
        return f"<Places: {len(self):,} places, {len(set(self.sequence)):,} sequences, frames {frames}>"

    def replace(self, **changes: Any) -> "Places":
        """A copy with some columns or attributes changed. The copy is validated."""
        return Places(**({one.name: getattr(self, one.name) for one in dataclasses.fields(self)} | changes))

    def _with(self, **changes: Any) -> "Places":
        """A copy with changes that keep the table valid, so it is not validated again."""
        copy = object.__new__(Places)
        copy.__dict__.update({one.name: getattr(self, one.name) for one in dataclasses.fields(self)} | changes)
        for name in COLUMNS:
            getattr(copy, name).flags.writeable = False
        return copy

    def decoded_as(self, decoding: RawDecoding | None) -> "Places":
        """The places with this raw decoding, for example of a map, unless the table has one."""
        return self if self.decoding is not None else self._with(decoding=decoding)

    def noting(self, *notes: Note) -> "Places":
        """A copy with more notes."""
        return self._with(notes=self.notes + notes)

    @cached_property
    def positions(self) -> Floats:
        """Coordinates (n, dimensions) in the unit of each frame: x, y and, with 3 dimensions, z."""
        positions = np.column_stack([self.x, self.y, self.z][: self.dimensions])
        positions.flags.writeable = False
        return positions

    @property
    def files(self) -> list[Path]:
        """The image files, in row order."""
        return [self.root / path for path in self.path]

    @property
    def unit(self) -> str:
        """The common unit of all frames, for printing; raises if frames have different units."""
        units = {self.frames[name].unit for name in set(self.frame)}
        if len(units) != 1:
            raise BadInputError(
                f"frames {', '.join(self.frames)} have different units; use the places of one unit at a time"
            )
        return units.pop()

    def where(self, **values: str | Collection[str]) -> "Places":
        """The places whose text columns have this value, or one of several: `where(split="test", role="query")`."""
        mask = np.ones(len(self), dtype=bool)
        for name, wanted in values.items():
            if name not in TEXT_COLUMNS:
                raise BadInputError(f"cannot filter by {shown(name)}, expected one of: {', '.join(TEXT_COLUMNS)}")
            allowed = {wanted} if isinstance(wanted, str) else set(wanted)
            mask &= np.array([value in allowed for value in getattr(self, name)], dtype=bool)
        return self[mask]

    def training(self) -> Ints:
        """Rows of the training images. `mappable.places.roles` has the rules of this and the next three methods."""
        return roles.training(self)

    def references(self) -> Ints:
        """Rows of the candidates for landmarks of a map."""
        return roles.references(self)

    def calibration(self) -> Ints:
        """Rows that calibrate a map of the references."""
        return roles.calibration(self)

    def queries(self) -> Ints:
        """Rows to locate in a map of the references."""
        return roles.queries(self)

    def sequences(self) -> dict[str, Ints]:
        """Row numbers of each sequence, in row order; sequences in order of first appearance."""
        names, first, codes = np.unique(self.sequence, return_index=True, return_inverse=True)
        rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes, minlength=len(names)))[:-1])
        return {str(names[code]): rows[code] for code in np.argsort(first)}

    def in_time_order(self) -> "Places":
        """The places with each sequence sorted by time and its rows together.

        Notes list unsorted and repeated times. A sequence with an unknown time keeps the order of its rows.
        """
        order, unsorted, repeated, partial = [], [], [], []
        for name, rows in self.sequences().items():
            times = self.time[rows]
            known = times != NO_TIME
            if known.all():
                late = np.flatnonzero(times < np.maximum.accumulate(times))
                unsorted += [str(self.place_id[row]) for row in rows[late]]
                rows = rows[np.argsort(times, kind="stable")]
                same = np.flatnonzero(np.diff(self.time[rows]) == 0) + 1
                repeated += [str(self.place_id[row]) for row in rows[same]]
            elif known.any():
                partial.append(f"{name}: {np.count_nonzero(~known)} of {len(rows)} places")
            order.append(rows)
        found = warn("places were out of time order in their sequence and were sorted", unsorted)
        found += warn("places have the same time as the place before them", repeated)
        found += warn("sequences have unknown times, so their rows were not sorted", partial)
        return self[np.concatenate(order) if order else np.arange(0)].noting(*found)


def _validate(places: Places) -> None:
    def refuse(bad: Bools, problem: Callable[[int], str]) -> None:
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise BadRowError(row, str(places.place_id[row]), problem(row))

    if places.dimensions not in (2, 3):
        raise BadInputError(f"dimensions is {shown(places.dimensions)}, expected 2 or 3")
    refuse(~np.isfinite(places.x), lambda row: f"x is {places.x[row]}, expected a finite number")
    refuse(~np.isfinite(places.y), lambda row: f"y is {places.y[row]}, expected a finite number")
    for name in ("x", "y", "z"):
        column = getattr(places, name)
        problem = f"expected at most {MAX_COORDINATE:g}, positive or negative"
        refuse(
            np.isfinite(column) & (np.abs(column) > MAX_COORDINATE),
            lambda row, n=name, c=column, p=problem: f"{n} is {c[row]}, {p}",  # type: ignore[misc]
        )
    refuse(np.isinf(places.z), lambda row: f"z is {places.z[row]}, expected a finite number")
    refuse(np.isinf(places.yaw), lambda row: f"yaw is {places.yaw[row]}, expected a finite number")
    if places.dimensions == 3:
        refuse(np.isnan(places.z), lambda _: "z is unknown, but dimensions is 3")
    for name, allowed in (("frame", places.frames.keys()), ("split", SPLITS), ("role", ROLES)):
        column, options = getattr(places, name), listed(value or "(empty)" for value in allowed)
        known = np.array([value in allowed for value in column], dtype=bool)
        refuse(~known, lambda row, n=name, c=column, o=options: f"{n} is {shown(c[row])}, expected one of: {o}")  # type: ignore[misc]
    for name in ("path", "place_id"):
        column = getattr(places, name)
        refuse(column == "", lambda _, name=name: f"{name} is empty")  # type: ignore[misc]
        if len(set(column)) != len(column):
            again = np.ones(len(column), dtype=bool)
            again[np.unique(column, return_index=True)[1]] = False
            refuse(again, lambda row, c=column, n=name: f"duplicate {n} {shown(str(c[row]))}")  # type: ignore[misc]
    for name in ("path", "place_id", "frame", "sequence", "condition"):
        not_text = [not value.isascii() and not _is_unicode(value) for value in getattr(places, name)]
        refuse(np.array(not_text, dtype=bool), lambda _, n=name: f"{n} is not valid UTF-8; rename the file")  # type: ignore[misc]
    refuse(np.array(["\0" in path for path in places.path], dtype=bool), lambda _: "path contains a zero byte")
    escaping = np.array([_escapes(path) for path in places.path], dtype=bool)
    refuse(escaping, lambda row: f"path {shown(str(places.path[row]))} leads outside the root folder")
    if len(places.frames) > 1:
        for name, rows in places.sequences().items():
            mixed = places.frame[rows] != places.frame[rows[0]]
            if mixed.any():
                row = int(rows[mixed][0])
                first = f"{shown(places.frame[rows[0]])}, the frame in which sequence {shown(name)} begins"
                problem = f"frame is {shown(places.frame[row])}, expected {first}"
                raise BadRowError(row, str(places.place_id[row]), problem)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _escapes(path: str) -> bool:
    if ".." not in path and path[0] != "/" and "\\" not in path and ":" not in path[:2]:
        return False
    return path.startswith(("/", "\\")) or path[1:2] == ":" or ".." in PurePosixPath(path.replace("\\", "/")).parts


def _column(name: str, values: Any, dtype: Any, count: int) -> Any:
    try:
        column = np.array(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInputError(f"column {name}: {error}") from None
    if column.shape != (count,):
        raise BadInputError(f"column {name} has shape {column.shape}, expected ({count},), one value per path")
    return column


def _text_column(name: str, values: Texts, count: int) -> Strings:
    if values is None or isinstance(values, str):
        values = [values or ""] * count
    column: Strings = _column(name, values, object, count)
    for row, value in enumerate(column):
        if type(value) is not str:
            if not isinstance(value, str):
                raise BadInputError(f"column {name}, place {row}: value is {shown(value)}, expected text")
            column[row] = str(value)  # convert a NumPy string
    return column


def _time_column(values: Ints | Sequence[int] | None, count: int) -> Ints:
    given = np.full(count, NO_TIME) if values is None else np.asarray(values)
    floats = given.dtype.kind == "O" and any(isinstance(value, float) for value in given.ravel())
    if given.size and (
        given.dtype.kind not in "iuO" or floats
    ):  # a float cannot hold current times in nanoseconds exactly
        raise BadInputError(f"column time has {given.dtype} values, expected whole nanoseconds")
    if given.dtype.kind == "u" and (given > np.iinfo(np.int64).max).any():
        raise BadInputError(f"column time: {given.max()} is too large for int64")
    column: Ints = _column("time", given, np.int64, count)
    return column


def _number_column(name: str, values: Numbers, count: int) -> Floats:
    column: Floats = _column(name, np.full(count, np.nan) if values is None else values, np.float64, count)
    return column
