"""What the nearest landmarks say about an image, before calibration."""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints


@dataclass(frozen=True)
class Evidence:
    """Of images (n,): the nearest landmark by feature, and landmarks of other places; squared feature distances.

    Another place is farther than the reach from the nearest landmark. Where there is none among the landmarks given,
    the farthest of these stands for it.
    """

    landmark: Ints
    nearest: Floats
    rival: Ints  # the nearest landmark of another place; -1 where there is none
    rival_squared: Floats


def gather_evidence(
    positions: Floats,
    rows: Ints,
    squared: Floats | Floats32,
    reach: float,
    *,
    allowed: Bools | None = None,
    place: Bools | None = None,
) -> Evidence:
    """The evidence of landmarks `rows` (n, c), in the order of their `squared` distances (n, c).

    `allowed` (n, c) leaves some of them out. Where the `place` is known, it says which (n, c) are there.
    """
    distances = squared.astype(np.float64)
    kept = np.ones(rows.shape, dtype=bool) if allowed is None else allowed
    images, first = np.arange(len(rows)), (kept if place is None else kept & place).argmax(1)
    landmark = rows[images, first]
    away = np.linalg.norm(positions[rows] - positions[landmark][:, None], axis=2)
    elsewhere = kept & (away > reach)
    some, second = elsewhere.any(1), elsewhere.argmax(1)
    return Evidence(
        landmark=landmark,
        nearest=distances[images, first],
        rival=np.where(some, rows[images, second], -1),
        rival_squared=np.where(some, distances[images, second], distances[:, -1]),
    )
