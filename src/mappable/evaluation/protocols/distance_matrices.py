"""Distances between a reference and a query run, in the world and of features, image by image in order of time."""

import numpy as np

from mappable.arrays import Ints, evenly
from mappable.evaluation.metrics import correlations
from mappable.evaluation.scoring import NotApplicableError, Scored, Scoring
from mappable.evaluation.setup import Setup

MOST = 300  # images of either run


def rows(setup: Setup) -> Ints:
    """Rows that must be described."""
    return np.concatenate([setup.references[:0], *_runs(setup)])


def score(scoring: Scoring) -> Scored:
    """The two matrices of plain distances, and how well they agree."""
    setup = scoring.setup
    if setup.matrices is None:
        raise NotApplicableError("this set has no pair of a reference and a query sequence")
    reference, queries = _runs(setup)
    feature, metres = np.sqrt(scoring.squared(reference, queries)), scoring.metres(reference, queries)
    agree = correlations(
        feature.ravel().astype(np.float64), metres.ravel(), setup.positive_radius, setup.negative_radius
    )
    values = {"reference": setup.matrices[0], "queries": setup.matrices[1]}
    return Scored(
        values | {name: agree[name]["plain"] for name in ("pearson", "spearman")},
        {"feature": feature, "metres": metres.astype(np.float32)},
    )


def _runs(setup: Setup) -> list[Ints]:
    pairs = zip(setup.matrices or (), (setup.references, setup.queries), strict=False)
    return [
        rows[evenly(len(rows), MOST, nearest=True)] for rows in (setup.rows_of(name, among) for name, among in pairs)
    ]
