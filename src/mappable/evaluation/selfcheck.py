"""`self_check`: compare losses, gradients, mining, search, MDS and alignment with slow references on random data."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mappable.arrays import Bools, Floats, Floats32
from mappable.evaluation import references
from mappable.features.devices import find_device
from mappable.learning.losses.loss import LOSS_NAMES, GeometricPairs, Loss
from mappable.learning.mining import FeatureCache
from mappable.maps.approximate import LEAST, Approximate
from mappable.maps.exact import Exact
from mappable.maps.store import Store
from mappable.randomness import Purpose, generator
from mappable.recovery.align import align
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.mds import classical_mds
from mappable.recovery.unanchored.smacof import sparse_smacof

RADIUS = 10.0  # positive radius of the random tuples, in metres
STEP = 1e-7  # of numerical gradients: rounding and truncation errors both stay below 1e-7 of the gradient


@dataclass(frozen=True)
class Check:
    """What was compared, and the largest difference; `error` says why a check failed to finish or was skipped."""

    name: str
    compared: str
    difference: float | None  # None if missing or not finite
    tolerance: float
    passed: bool | None  # None if skipped
    error: str | None = None


@dataclass(frozen=True)
class Trial:
    """The device to compute on, and a random generator."""

    device: torch.device
    random: np.random.Generator

    def tensor(self, values: Any, dtype: torch.dtype) -> Tensor:
        return torch.tensor(np.asarray(values), dtype=dtype, device=self.device)

    def descriptors(self, *shape: int, spread: float = 0.4) -> Floats:
        """Unit vectors (..., n, D); vectors of one group are so similar that some hinges are active and some not."""
        centers = self.random.normal(size=(*shape[:-2], 1, shape[-1]))
        vectors = centers + spread * self.random.normal(size=shape)
        unit: Floats = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
        return unit


class SkippedError(Exception):
    """A check needs a package that is not installed."""


@dataclass(frozen=True)
class Comparison:
    """A check before it runs; `compare` returns the largest difference from the reference."""

    name: str
    compared: str
    tolerance: float
    compare: Callable[[Trial], float]
    on_device: bool = False

    def run(self, trial: Trial) -> Check:
        """Run the check; an error counts as failed."""
        compared = f"{self.compared}, on {trial.device}" if self.on_device else self.compared
        try:
            difference = float(self.compare(trial))
        except SkippedError as reason:
            return Check(self.name, compared, None, self.tolerance, None, str(reason))
        except Exception as error:  # broken code may raise anything; the other checks still run
            return Check(self.name, compared, None, self.tolerance, False, f"{type(error).__name__}: {error}")
        passed = difference <= self.tolerance  # False for NaN
        return Check(self.name, compared, difference if math.isfinite(difference) else None, self.tolerance, passed)


def self_check(device: str = "auto", seed: int = 0) -> list[Check]:
    """Run all checks in order; if one fails, the others still run.

    Losses, gradients and mining compute on `device` ("auto", "cpu", "cuda", "cuda:N"), the rest on the CPU.
    """
    found = find_device(device)
    return [check.run(Trial(found, generator(seed, Purpose.SELF_CHECK, row))) for row, check in enumerate(CHECKS)]


def all_losses() -> Iterator[Loss]:
    """Every loss name with every variant that it has."""
    for name, normalized, pairs in product(LOSS_NAMES, (True, False), get_args(GeometricPairs)):
        is_geometric = "distance" in name or "huber" in name
        if not is_geometric and (pairs == "all" or not normalized):
            continue
        loss = Loss(
            name,
            feature_scale_squared=0.6,
            positive_radius=RADIUS,
            geometric_weight=0.7,
            huber_delta=0.4,
            normalized=normalized,
            geometric_pairs=pairs,
            positives=3,
            negatives=4,
            hard_negatives=2,
        )
        yield loss
        if is_geometric and "quadruplet" in name and normalized:
            yield replace(loss, second_hinge="residuals")


def _tuples(trial: Trial, loss: Loss, anchors: int) -> tuple[Floats, Floats]:
    """Descriptors (anchors, images, 5) and squared metres (anchors, pairs) for a loss."""
    metres = trial.random.uniform(0, RADIUS, (anchors, loss.layout.pairs))
    return trial.descriptors(anchors, loss.layout.images, 5), np.square(metres)


def _losses(dtype: torch.dtype) -> Callable[[Trial], float]:
    def compare(trial: Trial) -> float:
        worst = 0.0
        for loss in all_losses():
            images, metres = _tuples(trial, loss, anchors=4)
            terms = loss(trial.tensor(images, dtype), trial.tensor(metres, dtype))
            for row in range(len(images)):
                for name, wanted in references.loss_terms(loss, images[row].tolist(), metres[row].tolist()).items():
                    worst = _worse(worst, abs(float(getattr(terms, name)[row]) - wanted) / max(1.0, abs(wanted)))
        return worst

    return compare


def _gradients(trial: Trial) -> float:
    worst = 0.0
    for loss in all_losses():
        images, metres = _tuples(trial, loss, anchors=1)
        values = trial.tensor(images, torch.float64).requires_grad_()
        (found,) = torch.autograd.grad(loss(values, trial.tensor(metres, torch.float64)).total.sum(), values)

        def total(moved: list[list[float]], loss: Loss = loss, metres: Floats = metres) -> float:
            return references.loss_terms(loss, moved, metres[0].tolist())["total"]

        wanted = np.array(references.numerical_gradient(total, images[0].tolist(), STEP))
        worst = _worse(worst, _largest(found[0].cpu().numpy() - wanted) / max(1.0, _largest(wanted)))
    return worst


def _mining(trial: Trial) -> float:
    """Compare all distances, and those of mined rows; a mined row that is no negative counts as infinitely far."""
    rows = np.sort(trial.random.choice(300, 200, replace=False))
    features = trial.descriptors(200, 64, spread=1.0).astype(np.float32)
    anchors, negatives = trial.random.choice(rows, 16, replace=False), trial.random.random((16, 300)) < 0.5
    cache = FeatureCache(trial.tensor(rows, torch.int64), trial.tensor(features, torch.float32))
    distances = cache.squared_distances(trial.tensor(anchors, torch.int64)).tolist()
    hard, count = cache.hardest(trial.tensor(anchors, torch.int64), trial.tensor(negatives, torch.bool), 10)
    at = dict(zip(rows.tolist(), features.tolist(), strict=True))
    worst = 0.0
    for anchor, allowed, mined, own in zip(anchors.tolist(), negatives, hard.tolist(), distances, strict=True):
        for row, distance in zip(at, own, strict=True):
            worst = _worse(worst, abs(references.squared_distance(at[anchor], at[row]) - distance))
        eligible = [row for row in at if allowed[row]]
        wanted = references.nearest(at[anchor], at, eligible, 10)
        for row, (distance, _) in zip(mined, wanted, strict=True):
            known = references.squared_distance(at[anchor], at[row]) if row in eligible else math.inf
            worst = _worse(worst, abs(known - distance))
    return worst if bool((count == 10).all()) else math.inf


def _search(store: Store, vectors: Floats32, queries: Floats32, among: Bools | None = None) -> tuple[float, float]:
    """The largest error of a squared distance from the store, and the share of nearest rows that it misses."""
    count = 5
    rows, squared = store.nearest(queries, count, among=among)
    known, allowed = vectors.tolist(), range(len(vectors)) if among is None else np.flatnonzero(among).tolist()
    worst, missed = 0.0, 0
    for query, found, distances in zip(queries.tolist(), rows.tolist(), squared.tolist(), strict=True):
        wanted = references.nearest(query, known, allowed, count)
        missed += len({row for _, row in wanted} - set(found))
        for row, distance in zip(found, distances, strict=True):
            own = references.squared_distance(query, known[row]) if row in allowed else math.inf
            worst = _worse(worst, abs(own - distance))
    return worst, missed / (count * len(queries))


def _exact_search(kind: type[np.floating[Any]]) -> Callable[[Trial], float]:
    def compare(trial: Trial) -> float:
        vectors = trial.descriptors(300, 64, spread=1.0).astype(kind)
        twins = vectors[:5].astype(np.float32) + np.float32(1e-4)  # inner products alone would round these to 0
        queries = np.concatenate([twins, trial.descriptors(15, 64, spread=1.0).astype(np.float32)])
        among = trial.random.random(len(vectors)) < 0.8
        worst, missed = _search(Exact(vectors), vectors.astype(np.float32), queries, among)
        return worst if missed == 0 else math.inf

    return compare


def _approximate_search(trial: Trial) -> float:
    try:
        import faiss  # noqa: F401
    except ImportError:
        raise SkippedError("FAISS is not installed") from None
    vectors = trial.descriptors(LEAST, 32, spread=1.0).astype(np.float32)
    queries = vectors[:20] + trial.random.normal(0, 0.02, (20, 32)).astype(np.float32)
    worst, missed = _search(Approximate.build(Exact(vectors)), vectors, queries)
    return missed if worst <= 1e-5 else math.inf


def _mds(trial: Trial) -> float:
    worst = 0.0
    for dimensions in (2, 3):
        points = trial.random.uniform(0, 10, (16, dimensions))
        noise = trial.random.normal(0, 0.1, (16, 16))
        squared = np.square(_between(points) + noise + noise.T)
        np.fill_diagonal(squared, 0)
        found, wanted = classical_mds(squared, dimensions), references.classical_mds(squared.tolist(), dimensions)
        worst = _worse(worst, _largest(_between(found) - _between(np.array(wanted))))
    return worst


def _smacof(trial: Trial) -> float:
    """Relative excess over the least stress, or relative error of the stated stress, whichever is larger."""
    worst = 0.0
    for dimensions, share in product((2, 3), (1.0, 0.8)):
        points = trial.random.uniform(0, 10, (12, dimensions))
        i, j = np.triu_indices(12, 1)
        kept = trial.random.random(len(i)) < share
        i, j, sigma = i[kept], j[kept], trial.random.uniform(0.5, 2, int(kept.sum()))
        metres = _between(points)[i, j] + trial.random.normal(0, 0.05, len(i))
        start = points + trial.random.normal(0, 0.2, points.shape)
        found = sparse_smacof(Ranges(12, i, j, metres, sigma), start, steps=3000, tolerance=1e-9)
        edges = list(zip(i.tolist(), j.tolist(), metres.tolist(), sigma.tolist(), strict=True))
        least = references.stress(edges, references.least_stress(edges, start.tolist(), sweeps=1000))
        own = references.stress(edges, found.points.tolist())
        worst = _worse(worst, max(own - least, abs(found.stress - own)) / least)
    return worst


def _alignment(trial: Trial) -> float:
    worst = 0.0
    for dimensions, scale, mirror in product((2, 3), (True, False), (1.0, -1.0)):
        truth = trial.random.normal(0, 10, (20, dimensions))
        turn, _ = np.linalg.qr(trial.random.normal(size=(dimensions, dimensions)))
        turn[0] *= mirror
        points = 1.5 * truth @ turn.T + trial.random.normal(0, 1, truth.shape) + 100
        flat = [np.pad(one, ((0, 0), (0, 3 - dimensions))).tolist() for one in (points, truth)]
        wanted = np.array(references.aligned(flat[0], flat[1], scale=scale))[:, :dimensions]
        worst = _worse(worst, _largest(align(points, truth, scale=scale)(points) - wanted))
    return worst


def _between(points: Floats) -> Floats:
    """Distances (n, n) between all pairs."""
    distances: Floats = np.linalg.norm(points[:, None] - points[None], axis=2)
    return distances


def _largest(differences: NDArray[Any]) -> float:
    return float(np.abs(differences).max())


def _worse(first: float, second: float) -> float:
    """The larger of two numbers; NaN if either is NaN."""
    return math.nan if math.isnan(first) or math.isnan(second) else max(first, second)


# Each tolerance is at least ten times the largest difference of `self_check` with seeds 0 to 99 on a CPU.
CHECKS = (
    Comparison("losses", "terms of all losses in float64 with loops", 1e-12, _losses(torch.float64), True),
    Comparison("losses, float32", "terms of all losses with loops", 2e-5, _losses(torch.float32), True),
    Comparison("gradients", "gradients of all losses with finite differences", 1e-6, _gradients, True),
    Comparison("mining", "squared distances of hard negatives with loops", 1e-5, _mining, True),
    Comparison("exact search", "rows and squared distances with loops", 1e-5, _exact_search(np.float32)),
    Comparison("exact search, float16", "rows and squared distances with loops", 1e-5, _exact_search(np.float16)),
    Comparison("approximate search", "share of nearest landmarks missed", 0.05, _approximate_search),
    Comparison("classical MDS", "distances in metres with Jacobi's eigenvectors", 1e-8, _mds),
    Comparison("SMACOF", "stress with the least in loops, relative", 1e-5, _smacof),
    Comparison("alignment", "coordinates in metres with unit quaternions", 1e-9, _alignment),
)
