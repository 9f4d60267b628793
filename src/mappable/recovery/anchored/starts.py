"""Where points begin: drives as bows between known positions, and other points between their neighbors."""

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import spsolve

from mappable.arrays import Floats


def bow(begin: Floats, end: Floats, steps: int, step: float) -> Floats:
    """Positions (steps + 1, k) from one to another on half a wave of about the length of these steps.

    It leaves the straight line in any case: from there no way leads to either side.
    """
    line = end - begin
    chord = float(np.linalg.norm(line))
    part = np.linspace(0.0, 1.0, steps + 1)[:, None]
    sideways = np.zeros_like(line)
    sideways[:2] = (-line[1], line[0]) if chord > 0 and np.any(line[:2]) else (1.0, 0.0)
    sideways /= np.linalg.norm(sideways)
    longer = max(steps * step - chord, 0.0)
    height = max(2 / np.pi * np.sqrt(chord * longer), longer / 4, 0.01 * chord)
    positions: Floats = begin + part * line + height * np.sin(np.pi * part) * sideways
    return positions


def harmonic(links: csr_array, pull: Floats, positions: Floats) -> Floats:
    """Every position that is not a number becomes the mean of those it is linked to, weighted, and pulled from it."""
    free = np.isnan(positions[:, 0])
    if not free.any():
        return positions
    some = links[free]
    own = diags_array(np.asarray(some.sum(axis=1)).ravel()) - some[:, free]
    filled = positions.copy()
    right = some[:, ~free] @ positions[~free] + pull[free]
    filled[free] = spsolve(own.tocsc(), right).reshape(right.shape)
    return filled
