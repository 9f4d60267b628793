"""A loss by its name: a visual one, a geometric one, or both, L = L_NV + γ L_VG (the paper's section III)."""

import math
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches
from typing import Literal, get_args

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
    literal_residuals,
    normalised_residuals,
    residual_hinges,
    tuple_distances,
)

LOSS_NAMES = (*VISUAL, *GEOMETRIC, *(f"{visual}+{geometric}" for geometric in GEOMETRIC for visual in VISUAL))

SecondHinge = Literal["features", "residuals"]
GeometricPairs = Literal["anchor", "all"]


@dataclass(frozen=True)
class Terms:
    """What a loss says of each of B anchors, all (B,). Only `total` has a gradient; the rest is for the eye.

    A loss without visual term has zeros for `visual`, `active` and `negative`; one without geometric term for
    `geometric`.
    """

    total: Tensor  # visual + γ geometric, or the one there is
    visual: Tensor  # L_NV
    geometric: Tensor  # L_VG, before γ
    active: Tensor  # share of hinges above zero, of all of them for lazy losses too
    best: Tensor  # s*, squared feature distance to the nearest positive
    negative: Tensor  # mean of s⁻ over negatives
    residual: Tensor  # mean of |e| over the pairs, as the geometric term has it or would have it


@dataclass(frozen=True)
class Loss:
    """One of the `LOSS_NAMES`, with its options: call it with descriptors to get `Terms`.

    >>> Loss("lazy-quadruplet+huber", feature_scale_squared=2.0, positive_radius=10.0).layout
    Layout(positives=6, hard=3, random=2, other=True, all_pairs=False)
    """

    name: str
    _: KW_ONLY
    feature_scale_squared: float  # F²: squared feature distance that stands for the positive radius
    positive_radius: float  # r₁ in metres
    margin: float = 0.1  # α
    second_margin: float = 0.2  # β, of quadruplets
    geometric_weight: float = 0.5  # γ, of losses with a visual and a geometric term
    huber_delta: float = 1.0  # δ, in the unit of the residuals
    normalised: bool = True  # else the paper's literal form: residuals in squared metres, summed over positives
    second_hinge: SecondHinge = "features"  # or as released: see residual_hinges in terms.py
    geometric_pairs: GeometricPairs = "anchor"  # with each positive, as in the paper; or all of anchor and positives
    positives: int = 6
    negatives: int = 6  # the other negative of quadruplets included
    hard_negatives: int = 3

    def __post_init__(self) -> None:
        if self.name not in LOSS_NAMES:
            raise BadInputError(_unknown(self.name))
        for option in ("feature_scale_squared", "positive_radius", "huber_delta"):
            if not 0 < getattr(self, option) < math.inf:
                raise BadInputError(f"{option} {getattr(self, option)} is not a number above 0")
        for option in ("margin", "second_margin", "geometric_weight"):
            if not 0 <= getattr(self, option) < math.inf:
                raise BadInputError(f"{option} {getattr(self, option)} is not a number of at least 0")
        if self.positives < 1:
            raise BadInputError(f"positives {self.positives}: a tuple needs at least one")
        if self._visual:
            self._check_negatives()
        self._check_choices()

    def _check_negatives(self) -> None:
        other = int(self._quadruplet)
        if self.negatives < 1 + other:
            raise BadInputError(f"negatives {self.negatives}: the loss {self.name!r} needs at least {1 + other}")
        if not 0 <= self.hard_negatives <= self.negatives - other:
            raise BadInputError(
                f"hard_negatives {self.hard_negatives} of {self.negatives} negatives: the loss {self.name!r} has room "
                f"for 0 to {self.negatives - other}"
            )

    def _check_choices(self) -> None:
        if self.geometric_pairs not in get_args(GeometricPairs):
            raise BadInputError(f"geometric_pairs {self.geometric_pairs!r} is neither 'anchor' nor 'all'")
        if self.second_hinge not in get_args(SecondHinge):
            raise BadInputError(f"second_hinge {self.second_hinge!r} is neither 'features' nor 'residuals'")
        if self.second_hinge == "residuals" and not (self._quadruplet and self._geometric and self.normalised):
            raise BadInputError(
                "second_hinge 'residuals' needs a quadruplet loss with a geometric term and normalised residuals, "
                f"not {self.name!r}{'' if self.normalised else ' with normalised false'}"
            )

    @property
    def layout(self) -> Layout:
        """The images this loss wants in a tuple: those without visual term want no negatives."""
        all_pairs = bool(self._geometric) and self.geometric_pairs == "all"
        if not self._visual:
            return Layout(self.positives, hard=0, random=0, other=False, all_pairs=all_pairs)
        random = self.negatives - self.hard_negatives - self._quadruplet
        return Layout(self.positives, self.hard_negatives, random, self._quadruplet, all_pairs)

    @property
    def is_geometric(self) -> bool:
        """True if it makes feature distances follow those in the world."""
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
        """The loss of each of B anchors, not averaged over them.

        `descriptors` (B, layout.images, D) of unit norm follow each other as the layout says; `squared_distances`
        (B, layout.pairs), in squared metres, are those of the anchor to its positives in the world, and then of the
        positives to each other if all pairs count.
        """
        self._check_shapes(descriptors, squared_distances)
        distances = tuple_distances(descriptors, self.layout)
        form = normalised_residuals if self.normalised else literal_residuals
        residuals = form(distances.near, squared_distances, self.feature_scale_squared, self.positive_radius)
        costs = GEOMETRIC[self._geometric or "distance"](residuals, self.huber_delta)
        geometric = costs.mean(dim=1) if self.normalised else costs.sum(dim=1)
        visual, active, negative = self._visual_terms(distances, costs)
        nothing = torch.zeros_like(geometric)
        if not self._geometric:
            total, geometric = visual, nothing
        elif not self._visual:
            total = geometric
        else:
            total = visual + self.geometric_weight * geometric
        watched = (visual, geometric, active, distances.best, negative, residuals.abs().mean(dim=1))
        return Terms(total, *(value.detach() for value in watched))

    def _visual_terms(self, distances: TupleDistances, costs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The visual loss, the share of active hinges and the mean squared distance of the negatives, (B,) each."""
        if not self._visual:
            nothing = torch.zeros_like(distances.best)
            return nothing, nothing, nothing
        margins = Margins(self.margin, self.second_margin)
        first = hinges(distances.best, distances.negative, self.margin)
        if self.second_hinge == "residuals":
            own = costs[:, : self.positives]
            second = residual_hinges(own, distances.other, self.feature_scale_squared, self.second_margin)
            triplets = VISUAL[self._visual.replace("quadruplet", "triplet")](distances, margins)
            visual = triplets + second.max(dim=1).values
        else:
            second = hinges(distances.best, distances.other, self.second_margin)
            visual = VISUAL[self._visual](distances, margins)
        active = (torch.cat([first, second], dim=1) > 0).to(visual).mean(dim=1)
        return visual, active, distances.negative.mean(dim=1)

    def _check_shapes(self, descriptors: Tensor, squared_distances: Tensor) -> None:
        """Shapes that are wrong may still broadcast, to a loss that is quietly another one."""
        images = (*descriptors.shape[:2], *squared_distances.shape)
        expected = (len(descriptors), self.layout.images, len(descriptors), self.layout.pairs)
        if descriptors.ndim != 3 or images != expected:
            raise BadInputError(
                f"the loss {self.name!r} wants descriptors (B, {self.layout.images}, D) and squared distances "
                f"(B, {self.layout.pairs}), not {tuple(descriptors.shape)} and {tuple(squared_distances.shape)}"
            )


def _unknown(name: str) -> str:
    nearest = get_close_matches(name, LOSS_NAMES, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
    return f"there is no loss {name!r}{hint} There are {', '.join(LOSS_NAMES)}"
