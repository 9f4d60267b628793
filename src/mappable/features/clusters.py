"""k-means, and the sample of local descriptors that it clusters."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.progress import progress_bar
from mappable.randomness import Purpose, generator

IMAGES_AT_ONCE = 32  # images whose local descriptors are computed together


@torch.no_grad()
def sample_local(
    local_of: Callable[[Ints], Tensor],
    available: int,
    *,
    images: int = 500,
    locations: int = 100,
    seed: int = 0,
) -> Tensor:
    """Return at most images * locations local descriptors (m, C): `locations` random ones per
    random image.

    `local_of(rows)` returns all local descriptors (len(rows), locations, C) of some of the
    `available` images. If an image has fewer than `locations`, all of them are used. More images
    then fill up the total.
    """
    order = generator(seed, Purpose.CLUSTER_IMAGES).permutation(available)
    location_generator = generator(seed, Purpose.CLUSTER_LOCATIONS)
    sample: list[Tensor] = []
    missing = images * locations
    with progress_bar("local descriptors for clusters", missing) as advance:
        for start in range(0, available, IMAGES_AT_ONCE):
            for local in local_of(order[start : start + IMAGES_AT_ONCE]):
                chosen = location_generator.permutation(len(local))[: min(locations, missing)]
                sample.append(local[torch.from_numpy(chosen).to(local.device)])
                missing -= len(chosen)
                advance(len(chosen))
            if missing == 0:
                break
    if not sample:
        raise BadInputError("no images to compute clusters from")
    return torch.cat(sample)


@torch.no_grad()
def kmeans(points: Tensor, clusters: int, seed: int, iterations: int = 100) -> Tensor:
    """Centers (clusters, C) of the points (m, C), after `iterations`, or earlier if no point
    changes its cluster.

    The same points and seed give the same centers on the same machine. A cluster that loses all its
    points restarts at a point that is farthest from its center.
    """
    if len(points) < clusters:
        raise BadInputError(
            f"{clusters} clusters need at least as many local descriptors, got {len(points)}"
        )
    squared_lengths = points.square().sum(-1)
    centers = _starts(points, squared_lengths, clusters, seed)
    numbers = torch.arange(clusters, device=points.device)
    before = None
    for _ in range(iterations):
        closeness, labels = (points @ centers.T - centers.square().sum(-1) / 2).max(-1)
        if before is not None and torch.equal(labels, before):
            break
        before = labels
        # For a matrix product: a scatter has no fixed order.
        members = (labels[:, None] == numbers).to(points.dtype)
        counts = members.sum(0)
        centers = members.T @ points / counts.clamp(min=1)[:, None]
        empty = counts == 0
        if empty.any():
            squared_distances = squared_lengths - 2 * closeness
            centers[empty] = points[squared_distances.topk(int(empty.sum())).indices]
    return centers


def _starts(points: Tensor, squared_lengths: Tensor, clusters: int, seed: int) -> Tensor:
    """Initial centers by k-means++.

    Points are drawn one by one, with a probability proportional to the squared distance to the
    nearest earlier draw.
    """
    random = generator(seed, Purpose.CLUSTER_STARTS)
    chosen = [int(random.integers(len(points)))]
    squared_distances = np.full(len(points), np.inf)
    for _ in range(clusters - 1):
        latest = squared_lengths - 2 * (points @ points[chosen[-1]]) + squared_lengths[chosen[-1]]
        squared_distances = np.minimum(
            squared_distances, latest.clamp(min=0).double().cpu().numpy()
        )
        cumulative = np.cumsum(squared_distances)
        index = int(np.searchsorted(cumulative, random.random() * cumulative[-1], side="right"))
        # Beyond the end only if all points coincide with chosen ones.
        chosen.append(min(index, len(points) - 1))
    return points[torch.tensor(chosen, device=points.device)]
