"""How accuracy grows with the number of landmarks; those of a smaller map are also in every larger one."""

import numpy as np

from mappable.arrays import Ints
from mappable.evaluation.metrics import percent_within
from mappable.evaluation.scoring import NotApplicableError, Scored, Scoring, retrieval_rows
from mappable.evaluation.setup import Setup


def rows(setup: Setup) -> Ints:
    """Rows that must be described."""
    return np.concatenate([setup.queries, retrieval_rows(setup)])


def score(scoring: Scoring) -> Scored:
    """Accuracy at both radii for each number of landmarks, beside the geometric upper bound; landmark seed 0."""
    setup = scoring.setup
    if setup.landmarks is None or len(setup.counts) < 2:
        raise NotApplicableError("this set has one number of landmarks only")
    counts, most = sorted(setup.counts), scoring.landmarks(count=max(setup.counts))
    at, radii = setup.places.positions, {"positive": setup.positive_radius, "negative": setup.negative_radius}
    found: dict[str, list[float]] = {name: [] for name in radii}
    bounds: dict[str, list[float]] = {name: [] for name in radii}
    for count in counts:
        landmarks = most[:count]
        errors = np.linalg.norm(at[setup.queries] - at[scoring.nearest(landmarks)[:, 0]], axis=1)
        bound = scoring.metres(setup.queries, landmarks).min(axis=1)
        for name, radius in radii.items():
            found[name].append(percent_within(errors, radius))
            bounds[name].append(percent_within(bound, radius))
    return Scored({"counts": counts, **found, "bound": bounds}, {})
