"""Which places are trained on, with which the progress is watched, and by what the data are known again."""

import numpy as np
import pytest

from mappable.arrays import Pixels
from mappable.errors import BadInputError
from mappable.learning import data
from mappable.learning.data import select
from mappable.places import pixels as pixels_module
from mappable.places.pixels import ImageRows
from mappable.places.table import Places

Toy = tuple[Places, Pixels]


def rows_of(pixels: Pixels) -> ImageRows:
    return ImageRows(pixels, np.arange(len(pixels)))


def read(chosen: data.TrainingData) -> Pixels:
    return chosen.images.read(np.arange(len(chosen.images)))


def test_the_training_split_comes_first_and_some_of_the_calibration_split_after_it(
    toy: Toy,
) -> None:
    places, pixels = toy
    chosen = select(places, rows_of(pixels), queries=4)
    assert chosen.train == places.where(split="train")
    assert set(chosen.queries.split) == {"calibration"}
    rows = [
        list(places.place_id).index(one)
        for one in [*chosen.train.place_id, *chosen.queries.place_id]
    ]
    assert len(set(rows)) == 44
    assert chosen.images.shape == (44, 48, 64, 3)
    np.testing.assert_array_equal(read(chosen), pixels[rows])


def test_a_table_without_training_split_is_refused(toy: Toy) -> None:
    places, pixels = toy
    others = np.flatnonzero(places.split != "train")
    with pytest.raises(BadInputError, match=r"20.*places"):
        select(places[others], rows_of(pixels[others]), queries=4)
    with pytest.raises(BadInputError, match=r"0.*places"):
        select(places[:0], rows_of(pixels[:0]), queries=4)
    with pytest.raises(BadInputError, match=r"60.*59"):
        select(places, rows_of(pixels[:59]), queries=4)


def test_the_fingerprint_changes_with_any_training_place_or_image(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, pixels = toy

    def fingerprint(places: Places, pixels: Pixels) -> str:
        return select(places, rows_of(pixels), queries=4).fingerprint

    whole = fingerprint(places, pixels)
    assert len(whole) == 16
    changed = pixels.copy()
    changed[39, 47, 63, 2] ^= 1  # the very last byte that is trained on
    assert fingerprint(places, changed) != whole
    x = places.x.copy()
    x[0] += 1e-9
    assert fingerprint(places.replace(x=x), pixels) != whole
    sequence = places.sequence.copy()
    sequence[5] = "snow"
    assert fingerprint(places.replace(sequence=sequence), pixels) != whole
    changed = pixels.copy()
    changed[40:] = 0  # of other splits
    assert fingerprint(places, changed) == whole
    monkeypatch.setattr(pixels_module, "IMAGES_PER_BLOCK", 7)
    assert fingerprint(places, pixels) == whole
