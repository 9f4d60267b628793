"""The default recovery: exact where ranges are exact, about a circle on a loop, a line on an open route, not more."""

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.recovery.align import aligned_score
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.pipeline import noise_level, recover
from simulated_ranges import NOISES, Noise, measure, route


@pytest.mark.parametrize("dimensions", [2, 3])
def test_exact_ranges_of_all_pairs_give_the_points_back(dimensions: int) -> None:
    positions = np.random.default_rng(0).uniform(0, 100, (20, dimensions))
    i, j = np.triu_indices(20, 1)
    recovered = recover(Ranges(20, i, j, np.linalg.norm(positions[i] - positions[j], axis=1), 0.1), dimensions)
    assert aligned_score(recovered.positions, positions, scale=False).rmse < 1e-3
    np.testing.assert_allclose(recovered.positions.mean(0), 0, atol=1e-9)
    assert recovered.used.all()
    assert recovered.noise < 0.1


@pytest.mark.parametrize(("dimensions", "radius"), [(2, 20.0), (3, 35.0)])
@pytest.mark.parametrize("outliers", [0.0, 0.05])
def test_points_all_over_from_short_ranges(dimensions: int, radius: float, outliers: float) -> None:
    positions = np.random.default_rng(1).uniform(0, 100, (400, dimensions))
    ranges = measure(positions, NOISES["mid"], seed=0, radius=radius, missing=0.1, outliers=outliers)
    recovered = recover(ranges, dimensions)
    assert not recovered.parts.any()
    assert aligned_score(recovered.positions, positions, scale=False).of_gyration < 4
    assert recovered.noise == pytest.approx(1, abs=0.15)
    assert recovered.covariances is None


@pytest.mark.medium
def test_a_loop_comes_out_about_as_well_as_a_circle_false_ranges_or_not() -> None:
    clean, dirty = [], []
    for seed in range(5):
        positions = route("loop", 400, seed=seed)
        for outliers, scores in ((0.0, clean), (0.05, dirty)):
            ranges = measure(positions, NOISES["mid"], seed=seed, missing=0.1, outliers=outliers)
            recovered = recover(ranges)
            scores.append(aligned_score(recovered.positions, positions).of_length)
            assert recovered.noise == pytest.approx(1, abs=0.1)
    assert np.median(clean) < 3
    assert np.median(dirty) < 1.1 * np.median(clean)


def test_an_open_route_comes_out_straight() -> None:
    """Its length is right, and its turns are not known: the score is that of a straight line."""
    for seed in range(3):
        positions = route("open", 400, seed=seed)
        recovered = recover(measure(positions, NOISES["mid"], seed=seed, missing=0.1))
        straight = np.column_stack([np.arange(400.0), np.zeros(400)])
        line = aligned_score(straight, positions).of_length
        assert aligned_score(recovered.positions, positions).of_length == pytest.approx(line, rel=0.15)


@pytest.mark.medium
def test_a_dense_sequence_goes_by_keyframes() -> None:
    positions = route("loop", 1800, seed=0, length=302.4)
    ranges = measure(positions, NOISES["mid"], seed=0, missing=0.1, outliers=0.05)
    recovered = recover(ranges)
    assert aligned_score(recovered.positions, positions).of_length < 2.5
    assert recovered.positions.shape == (1800, 2)
    lengths = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    assert not recovered.used[lengths > 50].any()
    assert recovered.used[np.abs(lengths - ranges.metres) < 2 * ranges.sigma].mean() > 0.97
    assert not recovered.parts.any()
    everything = recover(ranges, keyframe_spacing=0.01)
    assert aligned_score(everything.positions, recovered.positions).of_length < 1


def test_parts_are_recovered_apart_and_said_to_be() -> None:
    """Two squares a hundred times the size of each other, and a point that has no range."""
    rng = np.random.default_rng(0)
    square = rng.uniform(0, 10, (30, 2))
    one = measure(square, Noise(0.0, 0.01), seed=0)
    both = Ranges(
        61,
        np.append(one.i, one.i + 30),
        np.append(one.j, one.j + 30),
        np.append(one.metres, 100 * one.metres),
        np.append(one.sigma, 100 * one.sigma),
    )
    recovered = recover(both)
    assert np.bincount(recovered.parts).tolist() == [30, 30, 1]
    for members, size in ((slice(0, 30), 1), (slice(30, 60), 100)):
        assert aligned_score(recovered.positions[members], size * square, scale=False).rmse < 0.05 * size
    assert "2 parts (30, 30 points)" in "\n".join(recovered.undetermined)
    assert "1 point has no range" in "\n".join(recovered.undetermined)
    np.testing.assert_array_equal(recovered.positions[60], 0)


def test_the_noise_is_estimated() -> None:
    positions = np.random.default_rng(0).uniform(0, 100, (300, 2))
    ranges = measure(positions, NOISES["mid"], seed=0, radius=25.0)
    for factor in (0.5, 3.0):
        stated = Ranges(300, ranges.i, ranges.j, ranges.metres, factor * ranges.sigma)
        assert recover(stated).noise == pytest.approx(1 / factor, rel=0.1)


def test_a_chain_has_no_noise_to_estimate() -> None:
    chain = Ranges(5, [0, 1, 2, 3], [1, 2, 3, 4], np.full(4, 5.0), 0.5)
    recovered = recover(chain)
    assert np.isnan(recovered.noise)
    assert recovered.used.all()
    np.testing.assert_allclose(np.linalg.norm(np.diff(recovered.positions, axis=0), axis=1), 5, rtol=1e-6)
    assert np.isnan(noise_level(chain, recovered.positions, recovered.parts))


def test_a_seed_gives_the_same() -> None:
    ranges = measure(route("city", 600, seed=0), NOISES["mid"], seed=0, outliers=0.01)
    first, again = recover(ranges, seed=3), recover(ranges, seed=3)
    np.testing.assert_array_equal(first.positions, again.positions)
    assert first.undetermined == again.undetermined


@pytest.mark.parametrize(
    ("ranges", "dimensions", "problem"),
    [
        (Ranges(2, [0], [1], [1.0], [1.0]), 2, r"3 points.*2"),
        (Ranges(5, [], [], [], []), 2, r"no range.*5 points"),
        (Ranges(3, [0], [1], [1.0], [1.0]), 4, r"2.*3.*dimensions.*4"),
    ],
)
def test_bad_input(ranges: Ranges, dimensions: int, problem: str) -> None:
    with pytest.raises(BadInputError, match=problem):
        recover(ranges, dimensions)


def test_points_in_one_place_and_few_ranges() -> None:
    same = recover(Ranges(3, [0, 1], [1, 2], [0.0, 0.0], [0.1, 0.1]))
    np.testing.assert_array_equal(same.positions, 0)
    pair = recover(Ranges(3, [0], [1], [2.0], [0.1]), 3)
    assert np.linalg.norm(pair.positions[0] - pair.positions[1]) == pytest.approx(2)
    assert pair.parts.tolist() == [0, 0, 1]
