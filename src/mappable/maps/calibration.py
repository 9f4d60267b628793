"""`Calibration`: what the images of a map, or a drive at known positions, fitted of the place model."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from mappable.maps.growth import Growth

# radians: no table knows headings better, and programs that take poses divide by it.
LEAST_HEADING_ERROR = 0.01
CalibratedOn = Literal["own visit", "other visits", "a drive"]
Way = Literal["single", "live", "drive"]


@dataclass(frozen=True)
class Calibration:
    """What was fitted. Where this class says metres, the unit is the unit of the map's frame.

    `sure` is the least probability of the place of a confident image, by way. `width` widens or
    narrows intervals and standard deviations, by way.
    """

    calibrated_on: CalibratedOn
    images: int  # number of images that it was fitted to
    landmarks: int  # number of landmarks of the map at that time
    coverage: float  # default coverage of intervals
    radius: float  # of a place, in metres
    sure: Mapping[str, float]
    width: Mapping[str, float]
    growth: Growth | None = None  # None if the map cannot give ranges
    headings: tuple[float, ...] = ()  # rising errors of headings, in radians; () without headings
    elsewhere: int = 0  # number of images from elsewhere that raised `sure`

    @property
    def note(self) -> str:
        """A warning for the user; "" if there is nothing to warn about."""
        if self.calibrated_on == "own visit":
            return (
                "calibrated on the visit of its landmarks: intervals on another visit are stated,"
                " not measured"
            )
        return ""

    def heading_error(self, coverage: float) -> float | None:
        """Half the width of the interval of a heading, in radians, at most pi; None if headings are
        not calibrated.
        """
        if not self.headings:
            return None
        return float(
            np.clip(conformal_quantile(self.headings, coverage), LEAST_HEADING_ERROR, np.pi)
        )

    def to_json(self) -> dict[str, Any]:
        """Return all fields in a form that JSON can store."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Calibration":
        """Read what `to_json` returned; raise KeyError, TypeError or ValueError for anything else."""
        growth = values["growth"]
        known = None if growth is None else Growth.from_json(growth)
        return cls(**{**values, "headings": tuple(values["headings"]), "growth": known})


def conformal_quantile(scores: Any, coverage: float) -> float:
    """The smallest of the scores (n,) that a new score does not exceed with a probability of
    `coverage`.

    This is the score of rank ceil((n + 1) coverage), or infinity if that rank exceeds n. The bound
    holds if the new score and the others are exchangeable.

    >>> conformal_quantile(np.arange(1.0, 10.0), 0.9), conformal_quantile(np.arange(1.0, 10.0), 0.91)
    (9.0, inf)
    """
    rank = max(1, math.ceil((len(scores) + 1) * coverage - 1e-9))
    return float(np.sort(np.asarray(scores))[rank - 1]) if rank <= len(scores) else math.inf
