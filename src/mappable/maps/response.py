"""How feature distances grow with distance in the world: from a floor up to a plateau."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from mappable.arrays import Floats
from mappable.maps.errors import UncalibratedError

FIRST_BIN, BIN_GROWTH = 100, 1.25  # largest number of pairs in the first bin, and factor from one bin to the next
FIRST_SHARE, LEAST_BIN = 0.05, 10  # share of all pairs in the first bin if pairs are few, and its smallest number
LEAST_RISE = 1.1  # smallest ratio of plateau to floor that counts as a rise
REACH_SHARE = 0.9  # share of the rise from floor to plateau at which the reach ends


@dataclass(frozen=True)
class Response:
    """The median squared feature distance of two images, by their distance in metres (or the unit of the map's frame).

    Even two images of the same place differ by the `floor`. Images far apart differ by the `plateau`. At the `reach`,
    90 % of the rise from floor to plateau is done; feature distances hardly change beyond it.
    """

    metres: tuple[float, ...]  # rising
    squared: tuple[float, ...]  # median squared feature distance at these
    floor: float  # squared feature distance
    plateau: float  # squared feature distance
    reach: float  # metres

    @classmethod
    def fit(cls, squared: Floats, metres: Floats) -> "Response":
        """Fit to pairs of images: squared feature distances (n,) and metres (n,), in any order."""
        if len(squared) < 10 * LEAST_BIN:
            raise UncalibratedError(
                f"{len(squared):,} pairs of images are too few to calibrate on; at least {10 * LEAST_BIN:,} are needed"
            )
        order = np.argsort(metres, kind="stable")
        ends = [0]
        size = max(LEAST_BIN, min(FIRST_BIN, FIRST_SHARE * len(order)))
        while ends[-1] + 2 * size < len(order):
            ends.append(ends[-1] + int(size))
            size *= BIN_GROWTH
        bins = np.split(order, ends[1:])
        at = np.array([metres[rows].mean() for rows in bins])
        found = isotonic_regression([np.median(squared[rows]) for rows in bins], weights=[len(rows) for rows in bins]).x
        floor, plateau = float(found[0]), float(np.median(squared[order[len(order) // 2 :]]))
        full = floor + REACH_SHARE * (plateau - floor)
        if not plateau > LEAST_RISE * floor:
            raise UncalibratedError(
                "feature distances do not grow with distance in the world: the encoder cannot be calibrated here"
            )
        risen = int(np.argmax(found >= full)) if (found >= full).any() else len(found) - 1
        return cls(tuple(at.tolist()), tuple(found.tolist()), floor, plateau, float(at[risen]))
