"""Known positions carry the others along: accuracy, honest covariances, and what stays open."""

import numpy as np
import pytest

from anchored_erratic import erratic
from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.recovery.align import aligned_score, score
from mappable.recovery.anchored import pipeline
from mappable.recovery.anchored.pipeline import recover_anchored
from mappable.recovery.baselines import interpolated
from mappable.recovery.hints import Anchors, Odometry, Turns
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from route_cases import Case, draw
from simulated_ranges import NOISES, measure, route

pytestmark = pytest.mark.medium

FEW = 20  # sweeps


def some_anchors(truth: Floats, count: int, seed: int = 0, sigma: float = 0.5) -> Anchors:
    points = np.linspace(0, len(truth) - 1, count).round().astype(int)
    noise = sigma * np.random.default_rng(seed).standard_normal((count, truth.shape[1]))
    return Anchors(points, truth[points] + noise, sigma)


def surprise(recovered: Recovered, truth: Floats) -> float:
    """The squared error in units of the covariance, over the number of dimensions: 1 is right."""
    assert recovered.covariances is not None
    errors = recovered.positions - truth
    squared = np.einsum("na,nab,nb->n", errors, np.linalg.inv(recovered.covariances), errors)
    return float(squared.mean()) / truth.shape[1]


@pytest.mark.parametrize("outliers", [pytest.param(0.01, marks=pytest.mark.long), 0.05])
def test_a_known_position_every_70_m_gives_an_open_route_to_half_a_percent(outliers: float) -> None:
    truth = route("open", 200, seed=1, length=336.0)
    ranges = measure(truth, NOISES["mid"], seed=1, missing=0.1, outliers=outliers)
    anchors = some_anchors(truth, 6)
    recovered = recover_anchored(ranges, anchors, sweeps=FEW)
    off = score(recovered.positions, truth).of_length
    assert off < 0.3
    assert off < 0.3 * score(interpolated(200, anchors.points, anchors.positions), truth).of_length
    assert 0.3 < surprise(recovered, truth) < 2
    assert 0.9 < recovered.noise < 1.1


@pytest.mark.parametrize("kind", ["open", pytest.param("loop", marks=pytest.mark.long)])
def test_with_the_noise_of_a_trained_encoder_it_still_beats_interpolation(kind: str) -> None:
    truth, ranges, anchors = draw(Case(kind, "learned", 200, 1, 336.0, anchors=10))  # type: ignore[arg-type]
    assert anchors is not None
    recovered = recover_anchored(ranges, anchors, sweeps=60)
    between = score(interpolated(200, anchors.points, anchors.positions), truth).rmse
    assert score(recovered.positions, truth).rmse < 0.6 * between
    assert any("a third of their length or more" in sentence for sentence in recovered.undetermined)


