"""The folder of a map: `map.json` describes it and names its files with checksums.

A save writes a changed map to files with new names. Replacing `map.json`, in one step, then switches the folder to the
new map. So a save that is killed leaves the older map intact, and the next save removes its leftovers.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
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
from mappable.maps.landmarks import Landmarks, Origin, checked_covariance
from mappable.maps.store import Store
from mappable.places.files import load_places, save_places
from mappable.places.table import Places
from mappable.progress import progress_bar, track

if TYPE_CHECKING:
    from mappable.features.image_encoder import ImageEncoder
    from mappable.maps.milvus import Milvus

FORMAT = Format(
    "mappable map",
    4,
    "build the map again with `mappable map build`",
    if_missing="give a folder that `mappable map build` wrote",
)
MAP, LOCK = "map.json", ".lock"
SUFFIXES = {
    "descriptors": ".npy",
    "checksums": ".npy",
    "landmarks": ".parquet",
    "covariance": ".npy",
    "index": ".safetensors",
    "encoder": ".safetensors",  # or .onnx, or .yaml for a torch.hub model
    "undistortion": ".bin",
}
# Names of a map's files. While a file is being written, its name has a dot in front and a suffix.
OWN = re.compile(rf"\.?(({'|'.join(SUFFIXES)})-[0-9a-f]{{8}}\.[a-z]+|map\.json)(\.[0-9a-f]{{32}})?")
ROWS_PER_WRITE = 256  # descriptors per batch of writing
AT_FIRST_USE = {"descriptors", "encoder", "index"}  # large files, which are checked at their first use


def check_folder(folder: Path) -> None:
    """Raise if a map must not be written to this folder, because the folder contains something else."""
    if folder.exists() and not folder.is_dir():
        raise BadInputError(f"{folder}: is a file, expected a folder for the map")
    if (folder / MAP).exists():
        if not FORMAT.is_header_of(_read_bytes(folder)) and not _is_damaged(folder):
            raise BadInputError(f"{folder / MAP}: not the description of a map; use another folder for the map")
    elif folder.exists() and any(not OWN.fullmatch(file.name) for file in folder.iterdir() if file.name != LOCK):
        raise BadInputError(f"{folder}: contains files, but no map; use a new or an empty folder for the map")


def save_map(saved: Landmarks, folder: Path, encoder: "ImageEncoder | None") -> Landmarks:
    """See `Landmarks.save`."""
    check_folder(folder)
    if encoder is not None:
        saved.check_encoder(encoder.fingerprint)
    with alone_in(folder, "saving a map"):
        _refuse_if_changed(saved, folder)
        _tidy(folder)
        try:
            files: dict[str, File] = {}
            for part, write in _parts(saved).items():
                files[part] = _written(saved, part, write, folder, SUFFIXES[part])
            if (kept := _encoder(saved, encoder, folder)) is not None:
                files["encoder"] = kept
            if "descriptors" in files:
                written = files["descriptors"]
                sums = partial(_write_checksums, saved, written)
                files["checksums"] = _written(saved, "checksums", sums, folder, SUFFIXES["checksums"])
            facts = _facts(saved, files)
            if milvus := _milvus_of(saved):
                facts["milvus"] = milvus.to_json(folder)
            FORMAT.write(folder / MAP, facts | {"sha256": _checksum(facts)})
        finally:
            _tidy(folder)
        return read_map(folder)


def find_map(folder: Path) -> Path:
    """The folder of a map; of a folder that `mappable start` wrote, the map in it."""
    inside = folder / "map"
    return inside if (inside / MAP).is_file() and not (folder / MAP).exists() else folder


def read_map(folder: Path) -> Landmarks:
    """See `Landmarks.open`."""
    while True:
        text = _read_bytes(folder)
        try:
            return _opened(folder.resolve(), text)
        except BadInputError:
            if _read_bytes(folder) == text:
                raise  # otherwise another process has just replaced the map, so read it again


def verify_map(folder: Path) -> Landmarks:
    """See `Landmarks.verify`."""
    opened = read_map(folder)
    files = opened.files.values()
    with progress_bar("verifying", sum(file.length for file in files)) as advance:
        wrong = [file.path.name for file in files if sha256_of(file.path, advance) != file.sha256]
    if milvus := _milvus_of(opened):
        milvus.verify()
    if wrong:
        remedy = "restore the map from a copy, or build the map again"
        raise BadInputError(f"{folder}: damaged files (wrong checksums): {', '.join(wrong)}; {remedy}")
    return opened


def _refuse_if_changed(saved: Landmarks, folder: Path) -> None:
    """Raise if the map was opened in this folder, and the folder now has another map."""
    if saved.origin is None or saved.origin.folder != folder.resolve() or not (folder / MAP).exists():
        return
    if hashlib.sha256(_read_bytes(folder)).hexdigest() != saved.origin.sha256:
        raise BadInputError(
            f"{folder}: another process changed the map after it was opened, so nothing was saved; "
            "run the command again, or open the map again"
        )


def _parts(saved: Landmarks) -> dict[str, Callable[[Path], None]]:
    """Functions that write each part of the map to a file, except the encoder."""
    parts: dict[str, Callable[[Path], None]] = {"landmarks": lambda file: save_places(saved.places, file)}
    if _milvus_of(saved) is None:
        parts["descriptors"] = lambda file: write_atomically(file, lambda stream: _write_descriptors(saved, stream))
    if saved.estimated.any():
        parts["covariance"] = lambda file: write_atomically(file, lambda stream: np.save(stream, saved.covariance))
    if not isinstance(saved.store, Exact):
        from mappable.maps.approximate import Approximate

        if isinstance(saved.store, Approximate):
            parts["index"] = saved.store.save
    lens = saved.undistortion_file
    if lens is not None and lens.is_file():  # if it was lost, images in color can still be located
        parts["undistortion"] = lambda file: _copy(lens, file)
    return parts


def _written(saved: Landmarks, part: str, write: Callable[[Path], None], folder: Path, suffix: str) -> File:
    """The file of this part: the existing file if it is unchanged, or a new one."""
    known = saved.files.get(part)
    if known is not None and known.path.parent == folder.resolve() and known.has_length:
        return known
    path = folder / f"{part}-{uuid4().hex[:8]}{suffix}"
    write(path)
    return File(path, path.stat().st_size, sha256_of(path))


def _write_checksums(saved: Landmarks, descriptors: File, file: Path) -> None:
    if descriptors == saved.files.get("descriptors"):  # an older map without checksums of blocks
        descriptors.check()
    vectors = _mapped(descriptors.path, (len(saved), saved.store.dimensions), saved.storage)
    write_atomically(file, lambda stream: np.save(stream, sums_of(vectors)))


def _write_descriptors(saved: Landmarks, stream: IO[bytes]) -> None:
    kind, shape = np.dtype(saved.storage), (len(saved), saved.store.dimensions)
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    starts = range(0, len(saved), ROWS_PER_WRITE)
    for start in track(starts, "writing descriptors", len(starts)):
        block = saved.store.take(np.arange(start, min(start + ROWS_PER_WRITE, len(saved))))
        stream.write(np.ascontiguousarray(block, dtype=kind).data)


def _copy(source: Path, file: Path) -> None:
    with reading(source), source.open("rb") as content:
        write_atomically(file, lambda stream: shutil.copyfileobj(content, stream))


def _encoder(saved: Landmarks, encoder: "ImageEncoder | None", folder: Path) -> File | None:
    """The file of the encoder: a copy of `encoder`, or of the file that the map had; None if there is neither."""
    if "encoder" not in saved.files and encoder is not None and (copied := encoder.copy()) is not None:
        suffix, content = copied
        return _written(
            saved, "encoder", lambda file: write_atomically(file, lambda stream: stream.write(content)), folder, suffix
        )
    known = saved.encoder_file
    if known is None:
        return None
    return _written(saved, "encoder", partial(_copy, known), folder, known.suffix)


def _facts(saved: Landmarks, files: dict[str, File]) -> dict[str, Any]:
    """The content of `map.json`, without its own checksum."""
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


def _opened(folder: Path, text: bytes) -> Landmarks:
    with FORMAT.reading(folder / MAP):
        facts = _checked_facts(folder, text)
        files = _checked_files(folder, facts)
        shape = (facts["landmarks"], facts["descriptor"]["dimensions"])
        places = _places(files, facts["landmarks"])
        covariance = checked_covariance(None, places)
        if "covariance" in files:
            covariance = _covariance(files["covariance"].path, places)
        return Landmarks(
            places,
            _store(folder, facts, files, places, shape),
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
    """The files that `map.json` lists, after checks: each exists and has its length; small ones have their checksum."""
    files = {part: File(folder / one["name"], one["bytes"], one["sha256"]) for part, one in facts["files"].items()}
    for part, file in files.items():
        if file.path.parent != folder:
            raise BadInputError(f"{file.path}: {MAP} lists a file outside of its folder")
        if not file.path.is_file():
            raise BadInputError(f"{file.path}: this file of the map is missing ({MAP} lists it)")
        if not file.has_length:
            size = file.path.stat().st_size
            raise BadInputError(f"{file.path}: truncated or damaged ({size:,} bytes, expected {file.length:,})")
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


def _store(
    folder: Path, facts: dict[str, Any], files: dict[str, File], places: Places, shape: tuple[int, int]
) -> Store:
    if "milvus" in facts:
        from mappable.maps.milvus import Milvus

        return Milvus.from_json(facts["milvus"], folder, places.place_id, shape[1])
    vectors = _mapped(files["descriptors"].path, shape, facts["descriptor"]["storage"])
    exact = Exact(vectors, _check_of(vectors, files))
    if "index" not in files:
        return exact
    from mappable.maps.approximate import Approximate

    return Approximate.load(files["index"].path, exact, files["index"].check)


def _milvus_of(one: Landmarks) -> "Milvus | None":
    """The store of a map on Milvus; None for another map."""
    if isinstance(one.store, Exact):
        return None
    from mappable.maps.milvus import Milvus

    return one.store if isinstance(one.store, Milvus) else None


def _calibration(facts: dict[str, Any] | None) -> Any:
    """The calibration; None for one of an older version, so that the images of the map calibrate it again."""
    if facts is None or "calibrated_on" not in facts:
        return None
    from mappable.maps.calibration import Calibration

    return Calibration.from_json(facts)


def _read_bytes(folder: Path) -> bytes:
    with FORMAT.reading(folder / MAP):
        return read_bytes(folder / MAP, FORMAT.limit)


def _is_damaged(folder: Path) -> bool:
    """True for a map whose `map.json` is not valid JSON any more; all other files look like files of a map."""
    try:
        parse_json(_read_bytes(folder))
    except ValueError:
        others = [file.name for file in folder.iterdir() if file.name not in (MAP, LOCK)]
        return bool(others) and all(OWN.fullmatch(name) for name in others)
    return False


def _checksum(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(FORMAT.header | facts, sort_keys=True).encode()).hexdigest()


def _tidy(folder: Path) -> None:
    """Remove files of earlier maps and of killed saves; remove nothing if `map.json` cannot be read."""
    used = set()
    if (folder / MAP).exists():
        try:
            used = {one["name"] for one in parse_json(_read_bytes(folder))["files"].values()} | {MAP}
        except (KeyError, TypeError, ValueError, AttributeError):
            return
    for file in folder.iterdir():
        if OWN.fullmatch(file.name) and file.name not in used:
            with suppress(PermissionError):  # on Windows, if another process has the file open
                file.unlink()
