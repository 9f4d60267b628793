"""How alike images and landmarks are, after the shift that all images of a visit share is taken off."""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from mappable.arrays import Floats, Floats32, Ints, evenly, path_length
from mappable.localization.numbers import NUMBERS, PlaceNumbers
from mappable.localization.states import States
from mappable.maps.exact import Exact
from mappable.maps.store import Store

SAMPLE = 4096  # landmarks, spread evenly, that give the means and the scale of a map
SPREAD = 2048  # states, spread evenly, that give the usual likeness of an image
FOUND = 512  # landmarks that an index finds per image
ROWS = 1024  # descriptors that are read at a time
LARGEST_DECAY = 0.999
DECAYS = 1000  # that are compared
# Two cannot tell noise from a texture finer than the spacing; of six, 0.3 points fewer are found.
LAGS = 3
LEAST_NOISE = 1e-3
NO_SHIFT = 2.0
TINY = 1e-9


class Likeness:
    """Cosines of images and states, both without the shift of their visit (equations 1 to 3).

    `mean` (D,) is the mean descriptor of the map.
    """

    def __init__(
        self, store: Store, visits: Sequence[Ints], states: States, numbers: PlaceNumbers = NUMBERS
    ) -> None:
        self.store, self.states, self.numbers = store, states, numbers
        order = np.concatenate(visits)
        sample = order[evenly(len(order), SAMPLE)]
        descriptors = store.take(sample)
        self.mean: Floats32 = descriptors.mean(0)
        self._visit = np.empty(len(order), dtype=np.int64)
        for number, rows in enumerate(visits):
            self._visit[rows] = number
        own = [descriptors[self._visit[sample] == number] for number in range(len(visits))]
        several = len(visits) > 1
        self._means: Floats32 = np.stack(
            [self._of_visit(one) if several and len(one) else self.mean for one in own]
        )
        every = np.arange(len(order))
        pairs = [store.take(rows) - self._means[self._visit[rows]] for rows in _blocks(every)]
        self._length = np.concatenate([np.linalg.norm(block, axis=1) for block in pairs]).clip(TINY)
        self.noise, self.decay = self._texture(visits)
        self._mix = self._mixing()
        self._blended = np.concatenate(
            [
                np.linalg.norm(self._mixed(self._mix[rows]), axis=1)
                for rows in _blocks(np.arange(len(states)))
            ]
        ).clip(TINY)
        self.time = (1 + self.decay) / (1 - self.decay)  # landmarks in a row that count as one
        self._some = evenly(len(states), SPREAD)

    def deviations(self, images: Floats32, center: Floats32) -> Floats:
        """How much nearer each state (n, s) is to each image (n, D) than usual, in deviations
        (equation 3).
        """
        shifted = images - center
        shifted /= np.maximum(np.linalg.norm(shifted, axis=1, keepdims=True), TINY)
        cosine = products(self.store, shifted) - (shifted @ self._means.T)[:, self._visit]
        cosine /= self._length
        mixed = (self._mix @ cosine.T).T
        mixed /= self._blended
        usual = np.median(mixed[:, self._some], axis=1, keepdims=True)
        deviation = 1.4826 * np.median(np.abs(mixed[:, self._some] - usual), axis=1, keepdims=True)
        deviations: Floats = (mixed - usual) / np.maximum(deviation, 1e-6)
        return deviations

    def _of_visit(self, images: Floats32) -> Floats32:
        """The mean (D,) of images of a visit, as far as they are many."""
        independent = len(images) / correlation_time(images - images.mean(0), self.numbers)
        trust = np.float32(independent / (independent + self.numbers.shift_images))
        center: Floats32 = self.mean + trust * (images.mean(0) - self.mean)
        return center

    def explain(
        self, images: Floats32, belief: csr_matrix, weight: float, *, shifted: bool = True
    ) -> tuple[Floats32, float, float]:
        """The shift of images (n, D) that count `weight` each: its center (D,), their new weight,
        and what is left.

        `belief` (n, s) are the probabilities of states. Gain of the places and shift minimize J
        (equations 4 and 5). Images that are not `shifted` have the center of the map. Then the
        places must explain what the images share.
        """
        images = images - self.mean
        expected = self._expected(belief)
        mean, middle = images.mean(0), expected.mean(0)
        around, apart = images - mean, expected - middle
        prior = self.numbers.shift_images
        free = weight * len(images) / (weight * len(images) + prior) if shifted else 0.0
        matched = float((around * apart).sum(1).mean() + (1 - free) * mean @ middle)
        strength = float(np.square(apart).sum(1).mean() + (1 - free) * middle @ middle)
        gain = np.float32(np.clip(matched / max(strength, TINY), 0.0, 1.0))
        shift = mean - gain * middle
        rest = around - gain * apart
        price = prior / (weight * len(images) + prior) * (1 if shifted else NO_SHIFT)
        left = float(np.square(rest).sum(1).mean() + price * shift @ shift)
        center: Floats32 = self.mean + np.float32(free) * shift
        return center, 1 / correlation_time(rest, self.numbers), left

    def _expected(self, belief: csr_matrix) -> Floats32:
        """The unit descriptors (n, D) that images have at their places, without the shift of a
        visit.
        """
        return self._mixed(belief.multiply(1 / self._blended).tocsr() @ self._mix)

    def _mixed(self, share: csr_matrix) -> Floats32:
        """Sums (n, D) of the unit descriptors of landmarks, with shares (n, m)."""
        landmarks = np.flatnonzero(share.getnnz(0))
        mixed = np.zeros((share.shape[0], self.store.dimensions), dtype=np.float32)
        columns = share.tocsc().astype(np.float32)
        for block in _blocks(landmarks):
            mixed += columns[:, block] @ self._unit(block)
        return mixed

    def _unit(self, rows: Ints) -> Floats32:
        """Unit descriptors of landmarks, without the shift of their visits."""
        shifted: Floats32 = self.store.take(rows) - self._means[self._visit[rows]]
        shifted /= self._length[rows, None].astype(np.float32)
        return shifted

    def _mixing(self) -> csr_matrix:
        """Shares (s, m) of landmarks in the descriptors of states: kriging along a run (equation
        2).
        """
        states, reach = self.states, self.numbers.window
        order = np.concatenate(states.runs)
        way = (
            np.concatenate([path_length(states.of_landmarks[run]) for run in states.runs])
            / states.spacing
        )
        run = np.repeat(np.arange(len(states.runs)), [len(rows) for rows in states.runs])
        place = np.argsort(order)
        rows, columns, shares = [], [], []
        for block in _blocks(np.arange(len(states))):
            first, second = place[states.first[block]], place[states.second[block]]
            at = (1 - states.blend[block]) * way[first] + states.blend[block] * way[second]
            near = first[:, None] + np.arange(-reach, reach + 2)
            inside = (near >= 0) & (near < len(order))
            near = near.clip(0, len(order) - 1)
            inside &= run[near] == run[first][:, None]
            between = np.abs(way[near][:, :, None] - way[near][:, None])
            covariance = (
                (1 - self.noise) * self.decay**between * (inside[:, :, None] & inside[:, None])
            )
            covariance += max(self.noise, LEAST_NOISE) * np.eye(near.shape[1])
            target = (1 - self.noise) * self.decay ** np.abs(way[near] - at[:, None]) * inside
            share = np.linalg.solve(covariance, target[:, :, None])[:, :, 0]
            rows.append(np.repeat(block, inside.sum(1)))
            columns.append(order[near[inside]])
            shares.append(share[inside])
        parts = np.concatenate(shares), (np.concatenate(rows), np.concatenate(columns))
        return csr_matrix(parts, (len(states), len(order)))

    def _texture(self, visits: Sequence[Ints]) -> tuple[float, float]:
        """What neighbors do not show of a landmark, as a share of its variance; and the decay of
        the rest.

        The rest is as alike as `decay` one spacing further along a visit, and as `decay` squared
        two spacings further. All lags up to the first one that is not alike count, because two of
        them cannot tell noise from a texture finer than the spacing.
        """
        least = self.numbers.least_correlation
        visit = max(visits, key=len)[:SAMPLE]
        if len(visit) < 3:
            return 0.0, least
        images = self._unit(visit)
        way = path_length(self.states.of_landmarks[visit]) / self.states.spacing
        alike: list[float] = []
        for lag in range(1, min(LAGS, len(visit) - 1) + 1):
            alike.append(float((images[lag:] * images[:-lag]).sum(1).mean()))
            if alike[-1] < least:
                break
        if alike[0] < least:
            return 0.0, least
        # The sum of the lags is 1 + a + a² + ... times the first one; a is the decay per landmark.
        decays = np.linspace(least, LARGEST_DECAY, DECAYS)
        sums = np.polyval(np.ones(len(alike)), decays)
        per_landmark = max(float(np.interp(sum(alike) / alike[0], sums, decays)), alike[0])
        decay = min(per_landmark ** (1 / max(float(np.diff(way).mean()), TINY)), LARGEST_DECAY)
        return 1 - alike[0] / per_landmark, decay


def products(store: Store, queries: Floats32) -> Floats:
    """Products (n, m) of queries (n, D) and descriptors. An index finds the largest; the others
    count as the last.
    """
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
