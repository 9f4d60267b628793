"""How a camera moves: the prior against dense matrices written by hand, and draws against exact posteriors."""

from itertools import pairwise, product

import numpy as np
import pytest

from mappable.arrays import Bools, Floats
from mappable.recovery.anchored import motion as module
from mappable.recovery.anchored.motion import Motion, _draw_rate, _draw_spread, _draw_turns

STEP, REACH = 1.5, 10.0


def along_a_line(count: int) -> tuple[Motion, Floats]:
    """A camera that goes straight on along x, and its positions."""
    motion = Motion(np.arange(count), np.ones(count - 2, dtype=bool), STEP, REACH)
    positions = np.column_stack([STEP * np.arange(count), np.zeros(count)])
    motion.look(positions)
    return motion, positions


def matrix_of(bands: list[Floats]) -> Floats:
    """The dense matrix (m, k, m, k) of the bands of a symmetric one."""
    m, k = bands[0].shape[:2]
    dense = np.zeros((m, k, m, k))
    for lag, band in enumerate(bands):
        for row, block in enumerate(band):
            dense[row, :, row + lag] = block
            dense[row + lag, :, row] = block.T
    return dense


def test_the_prior_is_the_dense_gaussian_of_curvatures_and_steps() -> None:
    count = 9
    motion, positions = along_a_line(count)
    motion.precision = np.array([4.0, 4.0, 9.0, 9.0, 9.0, 4.0, 4.0])
    motion.alike = np.array([0.0, 0.0, 0.5, 0.5, 0.5, 0.0, 0.0])
    motion.uneven, motion.steady, motion.pace = 0.1, 0.4, 1.4
    bend, step = np.zeros((count - 2, count)), np.zeros((count - 2, count))
    innovation = np.eye(count - 2) - np.diag(motion.alike[1:], -1)
    for t in range(count - 2):
        bend[t, t : t + 3] = np.array([1.0, -2.0, 1.0]) / STEP**2
        step[t, t : t + 3] = motion.steady, -1 - motion.steady, 1.0  # (x'' - x') - steady (x' - x)
    sideways = (innovation @ bend).T @ np.diag(motion.precision) @ innovation @ bend
    onward = step.T @ step / motion.uneven**2
    motion.look(positions)
    gradient, bands = motion.system()
    dense = matrix_of(bands)
    np.testing.assert_allclose(dense[:, 1, :, 1], sideways, atol=1e-9)
    np.testing.assert_allclose(dense[:, 0, :, 0], onward, atol=1e-9)
    np.testing.assert_allclose(dense[:, 0, :, 1], 0.0, atol=1e-12)
    news = step @ positions[:, 0] - (1 - motion.steady) * motion.pace
    np.testing.assert_allclose(gradient[:, 0], -step.T @ news / motion.uneven**2, atol=1e-9)
    assert motion.costs().sum() == pytest.approx(0.5 * np.square(news / motion.uneven).sum())


def test_a_way_that_begins_at_known_points_spreads_as_twice_summed_noise() -> None:
    """Sideways y_n = h² Σ (n - t) c_t, so its variance is h⁴ σ² Σ j²: the inverse of the prior's matrix."""
    count = 12
    motion, _ = along_a_line(count)
    matrix = matrix_of(motion.system()[1])[:, 1, :, 1].copy()
    matrix[[0, 1], [0, 1]] += 1e9
    variances = np.diag(np.linalg.inv(matrix))
    expected = [STEP**4 * motion.straight**2 * sum(j**2 for j in range(1, n)) for n in range(count)]
    np.testing.assert_allclose(variances[2:], expected[2:], rtol=1e-4)


def test_a_break_between_two_drives_costs_nothing() -> None:
    inside = np.array([True, False, False, True])
    motion = Motion(np.arange(6), inside, STEP, REACH)
    positions = np.array([[0.0, 0.0], [1.5, 0.0], [3.0, 0.0], [90.0, 7.0], [91.5, 7.0], [93.0, 7.0]])
    motion.look(positions)
    np.testing.assert_allclose(motion.costs(), 0.0, atol=1e-9)
    np.testing.assert_allclose(motion.system()[0], 0.0, atol=1e-9)


