"""Places that ranges to known landmarks make likely, from where circles about the landmarks meet."""

from copy import copy
from functools import cache
from itertools import combinations
from math import comb, sqrt

import numpy as np

from mappable.arrays import Bools, Floats, Ints

FALSE = 0.1  # share of false ranges to expect
NOISE_COUNT = 2  # ranges that the stated sigma is worth
GROUPS, STARTS = 32, 6  # groups of landmarks whose circles are made to meet, and how many meetings are refined
STEPS, SIDE_STEPS = 20, 2
ENOUGH = 1e-3  # fall of the cost, below which no further step is taken
HOPELESS = 6.0  # cost above the best, from which on it does not matter where a place ends
AWAY = 2.0  # standard deviations: starts are that far apart, and there the covariance is measured
FLAT = 0.1  # sigmas by which landmarks may leave a point, or a line, before ranges tell
EXACT = 1e-7  # of the size of things: no sigma is smaller


class View:
    """The ranges seen from places (s, q), their squared noise being (s,) squared sigmas."""

    def __init__(self, landmarks: "Landmarks", places: Floats, noise: Floats) -> None:
        way, level = places[:, :, None] - landmarks.at, noise[:, None]
        distances = np.sqrt(np.square(way).sum(1)) + 1e-12
        units = way / distances[:, None]
        off = landmarks.metres - distances
        squared = np.square(off / landmarks.sigma)
        true = landmarks.peak / np.sqrt(level) * np.exp(-0.5 * squared / level)
        either = true + FALSE / landmarks.reach
        self.places, self.noise, self.chances = places, noise, true / either
        self.cost = 0.5 * NOISE_COUNT * (np.log(noise) + 1 / noise) - np.log(either).sum(1)
        weights = self.chances / (np.square(landmarks.sigma) * level)
        self.pull = (units @ (weights * off)[..., None])[..., 0]
        sideways = weights * np.maximum(-off / distances, 0.0)  # a landmark that is too far off pulls from all sides
        self.information = (units * (weights - sideways)[:, None]) @ units.transpose(0, 2, 1)
        self.information += (sideways.sum(1) + landmarks.weight)[:, None, None] * landmarks.identity
        if landmarks.weight:
            beside = landmarks.near - places
            self.cost += 0.5 * landmarks.weight * np.square(beside).sum(1)
            self.pull += landmarks.weight * beside
        self.squares, self.count = (self.chances * squared).sum(1), self.chances.sum(1)

    def likelier_noise(self, lost: int = 0) -> Floats:
        """The squared noise (s,) that the ranges show, `lost` of them being used up by the place."""
        noise: Floats = np.maximum(1.0, (self.squares + NOISE_COUNT) / np.maximum(self.count - lost + NOISE_COUNT, 1.0))
        return noise

    def take(self, rows: list[int]) -> "View":
        """Some of the places."""
        view = copy(self)
        vars(view).update({name: value[rows] for name, value in vars(self).items()})
        return view

    def replace(self, where: Bools, other: "View") -> None:
        """Take over some of the places of another view."""
        for name, value in vars(other).items():
            getattr(self, name)[where] = value[where]