def test_it_is_the_same_again() -> None:
    truth = route("loop", 50, seed=0, length=280.0)
    ranges = measure(truth, NOISES["mid"], seed=0, radius=20.0)
    first, again = (recover_anchored(ranges, some_anchors(truth, 6), sweeps=10).positions for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_where_the_map_lies_does_not_matter() -> None:
    truth = route("open", 60, seed=0, length=102)
    ranges = measure(truth, NOISES["mid"], seed=0)
    here, there = some_anchors(truth, 5), some_anchors(truth + np.array([4.5e5, 5.5e6]), 5)
    first, second = (recover_anchored(ranges, anchors, sweeps=10) for anchors in (here, there))
    np.testing.assert_allclose(second.positions - [4.5e5, 5.5e6], first.positions, atol=0.01)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_points_without_order(dimensions: int) -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(0, 30, (80, dimensions))
    ranges = measure(truth, NOISES["low"], seed=0, radius=16.0)
    recovered = recover_anchored(ranges, some_anchors(truth, 12, sigma=0.05), ordered=False)
    assert score(recovered.positions, truth).rmse < 0.25
    assert 0.3 < surprise(recovered, truth) < 3


def test_a_drive_in_space() -> None:
    flat = route("open", 120, seed=3, length=204)
    truth = np.column_stack([flat, 5 * np.sin(np.arange(120) / 30)])
    ranges = measure(truth, NOISES["mid"], seed=0)
    anchors = some_anchors(truth, 5)
    recovered = recover_anchored(ranges, anchors, sweeps=FEW)
    between = score(interpolated(120, anchors.points, anchors.positions), truth).rmse
    assert score(recovered.positions, truth).rmse < 0.7 * between


def test_a_drive_is_localized_among_landmarks_of_a_map() -> None:
    truth = route("open", 75, seed=5, length=125)
    rng = np.random.default_rng(0)
    landmarks = truth[np.linspace(0, 74, 20).astype(int)] + rng.normal(0, 2.0, (20, 2))
    everything = np.concatenate([landmarks, truth])
    ranges = measure(everything, NOISES["high"], seed=0)
    near = ranges.where((ranges.i >= 20) | (ranges.j >= 20))  # nothing is measured between landmarks
    anchors = Anchors(np.arange(20), landmarks, 0.1)
    recovered = recover_anchored(near, anchors, ordered=[np.arange(20, 95)], sweeps=FEW)
    assert score(recovered.positions[20:], truth).rmse < 0.7
    apart = recover_anchored(near, anchors, ordered=False)
    assert score(recovered.positions[20:], truth).rmse < score(apart.positions[20:], truth).rmse


def test_odometry_carries_where_ranges_do_not() -> None:
    truth = route("open", 120, seed=2, length=200)
    rng = np.random.default_rng(0)
    ranges = measure(truth, NOISES["mid"], seed=0)
    apart = ranges.where((ranges.i < 50) == (ranges.j < 50))  # in two parts
    anchors = Anchors([0, 20, 45], truth[[0, 20, 45]], 0.2)
    i, j = np.arange(119), np.arange(1, 120)
    ways = Odometry(i, j, truth[j] - truth[i] + rng.normal(0, 0.1, (119, 2)), 0.1)
    without, with_ways = (recover_anchored(apart, anchors, odometry=some, sweeps=FEW) for some in (None, ways))
    assert np.isnan(without.positions[50:]).all()
    assert score(with_ways.positions, truth).rmse < 1.5
    assert 0.2 < surprise(with_ways, truth) < 4


def test_known_turns_decide_on_which_side_the_way_runs() -> None:
    truth = np.concatenate(
        [np.stack([np.arange(40.0), np.zeros(40)], 1), np.stack([np.full(40, 40.0), np.arange(40.0)], 1)]
    )
    ranges = measure(truth, NOISES["mid"], seed=0)
    anchors = Anchors([0, 79], truth[[0, 79]], 0.1)  # a bow to either side fits
    steps = np.diff(truth, axis=0)
    heading = np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))
    left = Turns(np.arange(1, 79), np.diff(heading), 0.05)
    recovered = recover_anchored(ranges, anchors, turns=left, sweeps=5)
    assert score(recovered.positions, truth).rmse < 3
    mirrored = recover_anchored(ranges, anchors, turns=Turns(left.points, -left.radians, 0.05), sweeps=5)
    assert score(mirrored.positions, truth).rmse > 10


def test_vague_turns_do_no_harm() -> None:
    truth = route("open", 100, seed=1, length=170)
    ranges, anchors = measure(truth, NOISES["mid"], seed=0), some_anchors(truth, 4)
    steps = np.diff(truth, axis=0)
    heading = np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))
    vague = Turns(np.arange(1, 99), np.diff(heading) + np.random.default_rng(0).normal(0, 0.2, 98), 0.2)
    without, with_turns = (recover_anchored(ranges, anchors, turns=some, sweeps=FEW) for some in (None, vague))
    assert score(with_turns.positions, truth).rmse < 1.1 * score(without.positions, truth).rmse
    spreads = [np.trace(one.covariances, axis1=1, axis2=2).mean() for one in (without, with_turns)]
    assert spreads[1] < 1.1 * spreads[0]


def test_a_side_that_is_not_decided_is_said_and_covered() -> None:
    corner = np.concatenate(
        [np.stack([np.arange(30.0), np.zeros(30)], 1), np.stack([np.full(30, 30.0), np.arange(30.0)], 1)]
    )
    ranges = measure(corner, NOISES["mid"], seed=0)
    recovered = recover_anchored(ranges, Anchors([0, 59], corner[[0, 59]], 0.1), sweeps=FEW)
    assert any("the other side" in sentence for sentence in recovered.undetermined)
    assert surprise(recovered, corner) < 5


