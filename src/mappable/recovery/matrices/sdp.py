"""The paper's completion of a masked distance matrix: a semidefinite program over the Gram matrix.

With points as rows of X, G = X Xᵀ is their Gram matrix. Squared distances K(G)_ij = G_ii - 2 G_ij +
G_jj are linear in G. The program keeps the constraint G ⪰ 0. It drops the rank of G, which is the
dimension of the points, because a rank constraint is not convex. Distances do not determine the
origin: it is the center of all points, G 1 = 0, as in the paper.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError, MappableError
from mappable.recovery.align import align
from mappable.recovery.hints import Anchors, check_points
from mappable.recovery.matrices.interior_point import Solution, UnboundedError, solve
from mappable.recovery.matrices.mask import observed
from mappable.recovery.mds import classical_mds
from mappable.recovery.ranges import Ranges, check_square

LIMIT = 300  # points
MAX_PAIRS = 6000  # pairs that a mask may keep: memory grows with the square of their number
# Largest duality gap of a solution, relative to the objective or to 1, whichever is larger.
CONVERGED = 1e-4
DOUBLINGS = 10  # number of times that kappa is doubled, at most
MAX_KAPPA = 1e12
# Times the trace of the shortest paths: with a larger trace, kappa does not hold the points.
FLOWN_APART = 100.0
# Of the misfit of distances between known points: these are met nearly exactly.
KNOWN_WEIGHT = 100.0
# Smallest trace of the shortest paths, in units of the largest squared distance (ranges may be 0)
LEAST_TRACE = 0.5


class NotConvergedError(MappableError):
    """Raised if a program stops before it reaches the required accuracy."""


@dataclass(frozen=True)
class Completed:
    """All squared distances, in the unit of the observed ones, and the points with these distances."""

    squared_distances: Floats  # (n, n)
    positions: Floats  # (n, k), centered at the origin, or in the coordinates of known points
    gap: float  # relative duality gap


def geodesics(ranges: Ranges) -> Floats:
    """Return the squared lengths (n, n) of the shortest paths along connected ranges."""
    squared: Floats = np.square(dijkstra(ranges.graph, directed=False))
    return (squared + squared.T) / 2


def sdp_frobenius(
    squared_distances: Floats, mask: Bools, dimensions: int, *, known: Anchors | None = None
) -> Completed:
    """The paper's problem: minimize ||M ∘ (D - K(G))||_F² subject to G ⪰ 0 and G 1 = 0.

    This function reproduces the paper. It takes at most 300 points and 6,000 pairs. It raises
    NotConvergedError if the relative duality gap stays above 1e-4.

    If the mask leaves out many pairs, many G fit equally well, and their points lie in more
    dimensions than requested. The result is then in the middle of the solutions, because that is
    where an interior-point method ends.

    Positions of `known` points constrain their entries of the Gram matrix, as the paper proposes.
    The result is then in their coordinates.
    """
    problem = _Problem(squared_distances, mask, dimensions, known)
    return problem.completed(problem.solve(None))


def sdp_trace(
    squared_distances: Floats,
    mask: Bools,
    dimensions: int,
    *,
    kappa: float | None = None,
    known: Anchors | None = None,
) -> Completed:
    """The tighter, Lagrangian form: maximize tr(H) - κ ||M ∘ (K(V H Vᵀ) - D)||_F subject to H ⪰ 0.

    V is an orthonormal basis of the centered vectors, so V H Vᵀ is a G with G 1 = 0, and tr(H) =
    tr(G). The points move apart as far as the distances allow, which unfolds them into few
    dimensions (Dokmanic et al., "Euclidean Distance Matrices", 2015). Limits are those of
    `sdp_frobenius`.

    If `kappa` is too small, nothing holds the points together. By default it is 2 tr(G') / ||M ∘
    D||_F with the Gram matrix G' of the shortest paths, doubled while that is too small. This
    default suits noisy distances along a route. To meet exact distances exactly, kappa must be
    about ten times as large.
    """
    if kappa is not None and not 0.0 < kappa <= MAX_KAPPA:
        raise BadInputError(f"kappa must be above 0 and at most {MAX_KAPPA:g}, got {kappa:g}")
    problem = _Problem(squared_distances, mask, dimensions, known)
    weight = 2.0 * problem.geodesic_trace / problem.norm if kappa is None else kappa
    for _ in range(DOUBLINGS if kappa is None else 1):
        try:
            found = problem.solve(float(np.sqrt(2.0)) * weight)
            if kappa is not None or np.trace(found.gram) <= FLOWN_APART * problem.geodesic_trace:
                return problem.completed(found)
        except UnboundedError:
            pass
        weight *= 2.0
    raise BadInputError(
        f"kappa {weight / 2.0:g} is too small to hold the points together: use a larger kappa"
    )


class _Problem:
    """Shared by both forms: the observed pairs in a unit that suits the solver, and the conversion
    back.
    """

    def __init__(
        self, squared_distances: Floats, mask: Bools, dimensions: int, known: Anchors | None
    ) -> None:
        squared, kept = np.array(squared_distances, dtype=np.float64), np.array(mask, dtype=bool)
        check_square(squared, "matrix of distances")
        if kept.shape != squared.shape:
            raise BadInputError(
                f"the mask has shape {kept.shape}, but the matrix of distances {squared.shape}"
            )
        self.known = known
        if known is not None:
            _check_known(known, len(squared), dimensions)
            corner = np.ix_(known.points, known.points)
            squared[corner], kept[corner] = (
                cdist(known.positions, known.positions, "sqeuclidean"),
                True,
            )
        instead = (
            "use fewer points, or mappable.recover, the default method, which takes any number"
        )
        if len(squared) > LIMIT:
            raise BadInputError(
                f"the semidefinite program takes at most {LIMIT} points, got {len(squared):,}:"
                f" {instead}"
            )
        self.dimensions, self.ranges = dimensions, observed(squared, kept, dimensions)
        if len(self.ranges) > MAX_PAIRS:
            raise BadInputError(
                f"the semidefinite program takes at most {MAX_PAIRS:,} pairs, but the mask keeps"
                f" {len(self.ranges):,}: {instead}"
            )
        # In this unit the largest squared distance is 1.
        self.unit = float(self.ranges.metres.max() ** 2)
        self.wanted: Floats = np.square(self.ranges.metres) / self.unit
        self.weights = np.ones(len(self.wanted))
        if known is not None:
            both = np.isin(self.ranges.i, known.points) & np.isin(self.ranges.j, known.points)
            self.weights[both] = KNOWN_WEIGHT
        self.norm = float(
            np.sqrt(2.0) * np.linalg.norm(self.wanted[self.weights == 1.0])
        )  # ||M ∘ D||_F: the matrix has each pair twice
        shortest = float(geodesics(self.ranges).sum()) / (2.0 * self.ranges.count) / self.unit
        self.geodesic_trace = max(shortest, LEAST_TRACE)

    def solve(self, radius: float | None) -> Solution:
        found = solve(
            self.ranges, self.wanted, self.geodesic_trace / self.ranges.count, radius, self.weights
        )
        if not found.gap <= CONVERGED:
            raise NotConvergedError(
                f"the semidefinite program did not converge: its relative gap is {found.gap:.1g},"
                f" expected at most {CONVERGED:g}"
            )
        return found

    def completed(self, found: Solution) -> Completed:
        """Return all squared distances, and the points, in the original unit."""
        gram: Floats = self.unit * found.gram
        squared = np.maximum(np.diag(gram)[:, None] - 2.0 * gram + np.diag(gram), 0.0)
        np.fill_diagonal(squared, 0.0)
        positions = classical_mds(squared, self.dimensions)
        if self.known is not None:
            positions = align(positions[self.known.points], self.known.positions, scale=False)(
                positions
            )
        return Completed(squared, positions, found.gap)


def _check_known(known: Anchors, count: int, dimensions: int) -> None:
    if known.positions.shape[1] != dimensions:
        raise BadInputError(
            f"known positions have {known.positions.shape[1]} dimensions, expected {dimensions}"
        )
    check_points("a known position", known.points, count)
    if len(known) >= count:
        raise BadInputError("all points are known: there is nothing to complete")
