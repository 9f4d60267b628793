"""benchmarks/fit_learned_noise.py: a fit finds what pairs were made with."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from fit_learned_noise import fit_learned
from learned_noise import LearnedNoise, Profile, measure_learned
from mappable.arrays import Floats, Ints
from simulated_ranges import route


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    with threadpool_limits(1):  # the matrices are too small for several
        yield


NOISE = LearnedNoise(
    offset=0.06,
    slope=0.032,
    plateau=0.46,
    image_sigma=0.15,
    image_metres=5.0,
    near_sigma=0.27,
    far_sigma=0.19,
)
EXACT = replace(NOISE, image_sigma=0.0, near_sigma=0.0, far_sigma=0.0)


def made_pairs(noise: LearnedNoise, count: int, seed: int) -> tuple[Floats, Floats, Ints, Ints]:
    """Pairs up to 40 m along a route of 2 m steps, by a loop over images and a dense covariance."""
    random = np.random.default_rng(seed)
    positions = route("open", count, seed=seed, length=2.0 * count)
    apart = np.abs(np.subtract.outer(np.arange(count), np.arange(count))) * 2.0
    alike = np.exp(-apart / noise.image_metres) + 1e-9 * np.eye(count)
    deviations = noise.image_sigma * np.linalg.cholesky(alike) @ random.normal(size=count)
    rows = []
    for i in range(count):
        for j in range(i + 1, count):
            metres = float(np.linalg.norm(positions[i] - positions[j]))
            if metres <= 40:
                own = random.normal() * float(noise.pair_sigma(np.array(metres)))
                rise = (noise.plateau - noise.offset) * (1 - np.exp(-metres / noise.reach))
                rows.append(((noise.offset + rise) * np.exp(deviations[i] + deviations[j] + own), metres, i, j))
    squared, metres_, first, second = (np.array(column) for column in zip(*rows, strict=True))
    return squared, metres_, first, second


@pytest.mark.medium
def test_a_fit_finds_what_the_pairs_were_made_with() -> None:
    """The middle of five fits: a single run of some hundred metres has few deviations that are independent."""
    fits = [fit_learned(*made_pairs(NOISE, 240, seed)) for seed in range(5)]
    for name, tolerance in (
        ("offset", 0.1),
        ("slope", 0.1),
        ("plateau", 0.06),
        ("image_sigma", 0.15),
        ("image_metres", 0.35),
        ("near_sigma", 0.1),
        ("far_sigma", 0.12),
    ):
        middle = float(np.median([getattr(fit, name) for fit in fits]))
        assert middle == pytest.approx(getattr(NOISE, name), rel=tolerance), name


def test_a_fit_to_exact_pairs_has_their_curve_and_no_noise() -> None:
    found = fit_learned(*made_pairs(EXACT, 120, 0))
    assert (found.offset, found.slope, found.plateau) == pytest.approx((0.06, 0.032, 0.46), rel=1e-3)
    for name in ("image_sigma", "near_sigma", "far_sigma"):
        assert getattr(found, name) < 1e-3


def test_images_are_told_by_their_numbers_whatever_these_are() -> None:
    squared, metres, i, j = made_pairs(NOISE, 120, 0)
    plain, renamed = fit_learned(squared, metres, i, j), fit_learned(squared, metres, 7 * i + 100, 7 * j + 100)
    assert plain == renamed


def test_ranges_have_the_noise_of_the_profile() -> None:
    """A fit to what was measured, with everything let through, finds the profile again."""
    profile = Profile(NOISE, replace(NOISE, offset=1e-6, slope=1.0, plateau=1e6), bound=np.inf)  # s is metres then
    positions = route("open", 400, seed=1, length=800.0)
    ranges = measure_learned(positions, profile, seed=0)
    true = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    assert len(ranges) == 400 * 399 // 2
    near = true <= 40
    found = fit_learned(ranges.metres[near], true[near], ranges.i[near], ranges.j[near])
    assert (found.offset, found.plateau) == pytest.approx((0.06, 0.46), rel=0.25)
    assert found.image_sigma == pytest.approx(0.15, rel=0.25)
    assert found.near_sigma == pytest.approx(0.27, rel=0.25)
