"""One image among landmarks: where it is, how well that is known, and what stays open."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError
from mappable.recovery.multilateration import Multilaterated, multilaterate


def distances(landmarks: Floats, place: Floats) -> Floats:
    found: Floats = np.linalg.norm(landmarks - place, axis=1)
    return found


def surprises(result: Multilaterated, truth: Floats) -> Floats:
    """Squared errors of the position and of each alternative, by the covariance."""
    off = np.vstack([result.position, result.alternatives]) - truth
    squared: Floats = np.einsum("ak,kl,al->a", off, np.linalg.inv(result.covariance), off)
    return squared


def scene(rng: np.random.Generator, count: int, dimensions: int) -> tuple[Floats, Floats]:
    """Landmarks, and a place among them."""
    return rng.uniform(-30, 30, (count, dimensions)), rng.uniform(-30, 30, dimensions)


# The position


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([2, 3]), st.integers(6, 30), st.sampled_from([0.0, 5e6]))
def test_exact_ranges_give_the_place_wherever_the_origin_is(seed: int, k: int, count: int, origin: float) -> None:
    landmarks, truth = scene(np.random.default_rng(seed), count, k)
    result = multilaterate(landmarks + origin, distances(landmarks, truth), 0.05)
    np.testing.assert_allclose(result.position - origin, truth, atol=1e-2)
    assert result.used.all()
    assert result.noise == 1
    assert np.linalg.eigvalsh(result.covariance).min() > 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([2, 3]))
def test_a_turned_and_shifted_map_turns_and_shifts_the_result(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    landmarks, truth = scene(rng, 10, k)
    metres = np.abs(distances(landmarks, truth) + rng.normal(0, 0.5, 10))
    turn, shift = np.linalg.qr(rng.standard_normal((k, k)))[0], rng.uniform(-100, 100, k)
    here, there = multilaterate(landmarks, metres, 0.5), multilaterate(landmarks @ turn.T + shift, metres, 0.5)
    np.testing.assert_allclose(there.position, turn @ here.position + shift, atol=1e-3)
    np.testing.assert_allclose(there.covariance, turn @ here.covariance @ turn.T, rtol=1e-2, atol=1e-2)
    np.testing.assert_array_equal(there.used, here.used)


def test_sigma_that_is_far_too_small_to_be_true_does_no_harm() -> None:
    landmarks, truth = scene(np.random.default_rng(0), 8, 3)
    result = multilaterate(landmarks, distances(landmarks, truth), 1e-12)
    np.testing.assert_allclose(result.position, truth, atol=1e-4)


def test_better_ranges_count_more() -> None:
    result = multilaterate([[0.0, 0], [20.0, 0], [10.0, 10]], [9.0, 9.0, 10.0], [0.1, 1.0, 1.0])
    assert result.position[0] == pytest.approx(9.0, abs=0.1)


def test_it_is_the_same_again() -> None:
    landmarks, truth = scene(np.random.default_rng(3), 7, 2)
    first, again = (multilaterate(landmarks, distances(landmarks, truth) + 0.3, 0.3) for _ in range(2))
    np.testing.assert_array_equal(first.position, again.position)
    np.testing.assert_array_equal(first.covariance, again.covariance)


def test_it_is_the_likeliest_place_of_a_dense_grid() -> None:
    rng = np.random.default_rng(4)
    axis = np.linspace(-40, 40, 321)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    for _ in range(10):
        landmarks, truth = scene(rng, 6, 2)
        metres = np.abs(distances(landmarks, truth) + rng.normal(0, 1, 6))
        metres[0] = rng.uniform(0, 60)

        def likelihood(places: Floats, landmarks: Floats = landmarks, metres: Floats = metres) -> Floats:
            off = np.linalg.norm(places[:, None] - landmarks, axis=2) - metres
            true = 0.9 * np.exp(-0.5 * off**2) / np.sqrt(2 * np.pi)
            found: Floats = np.log(true + 0.1 / (metres.max() + 3)).sum(1)
            return found

        result = multilaterate(landmarks, metres, 1.0)
        if result.noise == 1:  # which the grid takes for granted
            assert likelihood(result.position[None])[0] > likelihood(grid).max() - 0.05


# The covariance


def on_a_road(rng: np.random.Generator, count: int, k: int) -> tuple[Floats, Floats]:
    """The landmarks nearest to a place beside a road: almost in a line, and some almost where the place is."""
    landmarks = rng.normal(0, 1.5, (200, k))
    landmarks[:, 0] = 3.0 * np.arange(200)
    truth = rng.normal(0, 1.5, k)
    truth[0] = rng.uniform(150, 450)
    return landmarks[np.argsort(distances(landmarks, truth))[:count]], truth


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("make", [scene, on_a_road])
def test_errors_are_as_large_as_the_covariance_says(make: Callable[..., tuple[Floats, Floats]], k: int) -> None:
    rng = np.random.default_rng(k)
    found = []
    for _ in range(400):
        landmarks, truth = make(rng, 10, k)
        spread = 0.5 + 0.1 * distances(landmarks, truth)
        metres = np.abs(distances(landmarks, truth) + spread * rng.standard_normal(10))
        found.append(surprises(multilaterate(landmarks, metres, spread), truth).min())
    assert 0.7 < np.mean(found) / k < 1.2
    assert np.mean(np.array(found) > 9 + 2 * k) < 0.02


def test_the_covariance_is_the_usual_one_where_landmarks_are_all_round_and_far() -> None:
    angles = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    landmarks = 100 * np.stack([np.cos(angles), np.sin(angles)], 1)
    result = multilaterate(landmarks, np.full(12, 100.0), 0.5)
    np.testing.assert_allclose(result.covariance, 0.25 / 6 * np.eye(2), rtol=0.1, atol=1e-3)


def test_ranges_that_fit_worse_than_stated_widen_the_covariance_and_are_said_to() -> None:
    rng = np.random.default_rng(0)
    landmarks, truth = scene(rng, 40, 2)
    metres = np.abs(distances(landmarks, truth) + rng.normal(0, 3, 40))
    stated, true = multilaterate(landmarks, metres, 1.0), multilaterate(landmarks, metres, 3.0)
    assert 2.4 < stated.noise < 3.6
    assert np.trace(stated.covariance) == pytest.approx(np.trace(true.covariance), rel=0.3)
    assert f"the ranges fit {stated.noise:.1f} times worse than their sigma states" in stated.undetermined
    assert true.noise < 1.3
    assert true.undetermined == ()


# False ranges


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("count", [9, 30])
def test_a_third_of_false_ranges_does_no_harm(count: int, k: int) -> None:
    rng = np.random.default_rng(count)
    missed = wrong = 0
    for _ in range(100):
        landmarks, truth = scene(rng, count, k)
        metres = np.abs(distances(landmarks, truth) + rng.normal(0, 0.5, count))
        false: Bools = np.arange(count) < count // 3
        metres[false] += rng.uniform(5, 30, false.sum())
        result = multilaterate(landmarks, metres, 0.5)
        missed += surprises(result, truth).min() > 9 + 2 * k
        wrong += (result.used == false).sum()
    assert missed <= 3
    assert wrong <= 0.05 * 100 * count


# What stays open


@pytest.mark.parametrize("k", [2, 3])
def test_landmarks_in_a_line_or_plane_leave_the_side_open(k: int) -> None:
    rng = np.random.default_rng(k)
    landmarks = rng.uniform(-30, 30, (8, k))
    landmarks[:, -1] = 4.0
    truth = np.array([3.0, -5.0, 12.0])[-k:]
    result = multilaterate(landmarks, distances(landmarks, truth), 0.2)
    both = np.vstack([result.position, result.alternatives])
    both = both[np.argsort(both[:, -1])]
    mirrored = np.append(truth[:-1], 8.0 - truth[-1])
    np.testing.assert_allclose(both, [mirrored, truth], atol=1e-2)
    np.testing.assert_allclose(result.excess, [0.0], atol=1e-6)
    where = "in a line" if k == 2 else "in a plane"
    assert result.undetermined == (
        f"the landmarks lie {where}: another place fits nearly as well, 16.0 m away and at odds of 1.0 to 1",
    )


def test_two_landmarks_give_two_places() -> None:
    result = multilaterate([[0.0, 0.0], [6.0, 0.0]], [5.0, 5.0], 0.1)
    both = np.vstack([result.position, result.alternatives])
    np.testing.assert_allclose(both[np.argsort(both[:, 1])], [[3, -4], [3, 4]], atol=1e-2)
    assert result.undetermined == (
        "the landmarks lie in a line: another place fits nearly as well, 8.0 m away and at odds of 1.0 to 1",
        "there are too few ranges (2) to tell whether one of them is false",
    )


@pytest.mark.parametrize(("k", "shape"), [(2, "circle"), (3, "sphere")])
@pytest.mark.parametrize("count", [1, 3])
def test_one_place_of_landmarks_leaves_a_circle_or_a_sphere(count: int, k: int, shape: str) -> None:
    result = multilaterate(np.full((count, k), 7.0), np.full(count, 5.0), 0.1)
    np.testing.assert_allclose(result.position, np.full(k, 7.0))
    np.testing.assert_allclose(result.covariance, 25 / k * np.eye(k), rtol=0.02, atol=1e-9)
    assert len(result.alternatives) == 0
    words = f"the landmarks lie at one place: all of a {shape} of 5.0 m about the position fits alike"
    assert result.undetermined[0] == words


def test_landmarks_in_a_line_leave_a_circle_in_space() -> None:
    landmarks = np.stack([np.linspace(0, 20, 6), np.zeros(6), np.full(6, 2.0)], 1)
    result = multilaterate(landmarks, distances(landmarks, np.array([8.0, 3.0, 6.0])), 0.1)
    np.testing.assert_allclose(result.position, [8.0, 0.0, 2.0], atol=1e-2)
    np.testing.assert_allclose(np.diag(result.covariance)[1:], 12.5, rtol=0.01)
    assert result.covariance[0, 0] < 0.1
    assert result.undetermined == (
        "the landmarks lie in a line: all of a circle of 5.0 m about the position fits alike",
    )


def test_ranges_that_contradict_each_other_are_said_to() -> None:
    result = multilaterate([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]], [10.0, 10.0, 10.0], 0.1)
    assert result.used.sum() == 1
    assert "the ranges contradict each other: 2 of 3 are held to be false" in result.undetermined


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 6).flatmap(
        lambda count: st.tuples(
            st.lists(st.tuples(*[st.integers(-3, 3)] * 3), min_size=count, max_size=count),
            st.lists(st.integers(0, 9), min_size=count, max_size=count),
        )
    ),
    st.sampled_from([2, 3]),
    st.sampled_from([0.01, 1.0, 30.0]),
    st.booleans(),
)
def test_whatever_ranges_there_are_the_result_is_finite(given_: Any, k: int, sigma: float, prior: bool) -> None:
    landmarks = np.array(given_[0], dtype=float)[:, :k]
    near = {"near": np.ones(k), "near_sigma": 2.0} if prior else {}
    result = multilaterate(landmarks, given_[1], sigma, **near)  # type: ignore[arg-type]
    assert np.isfinite(result.position).all()
    assert np.linalg.eigvalsh(result.covariance).min() > 0
    assert (np.diff(result.excess) >= 0).all()
    assert (result.excess >= 0).all()
    assert result.alternatives.shape == (len(result.excess), k)
    assert result.noise >= 1


# What is known besides


def test_the_last_place_decides_between_two() -> None:
    result = multilaterate([[0.0, 0.0], [6.0, 0.0]], [5.0, 5.0], 0.1, near=[2.0, -5.0], near_sigma=2.0)
    np.testing.assert_allclose(result.position, [3.0, -4.0], atol=0.05)
    assert result.undetermined == ()


@pytest.mark.parametrize("k", [2, 3])
def test_the_last_place_and_one_range_give_a_place_between(k: int) -> None:
    near = np.array([9.0, 0.0, 0.0])[:k]
    result = multilaterate(np.zeros((1, k)), [5.0], 0.1, near=near, near_sigma=3.0)
    np.testing.assert_allclose(result.position, near * 5 / 9, atol=0.05)
    along, *aside = np.sqrt(np.diag(result.covariance))
    np.testing.assert_allclose(aside, 3 * np.sqrt(5 / 9), rtol=0.3)  # as the cost bends on the arc
    assert 0.1 < along < aside[0]  # the arc bends back


# Bad input


@pytest.mark.parametrize(
    ("positions", "metres", "sigma", "words"),
    [
        ([0.0, 1.0], [1.0], 1.0, r"landmarks are at positions \(m, 2\) or \(m, 3\), not \(2,\)"),
        ([[0.0]], [1.0], 1.0, r"not \(1, 1\)"),
        (np.zeros((0, 2)), [], 1.0, "there is no landmark"),
        ([[0.0, 1.0]], [1.0, 2.0], 1.0, "1 landmarks need as many metres"),
        ([[0.0, 1.0]], [1.0], [1.0, 2.0], "one sigma or as many"),
        ([[0.0, 1.0], [np.nan, 2.0]], [1.0, 2.0], 1.0, "landmark 1 has a coordinate that is not a number"),
        ([[0.0, 1.0], [1.0, 2.0]], [1.0, np.inf], 1.0, "landmark 1 has metres that are not 0 or above: inf"),
        ([[0.0, 1.0], [1.0, 2.0]], [-3.0, 2.0], 1.0, "landmark 0 has metres that are not 0 or above: -3"),
        ([[0.0, 1.0], [1.0, 2.0]], [3.0, 2.0], [1.0, 0.0], "landmark 1 has a sigma that is not above 0: 0"),
    ],
)
def test_ranges_that_cannot_be_are_refused(positions: Any, metres: Any, sigma: Any, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        multilaterate(positions, metres, sigma)


@pytest.mark.parametrize(
    ("near", "near_sigma", "words"),
    [
        ([0.0, 0.0], None, "given together"),
        (None, 1.0, "given together"),
        ([0.0], 1.0, "near has 2 coordinates"),
        ([0.0, np.nan], 1.0, "near has 2 coordinates"),
        ([0.0, 0.0], -1.0, "near_sigma is -1.0"),
    ],
)
def test_a_last_place_that_cannot_be_is_refused(near: Any, near_sigma: Any, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        multilaterate([[0.0, 1.0]], [1.0], 1.0, near=near, near_sigma=near_sigma)
