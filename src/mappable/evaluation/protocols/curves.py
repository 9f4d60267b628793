"""Accuracy against tolerance, with the geometric upper bound: each query's distance to the nearest landmark."""

import numpy as np

from mappable.arrays import Ints
from mappable.evaluation.metrics import tolerance_curve
from mappable.evaluation.protocols.table1 import by_condition
from mappable.evaluation.scoring import Scored, Scoring, retrieval_rows
from mappable.evaluation.setup import Setup

POINTS = 50


def rows(setup: Setup) -> Ints:
    """Rows that must be described."""
    return np.concatenate([setup.queries, retrieval_rows(setup)])


def score(scoring: Scoring) -> Scored:
    """Curves at 50 tolerances from 0 on, of all queries and by condition; landmark seed 0."""
    setup, landmarks = scoring.setup, scoring.landmarks()
    at = setup.places.positions
    errors = np.linalg.norm(at[setup.queries] - at[scoring.nearest(landmarks)[:, 0]], axis=1)
    bound = scoring.metres(setup.queries, landmarks).min(axis=1)
    tolerances = np.linspace(0.0, setup.tolerance, POINTS)
    values = {
        "tolerances": tolerances.tolist(),
        "percent": tolerance_curve(errors, tolerances).tolist(),
        "bound": tolerance_curve(bound, tolerances).tolist(),
        "by_condition": {
            name: tolerance_curve(errors[own], tolerances).tolist() for name, own in by_condition(setup).items()
        },
    }
    return Scored(values, {})
