"""The result of a recovery: coordinates, and what the distances leave open."""

from dataclasses import dataclass

from mappable.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class Recovered:
    """Points in metres, in coordinates of their own or, if some were known, in those of the known ones."""

    positions: Floats  # (n, k) float64
    parts: Ints  # (n,): points of different parts have coordinates that have nothing to do with each other
    used: Bools  # (edges,): False for ranges that were thrown out as false
    noise: float  # spread of the residuals in units of the stated sigma: 1 if that was right
    undetermined: tuple[str, ...]  # a sentence for each thing that the distances do not decide; never left out
    covariances: Floats | None = None  # (n, k, k) in square metres, where they can be known
    assumed: int = 0  # steps from an image to the next that no range measures
