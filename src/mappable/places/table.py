"""`Places`: the table of images with positions. Every reader returns it, and all other rooms use it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
COLUMNS = (
    "place_id",
    "path",
    "frame",
    "x",
    "y",
    "z",
    "yaw",
    "time",
    "sequence",
    "condition",
    "split",
    "role",
)
KINDS = {name: pyarrow.string() for name in TEXT_COLUMNS} | {
    name: pyarrow.float64() for name in NUMBER_COLUMNS
}
SCHEMA = pyarrow.schema([(name, KINDS.get(name, pyarrow.int64())) for name in COLUMNS])
# Of a path that leads out of a folder, or to no file.
OUTSIDE = r"\x00|^[/\\]|(?s)^.:|(^|[/\\])\.\.($|[/\\])"

Texts = Strings | Sequence[str] | str | None
Numbers = Floats | Sequence[float] | None


class Places:
    """Images with positions: the Arrow table `table` with one row per image, whose columns are
    read-only arrays here.

    - `x`, `y`, `z` are float64 in the unit of the frame of the row.
    - `yaw` is in radians, counter-clockwise from +x, in (-pi, pi].
    - `time` is int64 nanoseconds since 1970, or since the start of the sequence if the data set has
      no more.
    - Unknown values are null in `table`; in arrays, they are NaN for `z` and `yaw`, `NO_TIME` for
      `time`, "" for text.
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
        texts = {
            "path": path,
            "place_id": path if place_id is None else place_id,
            "frame": frame,
            "sequence": sequence,
        }
        texts |= {"condition": condition, "split": split, "role": role}
        count = len(path)
        columns = {
            name: _text_array(name, _texts(name, values, count)) for name, values in texts.items()
        }
        for name, values in {"x": x, "y": y, "z": z, "yaw": yaw}.items():
            column = _column(
                name, np.full(count, np.nan) if values is None else values, np.float64, count
            )
            column = wrap(column) if name == "yaw" else column
            columns[name] = _number_array(column, ~np.isnan(column))
        times = _times(time, count)
        columns["time"] = _number_array(times, times != NO_TIME)
        self._set(
            table=pyarrow.Table.from_arrays([columns[name] for name in COLUMNS], schema=SCHEMA),
            frames=known,
            root=Path(root).resolve(),
            dimensions=dimensions,
            decoding=decoding,
            notes=tuple(notes),
        )
        _validate(self)

    def _set(self, **attributes: Any) -> "Places":
        self.__dict__.update(attributes)
        return self

    def __getattr__(self, name: str) -> Any:
        """A column of the table as an array, which is made once."""
        if name not in COLUMNS or "table" not in self.__dict__:
            raise AttributeError(f"places have no {name!r}")
        column = _to_array(name, self.table[name])
        column.flags.writeable = False
        self.__dict__[name] = column
        return column

    @classmethod
    def of(cls, table: pyarrow.Table, **attributes: Any) -> "Places":
        """The places of an Arrow table with the columns of SCHEMA, such as that of a file."""
        arrays = {name: _to_array(name, table[name]) for name in COLUMNS}
        return cls(**arrays, **attributes)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"places do not change; make a copy with replace({name}=...)")

    def __len__(self) -> int:
        return self.table.num_rows  # type: ignore[no-any-return]

    def __getitem__(self, rows: int | slice | Ints | Bools | Sequence[int]) -> "Places":
        """The places of a slice, a mask or row numbers, in this order; for one row number a table
        with one row.
        """
        if isinstance(rows, int | np.integer):
            rows = [int(rows)]
        index = (
            rows if isinstance(rows, slice) else np.asarray(rows, None if len(rows) else np.int64)
        )
        chosen = np.arange(len(self))[index]
        places = self._with(table=self.table.take(_number_array(chosen, np.True_)))
        if (
            not isinstance(index, slice)
            and index.dtype != np.bool_
            and len(np.unique(chosen)) < len(chosen)
        ):
            _validate(places)  # raises for repeated places
        return places

    def __eq__(self, other: object) -> bool:
        """True if columns, frames, dimensions and decoding are equal; root and notes are not
        compared.
        """
        if not isinstance(other, Places):
            return False
        names = ("table", "frames", "dimensions", "decoding")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        frames = ", ".join(f"{frame.name} ({frame.unit})" for frame in self.frames.values())
        return (
            f"<Places: {len(self):,} places, {len(set(self.sequence)):,} sequences, frames"
            f" {frames}>"
        )

    def _attributes(self) -> dict[str, Any]:
        names = ("table", "frames", "root", "dimensions", "decoding", "notes")
        return {name: self.__dict__[name] for name in names}

    def _with(self, **changes: Any) -> "Places":
        """A copy with changes of attributes that keep the table valid, so it is not validated
        again.
        """
        return object.__new__(Places)._set(**self._attributes() | changes)

    def replace(self, **changes: Any) -> "Places":
        """A copy with some columns or attributes changed. The copy is validated."""
        rest = self._attributes()
        del rest["table"]
        return Places(**{name: getattr(self, name) for name in COLUMNS} | rest | changes)

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
            raise BadInputError(
                f"frames {names} have different units; use the places of one unit at a time"
            )
        return units.pop()

    def where(self, **values: str | Collection[str]) -> "Places":
        """The places whose text columns have this value, or one of several: `where(split="test",
        role="query")`.
        """
        mask = np.ones(len(self), dtype=bool)
        for name, wanted in values.items():
            if name not in TEXT_COLUMNS:
                raise BadInputError(
                    f"cannot filter by {shown(name)}, expected one of: {', '.join(TEXT_COLUMNS)}"
                )
            mask &= _is_in(self.table[name], [wanted] if isinstance(wanted, str) else wanted)
        return self[mask]

    def training(self) -> Ints:
        """Rows of the training images. `mappable.places.roles` has the rules of this and the next
        three methods.
        """
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
        codes, names = _encoded(self.table["sequence"])
        rows = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        return dict(zip(names, rows, strict=True)) if names else {}

    def in_time_order(self) -> "Places":
        """The places with each sequence sorted by time and its rows together.

        Notes list unsorted and repeated times. A sequence with an unknown time keeps the order of
        its rows.
        """
        order, findings = [np.empty(0, dtype=np.int64)], Findings()
        for name, rows in self.sequences().items():
            times = self.time[rows]
            known = times != NO_TIME
            if known.all():
                late = self.place_id[rows[times < np.maximum.accumulate(times)]]
                rows = rows[np.argsort(times, kind="stable")]
                repeated = self.place_id[rows[1:][np.diff(self.time[rows]) == 0]]
                findings.note(
                    "places were out of time order in their sequence and were sorted", late
                )
                findings.note("places have the same time as the place before them", repeated)
            elif known.any():
                partial = f"{name}: {np.count_nonzero(~known)} of {len(rows)} places"
                findings.note(
                    "sequences have unknown times, so their rows were not sorted", [partial]
                )
            order.append(rows)
        return self[np.concatenate(order)].noting(*findings)


