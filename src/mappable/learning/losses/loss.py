"""Losses by name: a visual loss, a geometric loss, or both, L = L_NV + γ L_VG (the paper's section III)."""

import math
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches

import torch
from torch import Tensor

from mappable.errors import BadInputError
from mappable.learning.layout import Layout
from mappable.learning.losses.terms import (
    GEOMETRIC,
    VISUAL,
    Margins,
    TupleDistances,
    hinges,
    normalized_residuals,
    tuple_distances,
)

LOSS_NAMES = (
    *VISUAL,
    *GEOMETRIC,
    *(f"{visual}+{geometric}" for geometric in GEOMETRIC for visual in VISUAL),
)


@dataclass(frozen=True)
class Terms:
    """Values of a loss for B anchors, each (B,). Only `total` has a gradient; the other values are
    for monitoring.

    A loss without a visual term has zeros in `visual`, `active` and `negative`. A loss without a
    geometric term has zeros in `geometric`.
    """

    total: Tensor  # visual + γ geometric, or the only term
    visual: Tensor  # L_NV
    geometric: Tensor  # L_VG, before γ
    active: Tensor  # fraction of hinges above zero; lazy losses count all hinges too
    best: Tensor  # s*, squared feature distance to the nearest positive
    negative: Tensor  # mean of s⁻ over negatives
    # Mean of |e| over the positives, also computed if the loss has no geometric term.
    residual: Tensor


@dataclass(frozen=True)
class Loss:
    """One of the losses `LOSS_NAMES` with its options. Call it with descriptors to get `Terms`.

    >>> Loss("lazy-quadruplet+huber", feature_scale_squared=2.0, positive_radius=10.0).layout
    Layout(positives=6, hard=3, random=2, other=True)
    """

    name: str
    _: KW_ONLY
    # F²: squared feature distance that corresponds to the positive radius.
    feature_scale_squared: float
    positive_radius: float  # r₁ in metres
    margin: float = 0.1  # α
    second_margin: float = 0.2  # β, of quadruplets
    geometric_weight: float = 0.5  # γ, of losses with a visual and a geometric term
    huber_delta: float = 1.0  # δ, in the unit of the residuals
    positives: int = 6
    negatives: int = 6  # including the other negative of quadruplets
    hard_negatives: int = 3

    def __post_init__(self) -> None:
        if self.name not in LOSS_NAMES:
            raise BadInputError(_unknown(self.name))
        for option in ("feature_scale_squared", "positive_radius", "huber_delta"):
            if not 0 < getattr(self, option) < math.inf:
                raise BadInputError(
                    f"{option} is {getattr(self, option)}, expected a number above 0"
                )
        for option in ("margin", "second_margin", "geometric_weight"):
            if not 0 <= getattr(self, option) < math.inf:
                raise BadInputError(f"{option} must be 0 or more, got {getattr(self, option)}")
        if self.positives < 1:
            raise BadInputError(f"positives must be 1 or more, got {self.positives}")
        if self._visual:
            self._check_negatives()

    def _check_negatives(self) -> None:
        other = int(self._quadruplet)
        if self.negatives < 1 + other:
            raise BadInputError(
                f"negatives must be {1 + other} or more for the loss {self.name!r}, got"
                f" {self.negatives}"
            )
        if not 0 <= self.hard_negatives <= self.negatives - other:
            raise BadInputError(
                f"hard_negatives is {self.hard_negatives}, expected 0 to {self.negatives - other}"
                f" for the loss {self.name!r} with {self.negatives} negatives"
            )

    @property
    def layout(self) -> Layout:
        """The images in a tuple of this loss. A loss without a visual term needs no negatives."""
        if not self._visual:
            return Layout(self.positives, hard=0, random=0, other=False)
        random = self.negatives - self.hard_negatives - self._quadruplet
        return Layout(self.positives, self.hard_negatives, random, self._quadruplet)

    @property
    def is_geometric(self) -> bool:
        """True if the loss makes feature distances follow distances in the world."""
        return bool(self._geometric)

    @property
    def _visual(self) -> str:
        """Name of the visual term, or empty."""
        return next((part for part in self.name.split("+") if part in VISUAL), "")

    @property
    def _geometric(self) -> str:
        """Name of the geometric term, or empty."""
        return next((part for part in self.name.split("+") if part in GEOMETRIC), "")

    @property
    def _quadruplet(self) -> bool:
        return self._visual.endswith("quadruplet")

    def __call__(self, descriptors: Tensor, squared_distances: Tensor) -> Terms:
        """Return the loss of each of B anchors, not averaged.

        `descriptors` (B, layout.images, D) have length one and the order of the layout.
        `squared_distances` (B, positives) are squared distances in the world between anchor and
        positives, in squared metres.
        """
        self._check_shapes(descriptors, squared_distances)
        distances = tuple_distances(descriptors, self.layout)
        scales = self.feature_scale_squared, self.positive_radius
        residuals = normalized_residuals(distances.positive, squared_distances, *scales)
        costs = GEOMETRIC[self._geometric or "distance"](residuals, self.huber_delta)
        geometric = costs.mean(dim=1)
        visual, active, negative = self._visual_terms(distances)
        nothing = torch.zeros_like(geometric)
        if not self._geometric:
            total, geometric = visual, nothing
        elif not self._visual:
            total = geometric
        else:
            total = visual + self.geometric_weight * geometric
        monitored = (
            visual,
            geometric,
            active,
            distances.best,
            negative,
            residuals.abs().mean(dim=1),
        )
        return Terms(total, *(value.detach() for value in monitored))

    def _visual_terms(self, distances: TupleDistances) -> tuple[Tensor, Tensor, Tensor]:
        """Visual loss, fraction of active hinges, and mean squared distance to the negatives, each
        (B,).
        """
        if not self._visual:
            nothing = torch.zeros_like(distances.best)
            return nothing, nothing, nothing
        margins = Margins(self.margin, self.second_margin)
        first = hinges(distances.best, distances.negative, self.margin)
        second = hinges(distances.best, distances.other, self.second_margin)
        visual = VISUAL[self._visual](distances, margins)
        active = (torch.cat([first, second], dim=1) > 0).to(visual).mean(dim=1)
        return visual, active, distances.negative.mean(dim=1)

    def _check_shapes(self, descriptors: Tensor, squared_distances: Tensor) -> None:
        """Raise for wrong shapes. They might broadcast and silently give another loss."""
        shapes = (*descriptors.shape[:2], *squared_distances.shape)
        expected = (len(descriptors), self.layout.images, len(descriptors), self.positives)
        if descriptors.ndim != 3 or shapes != expected:
            raise BadInputError(
                f"the loss {self.name!r} expects descriptors (B, {self.layout.images}, D) and"
                f" squared distances (B, {self.positives}), got {tuple(descriptors.shape)} and"
                f" {tuple(squared_distances.shape)}"
            )


def _unknown(name: str) -> str:
    nearest = get_close_matches(name, LOSS_NAMES, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
    return f"unknown loss {name!r}{hint} The losses are {', '.join(LOSS_NAMES)}"
