"""The paper's completion of a masked distance matrix: a semidefinite program over the Gram matrix.

With points as rows of X, G = X Xᵀ is their Gram matrix. Squared distances K(G)_ij = G_ii - 2 G_ij + G_jj are linear in
G. The constraint G ⪰ 0 stays; the rank of G, which is the dimension of the points, is not convex and is left out.
Distances do not determine the origin: it is the center of all points, G 1 = 0, as in the paper.
"""

import numpy as np

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError
from mappable.recovery.matrices.completion import Completed, NotConvergedError, geodesics
from mappable.recovery.matrices.interior_point import Solution, UnboundedError, solve
from mappable.recovery.matrices.mask import check_square, observed
from mappable.recovery.unanchored.mds import classical_mds

LIMIT = 300  # points
PAIRS = 6000  # that a mask may keep: memory grows with their square
CONVERGED = 1e-4  # the largest gap of a solution, relative to the objective or, if that is smaller, to 1 in this unit
DOUBLINGS = 10  # of kappa, at most
LARGEST = 1e12  # kappa
FLOWN_APART = 100.0  # times the trace of the shortest paths: kappa hardly holds the points together
LEAST = 0.5  # trace of the shortest paths, in the unit of the largest squared distance: ranges of 0 shorten them


def sdp_frobenius(squared_distances: Floats, mask: Bools, dimensions: int) -> Completed:
    """The paper's problem: minimize ||M ∘ (D - K(G))||_F² subject to G ⪰ 0 and G 1 = 0.

    If the mask leaves out many pairs, many G fit equally well, and their points lie in more dimensions than asked for.
    The one that comes back is in the middle of them, where an interior-point method ends. This function is here to
    reproduce the paper. It takes at most 300 points and 6,000 pairs, and raises NotConvergedError if the
    relative duality gap stays above 1e-4.
    """
    problem = _Problem(squared_distances, mask, dimensions)
    return problem.completed(problem.solve(None))


def sdp_trace(squared_distances: Floats, mask: Bools, dimensions: int, *, kappa: float | None = None) -> Completed:
    """The tighter, Lagrangian form: maximize tr(H) - κ ||M ∘ (K(V H Vᵀ) - D)||_F subject to H ⪰ 0.

    V is an orthonormal basis of the centered vectors, so that V H Vᵀ is a G with G 1 = 0, and tr(H) = tr(G). The points
    move apart as far as the distances allow, which unfolds them into few dimensions (Dokmanic et al., "Euclidean
    Distance Matrices", 2015). If `kappa` is too small, nothing holds them together. By default it is
    2 tr(G') / ||M ∘ D||_F with the Gram matrix G' of the shortest paths, doubled while that is too small. This suits
    noisy distances along a route; exact distances are met exactly only with about ten times as much. For the rest see
    `sdp_frobenius`.
    """
    if kappa is not None and not 0.0 < kappa <= LARGEST:
        raise BadInputError(f"kappa must be above 0 and at most {LARGEST:g}, got {kappa:g}")
    problem = _Problem(squared_distances, mask, dimensions)
    weight = 2.0 * problem.geodesic_trace / problem.norm if kappa is None else kappa
    for _ in range(DOUBLINGS if kappa is None else 1):
        try:
            found = problem.solve(float(np.sqrt(2.0)) * weight)
            if kappa is not None or np.trace(found.gram) <= FLOWN_APART * problem.geodesic_trace:
                return problem.completed(found)
        except UnboundedError:
            pass
        weight *= 2.0
    raise BadInputError(f"kappa is too small to hold the points together: {weight / 2.0:g}; use a larger one")


class _Problem:
    """What both forms share: the observed pairs in a unit that suits the solver, and the way back from it."""

    def __init__(self, squared_distances: Floats, mask: Bools, dimensions: int) -> None:
        squared, kept = np.array(squared_distances, dtype=np.float64), np.array(mask, dtype=bool)
        check_square(squared, "matrix of distances")
        if kept.shape != squared.shape:
            raise BadInputError(f"the mask is {kept.shape}, but the matrix of distances {squared.shape}")
        instead = "use mappable.recover, the default method, which takes any number, or fewer points"
        if len(squared) > LIMIT:
            raise BadInputError(
                f"the semidefinite program takes at most {LIMIT} points, got {len(squared):,}: {instead}"
            )
        self.dimensions, self.ranges = dimensions, observed(squared, kept, dimensions)
        if len(self.ranges) > PAIRS:
            raise BadInputError(
                f"the semidefinite program takes at most {PAIRS:,} pairs, but the mask keeps {len(self.ranges):,}: "
                f"{instead}"
            )
        self.unit = float(self.ranges.metres.max() ** 2)  # the largest squared distance is 1 in it
        self.wanted: Floats = np.square(self.ranges.metres) / self.unit
        self.norm = float(np.sqrt(2.0) * np.linalg.norm(self.wanted))  # of the matrix, which has each pair twice
        shortest = float(geodesics(self.ranges).sum()) / (2.0 * self.ranges.count) / self.unit
        self.geodesic_trace = max(shortest, LEAST)

    def solve(self, radius: float | None) -> Solution:
        found = solve(self.ranges, self.wanted, self.geodesic_trace / self.ranges.count, radius)
        if not found.gap <= CONVERGED:
            raise NotConvergedError(
                f"the semidefinite program did not converge: its relative gap is {found.gap:.1g}, not {CONVERGED:g}"
            )
        return found

    def completed(self, found: Solution) -> Completed:
        """All squared distances and the points."""
        gram: Floats = self.unit * found.gram
        squared = np.maximum(np.diag(gram)[:, None] - 2.0 * gram + np.diag(gram), 0.0)
        np.fill_diagonal(squared, 0.0)
        return Completed(squared, classical_mds(squared, self.dimensions), found.gap)
