"""Refinement: a fit goes down to where the slope is nought, and draws have the mean and covariance of what fits."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.recovery.anchored.elimination import Elimination
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.refine import fit, sample, settle
from mappable.recovery.hints import Anchors, Odometry
from mappable.recovery.ranges import Ranges

COUNT, STEP = 14, 2.0


def drive(noise: float, seed: int = 0, longest: float = 7.0) -> tuple[Problem, Floats]:
    """A drive round a bend, with ranges up to the longest, and known at both ends and in the middle; and the truth."""
    angles = np.linspace(0, 1.2, COUNT)
    truth = STEP * (COUNT - 1) / 1.2 * np.column_stack([np.sin(angles), 1 - np.cos(angles)])
    i, j = np.triu_indices(COUNT, 1)
    apart = np.linalg.norm(truth[i] - truth[j], axis=1)
    near = apart < longest
    metres = np.abs(apart[near] + noise * np.random.default_rng(seed).standard_normal(near.sum()))
    ranges = Ranges(COUNT, i[near], j[near], metres, max(noise, 0.01))
    known = Anchors([0, COUNT // 2, COUNT - 1], truth[[0, COUNT // 2, COUNT - 1]], 0.1)
    start = truth + np.random.default_rng(seed + 1).normal(0, 0.3, truth.shape)
    return Problem(ranges, known, [np.arange(COUNT)], None, None, start, 1000.0), truth


def straight_on() -> tuple[Problem, Floats, Floats]:
    """A linear problem: along x, by odometry and known ends, without ranges; with its mean and covariance by hand."""
    start = np.column_stack([STEP * np.arange(COUNT), np.zeros(COUNT)])
    known = Anchors([0, COUNT - 1], start[[0, -1]] + [[0.0, 0.0], [0.3, 0.0]], [0.2, 0.4])
    before = np.arange(COUNT - 1)
    odometry = Odometry(before, before + 1, np.tile([STEP, 0.0], (COUNT - 1, 1)), 0.3)
    nothing = Ranges(COUNT, [], [], [], 1.0)
    problem = Problem(nothing, known, [np.arange(COUNT)], odometry, None, start, 1000.0)
    motion = problem.motion
    assert motion is not None
    motion.draw = lambda *_: None  # type: ignore[method-assign]
    problem.deviations.learn = lambda *_: None  # type: ignore[method-assign]
    motion.reset()
    links = np.diff(np.eye(COUNT), axis=0)
    bend = np.diff(np.eye(COUNT), 2, axis=0)
    news = bend - (motion.steady - 1) * links[:-1]  # (x'' - x') - steady (x' - x)
    shared = (
        links.T @ links / 0.3**2 + np.diag(np.r_[0.2**-2, np.zeros(COUNT - 2), 0.4**-2]) + np.eye(COUNT) / 1000.0**2
    )
    onward = shared + news.T @ news / motion.uneven**2
    sideways = shared + bend.T @ bend / (STEP**2 * motion.straight) ** 2
    covariance = np.zeros((COUNT, 2, 2))
    inverse = np.linalg.inv(onward)
    covariance[:, 0, 0], covariance[:, 1, 1] = np.diag(inverse), np.diag(np.linalg.inv(sideways))
    right = links.T @ np.full(COUNT - 1, STEP) / 0.3**2 + start[:, 0] / 1000.0**2
    right[0] += known.positions[0, 0] / 0.2**2
    right[-1] += known.positions[-1, 0] / 0.4**2
    right += news.T @ np.full(COUNT - 2, (1 - motion.steady) * motion.pace) / motion.uneven**2
    mean = np.column_stack([inverse @ right, np.zeros(COUNT)])
    return problem, mean, covariance


def traced(problem: Problem, start: Floats, sweeps: int, seed: int) -> Floats:
    """The positions (sweeps, n, k) that one chain of `sample` draws."""
    motion: Any = problem.motion
    states, draw = [], type(motion).draw

    def keep(positions: Floats, rng: np.random.Generator) -> None:
        states.append(positions.copy())
        draw(motion, positions, rng)

    motion.draw = keep
    sample(problem, [start], np.random.default_rng(seed), sweeps=sweeps)
    return np.array(states)


def test_settling_never_makes_it_worse_and_ends_where_the_slope_is_nought() -> None:
    problem, _ = drive(0.2)
    problem.look(problem.state)
    before = problem.objective()
    state = settle(problem, problem.state, steps=60, tolerance=1e-9)
    problem.look(state)
    assert problem.objective() < before
    slope = problem.system()[2]
    assert np.abs(slope).max() < 1e-2 * np.sqrt(np.abs(problem.system()[0]).max())


def test_a_fit_to_exact_ranges_is_the_truth_and_all_ranges_are_true() -> None:
    problem, truth = drive(0.0, longest=20.0)  # short ones hardly tell how it bends
    found = fit(problem, problem.state)
    np.testing.assert_allclose(found.positions, truth, atol=0.05)
    assert (found.true > 0.9).all()
    assert found.noise < 1.0


def test_a_linear_problem_is_drawn_with_its_dense_mean_and_covariance() -> None:
    """The mean of a linear problem follows from one step, and its covariance from the matrix: no error of sampling."""
    problem, mean, covariance = straight_on()
    found = sample(problem, [problem.state, problem.state], np.random.default_rng(0), sweeps=10)
    np.testing.assert_allclose(found.positions, mean, atol=1e-6)
    np.testing.assert_allclose(found.covariances, covariance, rtol=1e-6, atol=1e-9)


def test_states_that_are_drawn_scatter_as_the_dense_covariance_says() -> None:
    """The states themselves, 1,000 draws: 5 standard errors of mean and variance, draws being independent here."""
    problem, mean, covariance = straight_on()
    states, sweeps = [], 1000
    motion: Any = problem.motion
    problem.objective = lambda: 0.0  # type: ignore[method-assign]  # a step is always right, whatever rounding says
    motion.draw = lambda positions, rng: states.append(positions.copy())
    sample(problem, [problem.state], np.random.default_rng(1), sweeps=sweeps)
    drawn = np.array(states[1:])
    deviation = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    assert (np.abs(drawn.mean(0) - mean) < 5 * deviation / np.sqrt(sweeps)).all()
    assert (np.abs(drawn.var(0) / deviation**2 - 1) < 5 * np.sqrt(2 / sweeps)).all()


class Mixture:
    """A toy problem: each sweep draws which of two Gaussians holds, with chances 1/4 and 3/4."""

    dimensions, count, points = 2, 1, 1
    relative = None

    def __init__(self) -> None:
        self.means = np.array([[[0.0, 0.0, 0.0]], [[4.0, 2.0, 0.0]]])
        self.precisions = np.array([np.diag([1.0, 4.0, 1.0]), np.diag([2.0, 1.0, 1.0])])
        self.which, self.state, self.ranges, self.true = 0, self.means[0], [], np.zeros(0)
        self.plan = Elimination(1, 3, np.arange(0), np.arange(0))
        self.noise = SimpleNamespace(noise=1.0, false=0.0, chances=lambda: np.zeros(0), learn=lambda *_: None)
        self.deviations = SimpleNamespace(reset=lambda: None, learn=lambda *_: None)
        self.motion = SimpleNamespace(reset=lambda: None, measure_steps=lambda _: None, draw=self.choose)

    def choose(self, _: Floats, rng: np.random.Generator) -> None:
        self.which = int(rng.random() < 0.75)

    def look(self, state: Floats) -> None:
        self.state = state

    look_nearby = look

    def system(self) -> tuple[Floats, Floats, Floats]:
        precision = self.precisions[self.which]
        return precision[None], np.zeros((0, 3, 3)), (self.means[self.which] - self.state) @ precision

    def objective(self) -> float:
        off = (self.state - self.means[self.which])[0]
        return float(0.5 * off @ self.precisions[self.which] @ off)


def test_covariances_are_those_within_and_between_what_else_is_unknown() -> None:
    """The law of total covariance, over 4 chains of 500 draws; 5 standard errors."""
    toy: Any = Mixture()
    found = sample(toy, [toy.means[0]] * 4, np.random.default_rng(0), sweeps=500)
    share, draws = 0.75, 4 * 350
    error = np.sqrt(share * (1 - share) / draws)
    apart = np.array([4.0, 2.0])
    np.testing.assert_allclose(found.positions[0], share * apart, atol=5 * error * 4)
    within = 0.25 * np.diag([1.0, 0.25]) + 0.75 * np.diag([0.5, 1.0])
    total = within + share * (1 - share) * np.outer(apart, apart)
    np.testing.assert_allclose(found.covariances[0], total, atol=5 * np.sqrt(share * (1 - share) / 140) + 0.1)


def test_chains_from_two_starts_mix() -> None:
    """Gelman and Rubin's R below 1.1 for all coordinates, and draws that soon forget each other."""
    traces = []
    for seed, off in ((0, 0.6), (1, -0.6)):
        problem, truth = drive(0.3)
        fitted = fit(problem, problem.state).state
        start = fitted.copy()
        start[1:-1, 1] += off  # a standard deviation or two to either side
        traces.append(traced(problem, start, 240, seed)[72:])
    chains = np.array(traces)
    length = chains.shape[1]
    within = chains.var(axis=1, ddof=1).mean(0)
    between = length * chains.mean(axis=1).var(axis=0, ddof=1)
    reduction = np.sqrt((length - 1) / length + between / within / length)
    assert np.median(reduction) < 1.05
    assert reduction.max() < 1.3
    centered = chains - chains.mean(axis=1, keepdims=True)
    lag = 20
    correlation = (centered[:, lag:] * centered[:, :-lag]).mean((0, 1)) / np.square(centered).mean((0, 1))
    assert np.abs(correlation).mean() < 0.2
    off_truth = chains.mean((0, 1)) - truth
    assert (np.abs(off_truth) < 4 * np.sqrt(within)).mean() > 0.9


def test_points_in_no_order_are_not_drawn() -> None:
    ranges = Ranges(3, [0, 1], [1, 2], [1.0, 1.0], 0.1)
    problem = Problem(ranges, Anchors([0], [[0.0, 0.0]], 0.1), [], None, None, np.eye(3)[:, :2], 10.0)
    with pytest.raises(ValueError, match="in order"):
        sample(problem, [problem.state], np.random.default_rng(0), sweeps=1)
