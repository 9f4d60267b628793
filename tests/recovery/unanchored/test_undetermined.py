"""What is said about the limits of a map is true, and is said where it should be."""

import re

import numpy as np
import pytest
from scipy.spatial import KDTree

from mappable.arrays import Floats
from mappable.recovery.align import aligned_score
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.pipeline import recover
from mappable.recovery.unanchored.undetermined import expected_error, sentences, undecided_turns
from simulated_ranges import NOISES, measure, route


def said(ranges: Ranges, positions: Floats, noise: float = 1.0) -> str:
    return "\n".join(sentences(ranges, positions, ranges.parts, noise))


@pytest.mark.medium
@pytest.mark.parametrize("noise", ["low", "mid", "high"])
@pytest.mark.parametrize("seeds", [5, pytest.param(20, marks=pytest.mark.long)])
def test_the_turns_of_an_open_route_are_never_decided(noise: str, seeds: int) -> None:
    for seed in range(seeds):
        positions = route("open", 400, seed=seed)
        ranges = measure(positions, NOISES[noise], seed=seed, missing=0.1, outliers=0.01)
        recovered = recover(ranges)
        assert any(
            "do not decide whether the route turns left or right" in sentence for sentence in recovered.undetermined
        )
        undecided, tried = undecided_turns(ranges.where(recovered.used), recovered.positions, recovered.noise)
        assert len(undecided) > 0.7 * tried


def test_nor_are_those_of_an_open_route_where_it_is_known() -> None:
    """Also at the true positions, with all the bends: the rest can be mirrored at the street before a corner, too."""
    for seed in range(20):
        positions = route("open", 400, seed=seed)
        undecided, tried = undecided_turns(measure(positions, NOISES["mid"], seed=seed), positions)
        assert len(undecided) > 0.9 * tried


def test_a_loop_is_held_in_two_places() -> None:
    for seed in range(5):
        positions = route("loop", 400, seed=seed)
        ranges = measure(positions, NOISES["mid"], seed=seed)
        assert not len(undecided_turns(ranges, positions)[0])
        text = said(ranges, positions)
        assert "left or right" not in text
        assert "determine the shape only loosely" in text


@pytest.mark.medium
def test_ranges_that_reach_around_corners_decide_the_turns() -> None:
    positions = route("open", 400, seed=1)
    far = measure(positions, NOISES["low"], seed=0, radius=150.0)
    assert not len(undecided_turns(far, positions)[0])
    assert not any(word in said(far, positions) for word in ("left or right", "loosely"))


@pytest.mark.parametrize(("dimensions", "radius"), [(2, 15.0), (3, 30.0)])
def test_points_all_over_are_held_firmly(dimensions: int, radius: float) -> None:
    positions = np.random.default_rng(0).uniform(0, 100, (500, dimensions))
    ranges = measure(positions, NOISES["mid"], seed=0, radius=radius)
    text = said(ranges, positions)
    assert not any(word in text for word in ("left or right", "loosely", "parts", "no range"))
    assert text.startswith(
        "Distances do not determine where the map lies, its orientation, or whether it is a mirror image"
    )
    assert "scale of the map is as good as the calibration" in text


