"""Calibration: how often a bound holds."""

import numpy as np
import pytest

from mappable.maps.calibration import conformal_quantile


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_a_new_score_is_within_the_bound_as_often_as_stated(coverage: float) -> None:
    """Of eleven scores, each is the new one once."""
    scores = np.arange(11.0)
    held = [
        score <= conformal_quantile(np.delete(scores, number), coverage)
        for number, score in enumerate(scores)
    ]
    assert coverage <= np.mean(held) < coverage + 0.1
