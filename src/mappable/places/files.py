"""Places on disk: Parquet (the default) or CSV, both without loss."""

import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow
import pyarrow.parquet

from mappable.errors import BadInputError
from mappable.files import write_atomically
from mappable.formats import KEY, Format
from mappable.places.decoding import RawDecoding
from mappable.places.frames import Frame
from mappable.places.notes import Note
from mappable.places.table import COLUMNS, NO_TIME, NUMBER_COLUMNS, TEXT_COLUMNS, Places
from mappable.tables import read_arrow, read_csv

FORMAT = Format("mappable places", 1, "write the table again, or read it with the reader 'manifest'")
TABLE = "places.parquet"  # the name of the table in a folder made by `mappable convert`


def save_places(places: Places, file: Path | str) -> None:
    """Write `file` (.parquet or .csv) whole or not at all; what a CSV cannot hold goes to <file>.json."""
    file = Path(file)
    if file.suffix == ".parquet":
        about = FORMAT.text(_about(places, file), indent=None)
        table = _to_arrow(places).replace_schema_metadata({KEY: about})
        write_atomically(file, lambda stream: pyarrow.parquet.write_table(table, stream))
    elif file.suffix == ".csv":
        FORMAT.write(_beside(file), _about(places, file))
        write_atomically(file, lambda stream: _write_csv(places, stream))
    else:
        raise BadInputError(f"{file}: places are saved as .parquet or .csv, not {file.suffix or 'without a suffix'}")


def load_places(file: Path | str) -> Places:
    """Read what `save_places` wrote: a file, or a folder that holds `places.parquet`."""
    file = Path(file)
    if file.is_dir():
        file = file / TABLE
    if not file.is_file():
        raise BadInputError(f"{file}: no such table of places")
    try:
        with FORMAT.reading(file):
            columns, about = _read_parquet(file) if file.suffix == ".parquet" else _read_csv(file)
            return Places(
                **columns,
                frames=[Frame.from_json(fields) for fields in about["frames"]],
                root=file.parent / about["root"],
                dimensions=about["dimensions"],
                decoding=RawDecoding(**about["decoding"]) if about["decoding"] else None,
                notes=[Note.from_json(fields) for fields in about["notes"]],
            )
    except BadInputError as error:
        text = str(error)
        raise BadInputError(text if text.startswith(str(file.with_suffix(""))) else f"{file}: {text}") from None


def is_own_table(file: Path) -> bool:
    """True if `save_places` wrote the file, so that it needs no reader to be understood."""
    if file.suffix == ".csv":
        return _beside(file).is_file() and b'"mappable' in _beside(file).read_bytes()[:64]
    try:
        return KEY.encode() in (pyarrow.parquet.read_schema(file).metadata or {})
    except (OSError, pyarrow.ArrowException):
        return False


def _beside(file: Path) -> Path:
    """The file that holds what a CSV cannot."""
    return file.with_name(f"{file.name}.json")


def _about(places: Places, file: Path) -> dict[str, Any]:
    """All that is not a column. A root inside the table's folder is kept relative, so that both can move together."""
    root, folder = places.root, file.parent.resolve()
    return {
        "dimensions": places.dimensions,
        "root": root.relative_to(folder).as_posix() if root.is_relative_to(folder) else str(root),
        "frames": [frame.to_json() for frame in places.frames.values()],
        "decoding": asdict(places.decoding) if places.decoding else None,
        "notes": [note.to_json() for note in places.notes],
    }


def _to_arrow(places: Places) -> pyarrow.Table:
    """Unknown numbers and times become nulls; unknown text stays ""."""
    arrays = {name: pyarrow.array(getattr(places, name), pyarrow.string()) for name in TEXT_COLUMNS}
    for name in NUMBER_COLUMNS:
        values = getattr(places, name)
        arrays[name] = pyarrow.array(values, mask=np.isnan(values))
    arrays["time"] = pyarrow.array(places.time, mask=places.time == NO_TIME)
    return pyarrow.table({name: arrays[name] for name in COLUMNS})


def _read_parquet(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    table = read_arrow(file)
    about = FORMAT.parse((table.schema.metadata or {}).get(KEY.encode()), file)
    columns: dict[str, Any] = {name: table[name].to_numpy(zero_copy_only=False) for name in TEXT_COLUMNS}
    for name in NUMBER_COLUMNS:
        columns[name] = table[name].fill_null(np.nan).to_numpy()
    columns["time"] = table["time"].fill_null(NO_TIME).to_numpy()
    return columns, about


def _write_csv(places: Places, stream: IO[bytes]) -> None:
    columns = [getattr(places, name).tolist() for name in COLUMNS]  # repr of a Python float loses nothing
    for position, name in enumerate(COLUMNS):
        if name in NUMBER_COLUMNS:
            columns[position] = ["" if value != value else repr(value) for value in columns[position]]
        elif name == "time":
            columns[position] = ["" if value == NO_TIME else str(value) for value in columns[position]]
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    writer = csv.writer(text)  # its line ends, "\r\n", make it quote a lone "\r" or "\n" within a text
    writer.writerow(COLUMNS)
    writer.writerows(zip(*columns, strict=True))
    text.flush()
    text.detach()


def _read_csv(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    if not _beside(file).is_file():
        raise BadInputError(f"{file}: no {file.name}.json beside it; read it with the reader 'manifest'")
    about = FORMAT.read(_beside(file))
    table = read_csv(file, delimiter=",", exact=True)
    table.require(*COLUMNS)
    columns: dict[str, Any] = {name: table.texts(name) for name in TEXT_COLUMNS}
    for name in NUMBER_COLUMNS:
        columns[name] = table.numbers(name, missing_allowed=name in ("z", "yaw"))
    columns["time"] = table.parse("time", lambda text: int(text) if text else NO_TIME, "is not a whole number")
    return columns, about