@pytest.mark.medium
@pytest.mark.parametrize(("dimensions", "radius"), [(2, 20.0), (3, 40.0)])
def test_the_expected_error_is_the_error(dimensions: int, radius: float) -> None:
    """Of ranges with noise alone; those of the simulator are short, too, as what comes out longer is not seen."""
    errors = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        positions = rng.uniform(0, 100, (300, dimensions))
        i, j = KDTree(positions).query_pairs(radius, output_type="ndarray").T
        metres = np.linalg.norm(positions[i] - positions[j], axis=1) + rng.normal(0, 0.5, len(i))
        ranges = Ranges(300, i, j, np.abs(metres), 0.5)
        recovered = recover(ranges, dimensions)
        found = aligned_score(recovered.positions, positions, scale=False).rmse
        errors.append(found / expected_error(ranges, recovered.positions))
    assert 0.85 < np.median(errors) < 1.25


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_expected_error_by_the_whole_inverse(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mappable.recovery.unanchored.undetermined.PROBES", 4000)
    positions = np.random.default_rng(0).uniform(0, 10, (12, dimensions))
    i, j = np.triu_indices(12, 1)
    metres = np.linalg.norm(positions[i] - positions[j], axis=1)
    slopes = np.zeros((len(i), 12, dimensions))
    slopes[np.arange(len(i)), i] = (positions[i] - positions[j]) / metres[:, None] / 0.3
    slopes[np.arange(len(i)), j] = -slopes[np.arange(len(i)), i]
    jacobian = slopes.reshape(len(i), -1)
    wanted = np.sqrt(np.trace(np.linalg.pinv(jacobian.T @ jacobian, rcond=1e-9)) / 12)
    found = expected_error(Ranges(12, i, j, metres, 0.1), positions, 3.0)
    assert found == pytest.approx(wanted, rel=0.05)


def test_parts_and_points_alone_are_counted() -> None:
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    i, j = np.triu_indices(4, 1)
    metres = np.linalg.norm(square[i] - square[j], axis=1)
    ranges = Ranges(10, np.append(i, i + 4), np.append(j, j + 4), np.append(metres, metres), 0.01)
    text = said(ranges, np.concatenate([square, square, np.zeros((2, 2))]))
    assert "2 parts (4, 4 points) that no range connects" in text
    assert "2 points have no range, so their positions are unknown (first: 8)" in text
    assert "fewer than 3 ranges" not in text


def test_points_with_few_ranges_are_flexible() -> None:
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 2.0]])
    i, j = np.array([[0, 0, 0, 1, 1, 2, 3], [1, 2, 3, 2, 3, 3, 4]])
    ranges = Ranges(5, i, j, np.linalg.norm(square[i] - square[j], axis=1), 0.01)
    assert "1 point has fewer than 3 ranges and could as well lie elsewhere (first: 4)" in said(ranges, square)


def test_noise_that_is_too_large_or_unknown_is_said() -> None:
    positions = np.random.default_rng(0).uniform(0, 10, (8, 2))
    i, j = np.triu_indices(8, 1)
    ranges = Ranges(8, i, j, np.linalg.norm(positions[i] - positions[j], axis=1), 0.1)
    assert "errors of the ranges are 2.0 times their sigma" in said(ranges, positions, 2.0)
    assert "noise of the ranges is unknown" in said(ranges, positions, float("nan"))
    assert "noise" not in said(ranges, positions, 1.0)


def test_huge_parts_are_not_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mappable.recovery.unanchored.undetermined.EXAMINED", 100)
    positions = route("loop", 200, seed=0)
    assert "was not examined, because it has 200 points" in said(measure(positions, NOISES["mid"], seed=0), positions)


@pytest.mark.parametrize("count", [1, 3])
def test_points_without_any_range(count: int) -> None:
    assert f"{count} point" in said(Ranges(count, [], [], [], []), np.zeros((count, 2)))


@pytest.mark.medium
def test_images_are_counted_not_keyframes() -> None:
    """A dense sequence in two parts, with images that have no range or two: all counts are of images."""
    smooth = route("loop", 900, seed=0, length=150.0)
    one = measure(smooth, NOISES["mid"], seed=0)
    few = np.array([101, 303])  # of the first part; these keep two ranges each
    alone = 502
    touched = np.isin(one.i, [*few, alone]) | np.isin(one.j, [*few, alone])
    one = one.where(~touched)
    i = np.concatenate([one.i, one.i + 900, np.repeat(few, 2)])
    j = np.concatenate([one.j, one.j + 900, (few[:, None] + [1, 2]).ravel()])
    metres = np.concatenate([one.metres, one.metres, np.full(4, 0.3)])
    recovered = recover(Ranges(1800, i, j, metres, NOISES["mid"].sigma(metres)))
    text = "\n".join(recovered.undetermined)
    assert "2 parts (899, 897 points) that no range connects" in text
    assert "4 points have no range" in text
    assert "(first: 502)" in text
    assert "2 points have fewer than 3 ranges and could as well lie elsewhere (first: 101)" in text


def test_places_are_named_by_images_where_keyframes_are_examined() -> None:
    positions = np.column_stack([np.arange(0, 100, 0.5), np.zeros(200)])
    ranges = measure(positions, NOISES["low"], seed=0)
    text = "\n".join(sentences(ranges, positions, ranges.parts, 1.0, key=np.arange(0, 200, 4)))
    first, last = map(int, re.findall(r"from point (\d+) to point (\d+)", text)[0])
    assert first % 4 == last % 4 == 0
    assert last > 100
