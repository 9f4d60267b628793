"""From probabilities of states to answers: positions, covariances, intervals, and whether the place is sure."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.localization.place_model import PlaceModel, Posterior

MOST_STATES = 400  # likeliest states of an image that may be the middle of its place


@dataclass(frozen=True)
class Place:
    """The likeliest place of an image: probabilities of its states, which add up to 1, and a rival
    place if any.
    """

    states: Ints  # (c,)
    share: Floats  # (c,)
    mass: float  # probability of the place
    rival: int  # likeliest state elsewhere, or -1
    rival_mass: float  # probability of the place around the rival


class Answers:
    """What the place model says about images (n,). A place has the `radius`; `width` scales
    intervals (equation 10).
    """

    def __init__(
        self, model: PlaceModel, posterior: Posterior, radius: float, width: float = 1.0
    ) -> None:
        self.model, self.posterior, self.radius, self.width = model, posterior, radius, width
        self.away = posterior.away
        self.places = [self._place(row) for row in range(len(self.away))]
        at = model.states.positions
        self.positions: Floats = np.array([place.share @ at[place.states] for place in self.places])
        self.mass: Floats = np.array([place.mass for place in self.places])

    @cached_property
    def covariances(self) -> Floats:
        """Covariances (n, k, k) of the positions, if the place is right."""
        at = self.model.states.positions
        noise = self._noise**2 * np.eye(at.shape[1])
        spreads = []
        for place, position in zip(self.places, self.positions, strict=True):
            off = at[place.states] - position
            spreads.append((place.share[:, None] * off).T @ off + noise)
        covariances: Floats = self.width**2 * np.array(spreads)
        return covariances

    def intervals(self, coverage: float) -> Floats:
        """Distances (n,) from the positions that hold the truth with a probability of `coverage`.

        The probability includes all places. If an image may be off the map, it is where it seems to
        be by itself, or anywhere, with equal odds.
        """
        states, numbers = self.model.states, self.model.numbers
        noise = self._noise * np.sqrt(2) * _inverse_error(coverage)
        ends = np.empty(len(self.places))
        for row, position in enumerate(self.positions):
            weight = states.share * (numbers.outside + (1 - numbers.outside) * self.away[row] / 2)
            weight = weight + (1 - numbers.outside) * self._weights(row, self.away[row] / 2)
            away = np.linalg.norm(states.positions - position, axis=1)
            order = np.argsort(away)
            total = np.cumsum(weight[order])
            last = min(int(np.searchsorted(total, coverage * total[-1])), len(order) - 1)
            ends[row] = np.hypot(away[order[last]], noise)
        scaled: Floats = self.width * ends
        return scaled

    def landmarks(self) -> Ints:
        """The likeliest landmark (n,) of each place."""
        states = self.model.states
        chosen = np.empty(len(self.places), dtype=np.int64)
        for row, place in enumerate(self.places):
            both = np.concatenate([states.first[place.states], states.second[place.states]])
            blend = states.blend[place.states]
            names, which = np.unique(both, return_inverse=True)
            weight = np.concatenate([place.share * (1 - blend), place.share * blend])
            chosen[row] = names[np.bincount(which, weight).argmax()]
        return chosen

    def possible(self, row: int, most: int, least: float) -> list[tuple[int, float]]:
        """The likeliest places of an image: a state each, and the probability around it; at most
        `most`.
        """
        at = self.model.states.positions
        belief = self._weights(row, 0.0)
        likely = np.flatnonzero(belief)
        likely = likely[np.argsort(-belief[likely])][:MOST_STATES]
        found: list[tuple[int, float]] = []
        while len(likely) and len(found) < most:
            near = np.linalg.norm(at[likely][:, None] - at[likely], axis=2) <= self.radius
            around = near @ belief[likely]
            best = int(around.argmax())
            if around[best] < least:
                break
            inside = np.linalg.norm(at[likely] - at[likely[best]], axis=1) <= self.radius
            found.append(
                (int(likely[inside][belief[likely[inside]].argmax()]), float(around[best]))
            )
            likely = likely[np.linalg.norm(at[likely] - at[likely[best]], axis=1) > 2 * self.radius]
        return found

    def headings(self, yaw: Floats) -> Floats:
        """Directions (n,) in which images look, by those of the landmarks (m,); NaN if unknown."""
        states = self.model.states
        turned = np.exp(1j * yaw)
        found = np.full(len(self.places), np.nan)
        for row, place in enumerate(self.places):
            mixed = (1 - states.blend[place.states]) * turned[states.first[place.states]]
            mixed = mixed + states.blend[place.states] * turned[states.second[place.states]]
            known = np.isfinite(mixed)
            if known.any():
                found[row] = np.angle((place.share * mixed)[known].sum())
        return found

    @property
    def _noise(self) -> float:
        return self.model.numbers.position_noise * self.model.states.spacing

    def _weights(self, row: int, alone: float) -> Floats:
        """Probabilities (s,) of the states of an image, with a share for what it shows by itself."""
        weights = np.zeros(len(self.model.states))
        for matrix, share in ((self.posterior.states, 1.0), (self.posterior.alone, alone)):
            own = slice(matrix.indptr[row], matrix.indptr[row + 1])
            weights[matrix.indices[own]] += share * matrix.data[own]
        return weights

    def _place(self, row: int) -> Place:
        """The place with the largest probability. If the image seems off the map, what it shows by
        itself counts.
        """
        at = self.model.states.positions
        belief = self._weights(row, float(self.away[row]))
        likely = np.flatnonzero(belief)
        if len(likely) > MOST_STATES:
            likely = likely[np.argpartition(-belief[likely], MOST_STATES)[:MOST_STATES]]
        near = np.linalg.norm(at[likely][:, None] - at[likely], axis=2) <= self.radius
        around = near @ belief[likely]
        best = int(around.argmax())
        inside = likely[near[best]]
        share = belief[inside] / belief[inside].sum()
        middle = share @ at[inside]
        path = self._weights(row, 0.0)[likely]
        away = np.linalg.norm(at[likely] - middle, axis=1)
        others = np.where(away > 2 * self.radius, around, 0.0)
        rival = int(others.argmax())
        return Place(
            states=inside,
            share=share,
            mass=float(path[away <= self.radius].sum()),
            rival=int(likely[rival]) if others[rival] > 0 else -1,
            rival_mass=float(others[rival]),
        )


def _inverse_error(coverage: float) -> float:
    from scipy.special import erfinv

    return float(erfinv(coverage))
