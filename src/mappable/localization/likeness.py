"""How alike images and landmarks are, after the shift that all images of a visit share is taken off."""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from mappable.arrays import Floats, Floats32, Ints, evenly
from mappable.localization.numbers import NUMBERS, PlaceNumbers
from mappable.localization.states import States
from mappable.maps.exact import Exact
from mappable.maps.store import Store

SAMPLE = 4096  # landmarks, spread evenly, that give the means and the scale of a map
SPREAD = 2048  # states, spread evenly, that give the usual likeness of an image
FOUND = 512  # landmarks that an index finds per image
ROWS = 1024  # descriptors that are read at a time
TINY = 1e-9


class Likeness:
    """Cosines of images and states, both without the shift of their visit (equations 1 to 3).

    `mean` (D,) is the mean descriptor of the map, and `variance` the mean squared distance to it.
    """

    def __init__(self, store: Store, visits: Sequence[Ints], states: States, numbers: PlaceNumbers = NUMBERS) -> None:
        self.store, self.states, self.numbers = store, states, numbers
        order = np.concatenate(visits)
        sample = order[evenly(len(order), SAMPLE)]
        descriptors = store.take(sample)
        self.mean: Floats32 = descriptors.mean(0)
        self.variance = float(np.square(descriptors - self.mean).sum(1).mean())
        follow = np.square(descriptors[1:] - descriptors[:-1]).sum(1)
        self.nearby = float(max(follow.mean() / 2, TINY)) if len(follow) else 1.0  # how much images of a place vary
        self._visit = np.empty(len(order), dtype=np.int64)
        for number, rows in enumerate(visits):
            self._visit[rows] = number
        own = [descriptors[self._visit[sample] == number] for number in range(len(visits))]
        several = len(visits) > 1
        self._means: Floats32 = np.stack([self.shifted(one) if several and len(one) else self.mean for one in own])
        every = np.arange(len(order))
        pairs = [store.take(rows) - self._means[self._visit[rows]] for rows in _blocks(every)]
        self._length = np.concatenate([np.linalg.norm(block, axis=1) for block in pairs]).clip(TINY)
        self._blended = self._lengths_of_states()
        self.time = correlation_time(descriptors - self.mean, numbers) if len(sample) == len(order) else 1.0
        self._some = evenly(len(states), SPREAD)

    def shifted(self, images: Floats32) -> Floats32:
        """A first guess of the mean (D,) of what a visit adds to its places.

        The mean of a visit differs from that of the map because its images share a shift, and because it saw only a
        part of the map. The second share is known: images of a part vary less than the map does (equation 4).
        """
        time = correlation_time(images - images.mean(0), self.numbers)
        return self._center(images, images.mean(0) - self.mean, time)

    def _center(self, images: Floats32, shift: Floats32, time: float) -> Floats32:
        """The mean (D,) of the map, moved by a shift as far as images (n, D) show that it is one."""
        varies = float(np.square(images - images.mean(0)).sum(1).mean())
        independent = len(images) / time
        trust = independent / (independent + self.numbers.shift_images) * min(varies / self.nearby, 1.0)
        center: Floats32 = self.mean + np.float32(trust) * shift
        return center

    def deviations(self, images: Floats32, center: Floats32) -> Floats:
        """How much nearer each state (n, s) is to each image (n, D) than usual, in deviations (equation 3)."""
        shifted = images - center
        shifted /= np.maximum(np.linalg.norm(shifted, axis=1, keepdims=True), TINY)
        cosine = products(self.store, shifted) - (shifted @ self._means.T)[:, self._visit]
        cosine /= self._length
        states = self.states
        mixed = (1 - states.blend) * cosine[:, states.first] + states.blend * cosine[:, states.second]
        mixed /= self._blended
        usual = np.median(mixed[:, self._some], axis=1, keepdims=True)
        deviation = 1.4826 * np.median(np.abs(mixed[:, self._some] - usual), axis=1, keepdims=True)
        deviations: Floats = (mixed - usual) / np.maximum(deviation, 1e-6)
        return deviations

    def explain(self, images: Floats32, belief: csr_matrix) -> tuple[Floats32, float]:
        """What places leave over of images (n, D): their mean (D,), and the autocorrelation time of the rest.

        `belief` (n, s) are the probabilities of states. The mean is the shift of the visit (equation 5). Errors that
        last for several images count once: their autocorrelation time says for how many (equation 6).
        """
        expected = self._expected(belief)
        around = expected - expected.mean(0)
        weight = float(np.square(around).sum())
        matched = float(((images - images.mean(0)) * around).sum())
        gain = np.float32(np.clip(matched / max(weight, TINY), 0.0, 1.0))
        shift = images.mean(0) - gain * expected.mean(0) - self.mean
        time = correlation_time(images - self.mean - shift - gain * expected, self.numbers)
        return self._center(images, shift, time), time

    def _expected(self, belief: csr_matrix) -> Floats32:
        """The unit descriptors (n, D) that images have at their places, without the shift of a visit."""
        states = self.states
        weight = belief.tocoo()
        share = weight.data / self._blended[weight.col]
        rows = np.concatenate([weight.row, weight.row])
        columns = np.concatenate([states.first[weight.col], states.second[weight.col]])
        values = np.concatenate([share * (1 - states.blend[weight.col]), share * states.blend[weight.col]])
        landmarks, columns = np.unique(columns, return_inverse=True)
        expected = np.zeros((belief.shape[0], self.store.dimensions), dtype=np.float32)
        mixed = csr_matrix((values, (rows, columns)), (belief.shape[0], len(landmarks))).tocsc().astype(np.float32)
        for block in _blocks(np.arange(len(landmarks))):
            own = landmarks[block]
            expected += mixed[:, block] @ self._unit(own)
        return expected

    def _unit(self, rows: Ints) -> Floats32:
        """Unit descriptors of landmarks, without the shift of their visits."""
        shifted: Floats32 = self.store.take(rows) - self._means[self._visit[rows]]
        shifted /= self._length[rows, None].astype(np.float32)
        return shifted

    def _lengths_of_states(self) -> Floats:
        """Lengths (s,) of the blends of unit descriptors; 1 at landmarks."""
        states = self.states
        joints = np.flatnonzero((states.second != states.first) & (states.blend == 0))
        cosine = np.ones(states.landmarks)
        for block in _blocks(joints):
            first, second = (self._unit(rows[block]) for rows in (states.first, states.second))
            cosine[states.first[block]] = (first * second).sum(1)
        share, pair = states.blend, np.where(states.second != states.first, cosine[states.first], 1.0)
        lengths: Floats = np.sqrt(np.maximum(1 - 2 * share * (1 - share) * (1 - pair), 1e-6))
        return lengths


