"""Routes along streets that turn at right angles: found where ranges tell the turns, and left alone elsewhere."""

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.recovery.align import aligned_score
from mappable.recovery.pipeline import NO_STREETS, STREETS, recover
from mappable.recovery.ranges import Ranges
from mappable.recovery.simulator import NOISES, measure, route
from mappable.recovery.streets import _choices, _peaks, _Turns, along_streets


def circle(count: int = 400, length: float = 672.0) -> Floats:
    """A loop whose first 12 % are driven again."""
    around = np.linspace(0, 1.12 * 2 * np.pi, count)
    return length / 1.12 / (2 * np.pi) * np.stack([np.cos(around), np.sin(around)], 1)


@pytest.mark.parametrize("seed", [3, 9])
def test_a_loop_with_low_noise_is_found_to_half_a_per_cent(seed: int) -> None:
    truth = route("loop", 400, seed=seed)
    ranges = measure(truth, NOISES["low"], seed=seed, missing=0.1, outliers=0.01)
    plain, streets = recover(ranges), recover(ranges, streets=True)
    assert aligned_score(plain.positions, truth).of_length > 1.0
    assert aligned_score(streets.positions, truth).of_length < 0.5
    assert STREETS in streets.undetermined
    assert STREETS not in plain.undetermined
    assert 0.8 < streets.noise < 1.3


def test_where_noise_hides_the_turns_nothing_changes_and_it_is_said() -> None:
    truth = route("loop", 400, seed=1)
    ranges = measure(truth, NOISES["mid"], seed=1)
    plain, streets = recover(ranges), recover(ranges, streets=True)
    np.testing.assert_array_equal(plain.positions, streets.positions)
    assert streets.undetermined == (*plain.undetermined, NO_STREETS)


def test_a_circle_is_not_made_a_rectangle() -> None:
    assert along_streets(measure(circle(), NOISES["low"], seed=0)) is None


@pytest.mark.parametrize("noise", ["low", "mid"])
def test_an_open_route_stays_undecided(noise: str) -> None:
    assert along_streets(measure(route("open", 400, seed=0), NOISES[noise], seed=0)) is None


def test_points_without_order_are_left_alone() -> None:
    rng = np.random.default_rng(0)
    cloud = rng.uniform(0, 60, (150, 2))
    assert along_streets(measure(cloud, NOISES["low"], seed=0)) is None
    assert along_streets(Ranges(3, np.array([0, 1]), np.array([1, 2]), np.ones(2), np.full(2, 0.1))) is None


def test_streets_are_flat() -> None:
    with pytest.raises(BadInputError, match="streets are laid out in 2 dimensions, not in 3"):
        recover(measure(route("loop", 100, seed=0), NOISES["low"], seed=0), 3, streets=True)


def test_a_path_goes_straight_on_and_around() -> None:
    turns = _Turns(np.array([50.0, 100.0]), np.array([np.pi / 2, -np.pi / 2]), np.array([10.0, 10.0]))
    path = turns.path(151, 1.0)
    np.testing.assert_allclose(np.linalg.norm(np.diff(path, axis=0), axis=1), 1.0)
    np.testing.assert_allclose(np.diff(path[:40], axis=0), np.tile([1.0, 0.0], (39, 1)), atol=1e-12)
    np.testing.assert_allclose(np.diff(path[60:90], axis=0), np.tile([0.0, 1.0], (29, 1)), atol=1e-12)
    np.testing.assert_allclose(np.diff(path[110:], axis=0), np.tile([1.0, 0.0], (40, 1)), atol=1e-12)


def test_choices_are_all_up_to_the_mirror_image() -> None:
    choices = _choices(np.zeros(3, dtype=bool))
    assert len(choices) == (3**3 - 1) // 2 == len(np.unique(choices, axis=0))
    assert all(choice[choice != 0][0] == 1 for choice in choices)
    clear = np.array([False, True, False])
    np.testing.assert_array_equal(np.unique(choices[choices[:, 1] != 0], axis=0), np.unique(_choices(clear), axis=0))
    assert not len(_choices(np.ones(20, dtype=bool)))


def test_peaks_are_apart_and_in_order() -> None:
    assert _peaks(np.array([0.0, 5.0, 6.0, -9.0, -9.0, 1.0]), 1).tolist() == [0, 2, 5]
