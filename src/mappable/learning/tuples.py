"""Draw tuples: anchors in random order, their positives and their negatives."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.learning.layout import Layout
from mappable.learning.mining import FeatureCache
from mappable.places.table import Places
from mappable.randomness import Purpose, generator

# What is looked at together stays near the caches of a CPU, below 256 MiB; a GPU wants more work at once, below 2 GiB.
PAIRS_A_CHUNK = {"cpu": 2**20, "cuda": 2**25}  # of anchors with places, at some 40 bytes each
ANCHORS_A_CHUNK = {"cpu": 2**10, "cuda": 2**12}  # whose features, 128 KiB each, are copied


@dataclass(frozen=True)
class Tuples:
    """Tuples of images, one an anchor, as rows of the training set.

    `rows` (n, layout.images) int64 in the layout's order; `squared_distances` (n, layout.pairs) float32 between anchor
    and positives, and all pairs of them if the layout says so, in the square of the frame's unit; `valid` (n,) bool is
    False where there is no other negative: such a tuple must not be trained on (the anchor's own row stands in for the
    other negative).
    """

    rows: Tensor
    squared_distances: Tensor
    valid: Tensor
    layout: Layout

    def __getitem__(self, part: slice) -> "Tuples":
        """Some of the tuples: a batch of them."""
        return Tuples(self.rows[part], self.squared_distances[part], self.valid[part], self.layout)

    def cpu(self) -> "Tuples":
        """The same tuples in the host's memory."""
        return Tuples(self.rows.cpu(), self.squared_distances.cpu(), self.valid.cpu(), self.layout)

    def state(self) -> dict[str, Tensor]:
        """The tensors by name, for a checkpoint."""
        return {"rows": self.rows, "squared_distances": self.squared_distances, "valid": self.valid}


