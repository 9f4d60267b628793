"""How feature distances grow with distance in the world: from a floor up to a limit."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from mappable.arrays import Floats
from mappable.maps.errors import UncalibratedError

FIRST, GROWTH = 100, 1.25  # pairs in the first bin, and how much more the next ones hold; fewer pairs fill
SHARE, LEAST = 0.05, 10  # share of all in the first bin, and its least number
GROWN = 1.1  # times the floor: a plateau below that is no rise
FULL = 0.9  # of the way from floor to plateau: distances beyond that tell nothing


@dataclass(frozen=True)
class Response:
    """The median squared feature distance of two images that are so many metres apart (or units of the map's frame).

    Two images of the same place still differ by the `floor`; those far apart differ by the `plateau`, which is all but
    reached at the `reach`.
    """

    metres: tuple[float, ...]
    squared: tuple[float, ...]
    floor: float
    plateau: float
    reach: float

    @classmethod
    def fit(cls, squared: Floats, metres: Floats) -> "Response":
        """Measured on pairs of images: their squared feature distances (n,) and metres (n,), in any order."""
        if len(squared) < 10 * LEAST:
            raise UncalibratedError(
                f"{len(squared):,} pairs of images are too few to calibrate by; {10 * LEAST:,} would do"
            )
        order = np.argsort(metres, kind="stable")
        ends = [0]
        size = max(LEAST, min(FIRST, SHARE * len(order)))
        while ends[-1] + 2 * size < len(order):
            ends.append(ends[-1] + int(size))
            size *= GROWTH
        bins = np.split(order, ends[1:])
        at = np.array([metres[rows].mean() for rows in bins])
        found = isotonic_regression([np.median(squared[rows]) for rows in bins], weights=[len(rows) for rows in bins]).x
        floor, plateau = float(found[0]), float(np.median(squared[order[len(order) // 2 :]]))
        full = floor + FULL * (plateau - floor)
        if not plateau > GROWN * floor:
            raise UncalibratedError(
                "feature distances do not grow with distances in the world: nothing can be calibrated"
            )
        risen = int(np.argmax(found >= full)) if (found >= full).any() else len(found) - 1
        return cls(tuple(at.tolist()), tuple(found.tolist()), floor, plateau, float(at[risen]))
