"""The paper's way to complete a masked matrix of squared distances: a semidefinite program over the Gram matrix.

With points as rows of X, G = X Xᵀ is their Gram matrix and K(G)_ij = G_ii - 2 G_ij + G_jj their squared distances,
which are linear in G. That G comes from points at all (G ⪰ 0) is kept; that these have k dimensions (its rank) is not
convex and left out.

Distances do not tell where the origin is. It is put into the centre of all points, G 1 = 0, as the paper does. Where
some points are known, it is put into *their* centre, so that all entries of G between known points are known numbers:
the products C Cᵀ of their coordinates C about it. A matrix G ⪰ 0 with this corner has the form B Z Bᵀ, where B has
the rows of C for the known points and unit vectors for the others, Z ⪰ 0, and the corner of Z is the identity. Z is
smaller than G and found in fewer steps, so that it is what is solved for.
"""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError, MappableError
from mappable.recovery.align import align
from mappable.recovery.matrices.completion import Completed, geodesics, squared_distances_of
from mappable.recovery.matrices.mask import check_square, observed
from mappable.recovery.unanchored.mds import classical_mds

if TYPE_CHECKING:
    from mappable.recovery.hints import Anchors

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
    known: "Anchors | None" = None,
    limit: int = LIMIT,
    iterations: int = ITERATIONS,
    tolerance: float = TOLERANCE,
) -> Completed:
    """The paper's problem: minimise ||M ∘ (D - K(G))||_F² subject to G ⪰ 0 and G 1 = 0.

    Where the mask leaves out much, many G fit equally well, and most of them crumple the points into many dimensions:
    this is here to reproduce the paper. Positions of `known` points are taken as exact, whatever their sigma, and in
    the unit of the distances; the result is then in their coordinates, though perhaps mirrored if they are fewer than
    k + 1 or all on a line (in 3-D: in a plane). More points than `limit` are refused: time grows with n³ a step of the
    solver (SCS), which takes thousands, `iterations` at most.
    """
    problem = _Problem(squared_distances, mask, dimensions, known, limit)
    if not problem.solve(-problem.cvxpy.sum_squares(problem.misfits), iterations, tolerance):
        raise MappableError("the solver of the semidefinite program found no solution")
    return problem.completed()


def sdp_trace(
    squared_distances: Floats,
    mask: Bools,
    dimensions: int,
    *,
    kappa: float | None = None,
    known: "Anchors | None" = None,
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
    problem = _Problem(squared_distances, mask, dimensions, known, limit)
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

    def __init__(
        self, squared_distances: Floats, mask: Bools, dimensions: int, known: "Anchors | None", limit: int
    ) -> None:
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
        self.dimensions, self.known = dimensions, known
        is_known = np.zeros(len(squared), dtype=bool)
        if known is not None:
            _check_known(known, len(squared), dimensions)
            is_known[known.points] = True
            corner = np.ix_(known.points, known.points)
            squared[corner], kept[corner] = squared_distances_of(known.positions), True
        ranges = observed(squared, kept, dimensions)
        pairs = ranges.where(~(is_known[ranges.i] & is_known[ranges.j]))  # the others have no misfit
        if not len(pairs):
            raise BadInputError("all points are known: there is nothing to complete")
        largest = pairs.metres.max() or ranges.metres.max()
        self.unit = float(largest**2)  # in it the largest is 1, which suits the solver
        wanted = np.square(pairs.metres) / self.unit
        self.norm = float(np.sqrt(2.0) * np.linalg.norm(wanted)) or 1.0  # of the matrix, which has each pair twice
        self.geodesic_trace = float(geodesics(ranges).sum() / (2.0 * ranges.count) / self.unit)
        self._set_up(pairs.i, pairs.j, wanted, ranges.count)

    def _set_up(self, i: Ints, j: Ints, wanted: Floats, count: int) -> None:
        cvxpy = self.cvxpy
        if self.known is None:
            self.gram = cvxpy.Variable((count, count), PSD=True)
            self.constraints = [cvxpy.sum(self.gram, axis=0) == 0]
            self.trace = cvxpy.trace(self.gram)
        else:
            basis, rank = _basis(self.known, count, np.sqrt(self.unit))
            unknown = cvxpy.Variable((basis.shape[1], basis.shape[1]), PSD=True)
            self.constraints = [unknown[:rank, :rank] == np.eye(rank)] if rank else []
            self.gram = basis @ unknown @ basis.T
            self.trace = cvxpy.trace(self.gram) - cvxpy.sum(self.gram) / count  # about the centre of all points
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
        points = classical_mds(squared, self.dimensions)
        if self.known is not None:
            points = align(points[self.known.points], self.known.positions, scale=False)(points)
        return Completed(squared, points, self.converged)


def _basis(known: "Anchors", count: int, unit: float) -> tuple[csr_array, int]:
    """The rows of B, and how many of its columns are coordinates: fewer than k for known points on a line."""
    centred = (known.positions - known.positions.mean(0)) / unit
    left, strengths, _ = np.linalg.svd(centred, full_matrices=False)
    rank = int((strengths > 1e-9 * max(strengths[0], 1.0)).sum())
    others = np.setdiff1d(np.arange(count), known.points)
    basis = np.zeros((count, rank + len(others)))
    basis[known.points, :rank] = left[:, :rank] * strengths[:rank]
    basis[others, rank + np.arange(len(others))] = 1.0
    return csr_array(basis), rank


def _check_known(known: "Anchors", count: int, dimensions: int) -> None:
    points = np.asarray(known.points)
    if known.positions.shape != (len(points), dimensions) or not np.isfinite(known.positions).all():
        raise BadInputError(
            f"known positions are {known.positions.shape}, but should be numbers {(len(points), dimensions)}"
        )
    if not len(points) or points.min() < 0 or points.max() >= count or len(np.unique(points)) < len(points):
        raise BadInputError(f"known points have different numbers from 0 to {count - 1}, not {points.tolist()}")


def _cvxpy() -> Any:
    try:
        import cvxpy
        import scs  # noqa: F401
    except ImportError:
        raise BadInputError(
            "the semidefinite program needs cvxpy and scs; install them with: pip install 'mappable[sdp]'"
        ) from None
    return cvxpy
