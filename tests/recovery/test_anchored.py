"""Known positions carry the others along: accuracy, honest covariances, and what stays open."""

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.recovery.align import score
from mappable.recovery.anchored import Anchors, recover_anchored
from mappable.recovery.ranges import Ranges
from mappable.recovery.simulator import NOISES, measure, route


def some_anchors(truth: Floats, count: int, seed: int = 0, sigma: float = 0.5) -> Anchors:
    points = np.linspace(0, len(truth) - 1, count).round().astype(int)
    noise = sigma * np.random.default_rng(seed).standard_normal((count, truth.shape[1]))
    return Anchors(points, truth[points] + noise, sigma)


@pytest.mark.parametrize("outliers", [0.01, 0.05])
def test_ten_known_positions_give_an_open_route_to_half_a_percent(outliers: float) -> None:
    truth = route("open", 400, seed=1)
    ranges = measure(truth, NOISES["mid"], seed=1, missing=0.1, outliers=outliers)
    anchors = some_anchors(truth, 10)
    recovered = recover_anchored(ranges, anchors, sweeps=200)
    off = score(recovered.positions, truth).of_length
    lines = np.stack([np.interp(np.arange(400), anchors.points, anchors.positions[:, axis]) for axis in (0, 1)], 1)
    assert off < 0.5
    assert off < 0.5 * score(lines, truth).of_length
    assert recovered.covariances is not None
    errors = recovered.positions - truth
    surprise = np.einsum("na,nab,nb->n", errors, np.linalg.inv(recovered.covariances), errors).mean()
    assert 0.3 < surprise / 2 < 3
    assert recovered.undetermined == ()


def test_it_is_the_same_again() -> None:
    truth = route("loop", 120, seed=0)
    ranges = measure(truth, NOISES["mid"], seed=0, radius=20.0)
    first, again = (recover_anchored(ranges, some_anchors(truth, 6), sweeps=50).positions for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_points_in_space_without_order() -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(0, 30, (60, 3))
    ranges = measure(truth, NOISES["low"], seed=0, radius=18.0)
    recovered = recover_anchored(ranges, some_anchors(truth, 8, sigma=0.05), ordered=False)
    assert score(recovered.positions, truth).rmse < 0.5


def test_what_no_anchor_reaches_is_left_out_and_said() -> None:
    truth = np.concatenate([route("open", 100, seed=0, length=300), route("open", 50, seed=1, length=150) + 1000])
    ranges = measure(truth, NOISES["low"], seed=0)
    points = [0, 30, 60, 99]
    recovered = recover_anchored(ranges, Anchors(points, truth[points], 0.1), sweeps=20)
    assert np.isfinite(recovered.positions[:100]).all()
    assert np.isnan(recovered.positions[100:]).all()
    assert "50 of 150 points are connected with no known one, and left out" in recovered.undetermined


def test_known_positions_in_a_line_leave_the_side_open() -> None:
    ranges = Ranges(4, [0, 1, 0, 1, 2, 0], [2, 2, 3, 3, 3, 1], [5.0, 5.0, 4.0, 4.0, 2.0, 6.0], 0.1)
    recovered = recover_anchored(ranges, Anchors([0, 1], [[0.0, 0.0], [6.0, 0.0]], 0.1), ordered=False)
    assert recovered.undetermined == ("the known positions lie in a line: the map could as well be mirrored at it",)


def test_anchors_that_cannot_be_are_refused() -> None:
    for points, positions, sigma, words in (
        ([0, 1], [[0.0, 0.0]], 1.0, "anchors are points"),
        ([0], [[0.0, np.nan]], 1.0, "the anchor at point 0 has a coordinate that is not a number"),
        ([3], [[0.0, 1.0]], 0.0, "the anchor at point 3 has a sigma that is not above 0"),
        ([1, 1], [[0.0, 1.0], [0.0, 2.0]], 1.0, "each occurs once"),
    ):
        with pytest.raises(BadInputError, match=words):
            Anchors(points, positions, sigma)
    with pytest.raises(BadInputError, match="an anchor is at point 7, beyond the 3 there are"):
        recover_anchored(Ranges(3, [0, 1], [1, 2], [1.0, 1.0], 0.1), Anchors([7], [[0.0, 0.0]], 1.0))
