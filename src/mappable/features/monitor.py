"""The monitor: a small localization test with held-out images, run during training."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Floats, Ints, Strings
from mappable.features.centering import without_visit_means
from mappable.places.sampling import farthest_points
from mappable.places.table import Places


class Monitor:
    """Localizes queries by the nearest landmark in feature distance.

    Landmarks are training places, chosen greedily far apart. The monitor only reports: training
    does not depend on it. It is the same for all runs on the same data. The rows of the queries
    follow those of the training places. Descriptors are compared without the mean of their visit,
    as maps compare them.
    """

    def __init__(self, train: Places, queries: Places, *, landmarks: int, radius: float) -> None:
        self.landmarks: Ints = farthest_points(train.positions, min(landmarks, len(train)))
        self.queries: Ints = len(train) + np.arange(len(queries))
        chosen = train[self.landmarks]
        apart = np.linalg.norm(queries.positions[:, None] - chosen.positions[None], axis=-1)
        self.distances: Floats = np.where(
            queries.frame[:, None] == chosen.frame[None], apart, np.inf
        )
        self.radius = radius
        self.visits: Strings = np.concatenate([chosen.sequence, queries.sequence])

    def accuracy(self, describe: Callable[[Ints], Tensor]) -> float:
        """Fraction of queries, from 0 to 1, whose nearest landmark by descriptor is within the
        radius.
        """
        with torch.no_grad():
            described = torch.cat([describe(self.landmarks), describe(self.queries)]).cpu().numpy()
        centered = without_visit_means(described, self.visits)
        count = len(self.landmarks)
        found = (centered[count:] @ centered[:count].T).argmax(axis=1)
        return float((self.distances[np.arange(len(found)), found] <= self.radius).mean())
