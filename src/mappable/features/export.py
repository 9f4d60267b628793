"""Write descriptors as a NumPy file with the table of places, or as HDF5 for hloc."""

from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mappable.checksums import digest_of_file
from mappable.errors import BadInputError, DamagedFileError, install_extra
from mappable.features.about import About
from mappable.files import write_atomically, writing
from mappable.formats import Format
from mappable.places.files import TABLE, save_places
from mappable.places.table import Places
from mappable.progress import track

FORMAT = Format(
    "mappable descriptors", 3, "write the folder again with `mappable embed`", sealed_since=3
)
DESCRIPTORS, ABOUT = "descriptors.npy", "descriptors.json"
NEXT = {DESCRIPTORS: "descriptors-next.npy", TABLE: "places-next.parquet"}  # names of new files


def check_folder(out: Path) -> None:
    """Raise if `write_descriptors` must not write to the folder: it contains a converted set, for
    example.
    """
    if out.exists() and not out.is_dir():
        raise BadInputError(f"{out}: is a file, but descriptors for NumPy need a folder")
    if (out / TABLE).exists() and not (out / ABOUT).exists():
        raise BadInputError(
            f"{out}: already contains a table of places; choose another folder for the descriptors"
        )


def write_descriptors(
    out: Path,
    places: Places,
    descriptors: NDArray[np.float32],
    about: About,
    fingerprint: str,
    precision: str,
) -> None:
    """Write descriptors.npy (n, D), places.parquet with the same rows, and descriptors.json.

    descriptors.json records the encoder and the precision of its backbone, and decides which files
    are valid, by their checksums. So the new files have other names until it is replaced: a command
    that is killed leaves the old descriptors or the new ones.
    """
    check_folder(out)
    _check_rows(places, descriptors)
    count, dimensions = descriptors.shape
    facts = {
        "descriptors": count,
        "dimensions": dimensions,
        "encoder": fingerprint,
        "precision": precision,
    }
    numbers, table = out / NEXT[DESCRIPTORS], out / NEXT[TABLE]
    try:
        write_atomically(numbers, lambda stream: np.save(stream, descriptors))
        save_places(places, table)
    except BaseException:
        numbers.unlink(missing_ok=True)
        table.unlink(missing_ok=True)
        raise
    checksums = {DESCRIPTORS: digest_of_file(numbers), TABLE: digest_of_file(table)}
    FORMAT.write(out / ABOUT, facts | {"files": checksums, "about": about.to_json()})
    with writing(out):
        numbers.replace(out / DESCRIPTORS)
        table.replace(out / TABLE)


def valid_file(folder: Path, name: str, checksum: str) -> Path:
    """The file of a folder with this checksum; a command that was killed left it under its other
    name.
    """
    files = [folder / name, folder / NEXT[name]]
    for file in files:
        if file.exists() and digest_of_file(file) == checksum:
            return file
    files[0].stat()  # raises if it is missing
    raise DamagedFileError(f"{files[0]}: damaged, or not written together with {ABOUT}")


def check_hloc(file: Path) -> None:
    """Raise if the file name or a missing package prevents `write_hloc`."""
    if file.suffix not in (".h5", ".hdf5"):
        raise BadInputError(
            f"{file}: descriptors for hloc need a file name that ends in .h5 or .hdf5"
        )
    try:
        import h5py  # noqa: F401
    except ImportError:
        raise BadInputError(f"descriptors for hloc need h5py; {install_extra('hloc')}") from None


def write_hloc(file: Path, places: Places, descriptors: NDArray[np.float32]) -> None:
    """Write an HDF5 file for hloc: one group per relative image path, each with the data set
    `global_descriptor`.
    """
    check_hloc(file)
    _check_rows(places, descriptors)
    import h5py

    content = BytesIO()  # because HDF5 can crash the process if the disk is full
    with h5py.File(content, "w") as opened:
        rows = zip(places.path, descriptors, strict=True)
        for path, descriptor in track(rows, "writing descriptors", len(places)):
            opened.create_group(path).create_dataset(
                "global_descriptor", data=descriptor, fletcher32=True
            )
    write_atomically(file, lambda stream: stream.write(content.getbuffer()))


def _check_rows(places: Places, descriptors: NDArray[np.float32]) -> None:
    if descriptors.ndim != 2 or len(descriptors) != len(places):
        raise BadInputError(
            f"{len(places):,} places, but descriptors of shape {descriptors.shape}; expected one"
            " row per place"
        )
