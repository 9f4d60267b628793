"""Tuples: anchors, positives and negatives against loops over all places, and draws that are uniform and repeatable."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from mappable.arrays import Ints
from mappable.learning import tuples
from mappable.learning.layout import Layout
from mappable.learning.tuples import Sampler, Tuples
from mappable.places.frames import Frame
from mappable.places.table import Places

TRIPLET = Layout(positives=6, hard=3, random=3, other=False)
QUADRUPLET = Layout(positives=6, hard=3, random=2, other=True)
GEOMETRIC = Layout(positives=6, hard=0, random=0, other=False)
LAYOUTS = pytest.mark.parametrize("layout", [TRIPLET, QUADRUPLET, GEOMETRIC, Layout(2, 0, 4, True)])


def table(positions: Any, yaw: Any = None, frame: Any = "a", unit: Any = "m") -> Places:
    positions = np.asarray(positions, dtype=float)
    names = [frame] * len(positions) if isinstance(frame, str) else list(frame)
    return Places(
        path=[f"{row}.jpg" for row in range(len(positions))],
        **dict(zip("xyz", positions.T, strict=False)),
        yaw=yaw,
        frame=names,
        sequence=names,
        frames=[Frame("a", unit=unit), Frame("b", unit=unit)],
        dimensions=positions.shape[1],
    )


def line(*x: float) -> Places:
    return table([(value, 0.0) for value in x])


def world(dimensions: int = 2, count: int = 120) -> Places:
    """Places of two frames whose coordinates overlap, on a grid, so that radii are met exactly;
    some of unknown yaw.
    """
    generator = np.random.default_rng(5)
    positions = 600_000 + generator.integers(0, 12, (count, dimensions))
    yaw = generator.uniform(-math.pi, math.pi, count)
    yaw[::9] = math.nan
    return table(positions, yaw, ["a" if row % 4 else "b" for row in range(count)])


def features_of(rows: Ints) -> Tensor:
    return torch.tensor(np.random.default_rng(6).normal(size=(1000, 16))[rows], dtype=torch.float32)


def draw(
    sampler: Sampler, layout: Layout, anchors: Ints | None = None, period: int = 0, cache: Any = 40
) -> Tuples:
    anchors = sampler.anchors(0, sampler.batches_per_epoch(2), 2) if anchors is None else anchors
    rows = sampler.cache_rows(anchors, cache, period)
    return sampler.draw(anchors, layout, period, rows, features_of(rows))


class Loop:
    """Sections 3.1 to 3.3 place by place."""

    def __init__(self, places: Places, near: float, far: float, yaw: float | None) -> None:
        self.places, self.near, self.far, self.yaw = places, near, far, yaw

    def distance(self, i: int, j: int) -> float:
        return math.dist(self.places.positions[i], self.places.positions[j])

    def is_positive(self, i: int, j: int) -> bool:
        if (
            i == j
            or self.places.frame[i] != self.places.frame[j]
            or self.distance(i, j) > self.near
        ):
            return False
        if self.yaw is None:
            return True
        turned = self.places.yaw[i] - self.places.yaw[j]
        return any(abs(turned + turns * 2 * math.pi) < self.yaw for turns in (-1, 0, 1))

    def is_negative(self, i: int, j: int) -> bool:
        return (
            bool(self.places.frame[i] == self.places.frame[j]) and self.distance(i, j) >= self.far
        )

    def positives(self, i: int) -> set[int]:
        return {j for j in range(len(self.places)) if self.is_positive(i, j)}

    def negatives(self, *rows: int) -> set[int]:
        """The places that are negatives of all the rows."""
        return {j for j in range(len(self.places)) if all(self.is_negative(i, j) for i in rows)}


@pytest.mark.medium
@LAYOUTS
@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("yaw_limit", [None, 1.2])
def test_tuples_hold_what_a_loop_over_all_places_allows(
    layout: Layout, dimensions: int, yaw_limit: float | None
) -> None:
    places, near, far = world(dimensions), 4.0, 6.0
    loop = Loop(places, near, far, yaw_limit)
    sampler = Sampler(
        places, positive_radius=near, negative_radius=far, yaw_limit=yaw_limit, seed=3
    )
    anchors = sampler.anchors(0, sampler.batches_per_epoch(2), 2)
    cached = sampler.cache_rows(anchors[:10], 10, 0)
    features = features_of(cached)
    drawn = sampler.draw(anchors[:10], layout, 0, cached, features)
    assert drawn.layout == layout
    assert drawn.rows.shape == (10, layout.images)
    assert drawn.rows.dtype == torch.int64
    for number, (anchor, *others) in enumerate(drawn.rows.tolist()):
        assert anchor == anchors[number]
        positives, negatives = (
            others[: layout.positives],
            others[layout.positives :][: layout.negatives],
        )
        assert set(positives) <= loop.positives(anchor)
        assert (len(set(positives)) == layout.positives) or len(
            loop.positives(anchor)
        ) < layout.positives
        expected = np.square([loop.distance(anchor, positive) for positive in positives])
        np.testing.assert_allclose(drawn.squared_distances[number], expected, rtol=1e-6)
        assert set(negatives) <= loop.negatives(anchor)
        assert len(set(negatives)) == layout.negatives
        own = features[cached.tolist().index(anchor)]
        by_distance = {
            row: float((features[at] - own).square().sum())
            for at, row in enumerate(cached.tolist())
            if row in loop.negatives(anchor)
        }
        hardest = sorted(by_distance, key=lambda row: by_distance[row])[: layout.hard]
        assert negatives[: len(hardest)] == hardest
        allowed = loop.negatives(anchor, *negatives)
        assert bool(drawn.valid[number]) == (not layout.other or bool(allowed))
        if layout.other:
            assert others[-1] in (allowed or {anchor})


@pytest.mark.parametrize("yaw_limit", [None, 0.6])
def test_anchors_are_the_places_with_positives_and_enough_negatives(
    yaw_limit: float | None,
) -> None:
    places, needed = world(count=60), 12
    loop = Loop(places, 2.0, 8.0, yaw_limit)
    sampler = Sampler(
        places, positive_radius=2.0, negative_radius=8.0, yaw_limit=yaw_limit, negatives=needed
    )
    assert len(sampler) == 60
    without_positives = [row for row in range(60) if not loop.positives(row)]
    too_few = [
        row for row in range(60) if loop.positives(row) and len(loop.negatives(row)) < needed
    ]
    assert sampler.skipped_without_positives.tolist() == without_positives
    assert sampler.skipped_without_negatives.tolist() == too_few
    assert sampler.usable.tolist() == [
        row for row in range(60) if row not in {*without_positives, *too_few}
    ]
    assert without_positives
    assert too_few


def test_places_of_other_frames_are_neither_positives_nor_negatives() -> None:
    places = table([(0, 0), (1, 0), (0, 0), (1, 0), (50, 0)], frame=list("aabba"))
    sampler = Sampler(places, positive_radius=5, negative_radius=20, negatives=1)
    assert sampler.usable.tolist() == [0, 1]
    drawn = sampler.draw(np.array([0] * 200), Layout(2, 0, 1, False), 0)
    assert set(drawn.rows[:, 1:3].ravel().tolist()) == {1}
    assert set(drawn.rows[:, 3].tolist()) == {4}


def test_positives_may_be_of_other_runs_where_there_are_any() -> None:
    places = line(0, 1, 2, 3, 50, 51, 100).replace(
        sequence=["one", "one", "two", "two", "one", "one", "one"]
    )
    sampler = Sampler(places, positive_radius=5, negative_radius=25, negatives=1, other_runs=True)
    assert sampler.usable.tolist() == [0, 1, 2, 3, 4, 5]
    drawn = sampler.draw(np.repeat(sampler.usable, 20), Layout(2, 0, 0, False), 0).rows.reshape(
        6, 20, 3
    )
    found = [set(rows[:, 1:].ravel().tolist()) for rows in drawn]
    assert found == [{2, 3}, {2, 3}, {0, 1}, {0, 1}, {5}, {4}]


def test_squared_distances_of_far_off_coordinates_keep_their_millimetres() -> None:
    places = table(
        [(619_500.0, 5_735_000.0), (619_500.001, 5_735_000.002), (619_600.0, 5_735_000.0)]
    )
    sampler = Sampler(places, positive_radius=10, negative_radius=25, negatives=1)
    drawn = sampler.draw(np.array([0]), Layout(1, 0, 1, False), 0)
    assert drawn.squared_distances.dtype == torch.float32
    assert drawn.squared_distances[0, 0].item() == pytest.approx(5e-6, rel=1e-4)


# Anchor 0 at 0 m has 4 positives and 7 negatives. Negatives at 100 m and beyond leave few other
# negatives.
CROWD = line(0, 1, 2, 3, 4, 100, 101, 130, 131, 160, 161, 190)
MANY = np.zeros(12_000, dtype=np.int64)


def even(values: Tensor, expected: int) -> bool:
    """Whether each of `expected` different values comes about equally often."""
    counts = np.unique(values.numpy(), return_counts=True, axis=0)[1]
    return len(counts) == expected and bool(chisquare(counts).pvalue > 0.001)


def test_positives_are_uniform_without_replacement_where_there_are_enough() -> None:
    drawn = Sampler(CROWD, positive_radius=5, negative_radius=25, seed=1).draw(
        MANY, Layout(3, 0, 0, False), 0
    )
    assert even(drawn.rows[:, 1:4], 4 * 3 * 2)  # all ordered triples of the four


def test_random_negatives_are_uniform_without_replacement() -> None:
    drawn = Sampler(CROWD, positive_radius=5, negative_radius=25, seed=1).draw(
        MANY, Layout(1, 0, 3, False), 0
    )
    assert even(drawn.rows[:, 2:5], 7 * 6 * 5)


def test_the_other_negative_is_uniform_over_the_places_far_from_all() -> None:
    sampler = Sampler(CROWD, positive_radius=5, negative_radius=25, seed=1)
    rows, features = np.array([0, 5]), torch.zeros(2, 1)
    drawn = sampler.draw(MANY, Layout(1, 1, 0, True), 0, rows, features)
    assert set(drawn.rows[:, 2].tolist()) == {5}
    assert drawn.valid.all()
    assert even(drawn.rows[:, 3], 5)  # those at 130 m and beyond


def test_every_loss_has_the_same_positives_and_random_negatives() -> None:
    sampler = Sampler(world(), positive_radius=4, negative_radius=6, seed=1)
    triplet, quadruplet, geometric = (
        draw(sampler, layout) for layout in (TRIPLET, QUADRUPLET, GEOMETRIC)
    )
    assert torch.equal(triplet.rows[:, :7], quadruplet.rows[:, :7])
    assert torch.equal(triplet.rows[:, :7], geometric.rows)
    # All but the last, which becomes the other one.
    assert torch.equal(triplet.rows[:, :12], quadruplet.rows[:, :12])
    assert torch.equal(triplet.squared_distances, geometric.squared_distances)
    rows = np.arange(len(sampler))
    later = sampler.draw(triplet.rows[:, 0].numpy(), TRIPLET, 0, rows, features_of(rows).flip(0))
    assert torch.equal(later.rows[:, :7], triplet.rows[:, :7])
    assert not torch.equal(later.rows[:, 7:10], triplet.rows[:, 7:10])


def test_an_epoch_is_a_permutation_of_the_usable_places_less_an_incomplete_batch() -> None:
    sampler = Sampler(
        line(*range(20), 90, 200, 201), positive_radius=5, negative_radius=25, negatives=2, seed=4
    )
    assert len(sampler.usable) == 22  # not the lonely one at 90 m
    assert [sampler.batches_per_epoch(batch) for batch in (1, 4, 22)] == [22, 5, 1]
    epochs = [sampler.anchors(5 * epoch, 5 * epoch + 5, 4) for epoch in range(3)]
    for epoch in epochs:
        assert len(set(epoch.tolist())) == 20
        assert set(epoch.tolist()) <= set(sampler.usable.tolist())
    assert epochs[0].tolist() != epochs[1].tolist()
    assert sorted(sampler.anchors(0, 22, 1).tolist()) == sampler.usable.tolist()


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize(("near", "far", "negatives"), [(1, 6, 6), (2, 11, 9), (1, 13, 2)])
def test_usable_places_are_those_of_a_loop(
    dimensions: int, near: float, far: float, negatives: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few places per chunk, and radii that are met exactly."""
    monkeypatch.setitem(tuples.PAIRS_PER_CHUNK, "cpu", 50)
    monkeypatch.setitem(tuples.ANCHORS_PER_CHUNK, "cpu", 7)
    places = world(dimensions, 90)
    sampler = Sampler(
        places, positive_radius=near, negative_radius=far, negatives=negatives, may_be_empty=True
    )
    expected = []
    for row, position in enumerate(places.positions):
        apart = np.linalg.norm(places.positions - position, axis=1)[
            places.frame == places.frame[row]
        ]
        if (apart <= near).sum() > 1 and (apart >= far).sum() >= negatives:
            expected.append(row)
    assert sampler.usable.tolist() == expected


@LAYOUTS
def test_shares_of_a_period_are_the_whole_period(layout: Layout) -> None:
    sampler = Sampler(world(), positive_radius=4, negative_radius=6)
    anchors, rows = sampler.usable[:31], np.arange(len(sampler))
    whole = sampler.draw(anchors, layout, 0, rows, features_of(rows))
    shares = [
        sampler.draw(anchors, layout, 0, rows, features_of(rows), share)
        for share in (slice(0, 8), slice(8, 31))
    ]
    for name, tensor in whole.state().items():
        assert torch.cat([share.state()[name] for share in shares]).equal(tensor)
