"""Descriptors with their places: check them, and read those of other programs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats, Floats32
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.export import ABOUT, DESCRIPTORS, FORMAT, check_hloc
from mappable.places.files import load_places
from mappable.places.notes import Note, warn
from mappable.places.table import Places
from mappable.progress import track

TOLERANCE = 1e-3  # of a length of one; half-precision numbers keep well within it
BLOCK = 1024  # rows at a time, so that little memory is needed beside the descriptors


@dataclass(frozen=True)
class Described:
    """Places with their descriptors (n, D), row by row, float32 and of length one.

    `encoder` is the fingerprint of the encoder that made them, and `about` what it says about itself; both are None
    where the file does not know.
    """

    places: Places
    descriptors: Floats32
    encoder: str | None = None
    about: About | None = None
    notes: tuple[Note, ...] = ()


def read_descriptors(source: Path, places: Places | None = None) -> Described:
    """Descriptors of `places`: from a folder made by `mappable embed`, an .npy file (n, D), or an .h5 file of hloc.

    A folder has its own table, of which `places` may be a part, found by place_id; an .npy file has rows as `places`
    has; in hloc's file the path of each place is looked up. Descriptors of another length are brought to length one,
    which is noted.
    """
    if source.is_dir():
        found = _of_folder(source, places)
    elif not source.is_file():
        raise BadInputError(f"{source}: no such file of descriptors, nor a folder")
    elif source.suffix not in (".npy", ".h5", ".hdf5"):
        raise BadInputError(
            f"{source}: descriptors come as .npy, as .h5 (hloc) or as a folder made by `mappable embed`"
        )
    elif places is None:
        raise BadInputError(f"{source}: does not say which places its descriptors are of; give their table too")
    elif not len(places):
        raise BadInputError(f"{source}: the table names no place whose descriptor could be read")
    else:
        read = _of_array if source.suffix == ".npy" else _of_hloc
        found = Described(places, read(source, places))
    return _of_length_one(found, source)


def check_descriptors(descriptors: NDArray[np.floating[Any]], places: Places) -> None:
    """Refuse what are not descriptors (n, D) of length one, a row for each place."""
    if descriptors.ndim != 2 or len(descriptors) != len(places) or not descriptors.shape[1]:
        raise BadInputError(f"there are {len(places):,} places, but descriptors of shape {descriptors.shape}")
    lengths = _lengths(descriptors)
    wrong = np.flatnonzero(~(np.abs(lengths - 1) <= TOLERANCE))
    if len(wrong):
        row = int(wrong[0])
        length = f"length {lengths[row]:.4g}, not 1" if np.isfinite(lengths[row]) else "numbers that are not finite"
        raise BadInputError(f"the descriptor of place {row} ({places.place_id[row]!r}) has {length}")


def _of_length_one(found: Described, source: Path) -> Described:
    """The same with all descriptors at length one, where they can be brought to it."""
    places, descriptors = found.places, found.descriptors
    lengths = _lengths(descriptors)
    hopeless = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(hopeless):
        row = int(hopeless[0])
        what = "is zero" if lengths[row] == 0 else "has numbers that are not finite"
        raise BadInputError(f"{source}: the descriptor of place {row} ({places.place_id[row]!r}) {what}")
    other = np.flatnonzero(np.abs(lengths - 1) > TOLERANCE)
    descriptors[other] /= lengths[other, None].astype(np.float32)
    notes = warn("descriptors were not of length one (they are now)", places.place_id[other])
    return Described(places, descriptors, found.encoder, found.about, notes)


def _lengths(descriptors: NDArray[np.floating[Any]]) -> Floats:
    lengths = np.empty(len(descriptors))
    for start in range(0, len(descriptors), BLOCK):
        block = descriptors[start : start + BLOCK].astype(np.float32, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            lengths[start : start + BLOCK] = np.sqrt(np.einsum("nd,nd->n", block, block))
    return lengths


def _of_folder(folder: Path, places: Places | None) -> Described:
    """What `write_descriptors` wrote."""
    with FORMAT.reading(folder / ABOUT):
        facts = FORMAT.read(folder / ABOUT)
        encoder, about = str(facts["encoder"]), About.from_json(facts["about"])
    table = load_places(folder)
    descriptors = _of_array(folder / DESCRIPTORS, table)
    if places is None:
        return Described(table, descriptors, encoder, about)
    row_of = {place_id: row for row, place_id in enumerate(table.place_id)}
    missing = [place_id for place_id in places.place_id if place_id not in row_of]
    if missing:
        raise BadInputError(f"{folder}: holds no descriptor of place {missing[0]!r}")
    return Described(places, descriptors[[row_of[place_id] for place_id in places.place_id]], encoder, about)


def _of_array(file: Path, places: Places) -> Floats32:
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise BadInputError(f"{file}: no such file of descriptors") from None
    except (OSError, ValueError, EOFError) as error:
        raise BadInputError(f"{file}: truncated, damaged or not an array ({error})") from None
    if array.dtype.kind != "f" or array.ndim != 2:
        raise BadInputError(f"{file}: holds {array.dtype} of shape {array.shape}, not a table of real numbers")
    if len(array) != len(places):
        raise BadInputError(f"{file}: holds {len(array):,} descriptors, but there are {len(places):,} places")
    with np.errstate(over="ignore"):  # a number that is too large is infinite then, and found out
        return np.array(array, dtype=np.float32)


def _of_hloc(file: Path, places: Places) -> Floats32:
    """A group a relative image path, in it the data set `global_descriptor`."""
    check_hloc(file)
    import h5py

    try:
        with h5py.File(file, "r") as opened, np.errstate(over="ignore"):
            first = _one_of_hloc(opened, file, places.path[0])
            descriptors = np.empty((len(places), *first.shape), dtype=np.float32)
            for row, path in enumerate(track(places.path, "reading descriptors", len(places))):
                one = _one_of_hloc(opened, file, path)
                if one.shape != first.shape:
                    both = f"{one.shape}, but that of {places.path[0]!r} {first.shape}"
                    raise BadInputError(f"{file}: the descriptor of {path!r} has shape {both}")
                descriptors[row] = one
            return descriptors
    except OSError as error:
        raise BadInputError(f"{file}: truncated, damaged or not an HDF5 file ({error})") from None


def _one_of_hloc(opened: Any, file: Path, path: str) -> NDArray[Any]:
    try:
        found = np.asarray(opened[path]["global_descriptor"][()])
    except (KeyError, TypeError, ValueError):  # there is none, or what has that name is something else
        raise BadInputError(f"{file}: holds no descriptor of {path!r} (hloc's {path}/global_descriptor)") from None
    if found.dtype.kind != "f" or found.ndim != 1:
        raise BadInputError(f"{file}: the descriptor of {path!r} is {found.dtype} of shape {found.shape}, no vector")
    return found
