"""The result of a recovery: coordinates, and what the distances leave undetermined."""

from dataclasses import dataclass

from mappable.arrays import Bools, Floats, Ints
from mappable.recovery.hints import Motions


@dataclass(frozen=True)
class Recovered:
    """Recovered positions in metres, in the coordinates of the known positions or, without these, in arbitrary ones."""

    positions: Floats  # (n, k) float64
    parts: Ints  # (n,): each part has coordinates of its own, unrelated to those of other parts
    used: Bools  # (edges,): False for ranges that were removed as false
    noise: float  # spread of the residuals in units of the stated sigma: 1 if sigma was right
    undetermined: tuple[str, ...]  # one sentence per thing that the distances do not determine; always given
    covariances: Floats | None = None  # (n, k, k) in square metres, if positions were known
    frames: Floats | None = None  # (n, k, k): orientations, if there were relative motions
    motions: Motions | None = None  # relative motions as they were used: drift is corrected, noise is as estimated
    expected: float | None = None  # metres: error of the best estimator after alignment, from motions without anchors
    assumed: int = 0  # number of assumed steps: no range joins these images to the next
