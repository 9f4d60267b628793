"""Good ranges give the map that they determine: it is grown, mirrored where that fits better, and never silent."""

import numpy as np
import pytest

from erratic import TURNS, erratic_path, good_ranges, is_said
from mappable.arrays import Floats
from mappable.recovery.align import aligned_score
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.folds import unfold
from mappable.recovery.unanchored.grow import grow
from mappable.recovery.unanchored.pipeline import recover
from mappable.recovery.unanchored.polish import polish


def rmse(points: Floats, truth: Floats) -> float:
    return aligned_score(points, truth, scale=False).rmse


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("kind", ["random", "sharp turns"])
def test_an_erratic_path_comes_out_as_far_as_its_ranges_know(kind: str, dimensions: int) -> None:
    positions = erratic_path(kind, dimensions, seed=0)
    ranges = good_ranges(positions, seed=0)
    best = rmse(polish(ranges, positions).points, positions)
    recovered = recover(ranges, dimensions)
    assert rmse(recovered.positions, positions) < 1.1 * best + 0.005
    assert recovered.noise == pytest.approx(1, abs=0.1)
    assert any("determine the shape to about 0.0" in sentence for sentence in recovered.undetermined)


@pytest.mark.long
@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("kind", list(TURNS))
def test_no_erratic_path_is_far_off_unsaid(kind: str, dimensions: int) -> None:
    errors = []
    for seed in range(20):
        positions = erratic_path(kind, dimensions, seed)
        recovered = recover(good_ranges(positions, seed), dimensions)
        errors.append(rmse(recovered.positions, positions))
        assert errors[-1] <= 0.5 or is_said(recovered, errors[-1])
    assert np.median(errors) <= (0.6 if (kind, dimensions) == ("turns", 3) else 0.05)  # these ranges know but 0.26 m


@pytest.mark.medium
@pytest.mark.parametrize("dimensions", [2, 3])
def test_false_ranges_do_not_bend_it(dimensions: int) -> None:
    errors = []
    for seed in range(3):
        positions = erratic_path("sharp turns", dimensions, seed)
        ranges = good_ranges(positions, seed)
        rng = np.random.default_rng(seed)
        false = rng.random(len(ranges)) < 0.03
        metres = np.where(false, rng.uniform(0.8, 8, len(ranges)), ranges.metres)
        recovered = recover(Ranges(80, ranges.i, ranges.j, metres, ranges.sigma), dimensions)
        errors.append(rmse(recovered.positions, positions))
        assert errors[-1] < 0.5
        assert not recovered.used[np.abs(metres - ranges.metres) > 1].any()
        assert "ranges are far off and were not used" in "\n".join(recovered.undetermined)
    assert np.median(errors) < 0.1


@pytest.mark.medium
def test_a_dense_erratic_path_takes_part_as_a_whole() -> None:
    corners = erratic_path("sharp turns", 2, 0, count=50)
    at = np.arange(0, 49, 0.25)
    positions = np.stack([np.interp(at, np.arange(50), column) for column in corners.T], 1)
    assert rmse(recover(good_ranges(positions, 0)).positions, positions) < 0.05


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("first", [0, 40])
def test_growing_places_every_point(dimensions: int, first: int) -> None:
    positions = erratic_path("random", dimensions, 1, count=50)
    ranges = good_ranges(positions, 1)
    assert rmse(polish(ranges, grow(ranges, dimensions, first)).points, positions) < 0.1


def test_a_map_folded_at_a_narrow_place_is_unfolded() -> None:
    """Two clouds beside each other, hinged at a few points: the second is put on its wrong side."""
    rng = np.random.default_rng(0)
    one, two = rng.uniform([-8, -3], [0, 3], (25, 2)), rng.uniform([0, -3], [8, 3], (25, 2))
    positions = np.concatenate([one[np.argsort(one[:, 0])], two[np.argsort(two[:, 0])]])
    ranges = good_ranges(positions, 0)
    ranges = ranges.where(ranges.metres <= 4)
    folded = positions.copy()
    folded[25:, 1] *= -1
    assert rmse(polish(ranges, folded).points, positions) > 0.5
    assert rmse(unfold(ranges, np.ones(len(ranges), dtype=bool), folded).points, positions) < 0.1


def test_what_the_ranges_do_not_decide_is_another_map() -> None:
    """Two triangles share an edge: the second may lie on either side of it."""
    positions = np.concatenate([np.random.default_rng(0).uniform(0, 3, (12, 2)), [[3, 3], [3, 0]]])
    flap = positions[-2:].mean(0) + np.random.default_rng(1).uniform([0.5, -1], [3, 1], (12, 2))
    every = np.concatenate([positions, flap])
    i, j = np.triu_indices(len(every), 1)
    seen = (j < 14) | (i >= 12)
    i, j = i[seen], j[seen]
    ranges = Ranges(len(every), i, j, np.linalg.norm(every[i] - every[j], axis=1), 0.02)
    recovered = recover(ranges)
    assert "Another map fits the ranges about as well" in "\n".join(recovered.undetermined)
