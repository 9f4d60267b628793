"""The noise profile `learned`: its response, and ranges that have the errors of a profile."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from learned_noise import LearnedNoise, Profile, learned_profile, measure_learned
from mappable.errors import BadInputError
from simulated_ranges import route

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


# The response


def test_the_response_begins_at_its_offset_rises_by_its_slope_and_ends_at_its_plateau() -> None:
    metres = np.array([0.0, 1e-6, 1e6])
    found = NOISE.response(metres)
    assert found[0] == pytest.approx(0.06)
    assert (found[1] - found[0]) / 1e-6 == pytest.approx(0.032, rel=1e-4)
    assert found[2] == pytest.approx(0.46)


def test_metres_are_read_off_the_response_within_its_bounds() -> None:
    metres = np.linspace(0, 39, 40)
    np.testing.assert_allclose(NOISE.metres(NOISE.response(metres)), metres, atol=1e-9)
    np.testing.assert_allclose(NOISE.metres(np.array([0.0, 0.05, 0.46, 2.0])), [0, 0, 40, 40], atol=1e-9)


def test_sigma_is_the_noise_divided_by_the_slope() -> None:
    """Against many draws, where the response is nearly straight within the noise."""
    small = replace(NOISE, image_sigma=0.015, near_sigma=0.027, far_sigma=0.019)
    random = np.random.default_rng(0)
    for metres in (2.0, 8.0):
        spread = np.sqrt(small.image_variance(np.array(metres)) + small.pair_sigma(np.array(metres)) ** 2)
        squared = small.response(np.array(metres)) * np.exp(spread * random.normal(size=20_000))
        assert small.metres(squared).std() == pytest.approx(float(small.sigma(np.array(metres))), rel=0.03)


# Measuring


@pytest.mark.parametrize("dimensions", [2, 3])
def test_without_noise_the_calibrated_distances_are_the_true_ones(dimensions: int) -> None:
    positions = np.zeros((200, dimensions))
    positions[:, :2] = route("loop", 200, seed=0)
    profile = Profile(EXACT, NOISE, bound=float(EXACT.response(np.array(9.0))))
    ranges = measure_learned(positions, profile, seed=0)
    true = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    np.testing.assert_allclose(ranges.metres, true, atol=1e-9)
    apart = np.linalg.norm(positions[:, None] - positions, axis=2)
    assert len(ranges) == np.triu(apart <= 9.0, 1).sum()
    np.testing.assert_allclose(ranges.sigma, NOISE.sigma(ranges.metres))


def test_consecutive_images_stay_connected_and_the_stated_share_of_others_is_missing() -> None:
    positions, profile = route("open", 400, seed=0), learned_profile()
    full, some = (measure_learned(positions, profile, seed=0, missing=share) for share in (0.0, 0.3))
    assert not some.parts.any()
    assert ((some.j - some.i) == 1).sum() == 399
    others = [((ranges.j - ranges.i) > 1).sum() for ranges in (full, some)]
    assert others[1] / others[0] == pytest.approx(0.7, abs=0.06)


def test_the_same_seed_gives_the_same_ranges() -> None:
    positions, profile = route("loop", 100, seed=0), learned_profile()
    one, same, other = (measure_learned(positions, profile, seed=seed).metres for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


# The shipped profile


def test_the_shipped_profile_says_where_it_comes_from_and_is_less_kind_than_the_simulator() -> None:
    profile = learned_profile()
    for name in ("commands", "seed", "date", "encoder"):
        assert profile.about[name] not in ("", None)
    assert profile.actual.offset > 0.02
    assert profile.actual.plateau < 0.6
    assert profile.actual != profile.calibration  # of other runs
    metres = np.array([5.0])
    assert profile.calibration.sigma(metres)[0] > 0.15 * 5 + 0.5  # more than the noise `high`


def test_a_profile_survives_the_way_through_a_file(tmp_path: Path) -> None:
    profile = Profile(NOISE, EXACT, 0.2, {"seed": 3})
    (tmp_path / "mine.json").write_text(profile.to_json())
    assert learned_profile(tmp_path / "mine.json") == profile


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"actual": {}}), json.dumps({"actual": 1, "calibration": 2})])
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(BadInputError, match=r"mine\.json.*damaged"):
        learned_profile(tmp_path / "mine.json")
    with pytest.raises(BadInputError, match=r"no\.json"):
        learned_profile(tmp_path / "no.json")
