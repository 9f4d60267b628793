"""The folder of a map: `map.json` describes it and names its files with checksums.

A save writes a changed map to files with new names. Replacing `map.json`, in one step, then
switches the folder to the new map. So a save that is killed leaves the older map intact, and the
next save removes its leftovers.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from mappable.containers import parse_json, read_bytes, read_npy
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.files import reading, write_atomically
from mappable.formats import Format
from mappable.locks import alone_in
from mappable.maps.calibration import Calibration
from mappable.maps.errors import DamagedMapError
from mappable.maps.exact import Exact
from mappable.maps.landmarks import Landmarks, checked_covariance
from mappable.maps.store import Store
from mappable.places.files import load_places, save_places
from mappable.places.table import Places
from mappable.progress import Advance, progress_bar

if TYPE_CHECKING:
    from mappable.features.image_encoder import ImageEncoder

FORMAT = Format(
    "mappable map",
    4,
    "build the map again with `mappable map build`",
    if_missing="give a folder that `mappable map build` wrote",
)
MAP, LOCK = "map.json", ".lock"
# Files of maps, with those of earlier versions. While a file is being written, its name has a dot
# and a suffix more.
PARTS = "descriptors|checksums|landmarks|covariance|index|encoder|undistortion"
OWN = re.compile(rf"\.?(({PARTS})-[0-9a-f]{{8}}\.[a-z]+|map\.json)(\.[0-9a-f]{{32}})?")
# Small files; others are checked at their first use.
CHECKED_AT_OPENING = {"landmarks", "covariance", "undistortion"}
CHUNK = 1 << 22  # bytes that are read at a time

Write = Callable[[Path], None]


@dataclass(frozen=True)
class File:
    """A file in the folder of a map: where it is, its length in bytes, and the checksum of its
    content.
    """

    path: Path
    length: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> "File":
        """Describe a file as it is now."""
        return cls(path, path.stat().st_size, sha256_of(path))

    @property
    def has_length(self) -> bool:
        """True if the file exists and has the right length."""
        return self.path.is_file() and self.path.stat().st_size == self.length

    def check(self) -> None:
        """Raise if the content is not what was written."""
        if sha256_of(self.path) != self.sha256:
            raise DamagedMapError(self.path)


@dataclass(frozen=True)
class Origin:
    """The folder that a map was opened in, and the checksum of its `map.json` at that time."""

    folder: Path
    sha256: str

    def changed(self) -> bool:
        """Whether the folder has another map now, or none. This reads only `map.json`."""
        try:
            return hashlib.sha256((self.folder / MAP).read_bytes()).hexdigest() != self.sha256
        except OSError:
            return True


def sha256_of(file: Path, advance: Advance = lambda count, note="": None) -> str:
    """The SHA-256 of a file, in hex digits."""
    digest = hashlib.sha256()
    with reading(file), file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
            advance(len(chunk))
    return digest.hexdigest()


def check_folder(folder: Path) -> None:
    """Raise if a map must not be written to this folder, because the folder contains something
    else.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInputError(f"{folder}: is a file, expected a folder for the map")
    if (folder / MAP).exists():
        if not FORMAT.is_header_of(_read_bytes(folder)):
            raise BadInputError(
                f"{folder / MAP}: not the description of a map; use another folder for the map"
            )
    elif folder.exists() and any(
        not OWN.fullmatch(file.name) for file in folder.iterdir() if file.name != LOCK
    ):
        raise BadInputError(
            f"{folder}: contains files, but no map; use a new or an empty folder for the map"
        )


def save_map(saved: Landmarks, folder: Path, encoder: "ImageEncoder | None") -> Landmarks:
    """See `Landmarks.save`."""
    check_folder(folder)
    if encoder is not None:
        saved.check_encoder(encoder.fingerprint)
    with alone_in(folder, "saving a map"):
        origin = saved.origin
        if (
            origin is not None
            and origin.folder == folder.resolve()
            and (folder / MAP).exists()
            and origin.changed()
        ):
            raise BadInputError(
                f"{folder}: another process changed the map after it was opened, so nothing was"
                " saved; run the command again, or open the map again"
            )
        _tidy(folder)
        try:
            files = {
                part: _written(saved, part, suffix, write, folder)
                for part, (suffix, write) in _parts(saved, encoder).items()
            }
            facts = _facts(saved, files) | saved.store.facts(folder.resolve())
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
    if wrong:
        remedy = "restore the map from a copy, or build the map again"
        raise BadInputError(
            f"{folder}: damaged files (wrong checksums): {', '.join(wrong)}; {remedy}"
        )
    opened.store.verify()
    return opened


def _parts(saved: Landmarks, encoder: "ImageEncoder | None") -> dict[str, tuple[str, Write]]:
    """The files of a map by part: the suffix, and a function that writes the file."""
    parts: dict[str, tuple[str, Write]] = {
        "landmarks": (".parquet", partial(save_places, saved.places))
    }
    parts |= saved.store.parts()
    if saved.estimated.any():
        write = partial(_write, lambda stream: np.save(stream, saved.covariance))
        parts["covariance"] = (".npy", write)
    lens = saved.undistortion_file
    if lens is not None and lens.is_file():  # if it was lost, images in color can still be located
        parts["undistortion"] = (".bin", partial(_copy, lens))
    if (known := saved.encoder_file) is not None:
        parts["encoder"] = (known.suffix, partial(_copy, known))
    elif encoder is not None and (copied := encoder.copy()) is not None:
        suffix, content = copied
        parts["encoder"] = (suffix, partial(_write, lambda stream: stream.write(content)))
    return parts


