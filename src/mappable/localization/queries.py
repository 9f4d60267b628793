"""The images that a user asks about: files, folders, arrays or a table, and their descriptors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats32, Ints, Pixels
from mappable.errors import BadImageError, BadInputError
from mappable.places.cache import find_packed
from mappable.places.decoding import RawDecoding
from mappable.places.images import resize_image
from mappable.places.pixels import ImageFiles, Images
from mappable.places.table import Places
from mappable.readers.unposed import find_images, is_table

if TYPE_CHECKING:
    from mappable.features.image_encoder import ImageEncoder


@dataclass(frozen=True)
class Queries:
    """Images by name: the descriptors of those that can be read, and the errors of the others."""

    names: Sequence[str]
    rows: Ints  # (n,) of the images that can be read
    descriptors: Floats32  # (n, D) of these images
    errors: Mapping[int, Exception]  # by row of each other image
    drives: Sequence[Ints]  # the images of each drive, in order, as numbers below n
    order: Sequence[int]  # rows in the order asked; a row may repeat


def queries_of_files(
    encoder: "ImageEncoder", files: Sequence[str | Path], decoding: RawDecoding | None
) -> Queries:
    """Describe image files, folders of them, and folders that `mappable convert` wrote.

    Files that are listed one by one keep their order, and may be listed twice.
    """
    paths = [Path(file) for file in files]
    places = find_images(paths, decoding)
    about = encoder.about
    pixels = None
    if len(paths) == 1:
        pixels = find_packed(paths[0], places, about.size, about.fit)
    queries = queries_of_places(encoder, places, pixels)
    if any(path.is_dir() or is_table(path) for path in paths):
        return queries
    row_of = {file: row for row, file in enumerate(places.files)}  # the table has each file once
    return replace(queries, order=[row_of[path.resolve()] for path in paths])


def queries_of_places(
    encoder: "ImageEncoder", places: Places, pixels: Images | None = None
) -> Queries:
    """Describe the images of a table. With packed `pixels`, no file is decoded."""
    bad: dict[Path, BadImageError] = {}
    images = (
        ImageFiles(places, encoder.about.size, encoder.about.fit, bad) if pixels is None else pixels
    )
    descriptors = encoder.embed(images, progress=len(places) > 1)
    errors = {row: bad[file] for row, file in enumerate(places.files) if file in bad}
    rows = np.setdiff1d(np.arange(len(places)), list(errors)).astype(np.int64)
    drives = list(places[rows].sequences().values())
    return Queries(
        places.place_id.tolist(), rows, descriptors[rows], errors, drives, range(len(places))
    )


def queries_of_arrays(encoder: "ImageEncoder", images: Pixels) -> Queries:
    """Describe images (n, height, width, 3) of any size. They are resized as files are."""
    check_pixels(images, 4)
    about = encoder.about
    pixels = np.stack([resize_image(image, about.size, about.fit) for image in images])
    return queries_of_descriptors(encoder.embed(pixels, progress=len(pixels) > 1))


def queries_of_descriptors(descriptors: Floats32, names: Sequence[str] | None = None) -> Queries:
    """Take descriptors (n, D); names are row numbers by default."""
    rows = np.arange(len(descriptors))
    names = [str(row) for row in rows] if names is None else names
    return Queries(names, rows, descriptors, {}, [rows], range(len(rows)))


def check_pixels(images: NDArray[Any], axes: int) -> None:
    """Raise unless `images` are uint8, with this number of axes and three colors."""
    if images.dtype == np.uint8 and images.ndim == axes and images.shape[-1] == 3 and images.size:
        return
    actual = f"{' x '.join(map(str, images.shape))} of {images.dtype}"
    wanted = "height x width x 3" if axes == 3 else "n x height x width x 3"
    raise BadInputError(
        f"images are an array of {actual}, expected uint8 and {wanted}, or descriptors of float32"
    )


def listed_files(images: Any) -> list[str | Path]:
    """The files in a list; raise if it lists anything else."""
    files = [images] if isinstance(images, str | Path) else images
    if isinstance(files, list | tuple) and all(isinstance(file, str | Path) for file in files):
        return list(files)
    kinds = {type(file).__name__ for file in files} if isinstance(files, list | tuple) else ()
    actual = type(images).__name__ + (f" of {', '.join(sorted(kinds))}" if kinds else "")
    raise BadInputError(
        f"images are a {actual}, expected a path, a list of paths, a table, or an array"
    )
