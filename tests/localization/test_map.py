"""The front door: a map opened once, and asked about files, folders and arrays."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mappable.arrays import Floats32, Pixels
from mappable.errors import BadImageError, BadInputError
from mappable.features.about import About
from mappable.localization.location import Location, NotLocated
from mappable.localization.map import Map
from mappable.places.images import load_image, resize_image
from mappable.places.pixels import images_of


@dataclass
class ByColor:
    """An encoder for which the red of an image is a row of descriptors that were made before."""

    descriptors: Floats32
    about: About
    fingerprint: str

    def embed(self, images: Any, *, progress: bool = True) -> Floats32:
        source = images_of(images, self.about.size, self.about.fit)
        red = np.median(source.read(np.arange(len(source)))[..., 0], axis=(1, 2))
        return self.descriptors[red.astype(np.int64)]


@pytest.fixture
def town_map(town: Any) -> Map:
    """The town, with an encoder for images whose red is a row of its drive."""
    about = About(
        size=(32, 24), fit="crop", mean=(0, 0, 0), std=(1, 1, 1), backbone="small", weights=""
    )
    return Map(town.landmarks, encoder=ByColor(town.drive[1], about, town.encoder))  # type: ignore[arg-type]


def same(one: Any, other: Location) -> bool:
    """Whether two locations are of one place. Images of one call share their shift, so they differ
    a little.
    """
    close = np.allclose(one.coordinates, other.coordinates, atol=2.0)
    return bool(close) and one.unit == other.unit


def picture(row: int, width: int = 50, height: int = 40) -> Pixels:
    return np.full((height, width, 3), (row, 0, 0), dtype=np.uint8)


@pytest.fixture
def drive(tmp_path: Path) -> Path:
    """A folder with the first 12 images of the town's drive."""
    (tmp_path / "drive").mkdir()
    for row in range(12):
        Image.fromarray(picture(row)).save(tmp_path / f"drive/{row:02d}.png")
    return tmp_path / "drive"


def test_a_file_gives_one_location(town_map: Map, town: Any, drive: Path) -> None:
    expected = town_map.locate(town.drive[1][5])
    for path in (drive / "05.png", str(drive / "05.png")):
        assert town_map.locate(path) == replace(expected, image=str(path))
    assert town_map.locate(drive / "05.png", coverage=0.5).coverage == 0.5


def test_a_folder_gives_an_entry_per_image_also_for_one_that_cannot_be_read(
    town_map: Map, drive: Path
) -> None:
    (drive / "05.png").write_text("no image")
    found = town_map.locate_all(drive)
    assert [Path(one.image).name for one in found] == [f"{row:02d}.png" for row in range(12)]
    assert [isinstance(one, Location) for one in found] == [row != 5 for row in range(12)]
    assert isinstance(found[5], NotLocated)
    assert "05.png" in found[5].error
    assert same(found[4], town_map.locate(drive / "04.png"))
    with pytest.raises(BadImageError, match=r"05\.png"):
        town_map.locate(drive / "05.png")


def test_arrays_of_any_size_are_resized_as_files_are(
    town_map: Map, drive: Path, tmp_path: Path
) -> None:
    expected = town_map.locate(drive / "03.png")
    assert town_map.locate(picture(3, 64, 48)) == replace(expected, image="0")
    several = town_map.locate_all(np.stack([picture(9), picture(3)]))
    assert [one.image for one in several] == ["0", "1"]
    assert same(several[1], expected)
    assert not same(several[0], expected)
    noise = np.random.default_rng(0).integers(0, 256, (61, 83, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    for fit in ("crop", "pad", "stretch"):
        loaded = load_image(tmp_path / "noise.png", (32, 24), fit)
        np.testing.assert_array_equal(resize_image(noise, (32, 24), fit), loaded)


def test_a_sequence_is_located_as_a_whole(town_map: Map, town: Any, drive: Path) -> None:
    expected = [one.coordinates for one in town_map.locate_drive(town.drive[1][:12])]
    arrays = np.stack([picture(row) for row in range(12)])
    for images in (drive, sorted(drive.iterdir()), arrays):
        assert [
            one.coordinates for one in town_map.locate_drive(images) if isinstance(one, Location)
        ] == expected
    assert len(town_map.locate_drive(drive / "00.png")) == 1


def test_an_encoder_that_is_not_the_maps_is_refused(town_map: Map, town: Any) -> None:
    other = ByColor(town.drive[1], town_map.encoder.about, "other")
    with pytest.raises(BadInputError, match="other"):
        Map(town.landmarks, encoder=other).locate(picture(3))  # type: ignore[arg-type]
