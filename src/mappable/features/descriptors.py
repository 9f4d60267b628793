"""Descriptors with their places: check them, and read descriptors of other programs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats, Floats32
from mappable.containers import read_npy
from mappable.errors import BadInputError, shown
from mappable.features.about import About
from mappable.features.export import ABOUT, DESCRIPTORS, FORMAT, check_hloc, valid_file
from mappable.places.files import TABLE, load_places
from mappable.places.notes import Note, warn
from mappable.places.table import Places
from mappable.progress import track

TOLERANCE = 1e-3  # allowed error of a length of one; half-precision rounding stays well below it
# Numbers of a descriptor in hloc's file; their real number may need no space in the file.
MAX_LENGTH = 2**20
ROWS_AT_ONCE = 1024  # keeps the additional memory small


@dataclass(frozen=True)
class Described:
    """Places with their descriptors (n, D), in the same order, float32 and of length one.

    `encoder` is the fingerprint of the encoder, and `about` its description. Both are None if the
    file does not record them.
    """

    places: Places
    descriptors: Floats32
    encoder: str | None = None
    about: About | None = None
    notes: tuple[Note, ...] = ()


def read_descriptors(source: Path, places: Places | None = None) -> Described:
    """Read the descriptors of `places` from a folder made by `mappable embed`, an .npy file (n, D),
    or hloc's .h5 file.

    A folder has its own table. `places` may be a subset of it, which is found by place_id. An .npy
    file has one row per place, in the order of `places`. In hloc's file, the path of each place is
    looked up. Descriptors of another length are scaled to length one, with a warning in `notes`.
    """
    if source.is_dir():
        described = _read_folder(source, places)
    elif not source.is_file():
        raise BadInputError(f"{source}: no such file or folder of descriptors")
    elif source.suffix not in (".npy", ".h5", ".hdf5"):
        raise BadInputError(
            f"{source}: expected a .npy file, an .h5 file (hloc), or a folder made by `mappable"
            " embed`"
        )
    elif places is None:
        raise BadInputError(
            f"{source}: does not record the places of its descriptors; give their table too"
        )
    elif not len(places):
        raise BadInputError(
            f"{source}: the table of places is empty, so that no descriptor can be read"
        )
    else:
        read = _read_array if source.suffix == ".npy" else _read_hloc
        described = Described(places, read(source, places))
    return _scale_to_length_one(described, source)


def check_descriptors(descriptors: NDArray[np.floating[Any]], places: Places) -> None:
    """Raise unless these are descriptors (n, D) of length one, with one row per place."""
    if descriptors.ndim != 2 or len(descriptors) != len(places) or not descriptors.shape[1]:
        raise BadInputError(
            f"{len(places):,} places, but descriptors of shape {descriptors.shape}; expected one"
            " row per place"
        )
    lengths = _lengths(descriptors)
    wrong = np.flatnonzero(~(np.abs(lengths - 1) <= TOLERANCE))
    if len(wrong):
        row = int(wrong[0])
        problem = (
            f"length {lengths[row]:.4g}, not 1"
            if np.isfinite(lengths[row])
            else "NaN or infinite numbers"
        )
        raise BadInputError(
            f"the descriptor of place {row} ({shown(places.place_id[row])}) has {problem}"
        )


def _scale_to_length_one(described: Described, source: Path) -> Described:
    """Scale all descriptors to length one. Raise for one that is zero or not finite."""
    places, descriptors = described.places, described.descriptors
    lengths = _lengths(descriptors)
    unusable = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(unusable):
        row = int(unusable[0])
        problem = "is zero" if lengths[row] == 0 else "has NaN or infinite numbers"
        raise BadInputError(
            f"{source}: the descriptor of place {row} ({shown(places.place_id[row])}) {problem}"
        )
    other = np.flatnonzero(np.abs(lengths - 1) > TOLERANCE)
    descriptors[other] /= lengths[other, None].astype(np.float32)
    notes = warn(
        "descriptors did not have length one and were scaled to it", places.place_id[other]
    )
    return Described(places, descriptors, described.encoder, described.about, notes)


def _lengths(descriptors: NDArray[np.floating[Any]]) -> Floats:
    lengths = np.empty(len(descriptors))
    for start in range(0, len(descriptors), ROWS_AT_ONCE):
        rows = descriptors[start : start + ROWS_AT_ONCE].astype(np.float32, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            lengths[start : start + ROWS_AT_ONCE] = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    return lengths


def _read_folder(folder: Path, places: Places | None) -> Described:
    """Read a folder of `write_descriptors`."""
    with FORMAT.reading(folder / ABOUT):
        facts = FORMAT.read(folder / ABOUT)
        encoder, about = str(facts["encoder"]), About.from_json(facts["about"])
        checksums = dict(facts["files"])
        table = load_places(valid_file(folder, TABLE, checksums[TABLE]))
        descriptors = _read_array(valid_file(folder, DESCRIPTORS, checksums[DESCRIPTORS]), table)
    if places is None:
        return Described(table, descriptors, encoder, about)
    row_of = {place_id: row for row, place_id in enumerate(table.place_id)}
    missing = [place_id for place_id in places.place_id if place_id not in row_of]
    if missing:
        raise BadInputError(
            f"{folder}: no descriptor of place {shown(missing[0])}; describe it with `mappable"
            " embed`"
        )
    return Described(
        places, descriptors[[row_of[place_id] for place_id in places.place_id]], encoder, about
    )


def _read_array(file: Path, places: Places) -> Floats32:
    array = read_npy(file, mapped=True)
    if array.dtype.kind != "f" or array.ndim != 2:
        raise BadInputError(
            f"{file}: the array is {array.dtype} of shape {array.shape}, expected floating-point"
            " numbers (n, D)"
        )
    if len(array) != len(places):
        raise BadInputError(
            f"{file}: {len(array):,} descriptors, expected one per place ({len(places):,} places)"
        )
    # A number that is too large becomes infinite, which is reported later.
    with np.errstate(over="ignore"):
        return np.array(array, dtype=np.float32)


def _read_hloc(file: Path, places: Places) -> Floats32:
    """Read a file with one group per relative image path, each with the data set
    `global_descriptor`.
    """
    check_hloc(file)
    import h5py

    try:
        with h5py.File(file, "r") as opened, np.errstate(over="ignore"):
            first = _read_hloc_descriptor(opened, file, places.path[0])
            descriptors = np.empty((len(places), *first.shape), dtype=np.float32)
            for row, path in enumerate(track(places.path, "reading descriptors", len(places))):
                descriptor = _read_hloc_descriptor(opened, file, path)
                if descriptor.shape != first.shape:
                    expected = f"expected {first.shape} like {shown(places.path[0])}"
                    raise BadInputError(
                        f"{file}: the descriptor of {shown(path)} has shape {descriptor.shape},"
                        f" {expected}"
                    )
                descriptors[row] = descriptor
            return descriptors
    except OSError as error:
        raise BadInputError(f"{file}: truncated, damaged or not an HDF5 file ({error})") from None


def _read_hloc_descriptor(opened: Any, file: Path, path: str) -> NDArray[Any]:
    try:
        stored = opened[path]["global_descriptor"]
        shape, kind = tuple(stored.shape), stored.dtype
        elsewhere = stored.external or stored.is_virtual or stored.file.filename != opened.filename
    # It is missing, or something else has its name.
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadInputError(
            f"{file}: no descriptor of {shown(path)} (hloc's {path}/global_descriptor)"
        ) from None
    if kind.kind != "f" or len(shape) != 1 or shape[0] > MAX_LENGTH:
        raise BadInputError(
            f"{file}: the descriptor of {shown(path)} is {kind} of shape {shape}, "
            f"expected a vector of up to {MAX_LENGTH:,} floating-point numbers"
        )
    if elsewhere:
        raise BadInputError(
            f"{file}: the descriptor of {shown(path)} is in another file; copy it into this one"
        )
    return np.asarray(stored[()])
