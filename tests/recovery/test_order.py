"""What ranges know of the order of points."""

import numpy as np
import pytest

from mappable.recovery.order import order_of
from mappable.recovery.ranges import Ranges


def test_ranges_between_neighbors_score_one_and_ranges_of_all_pairs_nothing() -> None:
    i, j = np.triu_indices(100, 1)
    near = j - i <= 3
    assert order_of(Ranges(100, i[near], j[near], np.ones(near.sum()), 1.0)).score > 0.8
    assert order_of(Ranges(100, i, j, np.ones(len(i)), 1.0)).score == 0.0
    place = np.random.default_rng(0).permutation(100)
    shuffled = order_of(Ranges(100, place[i[near]], place[j[near]], np.ones(near.sum()), 1.0))
    assert shuffled.score < 1 / 3


def test_a_drive_without_ranges_between_neighbors_scores_nothing() -> None:
    far = order_of(Ranges(100, np.arange(0, 90, 3), np.arange(3, 93, 3), np.ones(30), 1.0))
    assert (far.following, far.score) == (0.0, 0.0)


@pytest.mark.parametrize("back", [False, True])
def test_ranges_where_a_drive_comes_back_are_true_and_scattered_ones_are_false(back: bool) -> None:
    along = np.concatenate([np.arange(60), np.arange(60)[::-1] if back else np.arange(60)])
    i, j = np.triu_indices(120, 1)
    near = np.abs(along[i] - along[j]) <= 3
    assert order_of(Ranges(120, i[near], j[near], np.ones(near.sum()), 1.0)).false < 0.15
    once = np.abs(i - j) <= 3
    scattered = once | (np.random.default_rng(0).random(len(i)) < 0.05)
    found = order_of(Ranges(120, i[scattered], j[scattered], np.ones(scattered.sum()), 1.0))
    assert found.false == pytest.approx(np.mean(~once[scattered]), abs=0.1)
