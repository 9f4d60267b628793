"""Ranges with odometry: drives with gaps, drift, contradictions, and no known position at all."""

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.recovery.align import aligned_score
from mappable.recovery.anchored.pipeline import recover_anchored
from mappable.recovery.anchored.relative import rotations
from mappable.recovery.drive import recover_drive
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.ranges import Ranges
from simulated_ranges import NOISES, measure, route

COUNT = 100
LOOP, OPEN = route("loop", COUNT, seed=3, length=200.0), route("open", COUNT, seed=3, length=200.0)


def odometry(truth: Floats, *, scale: float = 0.0, bias: float = 0.0, seed: int = 0) -> Motions:
    """Motions from each point to the next, with noise of 0.03 m and 0.005 radians, and with drift."""
    rng = np.random.default_rng(seed)
    x, y = np.gradient(truth, axis=0).T
    heading = np.unwrap(np.arctan2(y, x))
    metres = np.einsum("mba,mb->ma", rotations(heading[:-1]), np.diff(truth, axis=0))
    turns = np.diff(heading) + bias * np.linalg.norm(metres, axis=1) + rng.normal(0, 0.005, len(metres))
    i = np.arange(len(metres))
    return Motions(i, i + 1, (1 + scale) * metres + rng.normal(0, 0.03, metres.shape), turns, (0.03, 0.005))


def ranges_of(truth: Floats, *, false: float = 0.02, missing: float = 0.1) -> Ranges:
    return measure(truth, NOISES["mid"], seed=0, missing=missing, outliers=false)


def surprise(found: Floats, covariances: Floats | None, truth: Floats) -> float:
    assert covariances is not None
    off = found - truth
    return float(np.einsum("na,nab,nb->n", off, np.linalg.inv(covariances), off).mean()) / truth.shape[1]


@pytest.mark.medium
def test_drift_is_estimated_and_two_known_positions_place_an_open_drive() -> None:
    known = Anchors([0, COUNT - 1], OPEN[[0, -1]], 0.3)
    found = recover_anchored(ranges_of(OPEN), known, motions=odometry(OPEN, scale=0.03, bias=0.003))
    assert np.sqrt(np.square(found.positions - OPEN).sum(1).mean()) < 3.0
    assert surprise(found.positions, found.covariances, OPEN) < 3.0
    assert any("drifts" in sentence for sentence in found.undetermined)


@pytest.mark.medium
def test_a_loop_closes_without_any_known_position() -> None:
    found = recover_drive(ranges_of(LOOP), motions=odometry(LOOP, bias=0.004))
    assert aligned_score(found.positions, LOOP, scale=False).rmse < 1.5
    np.testing.assert_allclose(found.positions[0], 0.0, atol=1e-6)
    assert "No position is known" in found.undetermined[0]
    assert not any("contradict" in sentence for sentence in found.undetermined)


def test_the_error_of_the_best_estimator_is_that_of_repeated_drives() -> None:
    """The bound is for aligned maps, with orientations and drift unknown; ranges and odometry are drawn six times."""
    angle = np.linspace(0, 2 * np.pi, 30, endpoint=False)
    truth = 8 * np.stack([np.cos(angle), np.sin(angle)], 1)
    i, j = np.triu_indices(30, 1)
    apart = np.linalg.norm(truth[i] - truth[j], axis=1)
    near, reached, expected = apart < 6.0, [], []
    for seed in range(6):
        metres = apart[near] + np.random.default_rng(seed).normal(0, 0.1, int(near.sum()))
        found = recover_anchored(
            Ranges(30, i[near], j[near], metres, 0.1), None, motions=odometry(truth, seed=seed), ordered=False
        )
        reached.append(aligned_score(found.positions, truth, scale=False).rmse)
        assert found.expected is not None
        expected.append(found.expected)
    assert np.sqrt(np.mean(np.square(reached))) == pytest.approx(np.mean(expected), rel=0.3)


@pytest.mark.medium
def test_steps_that_slipped_do_not_reject_true_ranges() -> None:
    given = odometry(LOOP)
    metres, turns = given.metres.copy(), np.arctan2(given.rotations[:, 1, 0], given.rotations[:, 0, 0])
    metres[40:44] *= 3
    ranges = ranges_of(LOOP, false=0.0)
    found = recover_drive(ranges, motions=Motions(given.i, given.j, metres, turns, (0.03, 0.005)))
    assert aligned_score(found.positions, LOOP, scale=False).rmse < 2.0
    assert any("motions contradict the rest" in sentence for sentence in found.undetermined)
    assert found.used.mean() > 0.95


@pytest.mark.medium
@pytest.mark.usefixtures("few_sweeps")
def test_a_drive_with_missing_neighbors_and_a_gap_in_its_odometry() -> None:
    """No range between neighbors, and no odometry from image 40 to 50: steps there are assumed."""
    ranges, given = ranges_of(OPEN), odometry(OPEN)
    ranges = ranges.where(ranges.j - ranges.i > 1)
    given = given.where((given.i < 40) | (given.i >= 50))
    known = Anchors([0, 50, COUNT - 1], OPEN[[0, 50, -1]], 0.3)
    found = recover_drive(ranges, anchors=known, motions=given)
    assert found.assumed == 10
    assert np.sqrt(np.square(found.positions - OPEN).sum(1).mean()) < 2.0
    assert any("2 separate parts (points 0 to 40, 50 to 99)" in sentence for sentence in found.undetermined)


