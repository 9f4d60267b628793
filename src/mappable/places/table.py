"""`Places`: the table of images with positions. Every reader returns it, and all other rooms use it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow
from pyarrow import compute

from mappable.arrays import MAX_COORDINATE, Bools, Floats, Ints, Strings
from mappable.errors import BadInputError, BadRowError, listed, shown
from mappable.places import roles
from mappable.places.angles import wrap
from mappable.places.decoding import RawDecoding
from mappable.places.frames import Frame
from mappable.places.notes import Findings, Note

NO_TIME = int(np.iinfo(np.int64).min)  # stands for an unknown time
SPLITS = ("", "train", "calibration", "test")
ROLES = ("", "reference", "query")
TEXT_COLUMNS = ("place_id", "path", "frame", "sequence", "condition", "split", "role")
NUMBER_COLUMNS = ("x", "y", "z", "yaw")
COLUMNS = ("place_id", "path", "frame", "x", "y", "z", "yaw", "time", "sequence", "condition", "split", "role")
KINDS = {name: pyarrow.string() for name in TEXT_COLUMNS} | {name: pyarrow.float64() for name in NUMBER_COLUMNS}
SCHEMA = pyarrow.schema([(name, KINDS.get(name, pyarrow.int64())) for name in COLUMNS])
OUTSIDE = r"^[/\\]|(?s)^.:|(^|[/\\])\.\.($|[/\\])"  # of a path that leads out of a folder

Texts = Strings | Sequence[str] | str | None
Numbers = Floats | Sequence[float] | None


class Places:
    """Images with positions: the Arrow table `table` with one row per image, whose columns are read-only arrays here.

    - `x`, `y`, `z` are float64 in the unit of the frame of the row.
    - `yaw` is in radians, counter-clockwise from +x, in (-pi, pi].
    - `time` is int64 nanoseconds since 1970, or since the start of the sequence if the data set has no more.
    - Unknown values are null in `table`; in arrays, they are NaN for `z` and `yaw`, `NO_TIME` for `time`, "" for text.
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
    dimensions: Literal[2, 3]
    decoding: RawDecoding | None
    notes: tuple[Note, ...]

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
        known = _known_frames(frames)
        if frame is None and len(known) == 1:
            frame = next(iter(known))
        texts = {"path": path, "place_id": path if place_id is None else place_id, "frame": frame, "sequence": sequence}
        texts |= {"condition": condition, "split": split, "role": role}
        numbers = {"x": x, "y": y, "z": z, "yaw": yaw}
        count = len(path)
        columns: dict[str, Any] = {name: _text_column(name, values, count) for name, values in texts.items()}
        columns |= {name: _number_column(name, values, count) for name, values in numbers.items()}
        columns |= {"yaw": wrap(columns["yaw"]), "time": _time_column(time, count)}
        rest = {"frames": known, "root": Path(root).resolve(), "dimensions": dimensions, "decoding": decoding}
        self._fill({"notes": tuple(notes), **rest}, columns)
        _validate(self)

    @classmethod
    def of(cls, table: pyarrow.Table, **rest: Any) -> "Places":
        """The places of an Arrow table with the columns of SCHEMA, such as one of a file; `rest` as for `Places`."""
        unknown = {"x": np.nan, "y": np.nan, "z": np.nan, "yaw": np.nan, "time": NO_TIME}
        numbers = {name: _numbers(table[name], missing) for name, missing in unknown.items()}
        return cls(**numbers, **{name: table[name].to_pylist() for name in TEXT_COLUMNS}, **rest)

    def _fill(self, rest: Mapping[str, Any], columns: Mapping[str, Any]) -> "Places":
        """Set the attributes, and the columns as read-only arrays."""
        for column in columns.values():
            column.flags.writeable = False
        self.__dict__.update(rest)
        self.__dict__.update(columns)
        return self

    @cached_property
    def table(self) -> pyarrow.Table:
        """The columns as an Arrow table; unknown values are null."""
        return _to_arrow({name: getattr(self, name) for name in COLUMNS})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"places do not change; make a copy with replace({name}=...)")

    def __len__(self) -> int:
        return len(self.path)

    def __getitem__(self, rows: int | slice | Ints | Bools | Sequence[int]) -> "Places":
        """The places of a slice, a mask or row numbers, in this order; for one row number a table with one row."""
        if isinstance(rows, int | np.integer):
            rows = [int(rows)]
        index = rows if isinstance(rows, slice) else np.asarray(rows, None if len(rows) else np.int64)
        columns = {name: getattr(self, name)[index] for name in COLUMNS}
        if isinstance(index, slice) or index.dtype == np.bool_ or len(np.unique(index)) == len(index):
            return object.__new__(Places)._fill(self._rest(), columns)
        return self.replace(**columns)  # the validation raises for repeated places

    def __eq__(self, other: object) -> bool:
        """True if columns, frames, dimensions and decoding are equal; root and notes are not compared."""
        if not isinstance(other, Places):
            return False
        names = ("table", "frames", "dimensions", "decoding")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        frames = ", ".join(f"{frame.name} ({frame.unit})" for frame in self.frames.values())
        return f"<Places: {len(self):,} places, {len(set(self.sequence)):,} sequences, frames {frames}>"

    def _rest(self) -> dict[str, Any]:
        """The attributes that are no columns."""
        return {name: self.__dict__[name] for name in ("frames", "root", "dimensions", "decoding", "notes")}

    def _with(self, **changes: Any) -> "Places":
        """A copy with changes of attributes that keep the table valid, so it is not validated again."""
        columns = {name: getattr(self, name) for name in COLUMNS}
        return object.__new__(Places)._fill(self._rest() | changes, columns)

    def replace(self, **changes: Any) -> "Places":
        """A copy with some columns or attributes changed. The copy is validated."""
        return Places(**{name: getattr(self, name) for name in COLUMNS} | self._rest() | changes)

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
            names = ", ".join(self.frames)
            raise BadInputError(f"frames {names} have different units; use the places of one unit at a time")
        return units.pop()

    def where(self, **values: str | Collection[str]) -> "Places":
        """The places whose text columns have this value, or one of several: `where(split="test", role="query")`."""
        mask = np.ones(len(self), dtype=bool)
        for name, wanted in values.items():
            if name not in TEXT_COLUMNS:
                raise BadInputError(f"cannot filter by {shown(name)}, expected one of: {', '.join(TEXT_COLUMNS)}")
            mask &= _is_in(_text_array(name, getattr(self, name)), [wanted] if isinstance(wanted, str) else wanted)
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
        coded = compute.dictionary_encode(_text_array("sequence", self.sequence))
        codes, names = np.array(coded.indices), coded.dictionary.to_pylist()
        rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes, minlength=len(names)))[:-1])
        return dict(zip(names, rows, strict=True)) if names else {}

    def in_time_order(self) -> "Places":
        """The places with each sequence sorted by time and its rows together.

        Notes list unsorted and repeated times. A sequence with an unknown time keeps the order of its rows.
        """
        order, found = [np.empty(0, dtype=np.int64)], Findings()
        unsorted, repeated = [], []
        for name, rows in self.sequences().items():
            times = self.time[rows]
            known = times != NO_TIME
            if known.all():
                unsorted += self.place_id[rows[times < np.maximum.accumulate(times)]].tolist()
                rows = rows[np.argsort(times, kind="stable")]
                repeated += self.place_id[rows[1:][np.diff(self.time[rows]) == 0]].tolist()
            elif known.any():
                partial = f"{name}: {np.count_nonzero(~known)} of {len(rows)} places"
                found.note("sequences have unknown times, so their rows were not sorted", [partial])
            order.append(rows)
        notes = Findings()
        notes.note("places were out of time order in their sequence and were sorted", unsorted)
        notes.note("places have the same time as the place before them", repeated)
        return self[np.concatenate(order)].noting(*notes, *found)


