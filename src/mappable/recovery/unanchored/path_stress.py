"""Fit points to the shortest paths from landmarks, near landmarks more closely than far ones.

Classical MDS fits squared lengths, so that the longest paths count most; but these are the ones with most detours. Here
every path counts by its relative error: the stress is the sum of (|x_i - x_j| / d - 1)² over landmarks i and points j.
"""

import numpy as np

from mappable.arrays import Floats, Ints

STEPS = 60
TOLERANCE = 1e-3  # of the stress, per step
PLAIN = 4  # as in `smacof`: one step in four goes to the quadratic's minimum, the others twice as far
NEAREST = 1e-3  # metres: shorter paths count as this


def fit_paths(chosen: Ints, paths: Floats, start: Floats) -> Floats:
    """Points (n, k) from the `paths` (landmarks, n) that lead to them from the `chosen` ones, by SMACOF.

    The Laplacian is never made: without the landmarks it is a diagonal, so that a small matrix solves it.
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
        apart = points[chosen].T[:, :, None] - points.T[:, None, :]  # (k, landmarks, n): few axes, so the fastest last
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
