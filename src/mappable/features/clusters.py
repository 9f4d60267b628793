"""k-means, and the sample of local descriptors it runs on."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.progress import progress_bar
from mappable.randomness import Purpose, generator

PORTION = 32  # images whose local descriptors are asked for at a time


@torch.no_grad()
def sample_local(
    local_of: Callable[[Ints], Tensor], available: int, *, images: int = 500, locations: int = 100, seed: int = 0
) -> Tensor:
    """Up to images * locations local descriptors (m, C), `locations` random ones of each of some random images.

    `local_of(rows)` gives all local descriptors (len(rows), locations, C) of some of the `available` images. Where an
    image has fewer than `locations`, all of them are taken, and so many more images that the total is the same.
    """
    order = generator(seed, Purpose.CLUSTER_IMAGES).permutation(available)
    of_locations = generator(seed, Purpose.CLUSTER_LOCATIONS)
    found: list[Tensor] = []
    missing = images * locations
    with progress_bar("local descriptors for clusters", missing) as advance:
        for start in range(0, available, PORTION):
            for local in local_of(order[start : start + PORTION]):
                chosen = of_locations.permutation(len(local))[: min(locations, missing)]
                found.append(local[torch.from_numpy(chosen).to(local.device)])
                missing -= len(chosen)
                advance(len(chosen))
            if missing == 0:
                break
    if not found:
        raise BadInputError("there are no images to find clusters in")
    return torch.cat(found)


@torch.no_grad()
def kmeans(points: Tensor, clusters: int, seed: int, iterations: int = 100) -> Tensor:
    """Centres (clusters, C) of the points (m, C), after `iterations` or as soon as no point changes its cluster.

    The same points and seed give the same centres on the same machine. A cluster that loses all its points begins anew
    at a point that is farthest from its centre.
    """
    if len(points) < clusters:
        raise BadInputError(f"{clusters} clusters need at least as many local descriptors, but there are {len(points)}")
    lengths = points.square().sum(-1)
    centres = _starts(points, lengths, clusters, seed)
    numbers = torch.arange(clusters, device=points.device)
    before = None
    for _ in range(iterations):
        closeness, labels = (points @ centres.T - centres.square().sum(-1) / 2).max(-1)
        if before is not None and torch.equal(labels, before):
            break
        before = labels
        members = (labels[:, None] == numbers).to(points.dtype)  # for a product: scattered sums have no fixed order
        counts = members.sum(0)
        centres = members.T @ points / counts.clamp(min=1)[:, None]
        empty = counts == 0
        if empty.any():
            squared = lengths - 2 * closeness
            centres[empty] = points[squared.topk(int(empty.sum())).indices]
    return centres


def _starts(points: Tensor, lengths: Tensor, clusters: int, seed: int) -> Tensor:
    """k-means++: points drawn one by one, each with a chance proportional to its squared distance from those before.

    `lengths` are the squared lengths of the points.
    """
    of_starts = generator(seed, Purpose.CLUSTER_STARTS)
    chosen = [int(of_starts.integers(len(points)))]
    squared = np.full(len(points), np.inf)
    for _ in range(clusters - 1):
        latest = lengths - 2 * (points @ points[chosen[-1]]) + lengths[chosen[-1]]
        squared = np.minimum(squared, latest.clamp(min=0).double().cpu().numpy())
        reach = np.cumsum(squared)
        place = int(np.searchsorted(reach, of_starts.random() * reach[-1], side="right"))
        chosen.append(min(place, len(points) - 1))  # beyond the end only if all points coincide with chosen ones
    return points[torch.tensor(chosen, device=points.device)]