def test_what_no_anchor_reaches_is_left_out_and_said() -> None:
    truth = np.concatenate([route("open", 100, seed=0, length=300), route("open", 50, seed=1, length=150) + 1000])
    ranges = measure(truth, NOISES["low"], seed=0)
    points = [0, 30, 60, 99]
    recovered = recover_anchored(ranges, Anchors(points, truth[points], 0.1), sweeps=10)
    assert np.isfinite(recovered.positions[:100]).all()
    assert np.isnan(recovered.positions[100:]).all()
    assert "50 of 150 points are not connected to any known position and have no coordinates." in recovered.undetermined


def test_turns_of_a_long_way_are_called_a_guess() -> None:
    truth = route("open", 120, seed=0, length=204)
    recovered = recover_anchored(measure(truth, NOISES["mid"], seed=0), some_anchors(truth, 2), sweeps=5)
    assert any("turns there are a guess" in sentence for sentence in recovered.undetermined)


def test_known_positions_in_a_line_leave_the_side_open() -> None:
    ranges = Ranges(4, [0, 1, 0, 1, 2, 0], [2, 2, 3, 3, 3, 1], [5.0, 5.0, 4.0, 4.0, 2.0, 6.0], 0.1)
    recovered = recover_anchored(ranges, Anchors([0, 1], [[0.0, 0.0], [6.0, 0.0]], 0.1), ordered=False)
    assert (
        recovered.undetermined[0]
        == "The known positions lie on a line: the map could as well be mirrored at this line."
    )


def test_what_is_beyond_the_last_known_position_is_called_a_guess() -> None:
    truth = route("open", 120, seed=0, length=200)
    points = [0, 20, 40, 60]
    recovered = recover_anchored(measure(truth, NOISES["mid"], seed=0), Anchors(points, truth[points], 0.1), sweeps=10)
    assert any(
        "The path after the point 60 does not reach another known point" in sentence
        for sentence in recovered.undetermined
    )


def test_a_sigma_far_too_large_does_not_make_ranges_weak() -> None:
    truth, ranges, anchors = draw(Case("open", "mid", 200, 0, 336.0, anchors=6))
    assert anchors is not None
    vague = Ranges(ranges.count, ranges.i, ranges.j, ranges.metres, 5 * ranges.sigma)
    recovered = recover_anchored(vague, anchors, sweeps=FEW)
    assert not any("a third of their length" in sentence for sentence in recovered.undetermined)
    between = score(interpolated(200, anchors.points, anchors.positions), truth).rmse
    assert score(recovered.positions, truth).rmse < 0.5 * between


@pytest.mark.parametrize("kind", ["open", "loop"])
def test_one_known_position_holds_a_long_drive(kind: str) -> None:
    truth, ranges, _ = draw(Case(kind, "mid", 200, 0, 336.0))  # type: ignore[arg-type]
    recovered = recover_anchored(ranges, Anchors([7], truth[[7]], 0.1), sweeps=2)
    assert np.isfinite(recovered.positions).all()
    assert "one point" in recovered.undetermined[0]


def test_one_known_position_is_enough_to_begin_with() -> None:
    truth = route("loop", 60, seed=0, length=100)
    recovered = recover_anchored(measure(truth, NOISES["mid"], seed=0), Anchors([7], truth[[7]], 0.1), sweeps=10)
    np.testing.assert_allclose(recovered.positions[7], truth[7], atol=0.5)
    assert (
        "lie in one point: the map could as well be mirrored at this point, or rotated about this point"
        in recovered.undetermined[0]
    )


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("known", [1, 2, 3])
def test_few_known_positions_leave_the_shape_to_the_ranges(dimensions: int, known: int) -> None:
    truth = np.random.default_rng(0).uniform(0, 30, (40, dimensions))
    ranges = measure(truth, NOISES["low"], seed=0, radius=16.0)
    recovered = recover_anchored(ranges, Anchors(np.arange(known), truth[:known], 0.05), ordered=False)
    assert aligned_score(recovered.positions, truth, scale=False).rmse < 1
    assert recovered.used.mean() > 0.98


