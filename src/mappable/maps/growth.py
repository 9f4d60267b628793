"""How metres between two images grow with their feature distance, on images of known position."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mappable.arrays import Floats, Floats32, evenly
from mappable.maps.store import squared_between

STRETCH = 700  # images of one stretch, and as many spread over all images; every two form a pair
PAIRS_PER_KNOT = 200
MOST_KNOTS = 60
# Share of the feature distance of unrelated places at which images no longer show how far apart
# they are.
PLATEAU = 0.9
# Largest share of pairs beyond reach at which a feature distance still gives metres.
MOST_BEYOND = 0.2


@dataclass(frozen=True)
class Growth:
    """Metres by feature distance (not squared): medians and standard deviations at knots, which
    both rise.

    `valid` is the largest feature distance that gives metres, and `reach` the largest number of
    metres.
    """

    feature: tuple[float, ...]
    metres: tuple[float, ...]
    deviation: tuple[float, ...]
    valid: float
    reach: float

    @classmethod
    def fit(cls, descriptors: Floats32, positions: Floats) -> "Growth | None":
        """Fit to images (n, D) at known positions (n, k), in the order taken; None if they show
        nothing.
        """
        count = len(positions)
        stretch = np.arange(min(STRETCH, count)) + max(0, count - STRETCH) // 2
        some = np.unique(np.concatenate([stretch, evenly(count, STRETCH)]))
        i, j = np.triu_indices(len(some), 1)
        metres = np.linalg.norm(positions[some[i]] - positions[some[j]], axis=1)
        feature = np.sqrt(squared_between(descriptors[some], descriptors[some])[i, j]).astype(
            np.float64
        )
        feature, metres = feature[metres > 0], metres[metres > 0]
        if len(metres) < PAIRS_PER_KNOT:
            return None
        reach = _reach(feature, metres)
        order = np.argsort(feature, kind="stable")
        windows = np.array_split(order, max(1, len(order) // PAIRS_PER_KNOT))
        beyond = _rising([float((metres[rows] > reach).mean()) for rows in windows])
        last = int(np.searchsorted(beyond, MOST_BEYOND, side="right"))
        if not last:
            return None
        near = np.concatenate(windows[:last])
        near = near[metres[near] <= reach]
        knots = np.array_split(near, min(MOST_KNOTS, max(1, len(near) // PAIRS_PER_KNOT)))
        middle = _rising([float(np.median(metres[rows])) for rows in knots])
        spread = _rising([float(metres[rows].std()) for rows in knots])
        return cls(
            feature=tuple(float(np.median(feature[rows])) for rows in knots),
            metres=tuple(middle.tolist()),
            deviation=tuple(spread.tolist()),
            valid=float(feature[windows[last - 1]].max()),
            reach=reach,
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Growth":
        """The inverse of `dataclasses.asdict`."""
        knots = {name: tuple(values[name]) for name in ("feature", "metres", "deviation")}
        return cls(**knots, valid=values["valid"], reach=values["reach"])

    def predict(self, feature: Floats) -> tuple[Floats, Floats]:
        """Metres between two images by their feature distances (n,), and standard deviations in
        metres.
        """
        metres: Floats = np.interp(feature, self.feature, self.metres)
        deviation: Floats = np.interp(feature, self.feature, self.deviation)
        return metres, np.maximum(deviation, 1e-3 * self.reach)


def _reach(feature: Floats, metres: Floats) -> float:
    """The metres at which feature distances stop growing."""
    order = np.argsort(metres, kind="stable")
    windows = np.array_split(order, max(2, min(MOST_KNOTS, len(order) // PAIRS_PER_KNOT)))
    level = _rising([float(np.median(feature[rows])) for rows in windows])
    unrelated = float(np.median(feature[order[len(order) // 2 :]]))
    first = int(np.searchsorted(level, level[0] + PLATEAU * max(unrelated - level[0], 0.0)))
    return float(np.median(metres[windows[min(first, len(windows) - 1)]]))


def _rising(values: Sequence[float]) -> Floats:
    """The closest values that never fall."""
    # Here, because it is slow to load, and locating needs no fit.
    from scipy.optimize import isotonic_regression

    rising: Floats = isotonic_regression(values).x
    return rising
