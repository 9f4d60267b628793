"""Draw tuples: anchors in random order, with their positives and negatives."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.spatial import KDTree
from torch import Tensor

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.learning.layout import Layout
from mappable.learning.mining import FeatureCache
from mappable.places.table import Places
from mappable.randomness import Purpose, generator

# Chunk sizes. A CPU chunk stays near the caches, below 256 MiB; a GPU needs more work at once,
# below 2 GiB.
# Pairs of an anchor and a place, about 40 bytes each.
PAIRS_PER_CHUNK = {"cpu": 2**20, "cuda": 2**25}
# Anchors whose features, 128 KiB each, are copied.
ANCHORS_PER_CHUNK = {"cpu": 2**10, "cuda": 2**12}
ALL = slice(None)


@dataclass(frozen=True)
class Tuples:
    """Tuples of images, one per anchor, as rows of the training set.

    `rows` (n, layout.images) int64 are in the layout's order. `squared_distances` (n, positives)
    float32 are distances in the world between anchor and positives. Their unit is the square of the
    frame's unit. `valid` (n,) bool is False for a tuple without an other negative. Do not train on
    such a tuple: the anchor's own row replaces its other negative.
    """

    rows: Tensor
    squared_distances: Tensor
    valid: Tensor
    layout: Layout

    def __getitem__(self, part: slice) -> "Tuples":
        """Return a slice of the tuples, such as a batch."""
        return Tuples(self.rows[part], self.squared_distances[part], self.valid[part], self.layout)

    def cpu(self) -> "Tuples":
        """Copy the tuples to the host's memory."""
        return Tuples(self.rows.cpu(), self.squared_distances.cpu(), self.valid.cpu(), self.layout)

    def state(self) -> dict[str, Tensor]:
        """The tensors by their names in a checkpoint."""
        return {"rows": self.rows, "squared_distances": self.squared_distances, "valid": self.valid}