class Sampler:
    """Draws anchors and their tuples from the training places, all from one seed.

    Positives of a place are the others at most `positive_radius` away whose yaw, if there is a `yaw_limit` (radians),
    differs by less; negatives are those at least `negative_radius` away, whatever their yaw. Both radii are in the
    frames' unit, and both share their anchor's frame. With `other_runs` positives are of another sequence than their
    anchor, as far as there are such.

    A place without positives, or with fewer than `negatives` negatives, is no anchor: `skipped_without_positives` and
    `skipped_without_negatives` (which leaves out those already in the former) hold their rows, `usable` all others.

    The random numbers come from NumPy, so every device draws the same tuples from a seed, and so does every loss: the
    same anchors and positives, and of the random negatives, as long as the hard ones agree, as many as it uses.
    """

    def __init__(
        self,
        places: Places,
        *,
        positive_radius: float,
        negative_radius: float,
        yaw_limit: float | None = None,
        negatives: int = 6,
        seed: int = 0,
        device: torch.device | str = "cpu",
        other_runs: bool = False,
    ) -> None:
        _check(places, positive_radius, negative_radius, yaw_limit)
        self.places = places
        self.positive_radius, self.negative_radius, self.yaw_limit = positive_radius, negative_radius, yaw_limit
        self.negatives, self.seed = negatives, seed
        self.device = torch.device(device)
        self._coordinates = torch.tensor(places.positions.T, device=self.device)  # (dimensions, n) float64
        self._yaw = torch.tensor(places.yaw, device=self.device)
        names, codes = np.unique(places.frame, return_inverse=True)
        self._frame = torch.tensor(codes, device=self.device) if len(names) > 1 else None
        runs = np.unique(places.sequence, return_inverse=True)[1]
        self._run = torch.tensor(runs, device=self.device) if other_runs else None
        self._find_usable()

    def __len__(self) -> int:
        """How many training places there are."""
        return self._coordinates.shape[1]

    def batches_per_epoch(self, batch: int) -> int:
        """Iterations of `batch` anchors in an epoch; the anchors left over at its end are skipped."""
        if batch > len(self.usable):
            raise BadInputError(f"a batch of {batch:,} anchors needs more than the {len(self.usable):,} usable places")
        return len(self.usable) // batch

    def anchors(self, first_iteration: int, last_iteration: int, batch: int) -> Ints:
        """The anchors ((last - first) * batch,) of iterations from the first up to, not including, the last one.

        Every epoch is a new permutation of the usable places.
        """
        each = self.batches_per_epoch(batch)
        parts = [np.empty((0, batch), dtype=np.int64)]
        for epoch in range(first_iteration // each, -(-last_iteration // each)):
            order = generator(self.seed, Purpose.ANCHORS, epoch).permutation(self.usable)
            batches = order[: each * batch].reshape(each, batch)
            parts.append(batches[max(first_iteration - epoch * each, 0) : last_iteration - epoch * each])
        return np.concatenate(parts).ravel()

    def cache_rows(self, anchors: Ints, cache_size: int | Literal["all"], period: int) -> Ints:
        """The rows, ascending, whose features a mining period caches: random ones and all its anchors."""
        if cache_size == "all":
            return np.arange(len(self))
        order = generator(self.seed, Purpose.CACHE, period).permutation(len(self))
        return np.union1d(order[:cache_size], anchors)

    def draw(
        self, anchors: Ints, layout: Layout, period: int, rows: Ints | None = None, features: Tensor | None = None
    ) -> Tuples:
        """The tuples of a mining period's anchors, which must be usable, on the sampler's device.

        Hard negatives need the period's cached `features` (m, D) float32, on the same device, of the training images in
        `rows` (m,), ascending, among them the anchors.
        """
        if not np.isin(anchors, self.usable).all():
            raise ValueError("an anchor is not usable: it lacks positives or negatives")
        if layout.negatives + layout.other > self.negatives:
            raise ValueError(f"{layout} asks for more negatives than the {self.negatives} the anchors were chosen for")
        on_device = torch.tensor(anchors, device=self.device)
        cache = None
        if layout.hard:
            if rows is None or features is None:
                raise ValueError("hard negatives need the features of a mining period")
            cache = FeatureCache(torch.tensor(rows, device=self.device), features)
            cache.check(on_device)
        # As many numbers for every loss, and anchor by anchor: a shorter period has the beginning of a longer one.
        counts = {Purpose.POSITIVES: layout.positives, Purpose.NEGATIVES: self.negatives, Purpose.OTHERS: 1}
        numbers = {
            purpose: torch.tensor(
                generator(self.seed, purpose, period).random((len(anchors), count)), device=self.device
            )
            for purpose, count in counts.items()
        }
        parts = [
            self._draw_chunk(
                on_device[chunk],
                layout,
                cache,
                {purpose: fractions[chunk] for purpose, fractions in numbers.items()},
            )
            for chunk in self._chunks(len(anchors))
        ]
        drawn, distances, valid = (torch.cat(column) for column in zip(*parts, strict=True))
        return Tuples(drawn, distances, valid, layout)

    def _draw_chunk(
        self, anchors: Tensor, layout: Layout, cache: FeatureCache | None, fractions: dict[int, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        apart = self._squared_distances(anchors)
        near, far = self._positives(anchors, apart), self._negatives(apart)
        positives = _pick(near, fractions[Purpose.POSITIVES], layout.positives)
        columns = [anchors[:, None], positives]
        valid = torch.ones_like(anchors, dtype=torch.bool)
        if layout.negatives:
            negatives = _draw_negatives(
                anchors, far, layout, cache, fractions[Purpose.NEGATIVES][:, : layout.negatives]
            )
            columns.append(negatives)
            if layout.other:
                for negative in negatives.T:
                    far &= self._negatives(self._squared_distances(negative))
                valid = far.any(dim=1)
                other = _pick(far, fractions[Purpose.OTHERS], 1)
                columns.append(torch.where(valid[:, None], other, anchors[:, None]))
        pairs = self._pairs(columns[:2]) if layout.all_pairs else apart.gather(1, positives)
        return torch.cat(columns, dim=1), pairs.float(), valid

    def _pairs(self, near: list[Tensor]) -> Tensor:
        """Squared distances (b, pairs) float64 between all of anchor and positives; those of the anchor come first."""
        places = self._coordinates[:, torch.cat(near, dim=1)]  # (dimensions, b, 1 + positives)
        first, second = torch.triu_indices(places.shape[2], places.shape[2], 1, device=self.device)
        return (places[:, :, first] - places[:, :, second]).square().sum(dim=0)

    def _squared_distances(self, rows: Tensor) -> Tensor:
        """Squared distances (b, n) float64 of the places in `rows` (b,) to all; infinite to those of other frames.

        Differences come first: the product form would lose metres of coordinates in the millions.
        """
        total = torch.zeros(len(rows), len(self), dtype=torch.float64, device=self.device)
        for axis in self._coordinates:
            total += (axis[rows, None] - axis).square_()
        if self._frame is not None:
            total.masked_fill_(self._frame[rows, None] != self._frame, torch.inf)
        return total

    def _positives(self, anchors: Tensor, apart: Tensor) -> Tensor:
        near = apart <= self.positive_radius**2
        near[torch.arange(len(anchors), device=self.device), anchors] = False
        if self.yaw_limit is not None:
            turned = (self._yaw[anchors, None] - self._yaw).abs_()
            near &= torch.minimum(turned, 2 * math.pi - turned) < self.yaw_limit  # never so where a yaw is unknown
        if self._run is not None:
            others = near & (self._run[anchors, None] != self._run)
            near = torch.where(others.any(dim=1, keepdim=True), others, near)
        return near

    def _negatives(self, apart: Tensor) -> Tensor:
        return (apart >= self.negative_radius**2) & (apart < torch.inf)

    def _chunks(self, anchors: int) -> Iterator[slice]:
        kind = self.device.type
        step = min(max(PAIRS_A_CHUNK[kind] // len(self), 1), ANCHORS_A_CHUNK[kind])
        return (slice(start, start + step) for start in range(0, anchors, step))

    def _find_usable(self) -> None:
        positive, negative = [], []
        for chunk in self._chunks(len(self)):
            rows = torch.arange(len(self), device=self.device)[chunk]
            apart = self._squared_distances(rows)
            positive.append(self._positives(rows, apart).any(dim=1))
            negative.append(self._negatives(apart).sum(dim=1) >= self.negatives)
        has_positives, has_negatives = (torch.cat(parts).cpu().numpy() for parts in (positive, negative))
        near = f"another within {self.positive_radius:g} {self.places.unit} (positive_radius)"
        if self.yaw_limit is not None:
            near += f" that looks the same way to within {math.degrees(self.yaw_limit):g} degrees (yaw_limit)"
        far = f"{self.negatives} others at least {self.negative_radius:g} {self.places.unit} away (negative_radius)"
        if not has_positives.any():
            raise BadInputError(f"none of the {len(self):,} training places has {near}")
        if not has_negatives.any():
            raise BadInputError(f"none of the {len(self):,} training places has {far}")
        if not (has_positives & has_negatives).any():
            raise BadInputError(f"none of the {len(self):,} training places has both {near} and {far}")
        self.usable: Ints = np.flatnonzero(has_positives & has_negatives)
        self.skipped_without_positives: Ints = np.flatnonzero(~has_positives)
        self.skipped_without_negatives: Ints = np.flatnonzero(has_positives & ~has_negatives)


def _draw_negatives(
    anchors: Tensor, far: Tensor, layout: Layout, cache: FeatureCache | None, fractions: Tensor
) -> Tensor:
    """The hard negatives, then random ones of the rest: also in place of hard ones that the cache does not hold."""
    if cache is None:
        return _pick(far, fractions, layout.negatives)
    hard, found = cache.hardest(anchors, far, layout.hard)
    rest = far.scatter(1, hard, False)  # an anchor, which may stand in `hard`, is never far from itself
    drawn = _pick(rest, fractions, layout.negatives - found)
    slots = torch.arange(layout.negatives, device=anchors.device)[None]
    after = (slots - found[:, None]).clamp_(min=0)
    padded = torch.nn.functional.pad(hard, (0, layout.random))
    return torch.where(slots < found[:, None], padded, drawn.gather(1, after))


def _pick(eligible: Tensor, fractions: Tensor, needed: Tensor | int) -> Tensor:
    """The numbers (b, k) of true columns of `eligible` (b, n), drawn uniformly by `fractions` (b, k) in [0, 1).

    The first `needed`, for all or for each row, are distinct, or drawn with replacement where a row has fewer true
    columns; those after mean nothing.
    """
    counted = eligible.cumsum(dim=1, dtype=torch.int32)
    count = counted[:, -1]
    ranks = torch.empty(fractions.shape, dtype=torch.int32, device=fractions.device)
    distinct = count >= needed
    for number in range(fractions.shape[1]):
        left = torch.where(distinct, count - number, count)
        rank = (fractions[:, number] * left).int()  # among those not drawn yet
        for earlier in ranks[:, :number].sort(dim=1).values.T:
            rank += distinct & (rank >= earlier)
        ranks[:, number] = rank
    return torch.searchsorted(counted, ranks + 1).clamp_(max=eligible.shape[1] - 1)


def _check(places: Places, positive_radius: float, negative_radius: float, yaw_limit: float | None) -> None:
    if not len(places):
        raise BadInputError("there are no training places")
    if not 0 < positive_radius < negative_radius < math.inf:
        raise BadInputError(
            f"positive_radius is {positive_radius:g} and negative_radius {negative_radius:g}, "
            "but the former must be above 0 and below the latter"
        )
    if yaw_limit is not None:
        if not 0 < yaw_limit <= math.pi:
            raise BadInputError(f"yaw_limit is {yaw_limit:g}, but must be above 0 and at most pi radians")
        if np.isnan(places.yaw).all():
            raise BadInputError("yaw_limit is given, but no training place has a yaw; leave yaw_limit out")