class Landmarks:
    """Ranges to points (m, k), in q coordinates: of the directions square to all that points span one is enough.

    The weight 1 / σ² that the place is `near` another is 0 if nothing is known.
    """

    def __init__(self, points: Floats, metres: Floats, sigma: Floats, near: Floats, weight: float) -> None:
        seen = np.vstack([points, near]) if weight else points
        extents, axes = np.linalg.eigh(seen.T @ seen)
        size = sqrt(max(extents[-1], 0.0)) + float(metres.max())
        self.metres, self.sigma = metres, np.maximum(sigma, EXACT * size)
        self.spanned = int((extents > max(FLAT * self.sigma.min(), 10 * EXACT * size) ** 2).sum())
        self.q = min(len(axes), self.spanned + 1)
        self.identity = np.eye(self.q)
        self.axes = axes.T[::-1][: self.q]  # the longest first
        self.at, self.near, self.weight = self.axes @ points.T, self.axes @ near, weight
        self.peak = (1 - FALSE) / (sqrt(2 * np.pi) * self.sigma)
        self.reach = float(metres.max() + 3 * self.sigma.max())

    def starts(self) -> View:
        """Places, not close together, where circles meet and from which the ranges look best."""
        points, metres = self.at.T, self.metres
        if self.weight:
            points, metres = np.vstack([points, self.near]), np.append(metres, 0.0)
        places = _meetings(points, metres)
        view = View(self, places, np.ones(len(places)))
        cost, close = view.cost.copy(), np.square(AWAY * self.sigma).mean()
        chosen: list[int] = []
        while len(chosen) < STARTS and cost[best := int(cost.argmin())] < np.inf:
            chosen.append(best)
            cost[np.square(places - places[best]).sum(1) <= close] = np.inf
        return view.take(chosen)

    def fit(self, now: View, held: Floats | float = 0.0, steps: int = STEPS) -> View:
        """The likeliest places near those, by damped Gauss-Newton steps, which are small where `held` (s, q, q)."""
        damping = np.full(len(now.places), 1e-3)
        for _ in range(steps):
            size = np.einsum("sqq->s", now.information) + 1e-6 / self.reach**2
            stiff = now.information + size[:, None, None] * (held + damping[:, None, None] * self.identity)
            step = np.linalg.solve(stiff, now.pull[..., None])[..., 0]
            gain = (step * now.pull).sum(1)
            then = View(self, now.places + step, now.likelier_noise())
            better = then.cost <= now.cost + 1e-9
            if better.all():
                now = then
            else:
                now.replace(better, then)
            damping = np.maximum(damping * np.where(better, 0.1, 10.0), 1e-9)
            if gain[now.cost < now.cost.min() + HOPELESS].max() < ENOUGH:
                break
        return now

    def covariance(self, found: View, best: int) -> Floats:
        """Of a place (q, q), by how the cost c rises to both sides on each axis, the rest fitted anew: σ² = ½ δ² / c.

        The information alone gives too small a covariance where places that fit alike lie on an arc.
        """
        known, axes = np.linalg.eigh(found.information[best])
        away = axes.T * (AWAY / np.sqrt(np.maximum(known, 0.0) + 1 / self.reach**2))[:, None]
        held = 1e3 * axes.T[:, :, None] * axes.T[:, None]
        places = found.places[best] + np.concatenate([away, -away])
        start = View(self, places, np.full(len(places), found.noise[best]))
        sides = self.fit(start, np.concatenate([held, held]), SIDE_STEPS)
        off, rise = sides.places - found.places[best], np.maximum(sides.cost - found.cost[best], 0.05 * AWAY**2)
        covariance: Floats = 0.25 * (off.T / rise) @ off
        return covariance


def _meetings(points: Floats, metres: Floats) -> Floats:
    """Where circles (q = 2) or spheres (q = 3) about some groups of q points meet, or nearly: (n, q)."""
    q = points.shape[1]
    group = _groups(len(points), q)
    first, radius = points[group[:, 0]], metres[group]
    if q == 1:
        return np.concatenate([first - radius, first + radius])
    ways = points[group[:, 1:]] - first[:, None]
    squared = np.square(ways).sum(2)
    right = 0.5 * (np.square(radius[:, :1]) - np.square(radius[:, 1:]) + squared)
    ridge = (1e-12 * squared.max(1) + 1e-100)[:, None, None] * np.eye(q - 1)
    along = (np.linalg.solve(ways @ ways.transpose(0, 2, 1) + ridge, right[..., None]) * ways).sum(1)
    along *= np.minimum(1.0, radius[:, 0] / (np.linalg.norm(along, axis=1) + 1e-100))[:, None]
    height = np.sqrt(np.maximum(np.square(radius[:, 0]) - np.square(along).sum(1), 0.0))
    normal = ways[:, 0, ::-1] * [1.0, -1.0] if q == 2 else np.cross(ways[:, 0], ways[:, 1])
    normal *= (height / (np.linalg.norm(normal, axis=1) + 1e-100))[:, None]
    return np.concatenate([first + along + normal, first + along - normal])


@cache
def _groups(count: int, size: int) -> Ints:
    """Groups (n, size) of different numbers below `count`: all, or some if there are many."""
    if comb(count, size) <= GROUPS:
        return np.array(list(combinations(range(count), size)))
    some = np.arange(GROUPS)
    first, stride = some * count // GROUPS, 1 + some % ((count - 1) // 2)
    return (first[:, None] + stride[:, None] * np.arange(size)) % count