class Sampler:
    """Draws anchors and their tuples from the training places, all from one seed.

    Positives of a place are other places at most `positive_radius` away. With a `yaw_limit`
    (radians), their yaw must also differ by less than that. Negatives are places at least
    `negative_radius` away, with any yaw. Both radii are in the frames' unit. Positives and
    negatives are in the anchor's frame. With `other_runs`, positives come from other sequences than
    the anchor's, if there are any.

    A place without positives, or with fewer than `negatives` negatives, cannot be an anchor. It is
    an error if no place can, unless the sampler `may_be_empty`. `skipped_without_positives` has the
    rows of places without positives. `skipped_without_negatives` has the rows of places with
    positives, but too few negatives. `usable` has the rows of all possible anchors.

    Random numbers come from NumPy, so that every device draws the same tuples from a seed. Every
    loss gets the same anchors and positives. It also gets the same random negatives, as many as it
    uses, if the hard negatives agree.
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
        may_be_empty: bool = False,
    ) -> None:
        _check(places, yaw_limit)
        self.places = places
        self.positive_radius, self.negative_radius, self.yaw_limit = (
            positive_radius,
            negative_radius,
            yaw_limit,
        )
        self.negatives, self.seed = negatives, seed
        self.device = torch.device(device)
        # (dimensions, n) float64.
        self._coordinates = torch.tensor(places.positions.T, device=self.device)
        self._yaw = torch.tensor(places.yaw, device=self.device)
        names, codes = np.unique(places.frame, return_inverse=True)
        self._frame = torch.tensor(codes, device=self.device) if len(names) > 1 else None
        runs = np.unique(places.sequence, return_inverse=True)[1]
        self._run = torch.tensor(runs, device=self.device) if other_runs else None
        self._find_usable(may_be_empty)

    def __len__(self) -> int:
        """Number of training places."""
        return self._coordinates.shape[1]

    def batches_per_epoch(self, batch: int) -> int:
        """Iterations per epoch with `batch` anchors each. Anchors that do not fill a last batch are
        skipped.
        """
        if batch > len(self.usable):
            raise BadInputError(
                f"a batch needs {batch:,} anchors, but only {len(self.usable):,} places can be"
                " anchors; lower anchors"
            )
        return len(self.usable) // batch

    def anchors(self, first_iteration: int, last_iteration: int, batch: int) -> Ints:
        """The anchors ((last - first) * batch,) of the iterations from the first to the last,
        excluding the last.

        Every epoch is a new permutation of the usable places.
        """
        per_epoch = self.batches_per_epoch(batch)
        parts = [np.empty((0, batch), dtype=np.int64)]
        for epoch in range(first_iteration // per_epoch, -(-last_iteration // per_epoch)):
            order = generator(self.seed, Purpose.ANCHORS, epoch).permutation(self.usable)
            batches = order[: per_epoch * batch].reshape(per_epoch, batch)
            parts.append(
                batches[
                    max(first_iteration - epoch * per_epoch, 0) : last_iteration - epoch * per_epoch
                ]
            )
        return np.concatenate(parts).ravel()

    def cache_rows(self, anchors: Ints, cache_size: int | Literal["all"], period: int) -> Ints:
        """The rows, ascending, whose features a mining period caches: random rows and all anchors
        of the period.
        """
        if cache_size == "all":
            return np.arange(len(self))
        order = generator(self.seed, Purpose.CACHE, period).permutation(len(self))
        return np.union1d(order[:cache_size], anchors)

    def draw(
        self,
        anchors: Ints,
        layout: Layout,
        period: int,
        rows: Ints | None = None,
        features: Tensor | None = None,
        share: slice = ALL,
    ) -> Tuples:
        """Draw the tuples of a mining period's `anchors`, which must be usable, on the sampler's
        device.

        Hard negatives need the cached `features` (m, D) float32 of the period, on the same device.
        `rows` (m,) are their rows in the training set, ascending, and must include the anchors.
        Only the tuples of the `share` of anchors are drawn.
        """
        on_device = torch.tensor(anchors, device=self.device)
        cache = None
        if features is not None:
            cache = FeatureCache(torch.tensor(rows, device=self.device), features)
        # Draw the same count of numbers for every loss, anchor by anchor, so that a shorter period
        # is a prefix of a longer one.
        counts = {
            Purpose.POSITIVES: layout.positives,
            Purpose.NEGATIVES: self.negatives,
            Purpose.OTHERS: 1,
        }
        numbers = {
            purpose: torch.tensor(
                generator(self.seed, purpose, period).random((len(anchors), count)),
                device=self.device,
            )
            for purpose, count in counts.items()
        }
        parts = [
            self._draw_chunk(
                on_device[share][chunk],
                layout,
                cache,
                {purpose: fractions[share][chunk] for purpose, fractions in numbers.items()},
            )
            for chunk in self._chunks(len(anchors[share]))
        ]
        drawn, distances, valid = (torch.cat(column) for column in zip(*parts, strict=True))
        return Tuples(drawn, distances, valid, layout)

    def _draw_chunk(
        self,
        anchors: Tensor,
        layout: Layout,
        cache: FeatureCache | None,
        fractions: dict[int, Tensor],
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
        return torch.cat(columns, dim=1), apart.gather(1, positives).float(), valid

    def _squared_distances(self, rows: Tensor, others: Tensor | slice = ALL) -> Tensor:
        """Squared distances (b, n) float64 from the places in `rows` (b,) to `others`; infinite
        between frames.

        This squares differences: the product form would lose metres for coordinates in the
        millions.
        """
        first, *rest = self._coordinates
        total: Tensor = (first[rows, None] - first[others]).square_()
        for axis in rest:
            total += (axis[rows, None] - axis[others]).square_()
        if self._frame is not None:
            total.masked_fill_(self._frame[rows, None] != self._frame[others], torch.inf)
        return total

    def _positives(self, anchors: Tensor, apart: Tensor, others: Tensor | slice = ALL) -> Tensor:
        near = apart <= self.positive_radius**2
        if isinstance(others, Tensor):
            near &= anchors[:, None] != others
        else:
            near[torch.arange(len(anchors), device=self.device), anchors] = False
        if self.yaw_limit is not None:
            turned = (self._yaw[anchors, None] - self._yaw[others]).abs_()
            # False if a yaw is unknown (NaN)
            near &= torch.minimum(turned, 2 * math.pi - turned) < self.yaw_limit
        if self._run is not None:
            from_others = near & (self._run[anchors, None] != self._run[others])
            near = torch.where(from_others.any(dim=1, keepdim=True), from_others, near)
        return near

    def _negatives(self, apart: Tensor) -> Tensor:
        return (apart >= self.negative_radius**2) & (apart < torch.inf)

    def _chunks(self, anchors: int) -> Iterator[slice]:
        kind = self.device.type
        step = min(max(PAIRS_PER_CHUNK[kind] // len(self), 1), ANCHORS_PER_CHUNK[kind])
        return (slice(start, start + step) for start in range(0, anchors, step))

    def _find_usable(self, may_be_empty: bool) -> None:
        has_positives = self._have_positives().cpu().numpy()
        has_negatives = _count_beyond(self.places, self.negative_radius) >= self.negatives
        near = f"another place within {self.positive_radius:g} {self.places.unit} (positive_radius)"
        if self.yaw_limit is not None:
            near += (
                f" whose yaw differs by less than {math.degrees(self.yaw_limit):g} degrees"
                " (yaw_limit)"
            )
        far = (
            f"{self.negatives} places at least {self.negative_radius:g} {self.places.unit} away"
            " (negative_radius)"
        )
        none = f"none of the {len(self):,} training places has"
        if may_be_empty:
            pass
        elif not has_positives.any():
            raise BadInputError(f"{none} {near}; raise positive_radius")
        elif not has_negatives.any():
            raise BadInputError(f"{none} {far}; lower negative_radius")
        elif not (has_positives & has_negatives).any():
            raise BadInputError(f"{none} both {near} and {far}; change the radii")
        self.usable: Ints = np.flatnonzero(has_positives & has_negatives)
        self.skipped_without_positives: Ints = np.flatnonzero(~has_positives)
        self.skipped_without_negatives: Ints = np.flatnonzero(has_positives & ~has_negatives)

    def _have_positives(self) -> Tensor:
        """Whether each place (n,) has a positive. Places are compared only with those that are near
        it along x.
        """
        along, order = self._coordinates[0].sort()
        # Coordinates up to 1e9 are rounded by less.
        margin = self.positive_radius * (1 + 1e-9) + 1e-6
        has_positive = torch.zeros(len(self), dtype=torch.bool, device=self.device)
        start, kind = 0, self.device.type
        while start < len(self):
            end = min(start + ANCHORS_PER_CHUNK[kind], len(self))
            first, last = torch.searchsorted(
                along, torch.stack([along[start] - margin, along[end - 1] + margin])
            )
            others = order[int(first) : int(last) + 1]
            end = min(end, start + max(1, PAIRS_PER_CHUNK[kind] // len(others)))
            rows = order[start:end]
            has_positive[rows] = self._positives(
                rows, self._squared_distances(rows, others), others
            ).any(dim=1)
            start = end
        return has_positive


def _count_beyond(places: Places, radius: float) -> Ints:
    """For each place, the number of places of its frame at least `radius` away."""
    counts = np.zeros(len(places), dtype=np.int64)
    for name in np.unique(places.frame):
        rows = np.flatnonzero(places.frame == name)
        tree = KDTree(places.positions[rows])
        nearer = tree.query_ball_point(
            places.positions[rows], np.nextafter(radius, 0), return_length=True, workers=-1
        )
        counts[rows] = len(rows) - nearer
    return counts


def _draw_negatives(
    anchors: Tensor, far: Tensor, layout: Layout, cache: FeatureCache | None, fractions: Tensor
) -> Tensor:
    """Hard negatives, then random ones among the rest. Random ones also replace hard ones that the
    cache lacks.
    """
    if cache is None:
        return _pick(far, fractions, layout.negatives)
    hard, count = cache.hardest(anchors, far, layout.hard)
    # `hard` may contain the anchor itself, which is never far from itself.
    rest = far.scatter(1, hard, False)
    drawn = _pick(rest, fractions, layout.negatives - count)
    slots = torch.arange(layout.negatives, device=anchors.device)[None]
    after = (slots - count[:, None]).clamp_(min=0)
    padded = torch.nn.functional.pad(hard, (0, layout.random))
    return torch.where(slots < count[:, None], padded, drawn.gather(1, after))


def _pick(eligible: Tensor, fractions: Tensor, needed: Tensor | int) -> Tensor:
    """Draw indices (b, k) of true columns of `eligible` (b, n), uniformly by `fractions` (b, k) in
    [0, 1).

    `needed` is one number, or one per row. The first `needed` indices of a row are distinct. A row
    with fewer true columns is drawn with replacement. Ignore the indices after the first `needed`.
    """
    counted = eligible.cumsum(dim=1, dtype=torch.int32)
    count = counted[:, -1]
    ranks = torch.empty(fractions.shape, dtype=torch.int32, device=fractions.device)
    distinct = count >= needed
    for number in range(fractions.shape[1]):
        left = torch.where(distinct, count - number, count)
        rank = (fractions[:, number] * left).int()  # rank among the columns that are not drawn yet
        for earlier in ranks[:, :number].sort(dim=1).values.T:
            rank += distinct & (rank >= earlier)
        ranks[:, number] = rank
    return torch.searchsorted(counted, ranks + 1).clamp_(max=eligible.shape[1] - 1)


def _check(places: Places, yaw_limit: float | None) -> None:
    if not len(places):
        raise BadInputError("there are no training places")
    if yaw_limit is not None and np.isnan(places.yaw).all():
        raise BadInputError(
            "yaw_limit is set, but no training place has a yaw; set yaw_limit to none"
        )
