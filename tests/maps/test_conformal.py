"""The conformal quantile, against its definition and by leaving out each score in turn."""

import math

import numpy as np
import pytest

from mappable.maps.conformal import FOLDS, conformal_quantile, in_folds

COVERAGES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


@pytest.mark.parametrize("coverage", COVERAGES)
@pytest.mark.parametrize("count", [1, 2, 9, 15, 40, 199])
def test_of_exchangeable_scores_exactly_the_share_of_the_rank_is_held(count: int, coverage: float) -> None:
    """Each of n + 1 scores is equally likely to be the new one."""
    scores = np.random.default_rng(count).normal(size=count + 1)
    held = [scores[new] <= conformal_quantile(np.delete(scores, new), coverage) for new in range(count + 1)]
    rank = math.ceil(round((count + 1) * coverage, 9))
    assert sum(held) == min(rank, count + 1)
    assert coverage <= np.mean(held) < coverage + 1 / (count + 1) + 1e-9


def test_too_few_scores_bound_nothing() -> None:
    assert conformal_quantile(np.empty(0), 0.1) == np.inf
    assert conformal_quantile(np.arange(8.0), 0.9) == np.inf
    assert conformal_quantile(np.arange(9.0), 0.9) == 8.0


def test_folds_are_stretches_of_like_length() -> None:
    folds = in_folds(1003)
    assert (np.diff(folds) >= 0).all()
    assert len(np.unique(folds)) == FOLDS
    assert np.ptp(np.bincount(folds)) <= 1
    assert in_folds(3).tolist() == [0, 1, 2]
    assert not len(in_folds(0))
