"""Find groups of points that could as well lie on the other side of their neighbors.

A mirror is a line or, in space, a plane. In space, points can also make a half turn about a line. Mirroring one end of
a range changes the range little if either end is near the mirror. So a mirror splits the points into groups that stiff
ranges hold together. A group that no known position holds can change sides: this is a fold. Each promising fold is
fitted. A fold that fits better replaces the state. A fold that fits nearly as well must show in the covariances.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.refine import fit, settle

# Chosen in trials on 11 paths like those of studies/recovery/anchored_erratic.py, but not in its table.
MIRRORS, PRODUCTS = 1_000, 3_000_000  # tried at once, at most: mirrors, and mirrors times ranges
FAR = 4.0  # longest ranges: largest distance between points that define a mirror
STIFF = 6.0, 20.0  # spreads: a range that would change by more holds its ends together
FOLDED = 0.2  # largest squared change by the mirror, as a share of the change by the same displacement without a mirror
MOST_COST = 6.0  # largest cost of one changed range, because it may be false
PROMISING = 300.0  # cost before the fit above which a fold is not fitted
MOVED = 6.0  # median spreads: smallest displacement of a point that changes sides
TRIALS = 16  # folds that are fitted before the search stops, at most
REPLACED = 12  # times that a better fold replaces the state, at most
BETTER = 1.0  # decrease of the cost above which a fold replaces the state
UNLIKELY = 14.0  # excess cost above which a fold is impossible


@dataclass(frozen=True)
class Fold:
    """A fitted state (n, k + 1) in which some `points` are on their other side."""

    points: Ints
    state: Floats
    excess: float  # cost above that of the best state: the logarithm of the odds against the fold


def unfold(problem: Problem, state: Floats, rng: np.random.Generator) -> tuple[Floats, list[Fold]]:
    """Search folds for the state of lowest cost, and return it with other folds that cannot be excluded."""
    for _ in range(REPLACED):
        cost, true, tried = evidence(problem, state), problem.true, list[Fold]()
        for points, folded in _promising(problem, state, rng)[:TRIALS]:
            fold = Fold(points, _refit(problem, folded), evidence(problem) - cost)
            if fold.excess < -BETTER:
                state = fit(problem, fold.state, rounds=5).state
                break
            problem.true = true
            tried.append(fold)
        else:
            return state, distinct(problem, state, tried)
    return state, []


def evidence(problem: Problem, state: Floats | None = None) -> float:
    """Return the negative logarithm of the probability of all states near a fitted state, up to a constant."""
    if state is not None:
        problem.look(state)
    diagonal, coupling, _ = problem.system()
    return float(problem.costs().sum()) + problem.plan.factor(diagonal, coupling).log_determinant() / 2


def _refit(problem: Problem, state: Floats) -> Floats:
    for _ in range(3):
        state = settle(problem, state, steps=4)
        problem.true = problem.noise.chances()
    return settle(problem, state, steps=4)


def moved(problem: Problem, state: Floats, other: Floats) -> Bools:
    """Return True (n,) for points that lie elsewhere in the other state."""
    far: Bools = np.linalg.norm((other - state)[:, :-1], axis=1) > MOVED / 2 * float(np.median(problem.noise.spread))
    return far


def distinct(problem: Problem, state: Floats, tried: list[Fold]) -> list[Fold]:
    """Return the folds that are possible and move points, without duplicates, with the points that they move."""
    found: list[Fold] = []
    for fold in sorted(tried, key=lambda one: one.excess):
        others = [state, *(one.state for one in found)]
        if fold.excess < UNLIKELY and all(moved(problem, one, fold.state).any() for one in others):
            found.append(Fold(np.flatnonzero(moved(problem, state, fold.state)), fold.state, fold.excess))
    return found


def _promising(problem: Problem, state: Floats, rng: np.random.Generator) -> list[tuple[Ints, Floats]]:
    """Return groups of points that can change sides, and the states after the change; the lowest cost first."""
    problem.look(state)
    k, n, known = problem.dimensions, problem.count, problem.known
    trusted = problem.true > 0.5
    i, j, spread = problem.ranges.i[trusted], problem.ranges.j[trusted], problem.noise.spread[trusted]
    if not len(i):
        return []
    x = state[:, :k]
    through, across = _mirrors(x, i, j, rng, min(MIRRORS, PRODUCTS // len(i)), problem.reach * FAR)
    # The part of each position (n, mirrors, k) that changes sign.
    off = np.einsum("nma,mab->nmb", x[:, None] - through, across)
    apart = np.linalg.norm(x[i] - x[j], axis=1)[:, None]
    product = np.einsum("ema,ema->em", off[i], off[j])
    changed = np.abs(np.sqrt(np.maximum(np.square(apart) + 4 * product, 0.0)) - apart) / spread[:, None]
    height = np.linalg.norm(off, axis=2)
    pulled = 2 * height[known.points] / known.sigma[:, None]
    best: dict[bytes, tuple[float, Ints, int]] = {}
    for stiff in STIFF:
        labels = _groups(n, i, j, changed > stiff, known.points, pulled > stiff)
        count = int(labels.max()) + 1
        split = labels[i] != labels[j]
        costs, mirrored, moved = np.zeros(count), np.zeros(count), np.zeros(count)
        for own in (i, j):
            ends = labels[own][split]
            costs += np.bincount(ends, np.minimum(0.5 * np.square(changed[split]), MOST_COST), count)
            mirrored += np.bincount(ends, np.square(changed[split]), count)
            slope = 2 * (np.square(height[own]) - product) / apart / spread[:, None]
            moved += np.bincount(ends, np.square(slope[split]), count)
        anchors, squared = labels[known.points].ravel(), np.square(pulled).ravel()
        costs += np.bincount(anchors, 0.5 * squared, count)
        good = (costs < PROMISING) & (mirrored < FOLDED * moved)
        good[labels[n]] = False
        for mirror in np.flatnonzero(good[labels[:n]].any(axis=0)).tolist():
            own = labels[:n, mirror]
            far = 2 * height[:, mirror] > MOVED * np.median(spread)
            for group in np.unique(own[good[own]]).tolist():
                key = np.flatnonzero((own == group) & far).tobytes()
                if key and (key not in best or best[key][0] > costs[group]):
                    best[key] = float(costs[group]), np.flatnonzero(own == group), mirror
    found = []
    for _, points, mirror in sorted(best.values(), key=lambda one: one[0]):
        folded = state.copy()
        folded[points, :k] -= 2 * off[points, mirror]
        found.append((points, folded))
    return found


def _groups(n: int, i: Ints, j: Ints, stiff: Bools, known: Ints, held: Bools) -> Ints:
    """Return labels (n + 1, mirrors) of groups that stiff ranges connect; the last row labels what anchors hold."""
    mirrors = stiff.shape[1]
    edges, mirror = np.nonzero(stiff)
    anchors, holder = np.nonzero(held)
    rows = np.concatenate([i[edges] * mirrors + mirror, known[anchors] * mirrors + holder])
    columns = np.concatenate([j[edges] * mirrors + mirror, n * mirrors + holder])
    size = (n + 1) * mirrors
    links = csr_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(size, size))
    labels: Ints = connected_components(links, directed=False)[1].reshape(n + 1, mirrors)
    return labels


def _mirrors(x: Floats, i: Ints, j: Ints, rng: np.random.Generator, most: int, far: float) -> tuple[Floats, Floats]:
    """Return a point (mirrors, k) on each mirror, and projections (mirrors, k, k) onto what changes sign.

    Half of the mirrors pass through the ends of a range, and the others through any two points. In space, every second
    mirror is a plane through a third point. The others are lines, about which points make a half turn.
    """
    k = x.shape[1]
    ranges = np.stack([i, j], 1)[rng.permutation(len(i))[: most // 2]]
    points = np.concatenate([ranges, rng.integers(0, len(x), (most, 2))])
    begin, along = x[points[:, 0]], x[points[:, 1]] - x[points[:, 0]]
    length = np.linalg.norm(along, axis=1)
    good = np.flatnonzero((length > 1e-6) & (length < far))[:most]
    begin, along, points = begin[good], along[good] / length[good, None], points[good]
    across = np.eye(k) - along[:, :, None] * along[:, None, :]
    if k == 3:
        third = points[::2][rng.permutation(len(points[::2])), 1]
        aside = np.einsum("mab,mb->ma", across[::2], x[third] - begin[::2])
        aside /= np.maximum(np.linalg.norm(aside, axis=1), 1e-9)[:, None]
        across[::2] -= aside[:, :, None] * aside[:, None, :]
    return begin, across
