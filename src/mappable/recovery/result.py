"""The result of a recovery: coordinates, and what the measurements leave undetermined."""

from dataclasses import dataclass

from mappable.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class Recovered:
    """Recovered positions in metres, in the coordinates of the known positions or, without these,
    in arbitrary ones.
    """

    positions: Floats  # (n, k) float64
    parts: Ints  # (n,): each part has coordinates of its own, unrelated to those of other parts
    used: Bools  # (edges,): False for ranges that were removed as false
    noise: float  # spread of the residuals in units of the stated sigma: 1 if sigma was right
    undetermined: tuple[str, ...]  # one sentence per thing that the measurements do not determine
    # (n, k, k) in square metres, if positions or motions were known.
    covariances: Floats | None = None
    frames: Floats | None = None  # (n, k, k): orientations, if there were relative motions
    assumed: int = 0  # number of assumed steps: no range joins these images to the next
