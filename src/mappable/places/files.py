"""Tables of places on disk: Parquet (default) or CSV, both lossless."""

import csv
import io
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from mappable.checksums import digest, digest_of_file
from mappable.containers import MAX_METADATA
from mappable.errors import BadInputError
from mappable.files import write_atomically
from mappable.formats import KEY, Format
from mappable.places.decoding import RawDecoding
from mappable.places.frames import Frame
from mappable.places.notes import Note
from mappable.places.table import COLUMNS, NUMBER_COLUMNS, SCHEMA, TEXT_COLUMNS, Places
from mappable.tables import read_csv

FORMAT = Format(
    "mappable places",
    2,
    "write the table again, or read it with the reader 'manifest'",
    sealed_since=2,
    earliest=1,
    limit=MAX_METADATA,
)
TABLE = "places.parquet"  # file name of the table in the output folder of `mappable convert`


def save_places(places: Places, file: Path | str) -> None:
    """Write `file` (.parquet or .csv) atomically. For CSV, everything except the columns goes to
    <file>.json.
    """
    file = Path(file)
    if file.suffix == ".parquet":
        FORMAT.write_parquet(file, places.table, _about(places, file))
    elif file.suffix == ".csv":
        content = _csv(places)
        FORMAT.write(_beside(file), _about(places, file) | {"table": digest(content)})
        write_atomically(file, lambda stream: stream.write(content))
    else:
        raise BadInputError(f"{file}: the suffix is {file.suffix!r}, expected .parquet or .csv")


def load_places(file: Path | str, *, rows: int | None = None) -> Places:
    """Read a table that `save_places` wrote: a file, or a folder with `places.parquet`.

    With `rows`, raise, before reading, if a Parquet file has another number of rows.
    """
    file = Path(file)
    convert = ""
    if file.is_dir():
        convert = f"; convert the images first: mappable convert auto {shlex.quote(str(file))}"
        file = file / TABLE
    if not file.is_file():
        raise BadInputError(f"{file}: no such table of places{convert}")
    try:
        with FORMAT.reading(file):
            table, about = (
                FORMAT.read_parquet(file, rows) if file.suffix == ".parquet" else _read_csv(file)
            )
            return Places.of(
                table,
                frames=[Frame.from_json(fields) for fields in about["frames"]],
                root=file.parent / about["root"],
                dimensions=about["dimensions"],
                decoding=RawDecoding(**about["decoding"]) if about["decoding"] else None,
                notes=[Note.from_json(fields) for fields in about["notes"]],
            )
    except BadInputError as error:
        text = str(error)
        raise BadInputError(
            text if text.startswith(str(file.with_suffix(""))) else f"{file}: {text}"
        ) from None


def is_own_table(file: Path) -> bool:
    """True if `save_places` wrote the file, so that `load_places` can read it."""
    if file.suffix == ".csv":
        return _beside(file).is_file() and b'"mappable' in _beside(file).read_bytes()[:64]
    try:
        return KEY.encode() in (pyarrow.parquet.read_schema(file).metadata or {})
    except (OSError, pyarrow.ArrowException):
        return False


def _beside(file: Path) -> Path:
    """The JSON file next to a CSV file, which holds everything except the columns."""
    return file.with_name(f"{file.name}.json")


def _about(places: Places, file: Path) -> dict[str, Any]:
    """Everything except the columns. A root inside the folder of the table is stored relative, so
    both can move.
    """
    root, folder = places.root, file.parent.resolve()
    return {
        "dimensions": places.dimensions,
        "root": root.relative_to(folder).as_posix() if root.is_relative_to(folder) else str(root),
        "frames": [frame.to_json() for frame in places.frames.values()],
        "decoding": asdict(places.decoding) if places.decoding else None,
        "notes": [note.to_json() for note in places.notes],
    }


def _csv(places: Places) -> bytes:
    """The columns as CSV."""
    text = io.StringIO(newline="")
    # It writes all digits of a float, and quotes "\r" and "\n" inside a text.
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(zip(*(places.table[name].to_pylist() for name in COLUMNS), strict=True))
    return text.getvalue().encode()


def _read_csv(file: Path) -> tuple[pyarrow.Table, dict[str, Any]]:
    if not _beside(file).is_file():
        raise BadInputError(
            f"{file}: {file.name}.json is missing; read the table with the reader 'manifest'"
        )
    about = FORMAT.read(_beside(file))
    if about.pop("table", None) not in (None, digest_of_file(file)):
        about["notes"].append(
            Note(f"{file.name} was edited, or damaged, after it was written").to_json()
        )
    table = read_csv(file, delimiter=",", exact=True)
    table.require(*COLUMNS)
    columns: dict[str, Any] = {name: table.texts(name) for name in TEXT_COLUMNS}
    columns |= {
        name: table.numbers(name, missing_allowed=name in ("z", "yaw")) for name in NUMBER_COLUMNS
    }
    columns["time"] = table.parse(
        "time", lambda text: int(text) if text else None, "expected a whole number"
    )
    arrays = [
        pyarrow.array(columns[name], SCHEMA.field(name).type, from_pandas=True) for name in COLUMNS
    ]
    return pyarrow.Table.from_arrays(arrays, schema=SCHEMA), about