def test_turns_are_drawn_as_often_as_all_states_of_the_chain_weigh() -> None:
    """2^6 states by enumeration: begin and end of turns, and what each point says; 4.5 standard errors of any state."""
    ratios, begin, end, draws = np.array([-1.0, 0.5, 2.0, 1.0, -0.5, -3.0]), 0.2, 0.4, 6000
    rng = np.random.default_rng(0)
    weights: dict[tuple[bool, ...], float] = {}
    for states in product((False, True), repeat=6):
        chance = begin / (begin + end) if states[0] else end / (begin + end)
        for before, now in pairwise(states):
            leaves = end if before else begin
            chance *= leaves if before != now else 1 - leaves
        weights[states] = chance * float(np.exp(ratios[np.array(states)].sum()))
    total = sum(weights.values())
    found: dict[tuple[bool, ...], int] = {}
    for _ in range(draws):
        drawn = tuple(_draw_turns(ratios, begin, end, rng).tolist())
        found[drawn] = found.get(drawn, 0) + 1
    for states, weight in weights.items():
        share = weight / total
        error = np.sqrt(share * (1 - share) / draws)
        assert found.get(states, 0) / draws == pytest.approx(share, abs=4.5 * error + 1 / draws)


def test_spreads_and_rates_are_drawn_from_their_conjugate_posteriors() -> None:
    rng, draws = np.random.default_rng(0), 4000
    spreads = np.array([_draw_spread(3.0, 12, 0.5, 8, rng) for _ in range(draws)])
    # 1 / s² is chi-squared of 20 over the sum of squares 3 + 8 * 0.25.
    inverse = 20 / 5.0
    assert (spreads**-2).mean() == pytest.approx(inverse, abs=4 * inverse * np.sqrt(2 / 20 / draws))
    rates = np.array([_draw_rate(5, 40, 0.1, rng) for _ in range(draws)])
    a, b = 5 + module.TURN_COUNT, 35 + module.TURN_COUNT * 9
    deviation = np.sqrt(a * b / (a + b + 1)) / (a + b)
    assert rates.mean() == pytest.approx(a / (a + b), abs=4 * deviation / np.sqrt(draws))
    assert rates.std() == pytest.approx(deviation, rel=0.08)


def test_pace_and_steadiness_are_drawn_from_their_joint_posterior() -> None:
    """Gibbs draws against sums over a grid of all three; draws are correlated, so 6 standard errors."""
    rng, count, draws = np.random.default_rng(3), 60, 4000
    motion, _ = along_a_line(count)
    lengths = [1.6]
    for _ in range(count):
        lengths.append(1.6 + 0.5 * (lengths[-1] - 1.6) + 0.1 * rng.standard_normal())
    before, behind = np.array(lengths[:-1]), np.array(lengths[1:])
    found = np.empty((draws, 3))
    for row in range(draws):
        motion._draw_pace(before, behind, rng)
        found[row] = motion.pace, motion.steady, motion.uneven
    axes = np.linspace(1.4, 1.8, 60), np.linspace(0.0, 0.98, 60), np.linspace(0.06, 0.16, 60)
    pace, steady, uneven = np.meshgrid(*axes, indexing="ij")
    squares = sum(
        np.square(after - pace - steady * (ahead - pace)) for ahead, after in zip(before, behind, strict=True)
    )
    usual = module.UNEVEN * STEP
    log = -(len(before) + module.UNEVEN_COUNT + 1) * np.log(uneven)
    log -= 0.5 * (squares + module.UNEVEN_COUNT * usual**2) / uneven**2
    log -= 0.5 * np.square((pace - STEP) / (module.PACE_SPREAD * STEP))
    log -= 0.5 * np.square((steady - module.STEADY) / module.STEADY_SPREAD)
    weight = np.exp(log - log.max())
    for values, drawn in zip((pace, steady, uneven), found.T, strict=True):
        expected = float((weight * values).sum() / weight.sum())
        deviation = float(np.sqrt((weight * np.square(values - expected)).sum() / weight.sum()))
        assert drawn.mean() == pytest.approx(expected, abs=6 * deviation / np.sqrt(draws))
        assert drawn.std() == pytest.approx(deviation, rel=0.1)


def test_draws_find_the_turn_of_a_way_and_how_sharp_it_is() -> None:
    """30 steps straight on, a quarter of a circle of 8 m, and 30 steps straight on."""
    angle = STEP / 8.0
    headings = np.concatenate([np.zeros(30), angle * np.arange(1, 9), np.full(30, 8 * angle)])
    positions = np.concatenate([[[0.0, 0.0]], STEP * np.column_stack([np.cos(headings), np.sin(headings)]).cumsum(0)])
    motion = Motion(np.arange(len(positions)), np.ones(len(positions) - 2, dtype=bool), STEP, REACH)
    motion.look(positions)
    rng, turns = np.random.default_rng(0), np.zeros(len(positions) - 2)
    for _ in range(200):
        motion.draw(positions, rng)
        turns += motion.alike > 0
    bent: Bools = np.abs(np.diff(headings)) > 0
    assert (turns[bent][1:-1] / 200 > 0.9).all()
    assert (turns[:20] / 200 < 0.2).all()
    assert (turns[-20:] / 200 < 0.2).all()