# Columns


def _known_frames(frames: Frame | Iterable[Frame] | Mapping[str, Frame]) -> dict[str, Frame]:
    if isinstance(frames, Mapping):
        frames = frames.values()
    members = [frames] if isinstance(frames, Frame) else list(frames)
    known = {frame.name: frame for frame in members}
    if len(known) != len(members):
        names = ", ".join(sorted(frame.name for frame in members))
        raise BadInputError(f"two frames have the same name: {names}")
    return known


def _column(name: str, values: Any, dtype: Any, count: int) -> Any:
    try:
        column = np.array(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInputError(f"column {name}: {error}") from None
    if column.shape != (count,):
        raise BadInputError(
            f"column {name} has shape {column.shape}, expected ({count},), one value per path"
        )
    return column


def _texts(name: str, values: Texts, count: int) -> list[str]:
    if values is None or isinstance(values, str):
        return [values or ""] * count
    texts = _column(name, values, object, count).tolist()
    for row, value in enumerate(texts):
        if not isinstance(value, str):
            raise BadInputError(
                f"column {name}, place {row}: value is {shown(value)}, expected text"
            )
    return texts  # type: ignore[no-any-return]


def _times(values: Ints | Sequence[int] | None, count: int) -> Ints:
    times = np.full(count, NO_TIME) if values is None else np.asarray(values)
    floats = times.dtype.kind == "O" and any(isinstance(value, float) for value in times.ravel())
    # A float cannot hold current times exactly.
    if times.size and (times.dtype.kind not in "iuO" or floats):
        raise BadInputError(f"column time has {times.dtype} values, expected whole nanoseconds")
    if times.dtype.kind == "u" and (times > np.iinfo(np.int64).max).any():
        raise BadInputError(f"column time: {times.max()} is too large for int64")
    column: Ints = _column("time", times, np.int64, count)
    return column


# pyarrow's own conversions between arrays import pandas where it is installed, which takes longer
# than opening a map. So these read and write the buffers.


def _number_array(values: Floats | Ints, known: Bools | np.bool_) -> pyarrow.Array:
    kind = pyarrow.float64() if values.dtype == np.float64 else pyarrow.int64()
    mask = None if known.all() else pyarrow.py_buffer(np.packbits(known, bitorder="little"))
    return pyarrow.Array.from_buffers(
        kind, len(values), [mask, pyarrow.py_buffer(np.ascontiguousarray(values))]
    )


def _text_array(name: str, values: Sequence[str]) -> pyarrow.Array:
    try:
        encoded = [value.encode() for value in values]
    except UnicodeEncodeError as error:
        row = values.index(error.object)
        raise BadRowError(row, values[row], f"{name} is not valid UTF-8; rename the file") from None
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pyarrow.StringArray.from_buffers(
        len(encoded), pyarrow.py_buffer(ends), pyarrow.py_buffer(b"".join(encoded))
    )


def _to_array(name: str, column: pyarrow.ChunkedArray) -> Any:
    if name in TEXT_COLUMNS:
        return np.array(column.to_pylist(), dtype=object)
    unknown = _number_array(np.array([NO_TIME if name == "time" else np.nan]), np.True_)[0]
    return np.array(np.from_dlpack(compute.fill_null(column, unknown).combine_chunks()))


def _encoded(column: pyarrow.ChunkedArray) -> tuple[Ints, list[str]]:
    """The number of each value, in order of first appearance, and the values."""
    coded = column.combine_chunks().dictionary_encode()
    return np.from_dlpack(coded.indices).astype(np.int64), coded.dictionary.to_pylist()


def _is_in(column: pyarrow.ChunkedArray, values: Collection[str]) -> Bools:
    codes, known = _encoded(column)
    return np.array([value in values for value in known], dtype=bool)[codes]


# Validation


def _validate(places: Places) -> None:
    if places.dimensions not in (2, 3):
        raise BadInputError(f"dimensions is {shown(places.dimensions)}, expected 2 or 3")
    for name, wrong, expected in _rules(places):
        if wrong.any():
            row = int(np.argmax(wrong))
            value = shown(getattr(places, name).item(row))
            raise BadRowError(
                row, str(places.place_id[row]), f"{name} is {value}, expected {expected}"
            )


def _rules(places: Places) -> Iterator[tuple[str, Bools, str]]:
    """For each rule the column, a mask of the rows that break it, and what is expected."""
    for name in NUMBER_COLUMNS:
        column = getattr(places, name)
        unknown = np.isnan(column) & (name in ("z", "yaw"))
        yield (
            name,
            ~(np.abs(column) <= MAX_COORDINATE) & ~unknown,
            f"a number of at most {MAX_COORDINATE:g}",
        )
    if places.dimensions == 3:
        yield "z", np.isnan(places.z), "a number, because dimensions is 3"
    for name, allowed in (("frame", places.frames.keys()), ("split", SPLITS), ("role", ROLES)):
        options = listed(value or "(empty)" for value in allowed)
        yield name, ~_is_in(places.table[name], allowed), f"one of: {options}"
    for name in ("path", "place_id"):
        codes, _ = _encoded(places.table[name])
        yield name, getattr(places, name) == "", "text"
        yield (
            name,
            np.diff(np.maximum.accumulate(codes), prepend=-1) == 0,
            "a value that no earlier row has",
        )
    outside = compute.match_substring_regex(places.table["path"], OUTSIDE)
    yield (
        "path",
        np.array(outside.to_pylist(), dtype=bool),
        "a path inside the root folder, without zero bytes",
    )
    if len(places.frames) > 1:
        first = places.frame.copy()
        for rows in places.sequences().values():
            first[rows] = places.frame[rows[0]]
        yield "frame", places.frame != first, "the frame in which its sequence begins"
