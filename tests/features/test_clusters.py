"""k-means against its definition, and the sample of local descriptors that it is given."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mappable.arrays import Ints
from mappable.features import clusters
from mappable.features.clusters import kmeans, sample_local


@given(
    seed=st.integers(0, 1000),
    count=st.integers(2, 6),
    size=st.integers(6, 40),
    dimensions=st.integers(1, 4),
)
def test_each_center_is_the_mean_of_the_points_that_are_nearest_to_it(
    seed: int, count: int, size: int, dimensions: int
) -> None:
    points = torch.from_numpy(np.random.default_rng(seed).normal(size=(size, dimensions))).double()
    centers = kmeans(points, count, seed)
    labels = torch.cdist(points, centers).argmin(1)
    for number, center in enumerate(centers):
        torch.testing.assert_close(points[labels == number].mean(0), center)


def test_the_same_seed_gives_the_same_centers_and_another_one_others() -> None:
    points = torch.from_numpy(np.random.default_rng(0).normal(size=(300, 4))).float()
    assert torch.equal(kmeans(points, 10, 1), kmeans(points, 10, 1))
    assert not torch.equal(kmeans(points, 10, 1), kmeans(points, 10, 2))


def test_a_cluster_that_loses_all_points_begins_anew_at_the_farthest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = torch.tensor([[0.0], [0.1], [1.0], [1.1], [5.0]])
    starts = torch.tensor([[0.0], [1.0], [-90.0]])  # the last is nearest to none
    monkeypatch.setattr(clusters, "_starts", lambda *_: starts)
    assert sorted(kmeans(points, 3, 0).flatten().tolist()) == pytest.approx([0.05, 1.05, 5.0])


class Numbered:
    """Local descriptors that say whose they are: (image, location)."""

    def __init__(self, images: int, locations: int) -> None:
        pairs = [[(image, location) for location in range(locations)] for image in range(images)]
        self.local = torch.tensor(pairs, dtype=torch.float32)
        self.asked: list[int] = []

    def __call__(self, rows: Ints) -> Tensor:
        self.asked += rows.tolist()
        return self.local[torch.from_numpy(rows)]


def test_a_sample_has_so_many_locations_of_so_many_images() -> None:
    numbered = Numbered(images=200, locations=30)
    sample = sample_local(numbered, 200, images=50, locations=10, seed=3)
    assert sample.shape == (500, 2)
    assert len(set(map(tuple, sample.tolist()))) == 500
    images, counts = np.unique(sample[:, 0].numpy(), return_counts=True)
    assert (len(images), set(counts)) == (50, {10})
    assert len(numbered.asked) < 100  # not all images went through the network
    assert torch.equal(sample, sample_local(numbered, 200, images=50, locations=10, seed=3))
    assert not torch.equal(sample, sample_local(numbered, 200, images=50, locations=10, seed=4))