# Columns


def _known_frames(frames: Frame | Iterable[Frame] | Mapping[str, Frame]) -> dict[str, Frame]:
    given = (frames,) if isinstance(frames, Frame) else frames.values() if isinstance(frames, Mapping) else frames
    listed_frames = [*given]
    known = {frame.name: frame for frame in listed_frames}
    if len(known) != len(listed_frames):
        names = ", ".join(sorted(frame.name for frame in listed_frames))
        raise BadInputError(f"two frames have the same name: {names}")
    return known


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
        return np.array([values or ""] * count, dtype=object)  # np.full would drop a zero byte at the end
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
    if given.size and (given.dtype.kind not in "iuO" or floats):  # a float cannot hold current times exactly
        raise BadInputError(f"column time has {given.dtype} values, expected whole nanoseconds")
    if given.dtype.kind == "u" and (given > np.iinfo(np.int64).max).any():
        raise BadInputError(f"column time: {given.max()} is too large for int64")
    column: Ints = _column("time", given, np.int64, count)
    return column


def _number_column(name: str, values: Numbers, count: int) -> Floats:
    column: Floats = _column(name, np.full(count, np.nan) if values is None else values, np.float64, count)
    return column


# pyarrow's own conversions between arrays import pandas where it is installed, which takes longer than opening a map.
# So these read and write the buffers.


