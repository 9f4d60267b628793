"""Consecutive images together."""

from typing import Any

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.maps.locate import Locator
from mappable.maps.sequence import locate_sequence


def test_images_that_look_like_another_place_stay_on_the_way(town: Any) -> None:
    """Ten images of the drive show a place far away."""
    positions, descriptors = town.drive
    disturbed = descriptors.copy()
    hidden = np.arange(100, 400, 30)
    disturbed[hidden] = town.describe(positions[::-1][hidden], seed=9)
    locator = Locator(town.map)
    single, together = (
        np.linalg.norm(np.stack([one.coordinates for one in found]) - positions, axis=1)
        for found in (
            locator.locate(disturbed, encoder=town.encoder),
            locate_sequence(locator, disturbed, encoder=town.encoder),
        )
    )
    assert (single[hidden] > 30).sum() >= 8
    assert (together[hidden] < 15).all()
    assert np.median(together) < 1.1 * np.median(single)


def test_covariances_are_sound(hills: Any) -> None:
    found = locate_sequence(Locator(hills.map), hills.drive[1], encoder=hills.encoder)
    covariances = np.stack([one.covariance for one in found])
    assert covariances.shape == (400, 3, 3)
    assert (np.linalg.eigvalsh(covariances) > 0).all()
    assert all(one.refined for one in found)


def test_images_from_elsewhere_are_turned_away(town: Any) -> None:
    found = locate_sequence(Locator(town.map), town.absent, encoder=town.encoder)
    assert np.mean([one.confident for one in found]) < 0.05


@pytest.mark.parametrize("every", [4, 8, 12, 40])
def test_images_far_apart(town: Any, every: int) -> None:
    """A drive of 1 m from one image to the next, thinned."""
    positions, descriptors = town.drive[0][::every], town.drive[1][::every]
    found = locate_sequence(Locator(town.map), descriptors, encoder=town.encoder)
    off = np.linalg.norm(np.stack([one.coordinates for one in found]) - positions, axis=1)
    assert np.median(off) < 1.0
    assert off.max() < 5.0


def test_a_camera_that_stands_still_does_not_grow_ever_surer(town: Any) -> None:
    spot = np.repeat(town.drive[0][200:201], 100, axis=0)
    locator, seen = Locator(town.map), town.describe(spot, seed=3)
    together = locate_sequence(locator, seen, encoder=town.encoder)
    (alone,) = locator.locate(seen[:1], encoder=town.encoder)
    assert np.trace(together[50].covariance) > 0.3 * np.trace(alone.covariance)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_short_ones(town: Any, count: int) -> None:
    found = locate_sequence(Locator(town.map), town.drive[1][:count], encoder=town.encoder)
    off = np.stack([one.coordinates for one in found]) - town.drive[0][:count]
    assert (np.linalg.norm(off, axis=1) < 4).all()


def test_none_and_no_calibration(town: Any) -> None:
    with pytest.raises(BadInputError, match="image"):
        locate_sequence(Locator(town.map), town.drive[1][:0], encoder=town.encoder)
    with pytest.raises(BadInputError, match="no calibration"):
        locate_sequence(Locator(town.bare), town.drive[1], encoder=town.encoder)
