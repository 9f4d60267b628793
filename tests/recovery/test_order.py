"""What ranges know of the order of points, against an explicit comparison of all pairs."""

from itertools import combinations

import numpy as np
import pytest

from mappable.recovery.order import order_of
from mappable.recovery.ranges import Ranges


def test_it_is_the_share_of_comparisons_that_the_next_point_wins() -> None:
    random = np.random.default_rng(3)
    pairs = [pair for pair in combinations(range(9), 2) if random.random() < 0.6]
    metres = random.integers(1, 6, len(pairs)).astype(float)  # some are equal
    known = dict(zip(pairs, metres, strict=True))
    following = [known.get((i, i + 1), np.inf) for i in range(8)]
    others = [known.get(pair, np.inf) for pair in combinations(range(9), 2) if pair[1] - pair[0] > 1]
    won = [1.0 if mine < other else 0.5 if mine == other else 0.0 for mine in following for other in others]
    i, j = np.array(pairs).T
    found = order_of(Ranges(9, i, j, metres, 1.0))
    assert found.shorter == pytest.approx(np.mean(won))
    assert found.share == len(pairs) / 36
    assert found.following == np.mean(np.isfinite(following))


def test_a_line_is_in_perfect_order_and_a_shuffled_one_in_none() -> None:
    i, j = np.triu_indices(40, 1)
    line = order_of(Ranges(40, i, j, (j - i).astype(float), 1.0))
    assert (line.shorter, line.score) == (1.0, 1.0)
    at = np.random.default_rng(0).permutation(40)
    shuffled = order_of(Ranges(40, i, j, np.abs(at[i] - at[j]).astype(float), 1.0))
    assert abs(shuffled.score) < 0.3
    assert shuffled.shorter < shuffled.by_chance < 0.7


def test_few_ranges_that_are_all_to_the_next_point_score_as_many_would() -> None:
    i = np.arange(0, 98, 3)
    few = order_of(Ranges(100, i, i + 1, np.ones(len(i)), 1.0))
    assert few.score == pytest.approx(1.0, abs=0.05)
    assert few.shorter > few.by_chance
    far = order_of(Ranges(100, i[:-1], i[1:], np.ones(len(i) - 1), 1.0))
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
