"""Masks: what they keep against loops over pairs, how a threshold is chosen, connections, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.recovery.matrices.mask import (
    choose_threshold,
    connect,
    mask_report,
    observed,
    oracle_mask,
    paper_mask,
)
from mappable.recovery.ranges import Ranges


def matrix(count: int, seed: int = 0) -> Floats:
    """Distances of points along a line that is wound a little."""
    rng = np.random.default_rng(seed)
    points = np.stack([4.0 * np.arange(count), rng.normal(size=count)], 1)
    distances: Floats = np.linalg.norm(points[:, None] - points[None], axis=2)
    return distances


def random_mask(count: int, share: float, seed: int) -> Bools:
    """A symmetric mask that keeps about that share of the pairs."""
    kept = np.triu(np.random.default_rng(seed).random((count, count)) < share, 1)
    mask: Bools = kept | kept.T | np.eye(count, dtype=bool)
    return mask


def parts_of(mask: Bools) -> Ints:
    i, j = np.triu(mask, 1).nonzero()
    return Ranges(len(mask), i, j, np.ones(len(i)), 1.0).parts


# What is kept


@pytest.mark.parametrize("bound", [0.5, 9.0, 1000.0])
def test_masks_keep_what_is_up_to_their_bound_both_ways_and_each_point_itself(bound: float) -> None:
    distances = matrix(12)
    for mask in (oracle_mask(distances, bound), paper_mask(distances, bound)):
        for i in range(12):
            for j in range(12):
                assert mask[i, j] == (i == j or distances[i, j] <= bound)


@given(st.integers(1, 60), st.integers(0, 1000), st.floats(0.5, 1.0))
def test_the_threshold_is_the_highest_with_the_precision_asked_for(
    count: int, seed: int, precision: float
) -> None:
    rng = np.random.default_rng(seed)
    metres = rng.uniform(0, 40, count)
    squared = np.round(metres / 40 + rng.normal(0, 0.2, count), 1).clip(0)  # with many alike

    def share(bound: float) -> float:
        return float((metres[squared <= bound] <= 15.0).mean())

    good = [bound for bound in set(squared.tolist()) if share(bound) >= precision]
    if not good:
        with pytest.raises(BadInputError, match="no threshold"):
            choose_threshold(squared, metres, 10.0, precision=precision)
        return
    chosen = choose_threshold(squared, metres, 10.0, precision=precision)
    assert chosen.squared == max(good)
    assert chosen.precision == pytest.approx(share(chosen.squared))
    assert chosen.recall == pytest.approx((squared[metres <= 15.0] <= chosen.squared).mean())


def test_the_papers_mask_keeps_all_where_the_feature_scale_is_that_of_unrelated_images() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 1024))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    squared = np.maximum(2.0 - 2.0 * features @ features.T, 0.0)
    assert paper_mask(squared, 2.25).all()
    report = mask_report(paper_mask(squared, 2.25), matrix(40), 10.0)
    assert report.recall == 1.0
    assert report.precision < 0.15


# Reports and connections


@given(st.integers(2, 20), st.floats(0.0, 1.0), st.integers(0, 1000))
def test_a_report_counts_as_loops_do(count: int, share: float, seed: int) -> None:
    mask, distances = random_mask(count, share, seed), matrix(count, seed)
    report = mask_report(mask, distances, 10.0)
    pairs = [(i, j) for i in range(count) for j in range(i)]
    kept, near = ({pair for pair in pairs if truth[pair]} for truth in (mask, distances <= 10.0))
    assert report.per_row.tolist() == [sum(i in pair for pair in kept) for i in range(count)]
    if kept:
        assert report.precision == pytest.approx(len(kept & near) / len(kept))
    assert report.recall == pytest.approx(len(kept & near) / len(near))


@pytest.mark.medium
@given(st.integers(1, 20), st.floats(0.0, 0.3), st.integers(0, 1000))
def test_a_connected_mask_is_connected_and_loses_no_pair(
    count: int, share: float, seed: int
) -> None:
    mask = random_mask(count, share, seed)
    connected = connect(mask)
    assert not parts_of(connected).any()
    assert (connected >= mask).all()
    assert (connected == connected.T).all()
    parts = parts_of(mask)
    added = np.argwhere(np.triu(connected & ~mask))
    assert all(j == i + 1 and parts[i] != parts[j] for i, j in added)


# What is refused


def wrong(change: tuple[int, int], value: float) -> Floats:
    """Distances of which one, and its mirror image only if it is the same, has that value."""
    values = matrix(5)
    values[change] = value
    return values


def test_what_no_completion_can_use_is_refused() -> None:
    distances, everything = matrix(5), np.ones((5, 5), dtype=bool)
    for values, mask, sentence in (
        (distances[:2, :2], everything[:2, :2], "at least 3 points, got 2"),
        (distances, np.eye(5, dtype=bool), "the mask keeps no pair of points at all"),
        (0 * distances, everything, "all distances that the mask keeps are 0"),
        (
            distances,
            oracle_mask(distances, 1.0) | (distances < 5) & (distances[0] < 5),
            "parts that no pair connects",
        ),
        (wrong((1, 2), np.nan), everything, "is not a finite number"),
        (wrong((1, 2), -1.0), everything, "is negative"),
        (wrong((3, 0), 1.0), everything, "differs from its mirror image"),
        (distances, everything[:4, :4], "the mask has shape"),
    ):
        with pytest.raises(BadInputError, match=sentence):
            observed(values, mask, 2)
    with pytest.raises(BadInputError, match=r"2.*3.*dimensions.*4"):
        observed(distances, everything, 4)
