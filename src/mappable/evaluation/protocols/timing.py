"""Time per query: describe an image, and find the nearest landmark with a KD-tree (as the paper) and with ours."""

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints
from mappable.evaluation import paper
from mappable.evaluation.metrics import MeanStd
from mappable.evaluation.models import Model, own_map
from mappable.evaluation.protocol import Protocol, Section, View
from mappable.evaluation.scoring import NotApplicableError, Scoring, landmarks_of
from mappable.evaluation.setup import Setup
from mappable.evaluation.tables import Column, table
from mappable.maps.exact import Exact
from mappable.threads import cores

MOST_QUERIES, WARM_UP_QUERIES = {"cuda": 500, "cpu": 10}, {"cuda": 20, "cpu": 2}
PROPER_NAMES = {"cold": "COLD", "oxford": "Oxford"}  # of the paper's sets


@dataclass(frozen=True)
class StepTime:
    """Milliseconds per query of one step."""

    mean: float
    std: float
    median: float


@dataclass(frozen=True)
class Timing:
    """Time per query, by step: describe, kd-tree, exact, and total, which is describe plus exact."""

    hardware: str
    queries: Ints  # rows of the table
    landmarks: Ints  # rows of the table
    steps: dict[str, StepTime]


def rows(setup: Setup) -> Ints:
    """Rows whose images need descriptors."""
    return np.concatenate([setup.queries[:1], landmarks_of(setup)])


def run(scoring: Scoring) -> Timing:
    """Milliseconds per query, one at a time, with the decoded image in memory; mean, standard
    deviation and median.
    """
    if scoring.load is None:
        raise NotApplicableError("only descriptors are available, no encoder to time")
    encoder, images = scoring.load()
    queries = scoring.setup.queries[: MOST_QUERIES[encoder.device.type]]
    pixels = [images.read(np.array([row])) for row in queries]
    warm_up = WARM_UP_QUERIES[encoder.device.type]
    described, vectors = _timed(encoder.for_queries(), pixels, warm_up)
    landmarks = scoring.landmarks()
    known = scoring.descriptors[landmarks]
    exact, tree = Exact(known), KDTree(known.astype(np.float64))
    searched, _ = _timed(lambda one: exact.nearest(one, 1), vectors, warm_up)
    walked, _ = _timed(tree.query, [one.astype(np.float64) for one in vectors], warm_up)
    steps = {
        "describe": described,
        "kd-tree": walked,
        "exact": searched,
        "total": described + searched,
    }
    found = {
        name: StepTime(float(one.mean()), float(one.std()), float(np.median(one)))
        for name, one in steps.items()
    }
    return Timing(hardware(encoder.device), queries, landmarks, found)


def _timed(work: Callable[[Any], Any], inputs: list[Any], warm_up: int) -> tuple[Floats, list[Any]]:
    """Milliseconds of each call after `warm_up` calls, and the return values."""
    for one in inputs[:warm_up]:
        work(one)
    taken, given = [], []
    for one in inputs:
        begun = time.perf_counter()
        given.append(work(one))
        taken.append(1000.0 * (time.perf_counter() - begun))
    return np.array(taken), given


def hardware(device: Any) -> str:
    """The name of the GPU, or the number of CPU cores and their architecture."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_name(device)
    return f"{cores()} cores of {platform.machine()}"


def report(view: View, models: list[Model]) -> Section:
    """Milliseconds per query, with the paper's numbers."""
    found = [model.first(Timing) for model in models]
    own = {name: taken for name, taken in paper.TIMING.items() if name == view.setup.name}
    printed = {} if own_map(models) else own or paper.TIMING
    sentences = [
        "Milliseconds per query, mean ± standard deviation. Queries run one after the other, with"
        " the decoded image in memory. The total is describe plus exact search"
        + ("; the paper's total uses a KD-tree." if printed else "."),
    ]

    def column(title: str, step: str) -> Column:
        ours = [MeanStd(one.steps[step].mean, one.steps[step].std) for one in found]
        theirs = [MeanStd(*own[step]) if step in own else None for own in printed.values()]
        return Column(title, [*ours, *theirs], 2)

    landmarks = [paper.SIZES[name].landmarks for name in printed]
    taken = table(
        "timing",
        Column(
            "Model",
            [
                *(model.title for model in models),
                *(f"Paper, {PROPER_NAMES[name]}" for name in printed),
            ],
        ),
        Column("Hardware", [*(one.hardware for one in found), *(paper.HARDWARE for _ in printed)]),
        Column("Landmarks", [*(len(one.landmarks) for one in found), *landmarks]),
        column("Describe", "describe"),
        column("KD-tree", "kd-tree"),
        column("Exact", "exact"),
        column("Total", "total"),
        references=len(printed),
    )
    return Section("timing", "Timing", sentences, [taken])


PROTOCOL = Protocol("timing", Timing, rows, run, report)
