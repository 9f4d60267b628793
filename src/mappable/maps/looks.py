"""Search the landmarks for images: the nearest ones, and how much nearer than usual they are."""

from dataclasses import dataclass, fields

import numpy as np

from mappable.arrays import Floats, Floats32, Ints, evenly
from mappable.maps.store import Store, check_search, squared_between

SEARCH_ALL, SEARCHED = 512, 256  # a map of at most 512 landmarks is searched whole; else the nearest 256 per image
# The usual feature distance of an image is measured on all landmarks if there are at most 4096, else on 512 of them.
MEASURE_ALL, MEASURED = 4096, 512
IMAGE_BATCH, LANDMARK_BATCH = 1024, 512  # images per batch, and landmarks whose descriptors are read per batch
LEAST_DEVIATION = 0.01  # smallest deviation of squared feature distances, as a share of the usual one


@dataclass(frozen=True)
class Looks:
    """Search results of images (n,): the nearest landmarks, and what distance is usual for each image."""

    rows: Ints  # (n, c) landmarks, nearest first
    squared: Floats  # (n, c) their squared feature distances
    usual: Floats  # (n,) median squared feature distance to all landmarks
    deviation: Floats  # (n,) robust standard deviation of squared feature distances

    @property
    def contrast(self) -> Floats:
        """How much nearer than usual the nearest landmark is (n,), in deviations."""
        return (self.usual - self.squared[:, 0]) / self.deviation


def look_at(store: Store, descriptors: Floats32) -> Looks:
    """Search the landmarks for images (n, D), and measure what distance is usual for each image.

    The usual distance is measured on all landmarks, or on a sample if there are more than `MEASURE_ALL`.
    """
    queries = check_search(store, descriptors, 1, None)
    parts = [_look_at(store, queries[start : start + IMAGE_BATCH]) for start in range(0, len(queries), IMAGE_BATCH)]
    return Looks(*(np.concatenate([getattr(one, each.name) for one in parts]) for each in fields(Looks)))


def _look_at(store: Store, queries: Floats32) -> Looks:
    landmarks = len(store)
    count = landmarks if landmarks <= SEARCH_ALL else SEARCHED
    among = evenly(landmarks, landmarks if landmarks <= MEASURE_ALL else MEASURED)
    some = [among[start : start + LANDMARK_BATCH] for start in range(0, len(among), LANDMARK_BATCH)]
    sampled = np.concatenate([squared_between(queries, store.take(rows)) for rows in some], axis=1)
    if landmarks <= MEASURE_ALL:
        rows = np.argsort(sampled, axis=1, kind="stable")[:, :count]
        squared = np.take_along_axis(sampled, rows, 1)
    else:
        rows, squared = store.nearest(queries, count)
    return Looks(rows, squared.astype(np.float64), *_usual(sampled))


def look_among(store: Store, descriptor: Floats32, rows: Ints, sample: Floats32) -> Looks:
    """Search the landmarks `rows` for one image (D,). The `sample` (s, D) of landmarks shows what distance is usual."""
    squared = squared_between(descriptor[None], store.take(rows))[0]
    order = np.argsort(squared, kind="stable")
    usual, deviation = _usual(squared_between(descriptor[None], sample))
    return Looks(rows[order][None], squared[order][None].astype(np.float64), usual, deviation)


def _usual(sampled: Floats32) -> tuple[Floats, Floats]:
    """Median (n,) of squared feature distances (n, s), and their robust standard deviation."""
    usual = np.median(sampled, axis=1).astype(np.float64)
    deviation = 1.4826 * np.median(np.abs(sampled - usual[:, None]), axis=1)
    return usual, np.maximum(deviation, LEAST_DEVIATION * np.maximum(usual, 1e-6))


def first_to_second(looks: Looks, positions: Floats, radius: float) -> Floats:
    """Ratio (n,) of two feature distances, not squared: to the nearest landmark, and to the nearest of another place.

    Another place is farther than `radius` from the nearest landmark. If no candidate is that far, the farthest
    candidate by feature is used.
    """
    away = np.linalg.norm(positions[looks.rows] - positions[looks.rows[:, :1]], axis=2) > radius
    images = np.arange(len(away))
    second = np.where(away.any(1), looks.squared[images, away.argmax(1)], looks.squared[:, -1])
    ratio: Floats = np.sqrt(looks.squared[:, 0] / np.maximum(second, 1e-9))
    return ratio


def resemblance(looks: Looks, fresh: Floats, landmarks: int) -> Floats:
    """How much nearer than usual each landmark (m,) is to the images together; at most 0, summed with weights (n,)."""
    middle = looks.squared[:, min(looks.squared.shape[1] - 1, landmarks // 2), None]
    off = fresh[:, None] * np.minimum(looks.squared - middle, 0.0)
    return np.bincount(looks.rows.ravel(), off.ravel(), landmarks).astype(np.float64)
