"""The simulator: routes are what they are called, and measured distances have the stated noise, gaps and falsehoods."""

import numpy as np
import pytest
from scipy.spatial import KDTree

import simulated_ranges as simulator
from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError
from mappable.recovery.align import aligned_score
from mappable.recovery.ranges import Ranges
from simulated_ranges import NOISES, Kind, measure, response, route

KINDS: tuple[Kind, ...] = ("open", "loop", "city")
SEEDS = range(12)


def steps(positions: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(np.diff(positions, axis=0), axis=1)
    return lengths


def returns(positions: Floats, radius: float, apart: float) -> Bools:
    """Which points have another within `radius`, though at least `apart` metres lie between them along the way."""
    along = np.concatenate([[0.0], steps(positions).cumsum()])
    pairs = KDTree(positions).query_pairs(radius, output_type="ndarray")
    pairs = pairs[np.abs(along[pairs[:, 0]] - along[pairs[:, 1]]) > apart]
    return np.isin(np.arange(len(positions)), pairs)


def true_metres(positions: Floats, ranges: Ranges) -> Floats:
    metres: Floats = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    return metres


# Routes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [672.0, 1000.0])
def test_a_route_is_as_long_as_asked_for_in_even_steps(kind: Kind, length: float) -> None:
    for seed in SEEDS:
        positions = route(kind, 400, seed=seed, length=length)
        assert positions.shape == (400, 2)
        assert steps(positions).sum() == pytest.approx(length, rel=0.01)
        np.testing.assert_allclose(steps(positions), length / 399, rtol=0.08)


@pytest.mark.parametrize("kind", KINDS)
def test_a_route_follows_from_its_seed_and_others_are_others(kind: Kind) -> None:
    routes = [route(kind, 300, seed=seed) for seed in SEEDS]
    np.testing.assert_array_equal(route(kind, 300, seed=3), routes[3])
    apart = [aligned_score(routes[a], routes[b]).of_length for a in SEEDS for b in range(a)]
    assert min(apart) > 0
    assert np.median(apart) > 1.5  # no less than what a circle is off a loop


def test_streets_of_an_open_route_are_50_to_140_m_long_and_corners_turn_by_about_90_degrees() -> None:
    for seed in SEEDS:
        line = route("open", 673, seed=seed)
        chords = line[20:] - line[:-20]  # 20 m long, over which swaying does not count
        heading = np.unwrap(np.arctan2(chords[:, 1], chords[:, 0]))
        turning = np.abs(heading[20:] - heading[:-20]) > 0.3
        edges = np.flatnonzero(np.diff(turning.astype(int)))
        begins, ends = edges[turning[edges + 1]], edges[~turning[edges + 1]]
        ends = ends[ends > begins[0]]
        corners = [(begin, end) for begin, end in zip(begins, ends, strict=False)]  # whole ones
        assert len(corners) >= 3
        for begin, end in corners:
            turn = abs(heading[min(end + 20, len(heading) - 1)] - heading[begin])
            assert np.pi / 2 - 0.6 < turn < np.pi / 2 + 0.6
        middles = np.array([(begin + end) / 2 for begin, end in corners])
        assert (np.diff(middles) > 50).all()
        assert (np.diff(middles) < 140 + 30).all()


def test_an_open_route_never_comes_near_itself() -> None:
    for seed in SEEDS:
        assert not returns(route("open", 673, seed=seed), 0.9 * simulator.APART, 2.5 * simulator.APART).any()


def test_a_loop_closes_and_drives_its_beginning_again() -> None:
    for seed in SEEDS:
        positions = route("loop", 673, seed=seed)
        again = np.flatnonzero(returns(positions, 2.0, 200.0))
        share = simulator.OVERLAP / (1 + simulator.OVERLAP)  # of the whole way, once at its beginning, once at its end
        for part in (again[again < 336], again[again >= 336]):
            assert len(part) / 673 == pytest.approx(share, abs=0.02)
        assert again[0] < 5
        assert again[-1] > 667


def test_loops_differ_in_shape_from_seed_to_seed() -> None:
    sides = np.array([np.ptp(route("loop", 400, seed=seed), axis=0) for seed in range(30)])
    ratio = sides.max(1) / sides.min(1)
    assert ratio.min() < 1.15
    assert ratio.max() > 1.8
    assert (sides[:, 0] > sides[:, 1]).any()
    assert (sides[:, 0] < sides[:, 1]).any()


def test_a_city_comes_back_to_its_streets() -> None:
    for seed in SEEDS:
        positions = route("city", 3000, seed=seed, length=3000.0)
        again = returns(positions, 2.0, 100.0).mean()
        assert 0.2 < again < 1.0
        on_grid = np.abs((positions + simulator.BLOCK / 2) % simulator.BLOCK - simulator.BLOCK / 2).min(1)
        assert on_grid.max() < 6.0  # only a corner is cut


def test_a_route_sways_within_its_lane() -> None:
    positions = route("city", 4000, seed=0, length=1000.0)
    on_a_street = np.abs((positions + 55) % 110 - 55).min(1)
    assert np.quantile(on_a_street, 0.5) > 0.05
    assert np.quantile(on_a_street, 0.8) < simulator.WOBBLE + 0.01


@pytest.mark.parametrize(
    ("kind", "count", "length", "part"),
    [
        ("spiral", 10, 672.0, "'spiral'; the routes are open, loop, city"),
        ("open", 1, 672.0, "1 points"),
        ("loop", 10, 20.0, "20 m"),
        ("city", 10, np.nan, "nan m"),
        ("open", 10, 6000.0, "no open route of 6000 m"),
    ],
)
def test_a_route_that_cannot_be_is_refused(
    kind: Kind, count: int, length: float, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulator, "TRIALS", 20)
    with pytest.raises(BadInputError) as refused:
        route(kind, count, seed=0, length=length)
    assert part in str(refused.value)


# Measured distances


def test_the_response_is_the_distance_up_to_the_radius_and_then_flattens() -> None:
    metres = np.linspace(0, 500, 5001)
    measured = response(metres, 10.0)
    np.testing.assert_allclose(measured[metres <= 10], metres[metres <= 10])
    slope = np.diff(measured) / np.diff(metres)
    assert (slope >= 0).all()
    assert (np.diff(slope) < 1e-9).all()
    assert measured[-1] == pytest.approx(25.0)


@pytest.mark.medium
@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("level", NOISES)
def test_the_noise_has_the_stated_level(level: str, dimensions: int) -> None:
    """Seen where no pair is lost to the radius, however noisy."""
    positions = np.random.default_rng(0).uniform(0, 20, (400, dimensions))
    ranges = measure(positions, NOISES[level], seed=1, radius=10.0)
    true = true_metres(positions, ranges)
    inner = (true > 2) & (true < 5)
    scaled = (ranges.metres - true)[inner] / NOISES[level].sigma(true[inner])
    assert scaled.mean() == pytest.approx(0, abs=0.05)
    assert scaled.std() == pytest.approx(1, abs=0.05)
    np.testing.assert_allclose(ranges.sigma, NOISES[level].sigma(ranges.metres))
    assert ranges.metres.max() <= 10.0


def test_without_noise_exactly_the_pairs_within_the_radius_are_measured() -> None:
    positions = route("loop", 400, seed=2)
    ranges = measure(positions, simulator.Noise(0.0, 1e-9), seed=0, radius=12.0)
    expected = KDTree(positions).query_pairs(12.0)
    assert set(zip(ranges.i.tolist(), ranges.j.tolist(), strict=True)) == expected
    np.testing.assert_allclose(ranges.metres, true_metres(positions, ranges), atol=1e-6)


def test_ranges_follow_from_the_seed() -> None:
    positions = route("loop", 300, seed=0)
    options = {"missing": 0.1, "outliers": 0.05, "aliased": 0.01}
    one, same, other = (measure(positions, NOISES["mid"], seed=seed, **options) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.metres, same.metres)
    np.testing.assert_array_equal(one.i, same.i)
    assert len(one) != len(other) or not np.array_equal(one.metres, other.metres)


def test_the_stated_share_is_missing_and_the_rest_are_the_same() -> None:
    positions = route("city", 3000, seed=1, length=3000.0)
    full = measure(positions, NOISES["mid"], seed=0)
    some = measure(positions, NOISES["mid"], seed=0, missing=0.1)
    assert len(some) / len(full) == pytest.approx(0.9, abs=0.01)
    assert set(some.metres) <= set(full.metres)


@pytest.mark.medium
def test_the_stated_share_of_independent_outliers_is_added() -> None:
    positions = route("loop", 1000, seed=1)
    clean = measure(positions, NOISES["mid"], seed=0)
    dirty = measure(positions, NOISES["mid"], seed=0, outliers=0.05)
    assert (len(dirty) - len(clean)) / len(clean) == pytest.approx(0.05, abs=0.004)
    false = true_metres(positions, dirty) > 20
    assert false.sum() / len(clean) == pytest.approx(0.05, abs=0.01)
    assert dirty.metres[false].min() >= 1.0
    assert dirty.metres[false].max() <= 10.0


def test_aliased_stretches_are_far_apart_and_pair_in_order() -> None:
    positions = route("loop", 400, seed=1)
    clean = measure(positions, NOISES["mid"], seed=0)
    dirty = measure(positions, NOISES["mid"], seed=0, aliased=0.05)
    false = dirty.where(true_metres(positions, dirty) > 20)
    stretch = simulator.STRETCH / 672 * 400  # images
    assert 0.05 <= len(false) / len(clean) < 0.05 + stretch**2 / len(clean)  # whole stretches at a time
    assert true_metres(positions, false).min() > 5 * 10.0 - 2 * simulator.STRETCH
    groups = set(false.parts[np.concatenate([false.i, false.j])].tolist())
    for group in groups:
        pairs = false.parts[false.i] == group
        assert np.ptp(np.concatenate([false.i[pairs], false.j[pairs]])) > stretch
        if len(groups) > 1 and pairs.sum() < stretch**2:  # one pair of stretches: forward together
            assert np.corrcoef(false.i[pairs], false.j[pairs])[0, 1] > 0.3


def test_a_route_without_room_for_stretches_that_look_alike_is_refused() -> None:
    with pytest.raises(BadInputError, match="too short"):
        measure(np.zeros((9, 3)), NOISES["mid"], seed=0, aliased=0.5)
