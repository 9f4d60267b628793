"""Cases of recovery benchmarks: the same route and ranges each time, and known positions as stated."""

from dataclasses import replace

import numpy as np
import pytest

from route_cases import ANCHOR_SIGMA, Case, draw
from simulated_ranges import route

LOOP = Case("loop", "mid", 150, seed=1, length=300.0)


def test_a_case_is_drawn_the_same_each_time_and_each_noise_measures_the_same_route() -> None:
    truth, ranges, anchors = draw(LOOP)
    again = draw(LOOP)
    np.testing.assert_array_equal(truth, route("loop", 150, seed=1, length=300.0))
    np.testing.assert_array_equal(ranges.metres, again[1].metres)
    assert anchors is None
    learned = draw(replace(LOOP, noise="learned"))
    np.testing.assert_array_equal(learned[0], truth)
    assert len(learned[1]) != len(ranges)


def test_known_positions_are_evenly_spread_and_off_by_their_sigma() -> None:
    errors = []
    for seed in range(20):
        truth, _, anchors = draw(replace(LOOP, anchors=16, seed=seed))
        assert anchors is not None
        assert anchors.points[[0, -1]].tolist() == [0, 149]
        assert np.ptp(np.diff(anchors.points)) <= 1
        errors.append(anchors.positions - truth[anchors.points])
    assert np.std(errors) == pytest.approx(ANCHOR_SIGMA, rel=0.1)
