"""One simulated route with its ranges and known positions, as `studies/recovery/anchored.py` and tests draw them."""

from dataclasses import dataclass

import numpy as np

from learned_noise import learned_profile, measure_learned
from mappable.arrays import Floats, evenly
from mappable.randomness import Purpose, generator
from mappable.recovery.hints import Anchors
from mappable.recovery.ranges import Ranges
from simulated_ranges import NOISES, Kind, measure, route

LEARNED = "learned"
LENGTH = 672.0  # metres
RADIUS = 10.0  # longest range, in metres
LEAST_STEPS = 3.4  # smallest reach of the ranges in steps, because shorter ranges form a bare chain
ANCHOR_SIGMA = 0.5  # metres
MISSING, OUTLIERS = 0.1, 0.01  # fractions of the ranges; the profile `learned` adds its own false ranges


@dataclass(frozen=True)
class Case:
    """The problem of one repetition."""

    kind: Kind
    noise: str  # low, mid, high or learned
    count: int  # images
    seed: int
    length: float  # metres
    anchors: int = 0  # known positions


def draw(case: Case) -> tuple[Floats, Ranges, Anchors | None]:
    """Return the true positions, the ranges and the known positions of a case."""
    truth = route(case.kind, case.count, seed=case.seed, length=case.length)
    if case.noise == LEARNED:
        ranges = measure_learned(truth, learned_profile(), seed=case.seed, missing=MISSING)
    else:
        radius = max(RADIUS, LEAST_STEPS * case.length / (case.count - 1))
        noise = NOISES[case.noise]
        ranges = measure(truth, noise, seed=case.seed, radius=radius, missing=MISSING, outliers=OUTLIERS)
    if not case.anchors:
        return truth, ranges, None
    points = evenly(case.count, case.anchors, nearest=True)
    errors = generator(case.seed, Purpose.KNOWN_POSITIONS).normal(0, ANCHOR_SIGMA, (case.anchors, truth.shape[1]))
    return truth, ranges, Anchors(points, truth[points] + errors, np.full(case.anchors, ANCHOR_SIGMA))
