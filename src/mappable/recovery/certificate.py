"""A certificate: a lower bound on the cost of every map, so that "no method could do better" is a number.

A range r of weight w between points D apart satisfies, for every D > 0 and every distance |Δ|,

    w (|Δ| - r)² >= w (1 - r / D) |Δ|² + w r (r - D),

because 2 |Δ| <= |Δ|² / D + D. The right side is quadratic in the positions. So the sum over all ranges, plus the
squares of known positions and motions, is a quadratic function. If its matrix S is positive semidefinite, its minimum
is a bound for all maps. The best D are the distances at the optimum of the same problem in more dimensions, where
points have room to move apart. This is the dual of the semidefinite relaxation of range-aided SLAM. Newton's method
finds its optimum in 2, 4, 6 ... dimensions (the staircase). If S is positive semidefinite in two dimensions already,
the map is proven optimal.
"""

import time
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from mappable.errors import BadInputError
from mappable.recovery.anchored.elimination import SingularError
from mappable.recovery.graphs import Graph
from mappable.recovery.relaxation import Complexes, Lifted, Quadratic, as_complex, as_real

RANKS = 4  # most complex dimensions of the staircase
FIRST, REPAIRS = 1e-10, 40  # of the bisection: smallest change of r / D, and trials
TIGHT = 1e-6  # relative gap below which a map is proven optimal
AROUND = 3e-2  # metres: first step into a new dimension, relative to the mean range


@dataclass(frozen=True)
class Certificate:
    """A bound on the cost of all maps; costs are half sums of squared residuals, in sigmas."""

    cost: float  # of the least-squares fit next to the map, the best that is known
    bound: float  # no map has a lower cost
    given: float  # cost of the map itself, which may be a mean of samples or a robust fit
    rank: int  # dimensions of the staircase at its end; 2: the fit itself proves the bound
    seconds: float

    @property
    def gap(self) -> float:
        """Return the relative gap: the share of the cost that another map could save at most."""
        return max(self.cost - self.bound, 0.0) / max(self.cost, 1e-12)

    @property
    def optimal(self) -> bool:
        """Whether the least-squares fit is proven optimal."""
        return self.cost - self.bound <= TIGHT * max(self.cost, 1.0)

    def __str__(self) -> str:
        bound = f"no map has a misfit below {self.bound:.6g}"
        near = self.given - self.cost <= TIGHT * max(self.cost, 1.0)
        best = "this map" if near else "the least-squares fit next to it"
        own = "" if near else f"; this map has {self.given:.6g}"
        if self.optimal:
            return f"{bound}{own}, and {best} is proven optimal ({self.seconds:.1f} s)"
        saved = f"{self.cost:.6g}, so another map could save at most {100 * self.gap:.2g} %"
        return f"{bound}{own}, and {best} has {saved} ({self.seconds:.1f} s)"


def certify(graph: Graph) -> Certificate:
    """Bound the cost of all maps of a graph in 2-D from below; the positions of the graph should be an optimum."""
    if graph.positions.shape[1] != 2:
        raise BadInputError("a certificate needs a map in two dimensions")
    if graph.priors is not None or graph.fixed:
        raise BadInputError("a certificate needs known positions, not known poses")
    with threadpool_limits(1):  # the systems are too small for several threads
        return _certified(graph)


def _certified(graph: Graph) -> Certificate:
    begun = time.perf_counter()
    quadratic = Quadratic(graph)
    lifted = Lifted(quadratic)
    y = np.zeros((quadratic.count, 1), dtype=complex)
    y[: quadratic.points, 0] = graph.positions @ np.array([1, 1j])
    turning = np.flatnonzero(quadratic.node[:-1] >= 0)
    y[quadratic.node[turning], 0] = graph.frames[turning, 0, 0] + 1j * graph.frames[turning, 1, 0]
    given = lifted.cost(y)
    y = lifted.descend(y)
    best, bound, rank = max(lifted.cost(y), 0.0), 0.0, 1  # a sum of squares is below 0 by rounding only
    for rank in range(1, RANKS + 1):
        bound = min(max(bound, _bound(lifted, y)), best)  # above by rounding only
        if best - bound <= TIGHT * max(best, 1.0) or lifted.cost(y) - bound <= 1e-4 * max(best, 1.0) or rank == RANKS:
            break
        y = lifted.descend(np.column_stack([y, _way_out(lifted, y)]))
    return Certificate(best, bound, given, 2 * rank, time.perf_counter() - begun)


def _bound(lifted: Lifted, y: Complexes) -> float:
    """Return the bound of the distances at y, made a little longer until S is positive definite."""
    one = lifted.given
    distance = lifted.apart(y)[1]
    ratio = one.length / distance
    low, high, best = 0.0, None, -np.inf
    extra, share = FIRST, np.minimum(float(np.median(one.weight)) / one.weight, 1.0)
    for _ in range(REPAIRS):
        shorter = ratio - extra * share  # r / D'
        if (shorter <= 0).any():
            break
        longer = one.length / shorter
        diagonal, coupling, _ = lifted.system(y, stress=one.weight * (1 - shorter))
        try:
            factor = lifted.plan(2).factor(diagonal, coupling)
        except SingularError:
            low, extra = extra, extra * 10 if high is None else np.sqrt(extra * high)
            continue
        solved = as_complex(factor.solve(as_real(one.pull[:, None])))[:, 0]
        slack = float((one.weight * one.length) @ (one.length - longer))
        best = max(best, 0.5 * (one.constant - float((one.pull.conj() @ solved).real) + slack))
        high = extra
        if extra <= FIRST or high < 1.2 * low:
            break
        extra = np.sqrt(max(low, FIRST) * high)
    return best


def _way_out(lifted: Lifted, y: Complexes) -> Complexes:
    """Return a direction (nodes,) in which S is most negative, as coordinates in a new dimension."""
    one = lifted.given
    distance = lifted.apart(y)[1]
    diagonal, coupling, _ = lifted.system(y, stress=one.weight * (1 - one.length / distance))
    shift = float(np.median(one.weight)) * 1e-3
    plan = lifted.plan(2)
    while True:
        try:
            factor = plan.factor(diagonal + shift * np.eye(2), coupling)
            break
        except SingularError:
            shift *= 2
    found = np.random.default_rng(0).standard_normal((one.count, 2))
    for _ in range(30):
        found = factor.solve(found)
        found /= np.linalg.norm(found)
    way: Complexes = AROUND * float(one.length.mean()) * np.sqrt(one.count) * as_complex(found)[:, 0]
    return way