def _to_arrow(columns: Mapping[str, Any]) -> pyarrow.Table:
    arrays = {name: _text_array(name, columns[name]) for name in ("path", *TEXT_COLUMNS)}
    arrays |= {name: _number_array(columns[name], ~np.isnan(columns[name])) for name in NUMBER_COLUMNS}
    arrays["time"] = _number_array(columns["time"], columns["time"] != NO_TIME)
    return pyarrow.Table.from_arrays([arrays[name] for name in COLUMNS], schema=SCHEMA)


def _number_array(values: Floats | Ints, known: Bools) -> pyarrow.Array:
    kind = pyarrow.float64() if values.dtype == np.float64 else pyarrow.int64()
    mask = None if known.all() else pyarrow.py_buffer(np.packbits(known, bitorder="little"))
    return pyarrow.Array.from_buffers(kind, len(values), [mask, pyarrow.py_buffer(np.ascontiguousarray(values))])


def _text_array(name: str, values: Iterable[str]) -> pyarrow.Array:
    try:
        encoded = [value.encode() for value in values]
    except UnicodeEncodeError:
        row = next(row for row, value in enumerate(values) if not _is_unicode(value))
        raise BadRowError(row, [*values][row], f"{name} is not valid UTF-8; rename the file") from None
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pyarrow.StringArray.from_buffers(len(encoded), pyarrow.py_buffer(ends), pyarrow.py_buffer(b"".join(encoded)))


def _is_unicode(text: str) -> bool:
    return text.isascii() or text.encode("utf-8", "replace").decode() == text


def _numbers(column: pyarrow.ChunkedArray, missing: float) -> Any:
    if column.null_count:
        return np.array([missing if value is None else value for value in column.to_pylist()])
    return np.from_dlpack(column.combine_chunks())


# Validation


def _is_in(column: Any, values: Iterable[str]) -> Bools:
    inside: Bools = np.array(compute.is_in(column, value_set=_text_array("", values)).to_pylist(), dtype=bool)
    return inside


def _validate(places: Places) -> None:
    def refuse(bad: Bools, problem: Callable[[int], str]) -> None:
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise BadRowError(row, str(places.place_id[row]), problem(row))

    if places.dimensions not in (2, 3):
        raise BadInputError(f"dimensions is {shown(places.dimensions)}, expected 2 or 3")
    for name in NUMBER_COLUMNS:
        column = getattr(places, name)
        infinite = ~np.isfinite(column) if name in ("x", "y") else np.isinf(column)
        refuse(infinite, lambda row, n=name, c=column: f"{n} is {c[row]}, expected a finite number")  # type: ignore[misc]
        limit = f"expected at most {MAX_COORDINATE:g}, positive or negative"
        refuse(np.abs(column) > MAX_COORDINATE, lambda row, n=name, c=column, p=limit: f"{n} is {c[row]}, {p}")  # type: ignore[misc]
    if places.dimensions == 3:
        refuse(np.isnan(places.z), lambda _: "z is unknown, but dimensions is 3")
    for name, allowed in (("frame", places.frames.keys()), ("split", SPLITS), ("role", ROLES)):
        options = listed(value or "(empty)" for value in allowed)
        unknown, column = ~_is_in(places.table[name], allowed), getattr(places, name)
        refuse(unknown, lambda row, n=name, c=column, o=options: f"{n} is {shown(c[row])}, expected one of: {o}")  # type: ignore[misc]
    for name in ("path", "place_id"):
        column = getattr(places, name)
        refuse(column == "", lambda _, n=name: f"{n} is empty")  # type: ignore[misc]
        if compute.count_distinct(places.table[name]).as_py() < len(column):
            again = np.ones(len(column), dtype=bool)
            again[np.unique(column, return_index=True)[1]] = False
            refuse(again, lambda row, n=name, c=column: f"duplicate {n} {shown(str(c[row]))}")  # type: ignore[misc]
    refuse(np.array(["\0" in path for path in places.path], dtype=bool), lambda _: "path contains a zero byte")
    outside = compute.match_substring_regex(places.table["path"], OUTSIDE)
    escaping: Bools = np.array(outside.to_pylist(), dtype=bool)
    refuse(escaping, lambda row: f"path {shown(str(places.path[row]))} leads outside the root folder")
    if len(places.frames) > 1:
        for name, rows in places.sequences().items():
            mixed = rows[places.frame[rows] != places.frame[rows[0]]]
            if len(mixed):
                row = int(mixed[0])
                first = f"{shown(places.frame[rows[0]])}, the frame in which sequence {shown(name)} begins"
                problem = f"frame is {shown(places.frame[row])}, expected {first}"
                raise BadRowError(row, str(places.place_id[row]), problem)