def products(store: Store, queries: Floats32) -> Floats:
    """Products (n, m) of queries (n, D) and descriptors. An index finds the largest; the others count as the last."""
    if isinstance(store, Exact):
        return store.products(queries).astype(np.float64)
    count = min(len(store), FOUND)
    rows, squared = store.nearest(queries, count)
    found = (np.square(queries).sum(1, keepdims=True) + 1 - squared) / 2
    every = np.repeat(found[:, -1:], len(store), axis=1).astype(np.float64)
    np.put_along_axis(every, rows, found, axis=1)
    return every


def correlation_time(errors: Floats | Floats32, numbers: PlaceNumbers = NUMBERS) -> float:
    """How many successive errors (n, D) count as one: 1 + 2 times the sum of their autocorrelation."""
    unit = errors / np.maximum(np.linalg.norm(errors, axis=1, keepdims=True), TINY)
    time = 1.0
    for lag in range(1, min(numbers.longest_lag, len(unit) // 3) + 1):
        correlation = float(np.einsum("nd,nd->n", unit[lag:], unit[:-lag]).mean())
        if correlation < numbers.least_correlation:
            break
        time += 2 * correlation
    return time


def _blocks(rows: Ints) -> Iterable[Ints]:
    return (rows[start : start + ROWS] for start in range(0, len(rows), ROWS))
