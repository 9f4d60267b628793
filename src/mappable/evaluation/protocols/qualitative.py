"""Examples to look at: random queries of each condition, the nearest landmark, and the one that was retrieved."""

import numpy as np

from mappable.arrays import Ints
from mappable.evaluation.scoring import Scored, Scoring
from mappable.evaluation.setup import Setup
from mappable.maps.landmarks import greedy_landmarks
from mappable.randomness import Purpose, generator

EXAMPLES = 6


def rows(setup: Setup) -> Ints:
    """Rows that must be described."""
    return np.concatenate([_queries(setup), _landmarks(setup)])


def score(scoring: Scoring) -> Scored:
    """The same queries for every model."""
    setup, queries = scoring.setup, _queries(scoring.setup)
    landmarks = _landmarks(setup)
    metres = scoring.metres(queries, landmarks)
    retrieved = scoring.squared(queries, landmarks).argmin(axis=1)
    examples = [
        {
            "condition": setup.places.condition[query],
            "query": int(query),
            "nearest": int(landmarks[metres[number].argmin()]),
            "nearest_metres": float(metres[number].min()),
            "retrieved": int(landmarks[retrieved[number]]),
            "error": float(metres[number, retrieved[number]]),
        }
        for number, query in enumerate(queries)
    ]
    return Scored({"landmarks": len(landmarks), "examples": examples}, {})


def _queries(setup: Setup) -> Ints:
    """As many random queries of each condition, six in all, or one of each if there are more conditions."""
    conditions = setup.places.condition[setup.queries]
    names = sorted(set(conditions))
    each = max(1, EXAMPLES // len(names))
    random = generator(0, Purpose.EXAMPLES)
    chosen = [random.permutation(setup.queries[conditions == name])[:each] for name in names]
    return np.concatenate(chosen)


def _landmarks(setup: Setup) -> Ints:
    gallery = setup.gallery if len(setup.gallery) else setup.references
    count = min(setup.gallery_landmarks, len(gallery))
    return gallery[greedy_landmarks(setup.places[gallery], count)]
