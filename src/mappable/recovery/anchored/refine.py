"""Refine positions: the best fit, or the mean and spread of samples of all fits.

Gauss-Newton steps find the best fit. If images are in order, Gibbs sampling then draws positions many times, together
with all other unknowns. These are the places and sharpness of turns, the noise of the ranges, and which ranges are
false. The result is the mean of the draws, with their covariance.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Floats
from mappable.recovery.anchored.dissection import DissectedFactor
from mappable.recovery.anchored.elimination import Factor, SingularError
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.relative import SLIPPED

SKIPPED = 0.3  # burn-in: share of the draws of a chain that are not used
THINNED = 10  # the covariance of every 10th draw is used
STILL = 1e-3  # of the longest range, and of the noise: a fit whose rounds change less has converged


def settle(problem: Problem, state: Floats, *, steps: int = 30, tolerance: float = 1e-3) -> Floats:
    """Find a local minimum of the objective near this state, by damped Gauss-Newton steps that never increase it."""
    problem.look(state)
    value, damping = problem.objective(), 1e-6
    axes = np.arange(state.shape[1])
    for _ in range(steps):
        diagonal, coupling, right = problem.system()
        for _ in range(12):
            damped = diagonal.copy()
            damped[:, axes, axes] *= 1 + damping
            try:
                step = problem.plan.factor(damped, coupling).solve(right)
            except SingularError:
                step = np.full_like(state, np.nan)
            problem.look(state + step)
            trial = problem.objective()
            if trial <= value:
                break
            if np.abs(step).max() < tolerance:  # no longer step can succeed: this is the minimum
                problem.look(state)
                return state
            damping *= 10
        else:
            problem.look(state)
            return state
        state, value, damping = state + step, trial, max(damping / 10, 1e-9)
        if np.abs(step).max() < tolerance:
            break
    return state


@dataclass(frozen=True)
class Refined:
    """A refined state; points and ranges are numbered as in the problem."""

    state: Floats  # (n, d): see `Problem`
    covariances: Floats  # (n, k, k)
    noise: float  # in units of the stated spreads
    true: Floats  # (edges,): probability that a range is true

    @property
    def positions(self) -> Floats:
        """Return positions (n, k)."""
        n, k = self.covariances.shape[:2]
        return self.state[:n, :k]


def fit(problem: Problem, state: Floats, *, rounds: int = 25) -> Refined:
    """Fit the state by Gauss-Newton, in turn with the noise of the ranges and their probabilities to be true."""
    noise, k = problem.noise, problem.dimensions
    for _ in range(rounds):
        before, level = state, noise.noise
        state = settle(problem, state, steps=5)
        diagonal, coupling, _ = problem.system()
        own, between = problem.plan.factor(diagonal, coupling).inverse()
        doubt = problem.doubt(own, between) / np.square(noise.spread)
        problem.true = noise.chances(doubt)
        noise.learn(problem.true, doubt)
        problem.deviations.learn(state[:, -1], own[:, -1, -1])
        if problem.relative is not None and problem.hub is not None:
            drift, variance = state[problem.hub, :-1], np.diagonal(own[problem.hub])[:-1]
            problem.relative.learn(problem.motion_doubt(own, between), np.square(drift) + variance)
        if problem.motion is not None:
            problem.motion.relax()
            problem.motion.measure_steps(state[:, :k])
        moved = np.abs(state - before)[:, :k].max()
        if moved < STILL * problem.reach and abs(noise.noise - level) < STILL * level:
            break
    return Refined(state, own[: problem.points, :k, :k], noise.noise, problem.true)


def sample(problem: Problem, starts: Iterable[Floats], rng: np.random.Generator, *, sweeps: int) -> Refined:
    """Return mean and covariance of states drawn by Gibbs sampling, with `sweeps` draws from each start."""
    noise, motion, deviations, k = problem.noise, problem.motion, problem.deviations, problem.dimensions
    if motion is None:
        raise ValueError("sampling needs points in order")
    skipped = int(SKIPPED * sweeps)
    origin = problem.state
    total, squared, chains = np.zeros_like(origin), np.zeros((problem.points, k, k)), 0
    inner, inners = np.zeros_like(squared), 0
    true, level = np.zeros(len(problem.ranges)), 0.0
    leading = led = np.zeros(0 if problem.relative is None else len(problem.relative.motions))
    initial = noise.noise, noise.false
    diagonal, coupling, _ = problem.system()
    spread = problem.plan.factor(diagonal, coupling)
    for start in starts:
        chains += 1
        mean, state = start, start + spread.draw(rng)
        noise.noise, noise.false = initial
        problem.look(mean)
        motion.reset()
        motion.measure_steps(start[:, :k])
        deviations.reset()
        for sweep in range(sweeps):
            problem.look_nearby(state)
            chances = noise.chances()
            problem.true = (rng.random(len(chances)) < chances).astype(np.float64)
            noise.learn(problem.true, 0.0, rng)
            deviations.learn(state[:, -1], 0.0, rng)
            motion.draw(state[:, :k], rng)
            if problem.relative is not None:
                leading = problem.draw_motions(state, rng)
            mean, factor = _advance(problem, mean)
            state = mean + factor.draw(rng)
            if sweep >= skipped:
                off = mean - origin
                total += off
                off = off[: problem.points]
                squared += off[:, :k, None] * off[:, None, :k]
                true += chances
                led = led + leading
                level += noise.noise
                if (sweep - skipped) % THINNED == 0:
                    inner += factor.inverse()[0][: problem.points, :k, :k]
                    inners += 1
    draws = chains * (sweeps - skipped)
    if problem.relative is not None:
        problem.relative.true = np.maximum(led / draws, SLIPPED**-2.0)
    mean = total / draws
    near = mean[: problem.points]
    between = squared / draws - near[:, :k, None] * near[:, None, :k]
    return Refined(origin + mean, inner / inners + between, level / draws, true / draws)


def _advance(problem: Problem, state: Floats) -> tuple[Floats, Factor | DissectedFactor]:
    """Return the state after one step, damped if needed, and the factor of the linear system of the step."""
    problem.look(state)
    value = problem.objective()
    diagonal, coupling, right = problem.system()
    factor = problem.plan.factor(diagonal, coupling)
    ahead = state + factor.solve(right)
    problem.look(ahead)
    return (ahead if problem.objective() <= value else settle(problem, state, steps=1)), factor
