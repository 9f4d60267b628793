"""An interior-point method for the semidefinite programs of distance completion, with a proof of its accuracy.

The variable is the Gram matrix G ⪰ 0 (n, n) of centered points. A(G) are the squared distances of
the observed pairs, and d the measured ones. The method maximizes

    <C, G> - penalty(A(G) - d)

The dual has one variable y per pair: minimize d y + penalty*(y), subject to S = A*(y) - C ⪰ 0. The
matrix of a pair has rank one: b bᵀ with b = e_i - e_j. So each step solves one linear system with
one unknown per pair, whose entries are products of (b_e G b_f) and (b_e S⁻¹ b_f). General solvers
work with all n (n + 1) / 2 entries of G instead and take a hundred times as long
(studies/recovery).

The search direction is that of Helmberg, Kojima and Monteiro with Mehrotra's correction. The proof
does not depend on the search: any G ⪰ 0 gives a lower bound and any y with S ⪰ 0 an upper bound.
The gap is their difference.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, eigvalsh, solve_triangular

from mappable.arrays import Floats
from mappable.recovery.ranges import Ranges

STEPS = 100  # at most
TOLERANCE = 1e-7  # relative gap at which it stops
FEASIBLE = 1e-9  # largest entry of A*(y) - C - S, relative to 1 plus the largest entry of C
BACK = 0.95  # a step goes at most this share of the way to the boundary of a cone
SLOWEST, FASTEST = 0.8, 1e-4  # bounds of the centering parameter


@dataclass(frozen=True)
class Solution:
    """The Gram matrix (n, n) found. `gap` is the relative duality gap, or the residual of S if that
    is larger.
    """

    gram: Floats
    gap: float
    steps: int


class UnboundedError(Exception):
    """Raised if the objective has no maximum: the points can move apart without limit."""


def solve(
    ranges: Ranges,
    squared: Floats,
    scale: float,
    radius: float | None,
    weights: Floats | None = None,
) -> Solution:
    """Maximize for the pairs of `ranges` with squared distances (pairs,); `scale` is the size of a
    typical entry of G.

    With a `radius` k, C is the identity on centered vectors and the penalty is k ||.||. Without a
    radius, C is 0 and the penalty is 2 ||.||². The misfit of each pair counts by its weight
    (pairs,). Raise UnboundedError if there is no maximum.
    """
    weights = np.ones(len(squared)) if weights is None else weights
    return _Search(ranges, squared, scale, radius, weights).run()


class _Search:
    def __init__(
        self, ranges: Ranges, squared: Floats, scale: float, radius: float | None, weights: Floats
    ) -> None:
        self.i, self.j, self.n, self.radius = ranges.i, ranges.j, ranges.count, radius
        # As if the distances had another unit for each pair.
        self.weights, self.squared = weights, weights * squared
        mean = np.full((self.n, self.n), 1.0 / self.n)
        self.wanted = np.zeros_like(mean) if radius is None else np.eye(self.n) - mean  # C
        # Distances do not depend on the direction of equal entries: S is 1 there.
        self.offset = mean - self.wanted
        self.gram, self.y = scale * np.eye(self.n), np.zeros(len(squared))
        self.slack = np.eye(self.n)  # S
        # Multiplier of |y|² <= k².
        self.multiplier = 0.0 if radius is None else scale / (radius**2 / 2)

    def run(self) -> Solution:
        """Step until the gap is small, or rounding errors prevent progress."""
        best = Solution(self.gram, np.inf, 0)
        for number in range(STEPS):
            gap = self._gap()
            if gap < best.gap:
                best = Solution(self.gram, gap, number)
            if gap <= TOLERANCE:
                break
            try:
                self._step(first=number == 0)
            except LinAlgError:
                break
        return best

    def _gap(self) -> float:
        lengths, d, y = self._distances(self.gram), self.squared, self.y
        residual = float(np.abs(self._residual()).max()) / (1.0 + float(np.abs(self.wanted).max()))
        if self.radius is None:
            lower, upper = -2.0 * float(np.square(lengths - d).sum()), float(d @ y + y @ y / 8.0)
        else:
            trace, k = float(np.vdot(self.wanted, self.gram)), self.radius
            if trace > k * float(np.linalg.norm(lengths)):
                raise UnboundedError  # larger multiples of this G are always better
            lower, upper = trace - k * float(np.linalg.norm(lengths - d)), float(d @ y)
        return max(
            abs(upper - lower) / max(1.0, abs(upper)), residual if residual > FEASIBLE else 0.0
        )

    def _step(self, *, first: bool) -> None:
        """Compute a predictor, which finds how far a step can go, and then take the corrected step."""
        lower_gram, lower_slack = (
            cholesky(matrix, lower=True) for matrix in (self.gram, self.slack)
        )
        inverse = cho_solve((lower_slack, True), np.eye(self.n))
        system = _Newton(self, inverse)
        now = float(np.vdot(self.gram, self.slack)) / self.n
        gram, y, slack, multiplier = system.direction(0.0, np.zeros_like(self.gram), 0.0)
        along, across = self._lengths(lower_gram, lower_slack, gram, y, slack, multiplier)
        ahead = float(np.vdot(self.gram + along * gram, self.slack + across * slack)) / self.n
        aim = 0.5 if first else min(max((ahead / now) ** 3, FASTEST), SLOWEST)
        bent = -multiplier * float(self.y @ y) - self.multiplier * float(y @ y) / 2.0
        gram, y, slack, multiplier = system.direction(
            aim * now, _symmetric(gram @ slack @ inverse), bent
        )
        along, across = self._lengths(lower_gram, lower_slack, gram, y, slack, multiplier)
        self.gram, self.multiplier = (
            _symmetric(self.gram + along * gram),
            self.multiplier + along * multiplier,
        )
        self.y, self.slack = self.y + across * y, _symmetric(self.slack + across * slack)

    def _lengths(
        self,
        lower_gram: Floats,
        lower_slack: Floats,
        gram: Floats,
        y: Floats,
        slack: Floats,
        multiplier: float,
    ) -> tuple[float, float]:
        """Return how far G with its multiplier, and y with S, can go and stay inside the cones."""
        along, across = _longest(lower_gram, gram), _longest(lower_slack, slack)
        if self.radius is not None:
            if multiplier < 0:
                along = min(along, -BACK * self.multiplier / multiplier)
            squared, product, short = float(y @ y), float(self.y @ y), self.ball
            if squared > 0:
                across = min(
                    across,
                    BACK * (-product + np.sqrt(product**2 + 2.0 * squared * short)) / squared,
                )
        return along, across

    @property
    def ball(self) -> float:
        """Return (k² - |y|²) / 2, which stays above 0."""
        return (float(self.radius or 0.0) ** 2 - float(self.y @ self.y)) / 2.0

    def _residual(self) -> Floats:
        residual: Floats = self._weighted(self.y) + self.offset - self.slack
        return residual

    def _distances(self, gram: Floats) -> Floats:
        """Return A(G): squared distances (pairs,)."""
        own = np.diag(gram)
        distances: Floats = self.weights * (own[self.i] + own[self.j] - 2.0 * gram[self.i, self.j])
        return distances

    def _weighted(self, y: Floats) -> Floats:
        """Return A*(y): the Laplacian (n, n) of weights of the pairs."""
        y = self.weights * y
        laplacian = np.zeros((self.n, self.n))
        laplacian[self.i, self.j] = laplacian[self.j, self.i] = -y  # each pair occurs once
        laplacian[np.diag_indices(self.n)] = np.bincount(self.i, y, self.n) + np.bincount(
            self.j, y, self.n
        )
        return laplacian

    def _products(self, matrix: Floats) -> Floats:
        """Return b_e M b_f (pairs, pairs)."""
        rows = matrix[self.i] - matrix[self.j]
        products: Floats = rows[:, self.i] - rows[:, self.j]
        return products


class _Newton:
    """The linear system at one point, factored once for the predictor and the corrector."""

    def __init__(self, at: _Search, inverse: Floats) -> None:
        self.at, self.inverse = at, inverse
        system = at._products(at.gram) * at._products(inverse) * np.outer(at.weights, at.weights)
        if at.radius is None:
            system[np.diag_indices(len(system))] += 0.25
        else:
            system[np.diag_indices(len(system))] += at.multiplier
            system += np.outer(at.y * (at.multiplier / at.ball), at.y)
        self.factor = cho_factor(system, lower=True, overwrite_a=True)
        self.residual = at._residual()
        self.pull = _symmetric(at.gram @ self.residual @ inverse)

    def direction(
        self, aim: float, correction: Floats, bent: float
    ) -> tuple[Floats, Floats, Floats, float]:
        """Return changes of G, y, S and the multiplier toward complementarity `aim`, with
        second-order corrections.
        """
        at = self.at
        short = at.y / 4.0 if at.radius is None else at.y * ((aim - bent) / at.ball)
        y = cho_solve(
            self.factor,
            at._distances(aim * self.inverse - self.pull - correction) - at.squared - short,
        )
        slack = at._weighted(y) + self.residual
        gram = (
            aim * self.inverse - at.gram - _symmetric(at.gram @ slack @ self.inverse) - correction
        )
        if at.radius is None:
            return gram, y, slack, 0.0
        multiplier = (aim - bent + at.multiplier * (float(at.y @ y) - at.ball)) / at.ball
        return gram, y, slack, multiplier


def _longest(lower: Floats, change: Floats) -> float:
    """Return the share of `change`, at most 1, that can be added to L Lᵀ and stay well inside the
    cone.
    """
    half = solve_triangular(lower, change, lower=True)
    least = float(
        eigvalsh(_symmetric(solve_triangular(lower, half.T, lower=True)), subset_by_index=(0, 0))[0]
    )
    return 1.0 if least >= -BACK else -BACK / least


def _symmetric(matrix: Floats) -> Floats:
    both: Floats = (matrix + matrix.T) / 2.0
    return both
