"""Time to draw the tuples of a mining period, compared with a plain loop over anchors.

    python benchmarks/mining.py

Both find the same hard negatives in the same feature cache.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from scipy.spatial import KDTree

from mappable.arrays import Ints
from mappable.learning.layout import Layout
from mappable.learning.tuples import Sampler
from mappable.places.frames import Frame
from mappable.places.table import Places

PLACES, ANCHORS, CACHED = 15_000, 2_000, 4_000
LOOPED = 100  # anchors on which the plain loop is timed; its time is proportional to their number
DIMENSIONS = 256  # of the features; few, because their product is the same work in both
POSITIVE_RADIUS, NEGATIVE_RADIUS = 10.0, 25.0
ROUNDS = 5
LAYOUTS = {"triplet": Layout(6, 3, 3, other=False), "quadruplet": Layout(6, 3, 2, other=True)}


def make_places() -> Places:
    """Four drives along 1.25 km of a winding street, about as many images as the paper trains on."""
    rng = np.random.default_rng(0)
    along = np.tile(np.linspace(0, 1250, PLACES // 4), 4)
    x, y = along + rng.normal(0, 0.5, PLACES), 60 * np.sin(along / 150) + rng.normal(0, 1, PLACES)
    return Places(
        path=[f"{row}.jpg" for row in range(PLACES)],
        x=x + 619_500,
        y=y + 5_735_000,
        frames=Frame("street"),
    )


class PlainLoop:
    """Find positives and negatives with a KD-tree and NumPy, anchor by anchor."""

    def __init__(self, places: Places, rows: Ints, features: torch.Tensor) -> None:
        self.positions, self.tree = places.positions, KDTree(places.positions)
        self.rows, self.features, self.squared_norms = rows, features, features.square().sum(dim=1)
        self.everyone = np.arange(len(places))

    def draw(self, anchors: Ints, layout: Layout) -> list[Ints]:
        rng = np.random.default_rng(0)
        return [self.draw_one(int(anchor), layout, rng) for anchor in anchors]

    def draw_one(self, anchor: int, layout: Layout, rng: np.random.Generator) -> Ints:
        near = np.array(self.tree.query_ball_point(self.positions[anchor], POSITIVE_RADIUS))
        near = near[near != anchor]
        positives = rng.choice(near, layout.positives, replace=len(near) < layout.positives)
        far = np.setdiff1d(
            self.everyone, self.tree.query_ball_point(self.positions[anchor], NEGATIVE_RADIUS)
        )
        own = self.features[int(np.searchsorted(self.rows, anchor))]
        apart = (self.squared_norms - 2 * self.features @ own).numpy()
        apart[~np.isin(self.rows, far)] = np.inf
        hard = self.rows[np.argsort(apart)[: layout.hard]]
        negatives = np.concatenate(
            [hard, rng.choice(np.setdiff1d(far, hard), layout.random, replace=False)]
        )
        parts: list[Ints] = [np.array([anchor]), positives, negatives]
        if layout.other:
            around = np.concatenate(
                self.tree.query_ball_point(self.positions[negatives], NEGATIVE_RADIUS)
            )
            parts.append(rng.choice(np.setdiff1d(far, around.astype(np.int64)), 1))
        return np.concatenate(parts)


def seconds_of(draw: Callable[[], object]) -> float:
    start = time.perf_counter()
    draw()
    return time.perf_counter() - start


def main() -> None:
    torch.set_num_threads(1)
    places = make_places()
    start = time.perf_counter()
    sampler = Sampler(places, positive_radius=POSITIVE_RADIUS, negative_radius=NEGATIVE_RADIUS)
    prepared = time.perf_counter() - start
    anchors = sampler.anchors(0, 1, ANCHORS)
    rows = sampler.cache_rows(anchors, CACHED, 0)
    features = torch.tensor(
        np.random.default_rng(1).normal(size=(len(rows), DIMENSIONS)), dtype=torch.float32
    )
    loop = PlainLoop(places, rows, features)
    some = anchors[:LOOPED]
    print(
        f"{ANCHORS:,} tuples of {PLACES:,} places, {len(rows):,} cached features of {DIMENSIONS}"
        " dimensions,"
    )
    print(
        f"one thread, medians of {ROUNDS} rounds; the loop draws {LOOPED}, and its time is scaled"
        f" to {ANCHORS:,}"
    )
    print(f"once per training: finding the usable anchors {prepared:.2f} s")
    print(f"{'':12}{'plain loop':>12}{'Sampler.draw':>14}{'ratio':>8}")
    for name, layout in LAYOUTS.items():
        ours, plain = (
            sampler.draw(some, layout, 0, rows, features).rows.numpy(),
            np.stack(loop.draw(some, layout)),
        )
        hard = slice(1 + layout.positives, 1 + layout.positives + layout.hard)
        if not np.array_equal(ours[:, hard], plain[:, hard]):
            raise RuntimeError("the two methods found different hard negatives")
        taken: tuple[list[float], list[float]] = [], []
        for _ in range(ROUNDS):
            taken[0].append(seconds_of(partial(loop.draw, some, layout)) * ANCHORS / LOOPED)
            taken[1].append(seconds_of(partial(sampler.draw, anchors, layout, 0, rows, features)))
        slow, fast = (statistics.median(times) for times in taken)
        print(f"{name:12}{slow:10.2f} s{fast:12.2f} s{slow / fast:8.1f}")


if __name__ == "__main__":
    main()