def test_a_point_between_two_known_ones_is_on_one_side_of_them() -> None:
    ranges, anchors = Ranges(3, [0, 1], [2, 2], [5.0, 5.0], 0.1), Anchors([0, 1], [[0.0, 0.0], [6.0, 0.0]], 0.1)
    recovered = recover_anchored(ranges, anchors, ordered=False)
    np.testing.assert_allclose(np.abs(recovered.positions[2]), [3.0, 4.0], atol=0.05)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("ordered", [True, False])
def test_odometry_alone_is_enough(dimensions: int, ordered: bool) -> None:
    rng = np.random.default_rng(0)
    truth = np.cumsum(rng.normal(0.5, 0.5, (30, dimensions)), axis=0)
    ways = Odometry(np.arange(29), np.arange(1, 30), np.diff(truth, axis=0), 0.05)
    none, anchors = Ranges(30, [], [], [], []), Anchors([4], truth[[4]], 0.1)
    recovered = recover_anchored(none, anchors, ordered=ordered, odometry=ways, sweeps=10)
    assert score(recovered.positions, truth).rmse < 0.5
    assert recovered.undetermined == ()


def test_odometry_given_twice_counts_twice() -> None:
    ranges, anchors = Ranges(2, [0], [1], [1.0], 10.0), Anchors([0], [[0.0, 0.0]], 1e-3)
    twice = Odometry([0, 0, 1], [1, 1, 0], [[1.0, 0.0], [1.0, 0.0], [-4.0, 0.0]], 0.1)
    recovered = recover_anchored(ranges, anchors, ordered=False, odometry=twice)
    np.testing.assert_allclose(recovered.positions[1], [2.0, 0.0], atol=0.01)
    assert recovered.covariances is not None
    np.testing.assert_allclose(recovered.covariances[1], np.eye(2) * 0.01 / 3, atol=1e-4)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_one_point_and_no_ranges(dimensions: int) -> None:
    for count in (1, 3):
        known = Anchors([0], np.full((1, dimensions), 7.0), 1.0)
        recovered = recover_anchored(Ranges(count, [], [], [], []), known, sweeps=5)
        np.testing.assert_allclose(recovered.positions[0], 7.0)
        assert np.isnan(recovered.positions[1:]).all()


def test_ranges_that_are_said_to_be_exact() -> None:
    truth = route("open", 60, seed=0, length=100)
    ranges = measure(truth, NOISES["low"], seed=0)
    exact = np.linalg.norm(truth[ranges.i] - truth[ranges.j], axis=1)
    ranges = Ranges(60, ranges.i, ranges.j, exact, 1e-12)
    recovered = recover_anchored(ranges, some_anchors(truth, 4, sigma=1e-9), sweeps=5)
    assert score(recovered.positions, truth).rmse < 0.5


def test_that_most_ranges_are_held_to_be_false_is_said() -> None:
    truth = np.random.default_rng(0).uniform(0, 30, (40, 2))
    ranges = measure(truth, NOISES["mid"], seed=0, radius=16.0)
    too_sure = Ranges(40, ranges.i, ranges.j, ranges.metres, 1e-3 * ranges.sigma)
    recovered = recover_anchored(too_sure, some_anchors(truth, 5), ordered=False)
    assert any("ranges were treated as false" in sentence for sentence in recovered.undetermined)


def test_sweeps_below_none_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"sweeps.*-1"):
        recover_anchored(Ranges(2, [0], [1], [1.0], 0.1), Anchors([0], [[0.0, 0.0]], 1.0), sweeps=-1)


