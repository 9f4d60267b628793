"""The toy world that other tests learn in: there are things to learn in it."""

from pathlib import Path

import numpy as np

from mappable.arrays import Pixels
from mappable.places.cache import find_pack
from mappable.places.files import load_places
from mappable.places.neighbors import find_neighbors
from mappable.places.table import Places


def test_the_toy_world_has_positives_and_negatives_for_every_anchor(toy: tuple[Places, Pixels]) -> None:
    train = toy[0].where(split="train")
    assert (len(train), train.unit) == (40, "m")
    assert np.diff(np.sort(train.x)).tolist() == [2.0] * 39
    assert find_neighbors(train, 5.0, max_yaw=0.5).counts.min() >= 2
    apart = np.abs(train.x[:, None] - train.x)  # along the line that they lie on
    assert min(np.count_nonzero(apart >= 12.0, axis=1)) >= 20
    assert {split: len(toy[0].where(split=split)) for split in ("calibration", "test")} == {
        "calibration": 10,
        "test": 10,
    }


def test_images_of_the_toy_world_differ_more_the_farther_apart_they_are(toy: tuple[Places, Pixels]) -> None:
    places, pixels = toy
    sun = pixels[places.condition == "sun"].reshape(20, -1).astype(float)
    apart = [np.mean((sun[steps:] - sun[: 20 - steps]) ** 2) for steps in (0, 1, 2, 3)]  # 4 m a step
    assert apart == sorted(apart)
    assert apart[3] > 1.5 * apart[1]


def test_the_folder_of_the_toy_world_holds_the_same_table_and_pixels(
    toy: tuple[Places, Pixels], toy_folder: Path
) -> None:
    places = load_places(toy_folder)
    assert places == toy[0]
    np.testing.assert_array_equal(find_pack(toy_folder, (64, 48), "crop").load(places), toy[1])