def _written(saved: Landmarks, part: str, suffix: str, write: Write, folder: Path) -> File:
    """The file of this part: the existing file if it is unchanged, or a new one."""
    known = saved.files.get(part)
    if known is not None and known.path.parent == folder.resolve() and known.has_length:
        return known
    path = folder / f"{part}-{uuid4().hex[:8]}{suffix}"
    write(path)
    return File.of(path)


def _write(write: Callable[[Any], Any], file: Path) -> None:
    write_atomically(file, write)


def _copy(source: Path, file: Path) -> None:
    with reading(source), source.open("rb") as content:
        write_atomically(file, lambda stream: shutil.copyfileobj(content, stream))


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
            part: {"name": file.path.name, "bytes": file.length, "sha256": file.sha256}
            for part, file in files.items()
        },
    }


def _opened(folder: Path, text: bytes) -> Landmarks:
    with FORMAT.reading(folder / MAP):
        facts = FORMAT.parse(text, folder / MAP)
        if facts.pop("sha256", None) != _checksum(facts):
            raise DamagedMapError(folder / MAP)
        files = {
            part: File(folder / one["name"], one["bytes"], one["sha256"])
            for part, one in facts["files"].items()
        }
        for part, file in files.items():
            _check(file, folder, part in CHECKED_AT_OPENING)
        places = load_places(files["landmarks"].path, rows=facts["landmarks"])
        if "undistortion" in files and places.decoding is not None:
            lens = str(files["undistortion"].path)
            places = places.replace(decoding=replace(places.decoding, undistortion=lens))
        calibration = facts["calibration"]
        # The images calibrate the map again.
        earlier = calibration is None or "calibrated_on" not in calibration
        return Landmarks(
            places=places,
            store=_store(folder, facts, files, places),
            encoder=facts["encoder"],
            covariance=_covariance(files.get("covariance"), places),
            about=None if facts["about"] is None else About.from_json(facts["about"]),
            calibration=None if earlier else Calibration.from_json(calibration),
            storage=facts["descriptor"]["storage"],
            files=files,
            origin=Origin(folder, hashlib.sha256(text).hexdigest()),
        )


def _check(file: File, folder: Path, content: bool) -> None:
    """Raise unless a file of a map is in its folder and has its length, and with `content` also its
    checksum.
    """
    if file.path.parent != folder:
        raise BadInputError(f"{file.path}: {MAP} lists a file outside of its folder")
    if not file.path.is_file():
        raise BadInputError(f"{file.path}: this file of the map is missing ({MAP} lists it)")
    if not file.has_length:
        size = file.path.stat().st_size
        raise BadInputError(
            f"{file.path}: truncated or damaged ({size:,} bytes, expected {file.length:,})"
        )
    if content:
        file.check()


def _covariance(file: File | None, places: Places) -> Any:
    if file is None:
        return checked_covariance(None, places)
    shape = (len(places), places.dimensions, places.dimensions)
    covariance = read_npy(file.path, shape=shape, dtype="float64")
    try:
        return checked_covariance(covariance, places)
    except BadInputError as error:
        raise BadInputError(f"{file.path}: {error}") from None


def _store(folder: Path, facts: dict[str, Any], files: dict[str, File], places: Places) -> Store:
    """The descriptors; nothing of them is read yet."""
    shape = (facts["landmarks"], facts["descriptor"]["dimensions"])
    if "milvus" in facts:
        from mappable.maps.milvus import Milvus

        return Milvus.from_json(facts["milvus"], folder, places.place_id, shape[1])
    file = files["descriptors"]
    vectors = read_npy(file.path, shape=shape, dtype=facts["descriptor"]["storage"], mapped=True)
    if not vectors.flags.c_contiguous:
        raise BadInputError(f"{file.path}: the array is in Fortran order, expected C order")
    with file.path.open("rb") as stream:
        header = stream.read(file.length - vectors.nbytes)
    exact = Exact(vectors, partial(_check_mapped, vectors, header, file))
    if "index" not in files:
        return exact
    from mappable.maps.approximate import Approximate

    return Approximate.load(files["index"].path, exact, files["index"].check)


def _check_mapped(vectors: NDArray[Any], header: bytes, file: File) -> None:
    """Raise if a mapped file is not what was written. The file may be gone by now, because another
    map replaced it.
    """
    digest = hashlib.sha256(header)
    digest.update(vectors.data)
    if digest.hexdigest() != file.sha256:
        raise DamagedMapError(file.path)


def _read_bytes(folder: Path) -> bytes:
    with FORMAT.reading(folder / MAP):
        return read_bytes(folder / MAP, FORMAT.limit)


def _checksum(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(FORMAT.header | facts, sort_keys=True).encode()).hexdigest()


def _tidy(folder: Path) -> None:
    """Remove files of earlier maps and of killed saves; remove nothing if `map.json` cannot be
    read.
    """
    used = set()
    if (folder / MAP).exists():
        try:
            used = {one["name"] for one in parse_json(_read_bytes(folder))["files"].values()} | {
                MAP
            }
        except (KeyError, TypeError, ValueError, AttributeError):
            return
    for file in folder.iterdir():
        if OWN.fullmatch(file.name) and file.name not in used:
            with suppress(PermissionError):  # on Windows, if another process has the file open
                file.unlink()
