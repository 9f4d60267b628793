"""Places that the encoder never trained on: a map of one run there, and how often its queries are right."""

import numpy as np

from mappable.arrays import Ints
from mappable.evaluation.metrics import percent_within
from mappable.evaluation.scoring import NotApplicableError, Scored, Scoring
from mappable.evaluation.setup import Setup
from mappable.maps.landmarks import sequential_landmarks

SPACINGS = (1.0, 1.25)  # of landmarks along the reference run, in positive radii


def rows(setup: Setup) -> Ints:
    """Rows that must be described."""
    found = [setup.references[:0]]
    for region in setup.regions:
        found += [region.queries, region.reference]
    return np.concatenate(found)


def score(scoring: Scoring) -> Scored:
    """Accuracy in each region, for landmarks one positive radius apart, and 1.25."""
    setup = scoring.setup
    if not setup.regions:
        raise NotApplicableError("this set has no region with a reference run of its own")
    at = setup.places.positions
    found: dict[str, dict[str, object]] = {}
    for region in setup.regions:
        squared = scoring.squared(region.queries, region.reference)
        conditions = setup.places.condition[region.queries]
        found[region.name] = {}
        for factor in SPACINGS:
            spacing = factor * setup.positive_radius
            chosen = sequential_landmarks(setup.places[region.reference], spacing)
            landmarks = region.reference[chosen]
            nearest = landmarks[squared[:, chosen].argmin(axis=1)]
            errors = np.linalg.norm(at[region.queries] - at[nearest], axis=1)
            bound = scoring.metres(region.queries, landmarks).min(axis=1)
            found[region.name][str(factor)] = {
                "landmarks": len(landmarks),
                "spacing": spacing,
                "queries": len(errors),
                "positive": percent_within(errors, setup.positive_radius),
                "negative": percent_within(errors, setup.negative_radius),
                "bound": percent_within(bound, setup.positive_radius),
                "by_condition": {
                    name: percent_within(errors[conditions == name], setup.positive_radius)
                    for name in sorted(set(conditions))
                },
            }
    return Scored({"regions": found}, {})
