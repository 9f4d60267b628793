"""Positions from ranges and known positions alone, without a model of motion: the best fit, and folds of it."""

from collections.abc import Callable, Sequence

import numpy as np

from mappable.arrays import Floats
from mappable.recovery.anchored.folds import Fold, evidence, moved, unfold
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.refine import Refined, fit

OVERRULED = (
    2.0  # times the cost that a fit of every coordinate explains: chosen on seeds 200 to 205, see docs/recover.md
)
DOUBTFUL = 1.1  # noise, in stated spreads, above which a second start is tried
FINAL = 3  # rounds of the last fit


def overrules(problem: Problem, refined: Refined, loose: Problem) -> bool:
    """Whether the motion model of a fitted problem contradicts the ranges.

    `loose` is the same problem without motion. A fit of it may follow the noise: that explains half a unit of cost per
    coordinate. If the ranges cost far more with the motion model than without, the path does not move like that.
    """
    fitted = fit(loose, refined.state, rounds=8)
    loose.look(refined.state)
    cost = float(loose.noise.costs().sum())
    loose.look(fitted.state)
    excess = cost - float(loose.noise.costs().sum())
    return excess > OVERRULED * problem.count * problem.dimensions / 2


def place(
    pose: Callable[[Floats], Problem], starts: Sequence[Floats], rng: np.random.Generator
) -> tuple[Refined, list[Fold]]:
    """The best fit from several starts (n, k), with covariances that cover its folds, and these folds.

    `pose` makes a problem of a start.
    """
    begun = []
    for start in starts:
        problem = pose(start)
        begun.append((problem, fit(problem, problem.state)))
    begun.sort(key=lambda one: float(one[0].costs().sum()))
    found: list[tuple[float, Problem, Floats, list[Fold]]] = []
    for problem, refined in begun:
        state, folds = unfold(problem, refined.state, rng)
        found.append((evidence(problem, state), problem, state, folds))
        if problem.noise.noise < DOUBTFUL:
            break
    _, problem, state, folds = min(found, key=lambda one: one[0])
    refined = fit(problem, state, rounds=FINAL)
    covariances = refined.covariances + _spread(problem, state, folds)
    return Refined(refined.state, covariances, refined.noise, refined.true), folds


def _spread(problem: Problem, state: Floats, folds: Sequence[Fold]) -> Floats:
    """Mean squares (n, k, k) of what folds move the points by, weighted by their odds."""
    k = problem.dimensions
    total = np.zeros((problem.count, k, k))
    odds = [np.exp(-fold.excess) * moved(problem, state, fold.state) for fold in folds]
    for fold, odd in zip(folds, odds, strict=True):
        off = (fold.state - state)[:, :k]
        total += (odd / (1 + np.sum(odds, axis=0)))[:, None, None] * off[:, :, None] * off[:, None, :]
    return total
