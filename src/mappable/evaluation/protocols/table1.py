"""Table I: how many queries have a nearest landmark, by feature, within each radius; by condition, and recall@N."""

import numpy as np

from mappable.arrays import Ints
from mappable.evaluation.metrics import percent_within, recall_at
from mappable.evaluation.scoring import LANDMARK_SEEDS, Scored, Scoring, retrieval_rows
from mappable.evaluation.setup import Setup

RECALLS = (1, 5, 10, 20)


def rows(setup: Setup) -> Ints:
    """Rows that must be described."""
    return np.concatenate([setup.queries, retrieval_rows(setup)])


def score(scoring: Scoring) -> Scored:
    """A number a landmark seed; errors of every query, and all else, are of landmark seed 0."""
    setup = scoring.setup
    radii = {"positive": setup.positive_radius, "negative": setup.negative_radius}
    seeds = LANDMARK_SEEDS if setup.landmarks is not None else LANDMARK_SEEDS[:1]  # else all seeds have the same
    found: dict[str, list[float]] = {name: [] for name in radii}
    bounds: dict[str, list[float]] = {name: [] for name in radii}
    for seed in reversed(seeds):
        landmarks = scoring.landmarks(seed)
        nearest = scoring.nearest(landmarks, max(RECALLS))
        metres = scoring.metres(setup.queries, landmarks)
        at = setup.places.positions
        apart = np.linalg.norm(at[setup.queries][:, None] - at[nearest], axis=2)
        errors, bound = apart[:, 0], metres.min(axis=1)
        for name, radius in radii.items():
            found[name].insert(0, percent_within(errors, radius))
            bounds[name].insert(0, percent_within(bound, radius))
    possible = bound <= setup.positive_radius
    values = {
        "landmarks": len(landmarks),
        "landmark_seeds": list(seeds),
        **found,
        "bound": bounds,
        "median": float(np.median(errors)),
        "by_condition": {
            condition: {
                "queries": len(own),
                **{name: percent_within(errors[own], radius) for name, radius in radii.items()},
                "median": float(np.median(errors[own])),
                "bound": percent_within(bound[own], setup.positive_radius),
            }
            for condition, own in by_condition(setup).items()
        },
        "recall": recall_at(apart <= setup.positive_radius, possible, RECALLS),
        "queries": len(errors),
        "queries_with_positive": int(possible.sum()),
    }
    return Scored(values, {"errors": errors, "bound": bound, "retrieved": nearest[:, 0], "landmarks": landmarks})


def by_condition(setup: Setup) -> dict[str, Ints]:
    """Numbers of the queries of each condition, not rows of the table."""
    conditions = setup.places.condition[setup.queries]
    return {name or "unnamed": np.flatnonzero(conditions == name) for name in sorted(set(conditions))}
