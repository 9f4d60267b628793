"""Ranges alone: exact where they are exact, about a circle on a loop, a line on an open route, not more."""

import sys

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.recovery.align import aligned_score
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges
from simulated_ranges import NOISES, Noise, measure, route


@pytest.mark.parametrize("dimensions", [2, 3])
def test_exact_ranges_of_all_pairs_give_the_points_back(dimensions: int) -> None:
    positions = np.random.default_rng(0).uniform(0, 100, (20, dimensions))
    i, j = np.triu_indices(20, 1)
    recovered = recover(
        Ranges(20, i, j, np.linalg.norm(positions[i] - positions[j], axis=1), 0.1), dimensions
    )
    assert aligned_score(recovered.positions, positions, scale=False).rmse < 1e-3
    np.testing.assert_allclose(recovered.positions.mean(0), 0, atol=1e-9)
    assert recovered.used.all()
    assert recovered.noise < 0.1


@pytest.mark.parametrize(("dimensions", "radius"), [(2, 20.0), (3, 35.0)])
@pytest.mark.parametrize("outliers", [0.0, 0.05])
def test_points_all_over_from_short_ranges(dimensions: int, radius: float, outliers: float) -> None:
    positions = np.random.default_rng(1).uniform(0, 100, (400, dimensions))
    ranges = measure(
        positions, NOISES["mid"], seed=0, radius=radius, missing=0.1, outliers=outliers
    )
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
        assert aligned_score(recovered.positions, positions).of_length == pytest.approx(
            line, rel=0.15
        )


def test_stretches_that_only_look_alike_are_not_joined() -> None:
    errors = []
    for seed in range(3):
        positions = route("loop", 400, seed=seed)
        ranges = measure(positions, NOISES["mid"], seed=seed, missing=0.1, aliased=0.05)
        errors.append(aligned_score(recover(ranges).positions, positions).of_length)
    assert np.median(errors) < 3  # about 10 if the bundles of false ranges stay


@pytest.mark.usefixtures("gtsam")
def test_a_shape_that_noise_leaves_open_is_not_determined() -> None:
    positions = route("open", 200, seed=0)
    recovered = recover(measure(positions, NOISES["mid"], seed=0))
    assert "Images 0 to 199 are not determined: ± " in "\n".join(recovered.undetermined)
    points = np.random.default_rng(0).uniform(0, 30, (60, 2))
    precise = recover(measure(points, NOISES["low"], seed=0, radius=12.0))
    assert not any("Images" in sentence for sentence in precise.undetermined)
    # It has few ranges, and another place fits nearly as well.
    assert "Image 10 is not determined: ± " in precise.undetermined[1]


@pytest.mark.usefixtures("gtsam")
def test_a_path_with_sharp_turns_is_not_folded() -> None:
    rng = np.random.default_rng(8004)
    steps = np.zeros((80, 2))
    for number in range(80):
        steps[number] = steps[number - 1] + 0.8 * rng.standard_normal(2)
        steps[number] /= np.linalg.norm(steps[number])
    positions = steps.cumsum(axis=0)
    ranges = measure(positions, Noise(0.0, 0.05), seed=0, radius=8.0)
    assert aligned_score(recover(ranges).positions, positions, scale=False).rmse < 0.2


@pytest.mark.parametrize("installed", [True, False])
def test_precise_ranges_are_fitted_to_the_end(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if installed:
        pytest.importorskip("gtsam")
    else:
        monkeypatch.setattr("mappable.recovery.shape.find_spec", lambda _: None)
    steps = np.random.default_rng(3).standard_normal((79, 2))
    positions = np.cumsum(steps / np.linalg.norm(steps, axis=1)[:, None], axis=0)
    ranges = measure(positions, Noise(0.0, 0.05), seed=0, radius=8.0)
    assert aligned_score(recover(ranges).positions, positions, scale=False).rmse < 0.1


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
        assert (
            aligned_score(recovered.positions[members], size * square, scale=False).rmse
            < 0.05 * size
        )
    said = "\n".join(recovered.undetermined)
    assert (
        "Images 30 to 59 are not connected to the rest." in said
        or "Images 0 to 29 are not connected" in said
    )
    assert "Image 60 is not connected to the rest." in said
    np.testing.assert_array_equal(recovered.positions[60], 0)


def test_the_noise_is_estimated() -> None:
    positions = np.random.default_rng(0).uniform(0, 100, (300, 2))
    ranges = measure(positions, NOISES["mid"], seed=0, radius=25.0)
    for factor in (0.5, 3.0):
        stated = Ranges(300, ranges.i, ranges.j, ranges.metres, factor * ranges.sigma)
        assert recover(stated).noise == pytest.approx(1 / factor, rel=0.1)


def test_without_gtsam_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gtsam", None)
    ranges = measure(route("loop", 100, seed=4), NOISES["mid"], seed=4)
    for hints in (
        {"anchors": Anchors([0], [[0.0, 0.0]], 0.5)},
        {"motions": Motions([0], [1], [[1.0, 0.0]], [0.0], (0.1, 0.1))},
    ):
        with pytest.raises(
            BadInputError,
            match=r"need GTSAM: install the extra slam: pip install 'mappable\[slam\]'",
        ):
            recover(ranges, **hints)  # type: ignore[arg-type]
    assert np.isfinite(recover(ranges).positions).all()
