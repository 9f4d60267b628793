"""Places that are checked by local features of real images."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mappable.errors import BadInputError
from mappable.maps.map import Map
from mappable.maps.place_filter import Belief
from mappable.maps.verification import Verifier
from mappable.places.frames import Frame
from mappable.places.table import Places

COUNT = 8


@pytest.fixture
def landmarks(tmp_path: Path) -> Map:
    """Landmarks 100 m apart, each with an image of its own."""
    for row in range(COUNT):
        random = np.random.default_rng(row)
        image = np.zeros((120, 160, 3), dtype=np.uint8)
        for _ in range(60):
            y, x = random.integers(0, 110), random.integers(0, 150)
            image[y : y + random.integers(8, 40), x : x + random.integers(8, 40)] = random.integers(0, 255, 3)
        Image.fromarray(image).save(tmp_path / f"{row}.png")
    paths = [f"{row}.png" for row in range(COUNT)]
    places = Places(path=paths, x=100.0 * np.arange(COUNT), y=np.zeros(COUNT), frames=Frame("town"), root=tmp_path)
    return Map.build(places, np.eye(COUNT, dtype=np.float32), "made-up")


@pytest.mark.medium
def test_the_right_place_becomes_likelier(landmarks: Map, tmp_path: Path) -> None:
    verifier = Verifier(landmarks, landmarks.places.positions, 20.0, (160, 120), "crop")
    picture = np.asarray(Image.open(tmp_path / "5.png"))
    seen = verifier.describe(np.roll(picture, 6, axis=1) // 2 + 40)  # shifted, and less contrast
    checked = verifier.check(Belief(np.array([2, 5]), np.array([0.5, 0.3]), 0.2), seen)
    assert checked.probability[1] > 0.8
    assert checked.probability.sum() + checked.away == pytest.approx(1.0)
    (tmp_path / "2.png").unlink()
    again = Verifier(landmarks, landmarks.places.positions, 20.0, (160, 120), "crop")
    assert again.check(Belief(np.array([2, 5]), np.array([0.5, 0.3]), 0.2), seen).probability[1] > 0.8


def test_images_of_the_landmarks_must_exist(landmarks: Map, tmp_path: Path) -> None:
    (tmp_path / "0.png").unlink()
    with pytest.raises(BadInputError, match=r"0\.png: no such file"):
        Verifier(landmarks, landmarks.places.positions, 20.0, (160, 120), "crop")
