"""The place model: a discrete Bayes filter over the states of a map and "off the map".

One image is a filter of length one with a uniform prior. A live camera is the filter forward. A
drive is the filter forward and backward. Odometry replaces the hidden speed. docs/method.md has the
equations.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from mappable.arrays import Floats, Floats32, Ints
from mappable.localization.likeness import Likeness, correlation_time
from mappable.localization.numbers import NUMBERS, PlaceNumbers
from mappable.localization.states import States, lost
from mappable.maps.store import Store

MOST_EXPONENT = 50.0
AT_ONCE = 256  # images whose likelihoods are computed together


@dataclass(frozen=True)
class Belief:
    """What the filter believes: probabilities (c, 2s) of speed class and state, and of being off
    the map.
    """

    on: Floats
    off: float


@dataclass(frozen=True)
class Shift:
    """What the images of a visit share: the mean (D,) of what their places do not explain.

    Errors of images that follow each other are alike, so an image counts `weight`, at most 1.
    """

    center: Floats32
    weight: float
    left: float = 0.0  # what places and shift do not explain, in squared lengths of descriptors


@dataclass(frozen=True)
class Posterior:
    """What the model says about images (n,).

    `states` (n, s) are probabilities; with `away` (n,), of being off the map, they add up to 1.
    `alone` (n, s) are probabilities of each image by itself if it is on the map. `evidence` is the
    log odds per independent image that images move as a camera moves, above those that are needed;
    it is 0 for single images.
    """

    states: csr_matrix
    away: Floats
    alone: csr_matrix
    evidence: float = 0.0

    @classmethod
    def join(cls, steps: "Sequence[Posterior]") -> "Posterior":
        """Images that were located one after another."""
        states, alone = (
            stacked([getattr(one, name) for one in steps]) for name in ("states", "alone")
        )
        return cls(states, np.concatenate([one.away for one in steps]), alone, steps[-1].evidence)


class PlaceModel:
    """The place model of landmarks at `positions` (m, k); `visits` are their rows by visit, in the
    order taken.
    """

    def __init__(
        self,
        store: Store,
        positions: Floats,
        visits: Sequence[Ints],
        numbers: PlaceNumbers = NUMBERS,
    ) -> None:
        self.numbers = numbers
        self.states = States(positions, visits, numbers)
        self.likeness = Likeness(store, visits, self.states, numbers)
        independent = max(len(positions) / self.likeness.time, 2.0)
        # Largest deviation among `independent` unrelated places.
        self._chance = float(np.sqrt(2 * np.log(independent)))

    # ------------------------------------------------------------------------------------------
    # three ways

    def single(self, images: Floats32, center: Floats32 | None = None) -> Posterior:
        """Locate each image (n, D) by itself. Images of one folder share their shift, unless its
        `center` is given.
        """
        if center is not None or len(images) == 1:
            return self._alone(images, self.likeness.mean if center is None else center)
        shift = self._learn(images, lambda shift: self._alone(images, shift.center).states)
        return self._alone(images, shift.center)

    def drive(self, images: Floats32, metres: Floats | None = None) -> Posterior:
        """Locate all images (n, D) of a drive together. `metres` (n,) is the way by odometry since
        the image before.
        """
        shift = self.learn(images, metres)
        deviations = self.deviations(images, shift.center)
        states, away, log = self._smooth(self.likelihood(deviations, shift.weight), metres)
        evidence = log / (shift.weight * len(images)) - self.numbers.proof
        return Posterior(states, away, self.alone(deviations), evidence)

    def learn(self, images: Floats32, metres: Floats | None) -> Shift:
        """The shift that the images (n, D) of a drive share, and what each image counts (equations
        4 to 6).
        """

        def locate(shift: Shift) -> csr_matrix:
            return self._smooth(
                self.likelihood(self.deviations(images, shift.center), shift.weight), metres
            )[0]

        return self._learn(images, locate)

    def _learn(self, images: Floats32, locate: Callable[[Shift], csr_matrix]) -> Shift:
        """The shift of images (n, D) that leaves over least: none, or one that begins with all that
        they share.
        """
        likeness = self.likeness
        weight = 1 / correlation_time(images - images.mean(0), self.numbers)
        none, some = Shift(likeness.mean, weight), Shift(images.mean(0), weight)
        for _ in range(self.numbers.passes - 1):
            none = Shift(*likeness.explain(images, locate(none), none.weight, shifted=False))
            some = Shift(*likeness.explain(images, locate(some), some.weight))
        return none if none.left <= some.left else some

    def live(self) -> "Live":
        """Follow a camera, image by image."""
        return Live(self)

    # ------------------------------------------------------------------------------------------
    # observation

    def likelihood(
        self, deviations: Floats, weight: float, sharpness: float | None = None
    ) -> Floats:
        """Likelihoods (n, s) of states against "elsewhere", of images that count `weight` each
        (equations 7 and 8).
        """
        numbers = self.numbers
        sharp = weight * (sharpness or numbers.sharpness)
        odds = np.exp(np.clip(sharp * deviations, -MOST_EXPONENT, MOST_EXPONENT))
        odds /= (odds @ self.states.share)[:, None]
        gain = min(sharp, self._chance)
        price = numbers.price * (gain * self._chance - gain**2 / 2)
        likelihood: Floats = ((1 - numbers.blind) * odds + numbers.blind) * np.exp(-price)
        return likelihood

    def deviations(self, images: Floats32, center: Floats32) -> Floats:
        parts = [images[start : start + AT_ONCE] for start in range(0, len(images), AT_ONCE)]
        return np.concatenate([self.likeness.deviations(part, center) for part in parts])

    def _alone(self, images: Floats32, center: Floats32) -> Posterior:
        deviations = self.deviations(images, center)
        alone = self.alone(deviations)
        presence = self.numbers.single_sharpness * (deviations.max(1) - self._chance)
        away = 1 / (1 + np.exp(np.clip(presence, -MOST_EXPONENT, MOST_EXPONENT)))
        return Posterior(csr_matrix(alone.multiply((1 - away)[:, None])), away, alone)

    def alone(self, deviations: Floats) -> csr_matrix:
        """Probabilities (n, s) of images by themselves, if they are on the map."""
        probability = (
            self.likelihood(deviations, 1.0, self.numbers.single_sharpness) * self.states.share
        )
        return self._sparse(probability / probability.sum(1, keepdims=True))

    def folded(self, on: Floats) -> csr_matrix:
        """Probabilities (1, s) of states, from those of classes of speed and senses of travel (c,
        2s).
        """
        both = on.sum(0)
        return self._sparse((both[: len(self.states)] + both[len(self.states) :])[None])

    def _sparse(self, probability: Floats) -> csr_matrix:
        """The same probabilities (n, s) without negligible ones, with the same sums."""
        kept = np.where(
            probability >= self.numbers.negligible * probability.max(1, keepdims=True),
            probability,
            0.0,
        )
        kept *= (probability.sum(1) / np.maximum(kept.sum(1), 1e-300))[:, None]
        return csr_matrix(kept)

    # ------------------------------------------------------------------------------------------
    # motion

    @property
    def nowhere(self) -> Belief:
        """Before the first image: anywhere on the map, or off it."""
        return Belief(self._anywhere / 2, 0.5)

    @cached_property
    def _anywhere(self) -> Floats:
        classes = len(self.states.speeds)
        return np.tile(self.states.share, (classes, 2)) / 2 / classes

    def move(self, belief: Belief, metres: float | None = None) -> Belief:
        """The belief one image later (equation 9)."""
        numbers = self.numbers
        stay = 1 - numbers.leave - numbers.jump
        before = belief.on if metres is not None else self.states.change.T @ belief.on
        moved = np.empty_like(before)
        least = numbers.negligible * float(before.max())
        for number, kernel in enumerate(self._kernels(metres)):
            likely = np.flatnonzero(before[number] > least)
            sparse = 4 * len(likely) < before.shape[1]
            moved[number] = (
                kernel[likely].T @ before[number, likely] if sparse else kernel.T @ before[number]
            )
        total = float(belief.on.sum())
        fresh = numbers.jump * total + numbers.enter * belief.off
        lost = stay * max(total - float(moved.sum()), 0.0)
        off = numbers.leave * total + lost + (1 - numbers.enter) * belief.off
        return Belief(stay * moved + fresh * self._anywhere, off)

    def see(self, belief: Belief, likelihood: Floats) -> tuple[Belief, float]:
        """The belief after an image with likelihoods (s,), and the log evidence of the image."""
        on = belief.on * np.tile(likelihood, 2)
        total = float(on.sum()) + belief.off
        return Belief(on / total, belief.off / total), float(np.log(total))

    def _kernels(self, metres: float | None) -> Sequence[csr_matrix]:
        if metres is None:
            return self.states.kernels
        return [self.states.kernel(metres, self.numbers.odometry_noise)] * len(self.states.speeds)

    def forward(
        self, likelihood: Floats, metres: Floats | None = None
    ) -> tuple[list[Belief], float]:
        """The belief after each image (n,), and the log evidence of all."""
        belief, log = self.nowhere, 0.0
        beliefs = []
        for row in range(len(likelihood)):
            if row:
                belief = self.move(belief, _known(metres, row))
            belief, gained = self.see(belief, likelihood[row])
            log += gained
            beliefs.append(Belief(belief.on.astype(np.float32), belief.off))
        return beliefs, log

    def _smooth(
        self, likelihood: Floats, metres: Floats | None
    ) -> tuple[csr_matrix, Floats, float]:
        """Forward and backward: probabilities (n, s) of states, of "off the map" (n,), and the log
        evidence.
        """
        beliefs, log = self.forward(likelihood, metres)
        numbers = self.numbers
        stay = 1 - numbers.leave - numbers.jump
        anywhere = self._anywhere
        later, later_off = np.ones_like(beliefs[0].on, dtype=np.float64), 1.0
        rows = []
        away = np.empty(len(beliefs))
        for row in range(len(beliefs) - 1, -1, -1):
            on, off = beliefs[row].on * later, beliefs[row].off * later_off
            total = float(on.sum()) + off
            rows.append(self.folded(on / total))
            away[row] = off / total
            if not row:
                break
            seen = later * np.tile(likelihood[row], 2)
            fresh = float((anywhere * seen).sum())
            way = _known(metres, row)
            kernels = self._kernels(way)
            carried = np.stack([kernel @ own for kernel, own in zip(kernels, seen, strict=True)])
            carried += later_off * (self.states.lost if way is None else lost(kernels))
            carried = carried if way is not None else self.states.change @ carried
            later = stay * carried + numbers.leave * later_off + numbers.jump * fresh
            later_off = numbers.enter * fresh + (1 - numbers.enter) * later_off
            largest = max(float(later.max()), later_off)
            later, later_off = later / largest, later_off / largest
        return stacked(rows[::-1]), away, log


def _known(metres: Floats | None, row: int) -> float | None:
    return None if metres is None or np.isnan(metres[row]) else float(metres[row])


def stacked(rows: list[csr_matrix]) -> csr_matrix:
    starts = np.cumsum([0, *(row.nnz for row in rows)])
    columns, values = (
        np.concatenate([getattr(row, name) for row in rows]) for name in ("indices", "data")
    )
    return csr_matrix((values, columns, starts), (len(rows), rows[0].shape[1]))


class Live:
    """A camera that moves: the filter forward. It learns the shift of the camera as it goes.

    A new camera's past is located again after 2, 4, 8, ... images, with the shift that is known
    then. After REMEMBERED images, each block of that many corrects the shift.
    """

    REMEMBERED = 32
    MEMORY = 256

    def __init__(self, model: PlaceModel) -> None:
        self.model = model
        self.shift: Shift | None = None  # of the camera, from earlier images
        self.forget()

    def forget(self) -> None:
        """The camera may be anywhere; its shift stays."""
        self.belief = self.model.nowhere
        self.new = self.shift is None  # whether the camera's shift is to be learned
        self.count = 0
        self.log = 0.0
        self.images: list[Floats32] = []  # of this block
        self.metres: list[float] = []
        self.states: list[csr_matrix] = []

    def update(self, image: Floats32, metres: float | None = None) -> Posterior:
        """Take an image (D,), with the way by odometry since the last one."""
        model = self.model
        self.count += 1
        self.images.append(image)
        self.metres.append(np.nan if metres is None else metres)
        shift = self.shift or Shift(model.likeness.mean, 1.0)
        deviations = model.likeness.deviations(image[None], shift.center)
        if self.count > 1:
            self.belief = model.move(self.belief, metres)
        self.belief, log = model.see(self.belief, model.likelihood(deviations, shift.weight)[0])
        self.log += log
        if self.new and self.count > 1 and self.count & (self.count - 1) == 0:
            deviations = self._locate_again()
        states = model.folded(self.belief.on)
        self.states.append(states)
        if len(self.images) == self.REMEMBERED:
            self._correct()
        counts = self.count * (self.shift.weight if self.shift else 1.0)
        evidence = self.log / counts - model.numbers.proof
        return Posterior(
            states, np.array([self.belief.off]), model.alone(deviations[-1:]), evidence
        )

    def memory(self) -> dict[str, NDArray[Any]]:
        """Everything that it remembers, as arrays."""
        likely = np.flatnonzero(self.belief.on)
        dimensions = self.model.likeness.store.dimensions
        states = stacked(self.states) if self.states else csr_matrix((0, len(self.model.states)))
        return {
            "cells": likely,
            "probability": self.belief.on.ravel()[likely],
            "numbers": np.array(
                [
                    self.belief.off,
                    self.log,
                    self.count,
                    self.shift.weight if self.shift else np.nan,
                    self.new,
                ]
            ),
            "center": self.shift.center if self.shift else np.empty(0, dtype=np.float32),
            "images": np.array(self.images, dtype=np.float32).reshape(-1, dimensions),
            "metres": np.array(self.metres, dtype=np.float64),
            "states": states.data,
            "columns": states.indices,
            "starts": states.indptr,
        }

    def restore(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `memory` returned; raise KeyError or ValueError for anything else."""
        off, log, count, weight, new = memory["numbers"].tolist()
        on = np.zeros_like(self.belief.on)
        if memory["cells"].max(initial=0) >= on.size or len(memory["center"]) not in (
            0,
            memory["images"].shape[1],
        ):
            raise ValueError("its states are not those of the map")
        on.ravel()[memory["cells"]] = memory["probability"]
        self.belief = Belief(on, off)
        self.log, self.count, self.new = log, int(count), bool(new)
        self.shift = None if np.isnan(weight) else Shift(memory["center"], weight)
        self.images, self.metres = list(memory["images"]), memory["metres"].tolist()
        shape = (len(memory["starts"]) - 1, len(self.model.states))
        states = csr_matrix((memory["states"], memory["columns"], memory["starts"]), shape)
        self.states = [states[row] for row in range(shape[0])]

    def _locate_again(self) -> Floats:
        """Locate all images so far with the shift that they show; return the deviations of the last
        one.
        """
        images, model = np.stack(self.images), self.model
        metres = np.array(self.metres)
        self.shift = model.learn(images, metres)
        deviations = model.deviations(images, self.shift.center)
        beliefs, self.log = model.forward(model.likelihood(deviations, self.shift.weight), metres)
        self.belief = beliefs[-1]
        return deviations

    def _correct(self) -> None:
        """Correct the shift by the last block of images, and forget them."""
        if self.shift and not self.new:
            images, states = np.stack(self.images), stacked(self.states)
            center, weight, _ = self.model.likeness.explain(images, states, self.shift.weight)
            share = np.float32(self.REMEMBERED / self.MEMORY)
            center = (1 - share) * self.shift.center + share * center
            self.shift = Shift(center, float((1 - share) * self.shift.weight + share * weight))
        self.new = False
        self.images, self.metres, self.states = [], [], []
