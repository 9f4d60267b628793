"""The monitor: how many of a few held-out images find a landmark near them, to watch while an encoder learns."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Floats, Ints
from mappable.places.sampling import farthest_points
from mappable.places.table import Places


class Monitor:
    """Greedy landmarks of the training places, and queries whose nearest landmark, by feature, is asked for.

    It only watches: no choice is made by it. It is the same for all runs on the same data. Queries are rows that follow
    those of the training places.
    """

    def __init__(self, train: Places, queries: Places, *, landmarks: int, radius: float) -> None:
        self.landmarks: Ints = farthest_points(train.positions, min(landmarks, len(train)))
        self.queries: Ints = len(train) + np.arange(len(queries))
        chosen = train[self.landmarks]
        apart = np.linalg.norm(queries.positions[:, None] - chosen.positions[None], axis=-1)
        self.distances: Floats = np.where(queries.frame[:, None] == chosen.frame[None], apart, np.inf)
        self.radius = radius

    def accuracy(self, describe: Callable[[Ints], Tensor]) -> float:
        """The share of queries whose nearest landmark by descriptor lies within the radius, between 0 and 1."""
        with torch.no_grad():
            found = nearest(describe(self.queries), describe(self.landmarks)).cpu().numpy()
        return float((self.distances[np.arange(len(found)), found] <= self.radius).mean())


def nearest(queries: Tensor, landmarks: Tensor) -> Tensor:
    """For each unit descriptor (n, D) the row of the nearest of `landmarks` (m, D): that of the largest product."""
    return (queries @ landmarks.T).argmax(-1)