def test_points_that_are_not_there_are_refused() -> None:
    ranges, anchors = Ranges(3, [0, 1], [1, 2], [1.0, 1.0], 0.1), Anchors([0], [[0.0, 0.0]], 1.0)
    with pytest.raises(BadInputError, match=r"anchor.*point 7.*0 and 2"):
        recover_anchored(ranges, Anchors([7], [[0.0, 0.0]], 1.0))
    with pytest.raises(BadInputError, match=r"odometry.*point 3.*0 and 2"):
        recover_anchored(ranges, anchors, odometry=Odometry([0], [3], [[1.0, 0.0]], 0.1))
    with pytest.raises(BadInputError, match=r"odometry.*3.*2"):
        recover_anchored(ranges, anchors, odometry=Odometry([0], [2], [[1.0, 0.0, 0.0]], 0.1))
    with pytest.raises(BadInputError, match=r"turn.*-1"):
        recover_anchored(ranges, anchors, turns=Turns([-1], [0.1], 0.1))
    with pytest.raises(BadInputError, match="turn at point 2"):
        recover_anchored(ranges, anchors, turns=Turns([2], [0.1], 0.1))
    with pytest.raises(BadInputError, match=r"drive.*point 5"):
        recover_anchored(ranges, anchors, ordered=[[0, 1], [5]])
    with pytest.raises(BadInputError, match=r"0\.5"):
        recover_anchored(ranges, anchors, ordered=[[0.5, 1.5]])
    with pytest.raises(BadInputError, match=r"point 1 .*once"):
        recover_anchored(ranges, anchors, ordered=[[0, 1], [1, 2]])


@pytest.mark.parametrize(
    ("kind", "dimensions", "seed", "ordered"),
    [("turns", 2, 2, True), ("turns", 2, 6, False), ("random", 3, 3, False)],
)
def test_precise_ranges_place_an_erratic_path(kind: str, dimensions: int, seed: int, ordered: bool) -> None:
    case = erratic(kind, dimensions, seed, known=5, sigma=0.01)
    recovered = recover_anchored(case.ranges, case.known, ordered=ordered)
    assert score(recovered.positions, case.truth).rmse < 2 * case.bound()
    assert surprise(recovered, case.truth) < 3
    assert any("too erratic" in sentence for sentence in recovered.undetermined) is ordered


def test_true_ranges_that_the_filter_removes_come_back_and_a_misfit_is_said() -> None:
    """The filter here removes every third range; a dozen ranges are 3 m off."""
    case = erratic("turns", 2, 6, sigma=0.01)
    spoiled = case.ranges.metres.copy()
    wrong = np.arange(5, len(spoiled), len(spoiled) // 12)
    spoiled[wrong] = np.where(spoiled[wrong] > 4, spoiled[wrong] - 3, spoiled[wrong] + 3)
    some = Ranges(case.ranges.count, case.ranges.i, case.ranges.j, spoiled, case.ranges.sigma)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "common_neighbor_filter", lambda ranges: np.arange(len(ranges)) % 3 > 0)
        recovered = recover_anchored(some, case.known, ordered=False)
    assert np.flatnonzero(~recovered.used).tolist() == wrong.tolist()
    assert score(recovered.positions, case.truth).rmse < 2 * case.bound()
    said = f"{len(wrong)} of {len(some):,} ranges do not fit"
    assert any(sentence.startswith(said) for sentence in recovered.undetermined)


@pytest.mark.long
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("kind", ["random", "turns"])
def test_precise_ranges_place_twenty_erratic_paths(kind: str, dimensions: int, ordered: bool) -> None:
    found, bounds = [], []
    for seed in range(20):
        case = erratic(kind, dimensions, seed, sigma=0.01)
        recovered = recover_anchored(case.ranges, case.known, ordered=ordered, seed=seed)
        found.append((score(recovered.positions, case.truth).rmse, surprise(recovered, case.truth)))
        bounds.append(case.bound())
    errors, surprises = np.array(found).T
    assert np.median(errors) <= 0.05
    assert np.median(errors) < 1.2 * np.median(bounds)
    assert 0.7 < surprises.mean() < 1.4
    assert surprises.max() < 3


def test_a_point_on_either_side_of_two_known_ones_is_said_and_covered() -> None:
    ranges, anchors = Ranges(3, [0, 1], [2, 2], [5.0, 5.0], 0.1), Anchors([0, 1], [[0.0, 0.0], [6.0, 0.0]], 0.1)
    recovered = recover_anchored(ranges, anchors, ordered=False)
    assert any("1 of 3 points could lie on the other side" in sentence for sentence in recovered.undetermined)
    assert recovered.covariances is not None
    assert recovered.covariances[2, 1, 1] == pytest.approx(32.0, rel=0.02)
