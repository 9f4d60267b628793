"""What the nearest landmarks say about an image, before calibration."""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints


@dataclass(frozen=True)
class Evidence:
    """The nearest landmark by feature of images (n,), and the nearest landmark of another place, the rival.

    Another place is farther than the reach from the nearest landmark. If the landmarks given include no other place,
    the distance of the farthest one by feature is used.
    """

    landmark: Ints  # row of the nearest landmark
    nearest: Floats  # its squared feature distance
    rival: Ints  # row of the rival; -1 if there is none
    rival_squared: Floats  # its squared feature distance


def gather_evidence(
    positions: Floats,
    rows: Ints,
    squared: Floats | Floats32,
    reach: float,
    *,
    allowed: Bools | None = None,
    place: Bools | None = None,
) -> Evidence:
    """Gather the evidence of landmarks `rows` (n, c), which are sorted by `squared` feature distance (n, c).

    `allowed` (n, c) marks the landmarks to use. `place` (n, c) marks the landmarks at the image's place, if the place
    is known.
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
