"""The folder of a map: `map.json` describes it and names its files with checksums.

A changed map is written to files of new names, and becomes the map of the folder when `map.json` is replaced, in one
step. So a save that was killed leaves the older map as it was; what it left behind goes with the next save.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import numpy as np

from mappable.arrays import Floats
from mappable.containers import parse_json, read_bytes, read_npy
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.files import reading, write_atomically
from mappable.formats import Format
from mappable.locks import alone_in
from mappable.maps.checking import (
    Check,
    File,
    block_count,
    checking_all,
    checking_blocks,
    sha256_of,
    sums_of,
)
from mappable.maps.errors import DamagedMapError
from mappable.maps.exact import Exact
from mappable.maps.map import Map, Origin, checked_covariance
from mappable.maps.store import Store
from mappable.places.files import load_places, save_places
from mappable.places.table import Places
from mappable.progress import progress_bar, track

FORMAT = Format("mappable map", 3, "build the map again with `mappable map build`")
MAP, LOCK = "map.json", ".lock"
SUFFIXES = {
    "descriptors": ".npy",
    "checksums": ".npy",
    "landmarks": ".parquet",
    "covariance": ".npy",
    "index": ".safetensors",
    "encoder": ".safetensors",  # or .onnx
    "undistortion": ".bin",
}
# Names of the other files; with a dot before and more behind while they are being written.
OWN = re.compile(rf"\.?(({'|'.join(SUFFIXES)})-[0-9a-f]{{8}}\.[a-z]+|map\.json)(\.[0-9a-f]{{32}})?")
BLOCK = 256  # descriptors that are written at a time
AT_FIRST_USE = {"descriptors", "encoder", "index"}  # large files, which are checked when they are used


def check_folder(folder: Path) -> None:
    """Refuse a folder to which no map must be written, as it holds something else."""
    if folder.exists() and not folder.is_dir():
        raise BadInputError(f"{folder}: is a file, but a map goes to a folder")
    if (folder / MAP).exists():
        if not FORMAT.is_header_of(_read_bytes(folder)) and not _is_damaged(folder):
            raise BadInputError(f"{folder / MAP}: not the description of a map; name another folder for the map")
    elif folder.exists() and any(not OWN.fullmatch(file.name) for file in folder.iterdir() if file.name != LOCK):
        raise BadInputError(f"{folder}: holds files, but no map; name a new or an empty folder for the map")


def save_map(saved: Map, folder: Path, encoder_file: Path | None) -> Map:
    """See `Map.save`."""
    check_folder(folder)
    if encoder_file is not None:
        _check_encoder(encoder_file, saved.encoder)
    with alone_in(folder, "saving a map"):
        _refuse_if_changed(saved, folder)
        _tidy(folder)
        try:
            parts, kept = _parts(saved, encoder_file), encoder_file or saved.encoder_file
            suffixes = SUFFIXES if kept is None else SUFFIXES | {"encoder": kept.suffix}
            files: dict[str, File] = {}
            for part, write in parts.items():
                files[part] = _written(saved, part, write, folder, suffixes[part])
            written = files["descriptors"]
            files["checksums"] = _written(
                saved, "checksums", lambda file: _write_checksums(saved, written, file), folder, SUFFIXES["checksums"]
            )
            facts = _facts(saved, files)
            FORMAT.write(folder / MAP, facts | {"sha256": _checksum(facts)})
        finally:
            _tidy(folder)
        return read_map(folder)


def read_map(folder: Path) -> Map:
    """See `Map.open`."""
    while True:
        text = _read_bytes(folder)
        try:
            return _opened(folder.resolve(), text)
        except BadInputError:
            if _read_bytes(folder) == text:
                raise  # else another process replaced the map just now


def verify_map(folder: Path) -> Map:
    """See `Map.verify`."""
    opened = read_map(folder)
    files = opened.files.values()
    with progress_bar("verifying", sum(file.length for file in files)) as advance:
        wrong = [file.path.name for file in files if sha256_of(file.path, advance) != file.sha256]
    if wrong:
        remedy = "restore the map from a copy, or build the map again"
        raise BadInputError(f"{folder}: damaged files (wrong checksums): {', '.join(wrong)}; {remedy}")
    return opened


def _refuse_if_changed(saved: Map, folder: Path) -> None:
    """Raise if the map was opened in this folder, and the folder now has another map."""
    if saved.origin is None or saved.origin.folder != folder.resolve() or not (folder / MAP).exists():
        return
    if hashlib.sha256(_read_bytes(folder)).hexdigest() != saved.origin.sha256:
        raise BadInputError(
            f"{folder}: another process changed the map after it was opened, so nothing was saved; "
            "run the command again, or open the map again"
        )


def _parts(saved: Map, encoder_file: Path | None) -> dict[str, Callable[[Path], None]]:
    """What writes each part of the map to a file."""
    parts: dict[str, Callable[[Path], None]] = {
        "descriptors": lambda file: write_atomically(file, lambda stream: _write_descriptors(saved, stream)),
        "landmarks": lambda file: save_places(saved.places, file),
    }
    if saved.estimated.any():
        parts["covariance"] = lambda file: write_atomically(file, lambda stream: np.save(stream, saved.covariance))
    if not isinstance(saved.store, Exact):
        from mappable.maps.approximate import Approximate

        if isinstance(saved.store, Approximate):
            parts["index"] = saved.store.save
    encoder = encoder_file or saved.encoder_file
    if encoder is not None:
        parts["encoder"] = lambda file: _copy(encoder, file)
    lens = saved.undistortion_file
    if lens is not None and lens.is_file():  # else it was lost before; images in color can still be located
        parts["undistortion"] = lambda file: _copy(lens, file)
    return parts


def _written(saved: Map, part: str, write: Callable[[Path], None], folder: Path, suffix: str) -> File:
    """The file of this part: the one that is there, or a new one."""
    known = saved.files.get(part)
    if known is not None and known.path.parent == folder.resolve() and known.has_length:
        return known
    path = folder / f"{part}-{uuid4().hex[:8]}{suffix}"
    write(path)
    return File(path, path.stat().st_size, sha256_of(path))


def _write_checksums(saved: Map, descriptors: File, file: Path) -> None:
    if descriptors == saved.files.get("descriptors"):  # an older map without checksums of blocks
        descriptors.check()
    vectors = _mapped(descriptors.path, (len(saved), saved.store.dimensions), saved.storage)
    write_atomically(file, lambda stream: np.save(stream, sums_of(vectors)))


def _write_descriptors(saved: Map, stream: IO[bytes]) -> None:
    kind, shape = np.dtype(saved.storage), (len(saved), saved.store.dimensions)
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    starts = range(0, len(saved), BLOCK)
    for start in track(starts, "writing descriptors", len(starts)):
        block = saved.store.take(np.arange(start, min(start + BLOCK, len(saved))))
        stream.write(np.ascontiguousarray(block, dtype=kind).data)


def _copy(source: Path, file: Path) -> None:
    with reading(source), source.open("rb") as content:
        write_atomically(file, lambda stream: shutil.copyfileobj(content, stream))


def _check_encoder(file: Path, fingerprint: str) -> None:
    from mappable.features.opening import open_file  # here, as only those who hand one over need the network

    found = open_file(file, "cpu").fingerprint
    if found != fingerprint:
        raise BadInputError(f"{file}: is encoder {found}, but the map's descriptors are of encoder {fingerprint}")


def _facts(saved: Map, files: dict[str, File]) -> dict[str, Any]:
    """What `map.json` says, but for its own checksum."""
    return {
        "landmarks": len(saved),
        "estimated": int(saved.estimated.sum()),
        "unit": saved.unit,
        "dimensions": saved.dimensions,
        "frame": saved.frame.to_json(),
        "encoder": saved.encoder,
        "about": None if saved.about is None else saved.about.to_json(),
        "descriptor": {"dimensions": saved.store.dimensions, "storage": saved.storage},
        "calibration": None if saved.calibration is None else saved.calibration.to_json(),
        "files": {
            part: {"name": file.path.name, "bytes": file.length, "sha256": file.sha256} for part, file in files.items()
        },
    }


def _opened(folder: Path, text: bytes) -> Map:
    with FORMAT.reading(folder / MAP):
        facts = _checked_facts(folder, text)
        files = _checked_files(folder, facts)
        shape = (facts["landmarks"], facts["descriptor"]["dimensions"])
        vectors = _mapped(files["descriptors"].path, shape, facts["descriptor"]["storage"])
        places = _places(files, facts["landmarks"])
        covariance = checked_covariance(None, places)
        if "covariance" in files:
            covariance = _covariance(files["covariance"].path, places)
        return Map(
            places,
            _store(Exact(vectors, _check_of(vectors, files)), files.get("index")),
            facts["encoder"],
            covariance,
            None if facts["about"] is None else About.from_json(facts["about"]),
            _calibration(facts["calibration"]),
            facts["descriptor"]["storage"],
            files,
            Origin(folder, hashlib.sha256(text).hexdigest()),
        )


def _checked_facts(folder: Path, text: bytes) -> dict[str, Any]:
    facts = FORMAT.parse(text, folder / MAP)
    if facts.pop("sha256", None) != _checksum(facts):
        raise DamagedMapError(folder / MAP)
    return facts


def _checked_files(folder: Path, facts: dict[str, Any]) -> dict[str, File]:
    """The files that `map.json` names; each exists and has its length, and the small ones have their content."""
    files = {part: File(folder / one["name"], one["bytes"], one["sha256"]) for part, one in facts["files"].items()}
    for part, file in files.items():
        if file.path.parent != folder:
            raise BadInputError(f"{file.path}: {MAP} names a file that is not in its folder")
        if not file.path.is_file():
            raise BadInputError(f"{file.path}: missing, though {MAP} names it")
        if not file.has_length:
            size = file.path.stat().st_size
            raise BadInputError(f"{file.path}: truncated or damaged ({size:,} bytes, not {file.length:,})")
        if part not in AT_FIRST_USE:
            file.check()
    return files


def _places(files: dict[str, File], landmarks: int) -> Places:
    """The table of landmarks; raise before reading it if it has another number of rows."""
    places = load_places(files["landmarks"].path, rows=landmarks)
    if "undistortion" in files and places.decoding is not None:
        own = replace(places.decoding, undistortion=str(files["undistortion"].path))
        places = places.replace(decoding=own)
    return places


def _covariance(file: Path, places: Places) -> Floats:
    shape = (len(places), places.dimensions, places.dimensions)
    try:
        return checked_covariance(read_npy(file, shape=shape, dtype="float64"), places)
    except BadInputError as error:
        text = str(error)
        raise BadInputError(text if text.startswith(str(file)) else f"{file}: {text}") from None


def _mapped(file: Path, shape: tuple[int, ...], kind: str) -> "np.memmap[Any, Any]":
    """An array that is mapped into memory; nothing is read yet."""
    array = read_npy(file, shape=shape, dtype=kind, mapped=True)
    if not isinstance(array, np.memmap) or not array.flags.c_contiguous:
        raise BadInputError(f"{file}: the array is empty or in Fortran order, expected {kind} in C order")
    return array


def _check_of(vectors: "np.memmap[Any, Any]", files: dict[str, File]) -> Check:
    file = files["descriptors"]
    if "checksums" not in files:
        with file.path.open("rb") as stream:
            header = stream.read(vectors.offset)
        return checking_all(vectors, header, file)
    sums = _mapped(files["checksums"].path, (block_count(vectors),), "uint64")
    return checking_blocks(vectors, sums, file.path)


def _store(exact: Exact, index: File | None) -> Store:
    if index is None:
        return exact
    from mappable.maps.approximate import Approximate

    return Approximate.load(index.path, exact, index.check)


def _calibration(facts: dict[str, Any] | None) -> Any:
    if facts is None:
        return None
    from mappable.maps.calibration import Calibration

    return Calibration.from_json(facts)


def _read_bytes(folder: Path) -> bytes:
    with FORMAT.reading(folder / MAP):
        return read_bytes(folder / MAP, FORMAT.limit)


def _is_damaged(folder: Path) -> bool:
    """True for a map of ours whose description is no JSON any more: there are files beside it, all of them ours."""
    try:
        parse_json(_read_bytes(folder))
    except ValueError:
        others = [file.name for file in folder.iterdir() if file.name not in (MAP, LOCK)]
        return bool(others) and all(OWN.fullmatch(name) for name in others)
    return False


def _checksum(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(FORMAT.header | facts, sort_keys=True).encode()).hexdigest()


def _tidy(folder: Path) -> None:
    """Remove what earlier maps and killed saves left; nothing if it is not clear what the present map needs."""
    used = set()
    if (folder / MAP).exists():
        try:
            used = {one["name"] for one in parse_json(_read_bytes(folder))["files"].values()} | {MAP}
        except (KeyError, TypeError, ValueError, AttributeError):
            return
    for file in folder.iterdir():
        if OWN.fullmatch(file.name) and file.name not in used:
            with suppress(PermissionError):  # on Windows, of a file that another process has open
                file.unlink()
