"""Place points by ranges and known positions alone, without a motion model: the best fit, and its folds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from mappable.arrays import Floats
from mappable.recovery.anchored.folds import Fold, distinct, evidence, moved, unfold
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.refine import Refined, fit

# Chosen in trials on paths with turns of 0.2 to 1 radian, and on drives of studies/recovery, seeds 300 and
# 301. The paths are like those of studies/recovery/anchored_erratic.py, but not in its table.
OVERRULED = 1.5  # times the cost that noise explains: a motion model that costs more contradicts the ranges
SURE = 0.1  # of a step: ranges alone place the points if the median standard deviation of a coordinate is below
DOUBTFUL = 1.1  # noise, in stated spreads, above which another start is tried
DOUBTED = 0.002  # share of ranges treated as false above which another start is tried
HOPELESS = 300.0  # excess cost over a good fit above which a start is not searched for folds
MANY = 1_000  # points above which the model is tested with fewer rounds
FINAL = 3  # rounds of the last fit


def overrules(problem: Problem, refined: Refined, loose: Problem) -> bool:
    """Return True if the motion model of a fitted problem contradicts ranges that place the points without it.

    `loose` is the same problem without motion. Its fit follows the noise of the ranges, which lowers their cost by half
    a unit per coordinate. A much larger decrease means that the path does not move as the model says.
    """
    if problem.motion is None:
        return False
    fitted = fit(loose, refined.state, rounds=8 if problem.count <= MANY else 2)
    costs = []
    for state in (refined.state, fitted.state):
        loose.look(state)
        costs.append(float(loose.noise.costs().sum()))
    deviation = float(np.sqrt(np.median(np.trace(fitted.covariances, axis1=1, axis2=2)) / problem.dimensions))
    contradicted = costs[0] - costs[1] > OVERRULED * problem.count * problem.dimensions / 2
    return contradicted and deviation < SURE * problem.motion.step


def place(
    pose: Callable[[Floats], Problem],
    starts: Sequence[Floats],
    rng: np.random.Generator,
    further: Iterable[Floats] = (),
) -> tuple[Refined, list[Fold], bool]:
    """Find the best fit from several starts (n, k); return it, its folds, and whether it is doubtful.

    The covariances of the fit cover its folds. `pose` makes a problem from a start. If the best fit is doubtful,
    `further` starts are tried until one leads to the same fit again.
    """
    begun = [_begin(pose(start)) for start in starts]
    begun.sort(key=lambda one: float(one[0].costs().sum()))
    found: list[_Found] = []
    seen: list[Floats] = []
    for number, (problem, refined) in enumerate(chain(begun, (_begin(pose(start)) for start in further))):
        state = refined.state
        if all(moved(problem, one, state).any() for one in seen):
            if found and not doubtful(found[0].problem) and evidence(problem, state) > found[0].cost + HOPELESS:
                break
            state, folds = unfold(problem, refined.state, rng)
            again = bool(found) and not moved(problem, found[0].state, state).any()
            seen += [refined.state, state]
            found.append(_Found(evidence(problem, state), problem, state, folds))
            found.sort(key=lambda one: one.cost)
        else:
            again = number >= len(begun) and not moved(problem, found[0].state, state).any()
        if number >= len(begun) - 1 and (again or not doubtful(found[0].problem)):
            break
    best = found[0]
    # If the best fit is good, a doubtful fit may be a saddle point, not another map.
    others = [one for one in found[1:] if doubtful(best.problem) or not doubtful(one.problem)]
    folds = distinct(best.problem, best.state, [*best.folds, *(one.as_fold(best.cost) for one in others)])
    refined = fit(best.problem, best.state, rounds=FINAL)
    covariances = refined.covariances + _spread(best.problem, best.state, folds)
    return Refined(refined.state, covariances, refined.noise, refined.true), folds, doubtful(best.problem)


@dataclass(frozen=True)
class _Found:
    cost: float
    problem: Problem
    state: Floats
    folds: list[Fold]

    def as_fold(self, least: float) -> Fold:
        return Fold(np.arange(len(self.state)), self.state, self.cost - least)


def doubtful(problem: Problem) -> bool:
    """Return True if ranges fit worse than their stated noise explains."""
    return problem.noise.noise > DOUBTFUL or (problem.true < 0.5).sum() > DOUBTED * len(problem.true)


def _begin(problem: Problem) -> tuple[Problem, Refined]:
    return problem, fit(problem, problem.state)


def _spread(problem: Problem, state: Floats, folds: Sequence[Fold]) -> Floats:
    """Return the mean squares (n, k, k) of displacements by folds, weighted by the odds of the folds."""
    k = problem.dimensions
    total = np.zeros((problem.count, k, k))
    odds = [np.exp(-fold.excess) * moved(problem, state, fold.state) for fold in folds]
    for fold, odd in zip(folds, odds, strict=True):
        off = (fold.state - state)[:, :k]
        total += (odd / (1 + np.sum(odds, axis=0)))[:, None, None] * off[:, :, None] * off[:, None, :]
    return total
