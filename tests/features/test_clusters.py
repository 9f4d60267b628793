"""k-means against its definition, and the sample of local descriptors that it is given."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.features import clusters
from mappable.features.clusters import kmeans, sample_local


def blobs(count: int, each: int, spread: float = 0.05, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Points round `count` middles that lie 1 apart, in random order, and the middles."""
    random = np.random.default_rng(seed)
    middles = np.eye(count) / np.sqrt(2)
    points = np.repeat(middles, each, axis=0) + random.normal(0, spread / np.sqrt(count), (count * each, count))
    return torch.from_numpy(random.permutation(points)).float(), torch.from_numpy(middles).float()


def inertia(points: Tensor, centers: Tensor) -> float:
    """Sum of the squared distances from each point to its nearest center, point by point."""
    return sum(min(float((point - center).square().sum()) for center in centers) for point in points)


@pytest.mark.parametrize("seed", range(5))
def test_middles_of_separate_groups_are_found(seed: int) -> None:
    points, middles = blobs(8, 40)
    centers = kmeans(points, 8, seed)
    nearest = torch.cdist(middles, centers).min(1)
    assert sorted(nearest.indices.tolist()) == list(range(8))
    assert nearest.values.max() < 0.05


@given(seed=st.integers(0, 1000), count=st.integers(2, 6), size=st.integers(6, 40), dimensions=st.integers(1, 4))
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


def test_more_iterations_bring_points_nearer_to_their_centers() -> None:
    points = torch.from_numpy(np.random.default_rng(0).normal(size=(300, 4))).float()
    spent = [inertia(points, kmeans(points, 6, 0, iterations)) for iterations in (1, 3, 10, 100)]
    assert spent == sorted(spent, reverse=True)
    assert spent[0] > spent[-1]


def test_a_cluster_that_loses_all_points_begins_anew_at_the_farthest(monkeypatch: pytest.MonkeyPatch) -> None:
    points = torch.tensor([[0.0], [0.1], [1.0], [1.1], [5.0]])
    starts = torch.tensor([[0.0], [1.0], [-90.0]])  # the last is nearest to none
    monkeypatch.setattr(clusters, "_starts", lambda *_: starts)
    assert sorted(kmeans(points, 3, 0).flatten().tolist()) == pytest.approx([0.05, 1.05, 5.0])


def test_points_that_coincide_do_no_harm() -> None:
    points = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(5, 1)
    centers = kmeans(points, 4, 0)
    assert centers.isfinite().all()
    assert inertia(points, centers) == 0


def test_fewer_points_than_clusters_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"64.*clusters.*63"):
        kmeans(torch.rand(63, 2), 64, 0)


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


def test_where_images_have_few_locations_more_images_are_taken() -> None:
    sample = sample_local(Numbered(images=200, locations=4), 200, images=50, locations=10)
    assert len(sample) == 500
    assert len(set(sample[:, 0].tolist())) == 125


def test_where_there_are_few_images_all_are_taken_once() -> None:
    numbered = Numbered(images=7, locations=4)
    sample = sample_local(numbered, 7, images=50, locations=3)
    assert len(sample) == 21
    assert sorted(numbered.asked) == list(range(7))


def test_no_images_are_refused() -> None:
    with pytest.raises(BadInputError, match="no images"):
        sample_local(Numbered(images=1, locations=1), 0)
