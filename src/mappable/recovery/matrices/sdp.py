"""The paper's completion of a masked distance matrix: a semidefinite program over the Gram matrix.

With points as rows of X, G = X Xᵀ is their Gram matrix and K(G)_ij = G_ii - 2 G_ij + G_jj their squared distances,
which are linear in G. That G comes from points at all (G ⪰ 0) is kept; that these have k dimensions (its rank) is not
convex and left out.

Distances do not tell where the origin is. It is put into the centre of all points, G 1 = 0, as the paper does.
"""

import warnings
from typing import Any

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError, MappableError
from mappable.recovery.matrices.completion import Completed, geodesics
from mappable.recovery.matrices.mask import check_square, observed
from mappable.recovery.unanchored.mds import classical_mds

LIMIT = 150  # points
ITERATIONS = 20_000
TOLERANCE = 1e-5
DOUBLINGS = 10  # of kappa, at most
FLOWN_APART = 100.0  # times the trace of the shortest paths, which no points that keep to their distances exceed


def sdp_frobenius(
    squared_distances: Floats,
    mask: Bools,
    dimensions: int,
    *,
    limit: int = LIMIT,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Completed:
    """The paper's problem: minimise ||M ∘ (D - K(G))||_F² subject to G ⪰ 0 and G 1 = 0.

    Where the mask leaves out much, many G fit equally well, and most of them crumple the points into many dimensions:
    this is here to reproduce the paper. More points than `limit` are refused: time grows with n³ per step of the
    solver (SCS), which takes thousands, `iterations` at most.
    """
    problem = _Problem(squared_distances, mask, dimensions, limit)
    if not problem.solve(-problem.cvxpy.sum_squares(problem.misfits), iterations, tolerance):
        raise MappableError("the solver of the semidefinite program found no solution")
    return problem.completed()


def sdp_trace(
    squared_distances: Floats,
    mask: Bools,
    dimensions: int,
    *,
    kappa: float | None = None,
    limit: int = LIMIT,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Completed:
    """The tighter, Lagrangian form: maximise tr(H) - κ ||M ∘ (K(V H Vᵀ) - D)||_F subject to H ⪰ 0.

    V is an orthonormal basis of all that is centred, so that V H Vᵀ is a G with G 1 = 0, and tr(H) = tr(G): points are
    drawn apart as far as the distances allow, which unfolds them into few dimensions (Dokmanic et al., "Euclidean
    Distance Matrices", 2015). Nothing holds them together unless `kappa` is large enough. Where it is not given it is
    2 tr(G') / ||M ∘ D||_F with the Gram matrix G' of the shortest paths, and twice as much as often as that is too
    little. This suits noisy distances along a route; exact ones are met exactly only with about ten times as much. For
    the rest see `sdp_frobenius`.
    """
    if kappa is not None and not 0.0 < kappa < np.inf:
        raise BadInputError(f"kappa is {kappa:g}, but must be above 0")
    problem = _Problem(squared_distances, mask, dimensions, limit)
    weight = 2.0 * problem.geodesic_trace / problem.norm if kappa is None else kappa
    misfit = problem.cvxpy.norm(problem.misfits)
    for _ in range(DOUBLINGS if kappa is None else 1):
        if problem.solve(problem.trace - weight * misfit, iterations, tolerance):
            return problem.completed()
        weight *= 2.0
    raise BadInputError(
        f"kappa is {weight / 2.0:g}, which is too little to hold the points together; take a larger one"
    )


class _Problem:
    """What both forms share: the unknown matrix, its misfits to the observed distances, and the way to a solution."""

    def __init__(self, squared_distances: Floats, mask: Bools, dimensions: int, limit: int) -> None:
        self.cvxpy = _cvxpy()
        squared, kept = np.array(squared_distances, dtype=np.float64), np.array(mask, dtype=bool)
        check_square(squared, "matrix of distances")
        if kept.shape != squared.shape:
            raise BadInputError(f"the mask is {kept.shape}, but the matrix of distances {squared.shape}")
        if len(squared) > limit:
            raise BadInputError(
                f"the semidefinite program is for at most {limit} points, not {len(squared):,}: "
                "use mappable.recover, the default method, which takes any number, or fewer of the points"
            )
        self.dimensions = dimensions
        ranges = observed(squared, kept, dimensions)
        self.unit = float(ranges.metres.max() ** 2)  # in it the largest is 1, which suits the solver
        wanted = np.square(ranges.metres) / self.unit
        self.norm = float(np.sqrt(2.0) * np.linalg.norm(wanted))  # of the matrix, which has each pair twice
        self.geodesic_trace = float(geodesics(ranges).sum() / (2.0 * ranges.count) / self.unit)
        self._set_up(ranges.i, ranges.j, wanted, ranges.count)

    def _set_up(self, i: Ints, j: Ints, wanted: Floats, count: int) -> None:
        cvxpy = self.cvxpy
        self.gram = cvxpy.Variable((count, count), PSD=True)
        self.constraints = [cvxpy.sum(self.gram, axis=0) == 0]
        self.trace = cvxpy.trace(self.gram)
        diagonal, entries = cvxpy.diag(self.gram), cvxpy.vec(self.gram, order="C")
        squared = diagonal[i] - 2 * entries[i * count + j] + diagonal[j]
        self.misfits = np.sqrt(2.0) * (squared - wanted)

    def solve(self, gain: Any, iterations: int, tolerance: float) -> bool:
        """Find the matrix of the greatest gain; False if there is none, as the points fly apart."""
        problem = self.cvxpy.Problem(self.cvxpy.Maximize(gain), self.constraints)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what `converged` says
            try:
                problem.solve(solver=self.cvxpy.SCS, max_iters=iterations, eps_abs=tolerance, eps_rel=tolerance)
            except self.cvxpy.SolverError:
                return False
        self.converged = problem.status == self.cvxpy.OPTIMAL
        found = problem.status in (self.cvxpy.OPTIMAL, self.cvxpy.OPTIMAL_INACCURATE)
        return found and self.trace.value <= FLOWN_APART * self.geodesic_trace

    def completed(self) -> Completed:
        gram: Floats = self.unit * self.gram.value
        squared = np.maximum(np.diag(gram)[:, None] - (gram + gram.T) + np.diag(gram), 0.0)
        np.fill_diagonal(squared, 0.0)
        return Completed(squared, classical_mds(squared, self.dimensions), self.converged)


def _cvxpy() -> Any:
    try:
        import cvxpy
        import scs  # noqa: F401
    except ImportError:
        raise BadInputError(
            "the semidefinite program needs cvxpy and scs; install them with: pip install 'mappable[sdp]'"
        ) from None
    return cvxpy
