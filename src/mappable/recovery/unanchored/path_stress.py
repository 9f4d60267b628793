"""Fit points to the shortest paths from landmarks by relative error.

Classical MDS fits squared lengths, so the longest paths count most, but these have most detours. Here every path counts
by its relative error: the stress is the sum of (|x_i - x_j| / d - 1)² over landmarks i and points j.
"""

import numpy as np

from mappable.arrays import Floats, Ints

STEPS = 60  # at most
TOLERANCE = 1e-3  # relative decrease of the stress per step at which it stops
PLAIN = 4  # as in `smacof`: one step in four goes to the quadratic's minimum, the others twice as far
NEAREST = 1e-3  # metres: shorter paths count as this


def fit_paths(chosen: Ints, paths: Floats, start: Floats) -> Floats:
    """Fit points (n, k) to the `paths` (landmarks, n) from the `chosen` landmarks, by SMACOF.

    The Laplacian is never built: without the landmarks it is diagonal, so a small matrix is enough to solve it.
    """
    others = np.setdiff1d(np.arange(len(start)), chosen)
    weights = np.maximum(paths, NEAREST) ** -2
    weights[np.arange(len(chosen)), chosen] = 0.0
    among, across = weights[:, chosen] + weights[:, chosen].T, weights[:, others]
    degrees = across.sum(0)
    small = np.diag(among.sum(1) + across.sum(1)) - among - (across / degrees) @ across.T
    inverse = np.linalg.pinv(small, hermitian=True)
    pull = weights * paths
    points, stress = start, np.inf
    earlier: list[float] = []
    for number in range(STEPS):
        apart = points[chosen].T[:, :, None] - points.T[:, None, :]  # (k, landmarks, n): the longest axis is last
        lengths = np.sqrt(np.einsum("kln,kln->ln", apart, apart))
        stress = float(np.einsum("ln,ln,ln->", weights, lengths - paths, lengths - paths))
        earlier.append(stress)
        if len(earlier) > PLAIN and earlier[-1 - PLAIN] - stress < PLAIN * TOLERANCE * stress:
            break
        apart *= pull / np.maximum(lengths, NEAREST**2)
        right = -apart.sum(1).T
        right[chosen] += apart.sum(2).T
        at_landmarks = inverse @ (right[chosen] + (across / degrees) @ right[others])
        guttman = np.empty_like(points)
        guttman[chosen] = at_landmarks
        guttman[others] = (right[others] + across.T @ at_landmarks) / degrees[:, None]
        points = guttman if number % PLAIN == 0 else 2 * guttman - points
    return points
