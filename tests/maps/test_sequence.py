"""Consecutive images together."""

from typing import Any

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.maps.locate import Locator
from mappable.maps.sequence import locate_sequence

DOUBTS = ("looks unlike every landmark", "looks like two places", "looks like one place throughout")


def off_by(town: Any, descriptors: Any, positions: Any) -> Any:
    found = locate_sequence(Locator(town.map), descriptors, encoder=town.encoder)
    return np.linalg.norm(np.stack([one.coordinates for one in found]) - positions, axis=1)


def test_images_that_look_like_another_place_stay_on_the_way(town: Any) -> None:
    """Ten images of a drive show their place and, a little more, another."""
    positions, descriptors = town.drive[0][::2], town.drive[1][::2]
    disturbed = descriptors.copy()
    hidden = np.arange(20, 200, 18)
    mixed = descriptors[hidden] + 1.1 * town.describe(positions[::-1][hidden], seed=9)
    disturbed[hidden] = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
    single = Locator(town.map).locate(disturbed, encoder=town.encoder)
    alone = np.linalg.norm(np.stack([one.coordinates for one in single]) - positions, axis=1)
    together = off_by(town, disturbed, positions)
    assert (alone[hidden] > 30).sum() >= 5
    assert (together[hidden] < 15).sum() >= 9
    assert np.median(together) < 1.2 * np.median(alone)


@pytest.mark.parametrize("way", ["backwards", "two drives", "uneven", "again and again", "with strangers", "shuffled"])
def test_any_order(town: Any, way: str) -> None:
    """A drive of 1 m from one image to the next, in ways that people record it; each image is found."""
    random, rows = np.random.default_rng(0), np.arange(0, 400, 2)
    rows = {
        "backwards": rows[::-1],
        "two drives": np.concatenate([rows[:80], rows[::-1][:90]]),
        "uneven": np.sort(random.permutation(400)[:120]),
        "again and again": np.repeat(rows, 1 + 4 * (rows % 40 == 0)),
        "with strangers": rows,
        "shuffled": random.permutation(rows),
    }[way]
    positions, seen = town.drive[0][rows], town.drive[1][rows]
    if way == "with strangers":
        at = np.sort(random.permutation(len(rows))[:40])
        found = locate_sequence(Locator(town.map), np.insert(seen, at, town.absent[:40], axis=0), encoder=town.encoder)
        strange = np.insert(np.zeros(len(rows), dtype=bool), at, True)
        assert sum(one.confident for one, other in zip(found, strange, strict=True) if other) <= 8
        own = [one for one, other in zip(found, strange, strict=True) if not other]
    else:
        own = locate_sequence(Locator(town.map), seen, encoder=town.encoder)
    off = np.linalg.norm(np.stack([one.coordinates for one in own]) - positions, axis=1)
    assert np.median(off) < 1.2
    assert (off < 6).mean() > 0.97


def test_everything_comes_from_the_filter(town: Any) -> None:
    found = locate_sequence(Locator(town.map), town.drive[1][::3], encoder=town.encoder)
    ids = list(town.map.places.place_id)
    truly = [
        np.linalg.norm(town.map.places.positions[ids.index(one.landmark)] - at)
        for one, at in zip(found, town.drive[0][::3], strict=True)
    ]
    assert all(one.together and one.low is not None for one in found)
    assert np.mean([one.low <= far <= one.high for one, far in zip(found, truly, strict=True)]) > 0.8
    assert np.mean([one.confident for one in found]) > 0.9
    doubted = locate_sequence(Locator(town.map), town.absent[:40], encoder=town.encoder)
    assert all(one.reason.startswith(DOUBTS) for one in doubted if not one.confident)


def test_steps_too_long_to_help_are_said_to_be(town: Any) -> None:
    found = locate_sequence(Locator(town.map), town.drive[1][::60], encoder=town.encoder)
    assert not any(one.together for one in found)


def test_a_map_of_one_landmark(town: Any) -> None:
    one = town.map.remove(town.map.places.place_id[1:].tolist())
    found = locate_sequence(Locator(one), town.drive[1][:5], encoder=town.encoder)
    assert {each.coordinates for each in found} == {tuple(one.places.positions[0])}
    assert not any(each.together for each in found)


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


def test_a_drive_that_is_not_on_the_map_is_not_confident(town: Any) -> None:
    """All images look like landmark 40, and differ as the images of a drive do."""
    moving = town.drive[1][:60] - town.drive[1][:60].mean(0)
    seen = town.map.store.take(np.array([40])) + 1.2 * moving
    seen = (seen / np.linalg.norm(seen, axis=1, keepdims=True)).astype(np.float32)
    found = locate_sequence(Locator(town.map), seen, encoder=town.encoder)
    assert not any(one.confident for one in found)
    assert all(one.reason.startswith(DOUBTS) for one in found)


def test_images_in_random_order_are_located_alone(town: Any) -> None:
    order = np.random.default_rng(0).permutation(len(town.drive[1]))
    locator, seen = Locator(town.map), town.drive[1][order]
    found = locate_sequence(locator, seen, encoder=town.encoder)
    assert not found[0].together
    alone = locator.locate(seen, encoder=town.encoder)
    off, off_alone = (
        np.linalg.norm(np.array([one.coordinates for one in some]) - town.drive[0][order], axis=1)
        for some in (found, alone)
    )
    assert np.mean(off <= 10) >= np.mean(off_alone <= 10) - 0.02