@pytest.mark.medium
@pytest.mark.usefixtures("few_sweeps")
def test_odometry_that_was_cut_says_which_points_it_covers() -> None:
    given = odometry(OPEN)
    known = Anchors([0, 60, COUNT - 1], OPEN[[0, 60, -1]], 0.3)
    found = recover_drive(ranges_of(OPEN), anchors=known, motions=given.where(given.i < 60))
    assert any("covers points 0 to 60 only" in sentence for sentence in found.undetermined)
    assert not any("does not reach another known point" in sentence for sentence in found.undetermined)
    found = recover_anchored(ranges_of(OPEN), None, motions=given.where(given.i < 60))
    assert any("The path after the point 60 does not reach another" in sentence for sentence in found.undetermined)


@pytest.mark.medium
def test_ranges_that_close_a_loop_place_the_odometry_behind_a_gap() -> None:
    given = odometry(LOOP)
    kept = given.where((given.i < 20) | (given.i >= 30))
    found = recover_anchored(ranges_of(LOOP), None, motions=kept)
    assert aligned_score(found.positions, LOOP, scale=False).rmse < 0.5
    assert not any("contradict" in sentence for sentence in found.undetermined)


@pytest.mark.medium
@pytest.mark.parametrize("gap", [(30, 40), (65, 75), (56, COUNT)])
def test_motions_next_to_a_gap_at_a_turn_are_not_reported(gap: tuple[int, int]) -> None:
    given = odometry(LOOP)
    kept = given.where((given.i < gap[0]) | (given.i >= gap[1]))
    found = recover_anchored(ranges_of(LOOP), None, motions=kept)
    assert any("odometry" in sentence for sentence in found.undetermined[1:])
    assert not any("contradict" in sentence for sentence in found.undetermined)


@pytest.mark.medium
def test_a_motion_that_contradicts_the_rest_is_named() -> None:
    given = odometry(OPEN)
    metres = given.metres.copy()
    metres[30] += [6.0, -3.0]
    wrong = Motions(given.i, given.j, metres, given.rotations, given.covariance)
    found = recover_anchored(ranges_of(OPEN), Anchors([0, 20, 40, 99], OPEN[[0, 20, 40, 99]], 0.1), motions=wrong)
    assert any("of 99 motions contradict the rest" in one for one in found.undetermined)
    assert np.sqrt(np.square(found.positions - OPEN).sum(1).mean()) < 2.5


def joined_ends(truth: Floats) -> Ranges:
    """Ranges of an open drive, and false ones: its last 10 images look as if taken 1 m beside its first 10."""
    ranges = ranges_of(truth, false=0.0)
    i, j = np.repeat(np.arange(10), 10), np.tile(np.arange(10), 10)
    off = np.hypot(2.0 * (i - j), 1.0)
    near = off < 8.0
    return Ranges(
        COUNT,
        np.concatenate([ranges.i, i[near]]),
        np.concatenate([ranges.j, COUNT - 10 + j[near]]),
        np.concatenate([ranges.metres, off[near]]),
        np.concatenate([ranges.sigma, np.full(near.sum(), 0.4)]),
    )


@pytest.mark.medium
def test_a_drift_that_only_a_loop_shows_is_questioned() -> None:
    """The drive goes straight on; a steady turn of its odometry would make it a circle."""
    along = np.arange(COUNT)
    straight = np.stack([2.0 * along, 3 * np.sin(along / 15)], 1)
    found = recover_drive(joined_ends(straight), motions=odometry(straight))
    assert any("odometry drifts" in sentence for sentence in found.undetermined)
    assert any("ranges that close a loop show this drift (first: points 0 and" in one for one in found.undetermined)


@pytest.mark.medium
def test_without_known_positions_only_ranges_show_the_scale() -> None:
    given = odometry(LOOP, scale=0.06)
    for known, expected in ((None, True), (Anchors([0, 50], LOOP[[0, 50]], 0.1), False)):
        found = recover_anchored(ranges_of(LOOP), known, motions=given)
        assert any("drifts: its steps are +" in one for one in found.undetermined)
        assert any("Only ranges show that steps are off" in one for one in found.undetermined) is expected


@pytest.mark.medium
def test_loops_that_do_not_close_are_reported() -> None:
    """False ranges join the ends of an open drive, whose odometry is good, and whose ends are known."""
    found = recover_anchored(joined_ends(OPEN), Anchors([0, COUNT - 1], OPEN[[0, -1]], 0.3), motions=odometry(OPEN))
    assert any("ranges that close a loop contradict the odometry" in one for one in found.undetermined)
    assert np.sqrt(np.square(found.positions - OPEN).sum(1).mean()) < 2.5
