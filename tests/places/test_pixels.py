"""Images to read a batch of: from arrays, packs and files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.errors import BadImageError, BadInputError
from mappable.places.frames import Frame
from mappable.places.images import load_image
from mappable.places.packing import pack_images
from mappable.places.pixels import ImageFiles, ImageParts, ImageRows, Images, images_of
from mappable.places.table import Places


@pytest.fixture
def places(tmp_path: Path, draw: Callable[..., Path]) -> Places:
    paths = [f"day/{number}.png" for number in range(5)]
    for path in paths:
        draw(tmp_path / path)
    return Places(path=paths, x=np.arange(5.0), y=np.zeros(5), frames=Frame("map"), root=tmp_path)


def test_an_array_a_pack_and_files_are_read_and_taken_alike(places: Places, tmp_path: Path) -> None:
    pixels = np.stack([load_image(file, (16, 12), "crop") for file in places.files])
    pack, _ = pack_images(places, tmp_path / "out", size=(16, 12))
    parts = ImageParts.of([images_of(places[:2], (16, 12), "crop"), pack.view(places[2:])])
    for given in (pixels, pack.view(places), places, parts):
        images = images_of(given, (16, 12), "crop")
        assert isinstance(images, Images)
        assert (len(images), images.shape) == (5, (5, 12, 16, 3))
        np.testing.assert_array_equal(images.read(np.array([4, 0, 4])), pixels[[4, 0, 4]])
        some = images.take(np.array([3, 1, 2])).take(np.array([2, 0]))
        assert some.shape == (2, 12, 16, 3)
        np.testing.assert_array_equal(some.read(np.arange(2)), pixels[[2, 3]])


def test_a_file_that_does_not_decode_may_read_as_black(places: Places) -> None:
    places.files[1].write_bytes(b"nothing")
    bad: dict[Path, BadImageError] = {}
    read = ImageFiles(places, (16, 12), "crop", bad).take(np.array([0, 1])).read(np.array([1, 0]))
    assert list(bad) == [places.files[1]]
    assert not read[0].any()
    assert read[1].any()


@pytest.mark.parametrize(
    ("images", "problem"),
    [
        (np.zeros((2, 16, 12, 3), dtype=np.uint8), r"\(2, 16, 12, 3\).*\(n, 12, 16, 3\)"),
        (np.zeros((12, 16, 3), dtype=np.uint8), r"uint8 of shape \(12, 16, 3\)"),
        (np.zeros((2, 12, 16, 3), dtype=np.float32), "float32.*uint8"),
        (ImageRows(np.zeros((5, 6, 8, 3), dtype=np.uint8), np.arange(2)), r"\(2, 6, 8, 3\)"),
        ([1, 2], "list"),
    ],
)
def test_images_of_another_size_or_kind_are_refused(images: Any, problem: str) -> None:
    with pytest.raises(BadInputError, match=problem):
        images_of(images, (16, 12), "crop")
