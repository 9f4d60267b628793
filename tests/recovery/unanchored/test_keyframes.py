"""Keyframes: evenly spaced whatever the speed, and the others between them."""

from functools import cache

import numpy as np
import pytest

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.recovery.align import score
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.keyframes import keyframes, place_others, usual_spacing
from simulated_ranges import NOISES, measure, route


@cache
def uneven(count: int, *, length: float = 300.0, seed: int = 0) -> Floats:
    """A loop driven at changing speed, with a stop of a tenth of the images."""
    smooth = route("loop", 20_000, seed=seed, length=length)
    along = np.linspace(0, 1, count * 9 // 10)
    along = along + 0.02 * np.sin(12 * np.pi * along)
    at = np.sort(np.concatenate([along, np.full(count - len(along), 0.4)]))
    return smooth[np.clip(np.round(at * 19_999).astype(int), 0, 19_999)]


def lengths(positions: Floats, key: Ints) -> Floats:
    """How long the way from each keyframe to the next is."""
    along = np.concatenate([[0.0], np.linalg.norm(np.diff(positions, axis=0), axis=1).cumsum()])
    return np.diff(along[key])


@cache
def dense(noise: str) -> tuple[Floats, Ranges]:
    """A loop of 2,000 images, and ranges between them."""
    positions = route("loop", 2000, seed=1, length=268.8)
    return positions, measure(positions, NOISES[noise], seed=0, missing=0.1, outliers=0.01)


@pytest.mark.medium
@pytest.mark.parametrize("spacing", [1.5, 3.0])
@pytest.mark.parametrize("noise", ["low", "mid", "high"])
def test_keyframes_are_about_as_far_apart_as_asked(noise: str, spacing: float) -> None:
    positions, ranges = dense(noise)
    key = keyframes(ranges, spacing)
    assert (key[0], key[-1]) == (0, 1999)
    assert (np.diff(key) > 0).all()
    gaps = lengths(positions, key)
    assert np.median(gaps) == pytest.approx(spacing, rel=0.15)
    assert gaps.max() < 2.5 * spacing


@pytest.mark.medium
def test_speed_does_not_matter() -> None:
    positions = uneven(1500, length=150.0)
    ranges = measure(positions, NOISES["mid"], seed=0, missing=0.1)
    gaps = lengths(positions, keyframes(ranges, usual_spacing(ranges)))
    assert np.median(gaps) == pytest.approx(1.4, abs=0.2)
    assert gaps.max() < 2.5


@pytest.mark.medium
def test_coming_by_again_is_no_step() -> None:
    """The loop's first 12 % are driven twice: ranges of seconds ago and of long ago lead to the same places."""
    positions = route("loop", 1500, seed=0, length=252.0)
    key = keyframes(measure(positions, NOISES["low"], seed=0), 1.5)
    assert len(key) == pytest.approx(252 / 1.4, rel=0.1)


def test_a_sparse_sequence_keeps_all_images() -> None:
    ranges = measure(route("loop", 400, seed=0), NOISES["mid"], seed=0)
    assert keyframes(ranges, 1.5).tolist() == list(range(400))
    chain = Ranges(4, [0, 1, 2], [1, 2, 3], np.full(3, 0.1), 0.1)
    assert keyframes(chain, 1.5).tolist() == [0, 1, 2, 3]


def test_the_spacing_grows_with_the_reach_and_the_noise_of_the_ranges() -> None:
    i, j = np.triu_indices(200, 1)

    def spacing(reach: float, sigma: float) -> float:
        return usual_spacing(Ranges(200, i, j, np.linspace(0, reach, len(i)), sigma))

    assert spacing(8.0, 0.05) == pytest.approx(0.15 * 8, rel=0.01)  # a sixth of what nine in ten reach
    assert spacing(80.0, 0.05) == pytest.approx(0.15 * 80, rel=0.01)
    assert spacing(8.0, 0.9) == pytest.approx(2 * 0.9)
    assert spacing(8.0, 5.0) == pytest.approx(0.3 * 8, rel=0.01)


def test_a_gap_without_ranges_is_stepped_over() -> None:
    positions = route("open", 2000, seed=0)
    whole = measure(positions, NOISES["low"], seed=0)
    ranges = whole.where((whole.j < 1000) | (whole.i >= 1000))
    key = keyframes(ranges, usual_spacing(ranges))
    assert {999, 1000} & set(key.tolist())
    assert ranges.among(key).parts.max() == 1


def test_bad_spacing() -> None:
    with pytest.raises(BadInputError, match=r"spacing.*-1"):
        keyframes(Ranges(2, [0], [1], [1.0], [1.0]), -1)


@pytest.mark.medium
@pytest.mark.parametrize("dimensions", [2, 3])
def test_others_are_placed_by_their_ranges_at_any_speed(dimensions: int) -> None:
    positions = uneven(2000, length=200.0)
    if dimensions == 3:
        positions = np.column_stack([positions, 0.05 * positions.sum(1)])
    ranges = measure(positions, NOISES["low"], seed=0, missing=0.1, outliers=0.01)
    key = keyframes(ranges, usual_spacing(ranges))
    placed, parts = place_others(ranges, key, positions[key], np.zeros(len(key), dtype=np.int64))
    by_order = np.stack([np.interp(np.arange(2000), key, column) for column in positions[key].T], 1)
    assert score(placed, positions).rmse < 0.05
    assert score(placed, positions).rmse < 0.5 * score(by_order, positions).rmse
    np.testing.assert_array_equal(placed[key], positions[key])
    assert not parts.any()


def test_images_between_two_parts_go_with_the_nearer() -> None:
    key = np.array([0, 3])
    ranges = Ranges(4, [0, 2], [1, 3], [0.5, 0.25], 0.01)
    placed, parts = place_others(ranges, key, np.array([[0.0, 0.0], [100.0, 0.0]]), np.array([0, 1]))
    assert parts.tolist() == [0, 0, 1, 1]
    assert np.linalg.norm(placed[1] - placed[0]) <= 0.5
    assert np.linalg.norm(placed[2] - placed[3]) <= 0.25
