"""What a query costs: describing an image, and finding the nearest landmark, by KD-tree as in the paper and by ours."""

import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints
from mappable.evaluation.scoring import NotApplicableError, Scored, Scoring, landmarks_of
from mappable.evaluation.setup import Setup
from mappable.maps.exact import Exact
from mappable.threads import cores

MOST, WARM_UP = {"cuda": 500, "cpu": 10}, {"cuda": 20, "cpu": 2}  # queries


def rows(setup: Setup) -> Ints:
    """Rows that must be described."""
    return np.concatenate([setup.queries[:1], landmarks_of(setup)])


def score(scoring: Scoring) -> Scored:
    """Milliseconds a query, one at a time, with the decoded image in memory; mean, standard deviation and median."""
    if scoring.load is None:
        raise NotApplicableError("there is no encoder at hand, only descriptors")
    encoder, images = scoring.load()
    queries = scoring.setup.queries[: MOST[encoder.device.type]]
    pixels = [images.read(np.array([row])) for row in queries]
    warm_up = WARM_UP[encoder.device.type]
    described, vectors = _timed(encoder.for_queries(), pixels, warm_up)
    known = scoring.descriptors[scoring.landmarks()]
    exact, tree = Exact(known), KDTree(known.astype(np.float64))
    searched, _ = _timed(lambda one: exact.nearest(one, 1), vectors, warm_up)
    walked, _ = _timed(tree.query, [one.astype(np.float64) for one in vectors], warm_up)
    total = described + searched
    values = {"hardware": hardware(encoder.device), "queries": len(described), "landmarks": len(known)}
    steps = {"describe": described, "kd-tree": walked, "exact": searched, "total": total}
    return Scored(values | {name: _summary(one) for name, one in steps.items()}, {})


def depends(scoring: Scoring) -> str:
    """What a result depends on beside the model and the set: the machine."""
    return "" if scoring.load is None else hardware(scoring.load()[0].device)


def _timed(work: Callable[[Any], Any], inputs: list[Any], warm_up: int) -> tuple[Floats, list[Any]]:
    """Milliseconds of each call, once the machine is warm, and what they gave."""
    for one in inputs[:warm_up]:
        work(one)
    taken, given = [], []
    for one in inputs:
        begun = time.perf_counter()
        given.append(work(one))
        taken.append(1000.0 * (time.perf_counter() - begun))
    return np.array(taken), given


def _summary(milliseconds: Floats) -> dict[str, float]:
    return {
        "mean": float(milliseconds.mean()),
        "std": float(milliseconds.std()),
        "median": float(np.median(milliseconds)),
    }


def hardware(device: Any) -> str:
    """What computes, in words."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_name(device)
    return f"{cores()} cores of {platform.machine()}"
