"""How far a camera moved between two images of one visit, by their squared feature distance."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from mappable.arrays import Floats, Floats32, evenly, path_length
from mappable.maps.errors import UncalibratedError
from mappable.maps.store import squared_between
from mappable.places.angles import wrap

PAIRED_IMAGES = 600  # images of one stretch, and as many spread over the whole set, whose pairs are measured
BINS, LEAST_BIN = 20, 8  # largest number of bins of distances, and smallest number of pairs per bin
# The next four constants were chosen by the tables of studies/drives.
OTHER_VISITS = 1.3  # factor for deviations, because other visits differ
WINDING = 2.0  # two images belong to one visit if the path between them is at most this times their distance
STEP_DEVIATION = 0.6  # standard deviation of the logarithm of the steps of a drive
LEAST_DENSITY = 1e-4  # density of any squared feature distance, which allows for outliers
MOST_TURNED = 0.3  # radians: images that differ more look in different directions
STEP_CHOICES = 48  # number of lengths among which the usual step of a drive is chosen


@dataclass(frozen=True)
class Steps:
    """Squared feature distances between two images of one visit, by their distance in metres."""

    metres: tuple[float, ...]  # rising from 0
    mean: tuple[float, ...]  # mean squared feature distance; the last one is for images far apart
    deviation: tuple[float, ...]  # standard deviation of squared feature distances

    @classmethod
    def fit(cls, descriptors: Floats32, positions: Floats, yaw: Floats | None = None) -> "Steps":
        """Fit to images (n, D) at positions (n, k) in the order taken; several visits may follow each other.

        Two images near each other belong to one visit if the path from one to the other is short. With headings `yaw`
        (n,), NaN if unknown, images that look in different directions do not count.
        """
        count = len(positions)
        start = max(0, count - PAIRED_IMAGES) // 2
        some = np.unique(
            np.concatenate([np.arange(start, min(count, start + PAIRED_IMAGES)), evenly(count, PAIRED_IMAGES)])
        )
        i, j = np.triu_indices(len(some), 1)
        along = path_length(positions)[some]
        apart = np.linalg.norm(positions[some[i]] - positions[some[j]], axis=1)
        steps = np.diff(along)
        usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
        kept = (along[j] - along[i] <= WINDING * apart + 2 * usual) & (apart > 0)
        if yaw is not None:
            kept &= ~(np.abs(wrap(yaw[some[i]] - yaw[some[j]])) > MOST_TURNED)
        if np.count_nonzero(kept) < 4 * LEAST_BIN:
            raise UncalibratedError(
                f"{np.count_nonzero(kept):,} pairs of images along a drive are too few to calibrate steps; "
                f"at least {4 * LEAST_BIN} are needed"
            )
        squared = squared_between(descriptors[some], descriptors[some])[i[kept], j[kept]].astype(np.float64)
        return cls._of_pairs(squared, apart[kept])

    @classmethod
    def _of_pairs(cls, squared: Floats, metres: Floats) -> "Steps":
        order = np.argsort(metres, kind="stable")
        squared, metres = squared[order], metres[order]
        edges = np.geomspace(metres[LEAST_BIN - 1] * 1.001, metres[-1] * 1.001, BINS)
        at, mean, deviation, counts = [], [], [], []
        plateau = float(squared[len(squared) // 2 :].mean())
        start = 0
        for edge in edges:
            end = int(np.searchsorted(metres, edge))
            if end - start >= LEAST_BIN or (edge == edges[-1] and end - start >= 2):
                at.append(metres[start:end].mean())
                mean.append(squared[start:end].mean())
                deviation.append(squared[start:end].std())
                counts.append(end - start)
                start = end
        rising = np.minimum(isotonic_regression(mean, weights=counts).x, plateau)
        spread = OTHER_VISITS * np.maximum(deviation, 0.02 * rising[-1])
        first = rising[0] / 2  # a camera that stands still may send one image twice, or two similar ones
        return cls(
            metres=(0.0, *map(float, at)),
            mean=(float(first), *rising.tolist()),
            deviation=(float(max(first, spread[0])), *spread.tolist()),
        )

    @property
    def plateau(self) -> float:
        """The mean squared feature distance of images far apart."""
        return self.mean[-1]

    def growth(self, share: float) -> float:
        """The squared feature distance at which a `share` of the growth is done."""
        return self.mean[1] + share * (self.plateau - self.mean[1])

    def reach(self, share: float = 0.9) -> float:
        """Metres at which squared feature distances have done a `share` of their growth."""
        return float(self.metres[int(np.argmax(np.array(self.mean) >= self.growth(share)))])

    def likelihood(self, squared: Floats, metres: Floats) -> Floats:
        """Densities (n, b) of squared feature distances (n,), given distances in metres (b,)."""
        mean, deviation = (np.interp(metres, self.metres, given) for given in (self.mean, self.deviation))
        return np.exp(-0.5 * np.square((squared[:, None] - mean) / deviation)) / deviation + LEAST_DENSITY

    def usual(self, squared: Floats, shortest: float) -> float:
        """Maximum likelihood estimate of the usual step of a drive, in metres.

        `squared` (n,) are the squared feature distances of consecutive images. The search runs from the `shortest`
        step to the distance at which feature distances stop growing.
        """
        tried = np.geomspace(shortest, max(self.reach(0.98), 2 * shortest), STEP_CHOICES)
        found = self.likelihood(squared[evenly(len(squared), 500)], tried)
        near = step_prior(tried, tried[:, None])
        likely = found @ (near / near.sum(1, keepdims=True)).T + found.mean(1, keepdims=True) / 4
        return float(tried[np.log(likely).sum(0).argmax()])


def step_prior(metres: Floats, usual: Floats | float) -> Floats:
    """Prior of steps, relative to the `usual` step, whose prior is 1."""
    prior: Floats = np.exp(-0.5 * np.square(np.log(metres / usual) / STEP_DEVIATION))
    return prior
