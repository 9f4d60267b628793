"""How a map locates images, in NumPy: from descriptors and positions to place, metres, interval and confident.

python from_scratch.py    locates a made-up visit

A test compares every answer with `Map.locate_all`. docs/method.md has the equations.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import erfinv

from mappable.localization.numbers import NUMBERS


class Answer(NamedTuple):
    """Where an image was taken."""

    position: np.ndarray
    landmark: int  # row of the likeliest one
    metres: float  # to that landmark
    interval: tuple[float, float]  # of these metres
    confident: bool


class Scratch:
    """A map of one visit: descriptors (m, D) of landmarks in the order taken, at positions (m, k)."""

    def __init__(self, landmarks: np.ndarray, positions: np.ndarray) -> None:
        gaps = np.linalg.norm(np.diff(positions, axis=0), axis=1)
        self.spacing = np.median(gaps)
        self.radius = 2 * self.spacing  # of a place
        self.at = positions
        # States: the landmarks, and points between them. Together they share the ground.
        along = np.arange((len(positions) - 1) * NUMBERS.states + 1) / NUMBERS.states
        self.first = np.minimum(along.astype(int), len(positions) - 2)
        self.blend = along - self.first
        self.states = positions[self.first] + self.blend[:, None] * np.diff(positions, axis=0)[self.first]
        self.apart = np.linalg.norm(self.states[:, None] - self.states, axis=2)
        crowd = (self.apart <= self.spacing * (1 + 1e-9)).sum(1)
        self.share = 1 / crowd / (1 / crowd).sum()
        # Descriptors of landmarks without what all of them share, and how alike neighbors are (equation 1).
        self.mean = landmarks.mean(0)
        self.units = unit(landmarks - self.mean)
        way = np.concatenate([[0.0], np.cumsum(gaps)]) / self.spacing
        alike = [1.0]
        while len(alike) <= 3 and alike[-1] >= NUMBERS.least_correlation:
            alike.append((self.units[len(alike) :] * self.units[: -len(alike)]).sum(1).mean())
        decays = np.linspace(NUMBERS.least_correlation, 0.999, 1000)
        sums = np.polyval(np.ones(len(alike) - 1), decays)
        per_landmark = max(np.interp(sum(alike[1:]) / alike[1], sums, decays), alike[1])
        decay = min(per_landmark ** (self.spacing / gaps.mean()), 0.999)
        noise = 1 - alike[1] / per_landmark
        # The descriptor of a state is made of those of the landmarks around it, by kriging (equations 2, 2b).
        self.mix = np.zeros((len(self.states), len(positions)))
        for state, (first, blend) in enumerate(zip(self.first, self.blend, strict=True)):
            rows = np.arange(max(first - NUMBERS.window, 0), min(first + NUMBERS.window + 2, len(positions)))
            here = (1 - blend) * way[first] + blend * way[first + 1]
            covariance = (1 - noise) * decay ** np.abs(way[rows][:, None] - way[rows])
            covariance += max(noise, 1e-3) * np.eye(len(rows))
            self.mix[state, rows] = np.linalg.solve(covariance, (1 - noise) * decay ** np.abs(way[rows] - here))
        self.lengths = np.linalg.norm(self.mix @ self.units, axis=1)
        # The largest likeness that is expected of an unrelated image.
        self.chance = np.sqrt(2 * np.log(max(len(positions) * (1 - decay) / (1 + decay), 2.0)))

    def locate(self, images: np.ndarray) -> list[Answer]:
        """Locate each image (n, D) of a visit by itself; they share only a shift, such as that of the night."""
        weight = 1 / correlation_time(images - images.mean(0))
        shifts = []
        for shifted, center in ((False, self.mean), (True, images.mean(0))):
            left, counts = np.inf, weight
            for _ in range(NUMBERS.passes - 1):
                alone, away = self.see(images, center)
                center, counts, left = self.explain(images, alone * (1 - away)[:, None], counts, shifted)
            shifts.append((left, center))
        alone, away = self.see(images, min(shifts, key=lambda shift: shift[0])[1])
        return [self.answer(*pair) for pair in zip(alone, away, strict=True)]

    def see(self, images: np.ndarray, center: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities (n, s) of states if an image is on the map, and (n,) of being off it (equations 3, 7, 8b)."""
        likeness = unit(images - center) @ self.units.T @ self.mix.T / self.lengths
        usual = np.median(likeness, axis=1, keepdims=True)
        deviations = (likeness - usual) / (1.4826 * np.median(np.abs(likeness - usual), axis=1, keepdims=True))
        odds = np.exp(np.clip(NUMBERS.single_sharpness * deviations, -50, 50))
        odds = ((1 - NUMBERS.blind) * odds / (odds @ self.share)[:, None] + NUMBERS.blind) * self.share
        odds[odds < NUMBERS.negligible * odds.max(1, keepdims=True)] = 0
        away = 1 / (1 + np.exp(NUMBERS.single_sharpness * (deviations.max(1) - self.chance)))
        return odds / odds.sum(1, keepdims=True), away

    def explain(self, images: np.ndarray, belief: np.ndarray, weight: float, shifted: bool) -> tuple:
        """The shift that the places of the images leave over, what images count, and what is left (equations 4, 5)."""
        images, expected = images - self.mean, belief / self.lengths @ self.mix @ self.units
        mean, middle = images.mean(0), expected.mean(0)
        count, prior = weight * len(images), NUMBERS.shift_images
        free = count / (count + prior) if shifted else 0.0
        matched = ((images - mean) * (expected - middle)).sum(1).mean() + (1 - free) * mean @ middle
        strength = np.square(expected - middle).sum(1).mean() + (1 - free) * middle @ middle
        gain = np.clip(matched / strength, 0, 1)
        shift, rest = mean - gain * middle, images - mean - gain * (expected - middle)
        price = prior / (count + prior) * (1 if shifted else 2)
        left = np.square(rest).sum(1).mean() + price * shift @ shift
        return self.mean + free * shift, 1 / correlation_time(rest), left

    def answer(self, alone: np.ndarray, away: float, coverage: float = 0.9) -> Answer:
        """Place, metres to its landmark, interval, and confident (equation 10)."""
        near = self.apart <= self.radius
        place = near[np.argmax(np.where(alone > 0, near @ alone, 0))] * alone
        place /= place.sum()
        position = place @ self.states
        off = np.linalg.norm(self.states - position, axis=1)
        mass = alone[off <= self.radius].sum() * (1 - away)
        weights = self.share * (NUMBERS.outside + (1 - NUMBERS.outside) * away / 2)
        weights = weights + (1 - NUMBERS.outside) * alone * (1 - away / 2)
        order = np.argsort(off)
        total = np.cumsum(weights[order])
        end = off[order[np.searchsorted(total, coverage * total[-1])]]
        half = np.hypot(end, NUMBERS.position_noise * self.spacing * np.sqrt(2) * erfinv(coverage))
        votes = np.bincount(self.first, place * (1 - self.blend), len(self.at))
        landmark = np.argmax(votes + np.bincount(self.first + 1, place * self.blend, len(self.at)))
        metres = np.linalg.norm(position - self.at[landmark])
        confident = away <= 0.5 and mass >= NUMBERS.sure
        return Answer(position, int(landmark), metres, (max(metres - half, 0), metres + half), bool(confident))


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def correlation_time(errors: np.ndarray) -> float:
    """How many errors (n, D) in a row count as one."""
    errors, time = unit(errors), 1.0
    for lag in range(1, min(NUMBERS.longest_lag, len(errors) // 3) + 1):
        correlation = (errors[lag:] * errors[:-lag]).sum(1).mean()
        if correlation < NUMBERS.least_correlation:
            break
        time += 2 * correlation
    return time


def made_up(along: np.ndarray, seed: int, light: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Positions (n, 2) and descriptors (n, 192) of images along a road; `light` is what they all share."""
    waves, noise = np.random.default_rng(0), np.random.default_rng(seed)
    at = np.column_stack([along, 30 * np.sin(along / 60)])
    looks = np.cos(at @ waves.normal(size=(2, 192)) / 8 + waves.uniform(0, 6.28, 192))
    looks = looks + 0.7 * noise.normal(size=looks.shape) + light * waves.normal(size=192)
    return at, unit(looks)


if __name__ == "__main__":
    positions, landmarks = made_up(np.arange(0, 400, 5.0), seed=1)
    truth, images = made_up(np.append(np.arange(2, 398, 7.0), np.arange(5000, 5050, 7.0)), seed=2, light=1.0)
    answers = Scratch(landmarks, positions).locate(images)
    errors = np.array([np.linalg.norm(answer.position - at) for answer, at in zip(answers, truth, strict=True)])
    sure = np.array([answer.confident for answer in answers])
    print(f"{sure.sum()} of {len(sure)} images confident, largest error of these {errors[sure].max():.2f} m")
