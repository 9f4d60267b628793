"""Do feature distances follow distances in the world? All pairs of images of a sequence that no encoder trained on."""

from typing import Any

import numpy as np

from mappable.arrays import Floats, Ints, evenly
from mappable.evaluation.metrics import correlations
from mappable.evaluation.scoring import NotApplicableError, Scored, Scoring
from mappable.evaluation.setup import Setup

BINS = 80
MOST = 2500  # images of a sequence; of more, some are taken evenly
SHOWN = 200  # images whose matrix is kept


def rows(setup: Setup) -> Ints:
    """Rows that must be described."""
    return np.concatenate([setup.references[:0], *(_some(setup, name, MOST) for name in setup.proportional)])


def score(scoring: Scoring) -> Scored:
    """Correlations of plain distances for each sequence; of the first also what is needed to draw it."""
    setup = scoring.setup
    if not setup.proportional:
        raise NotApplicableError("this set has no sequence whose pairs could be looked at")
    found: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for name in setup.proportional:
        images = _some(setup, name, MOST)
        first, second = np.triu_indices(len(images), 1)
        if len(first) < 3:
            continue
        feature = np.sqrt(scoring.squared(images, images))
        metres = scoring.metres(images, images)
        pairs = feature[first, second].astype(np.float64), metres[first, second]
        found[name] = {
            "condition": setup.places.condition[images[0]],
            "images": len(images),
            "pairs": len(first),
            **correlations(*pairs, setup.positive_radius, setup.negative_radius),
        }
        if not arrays:
            arrays = _density(*pairs) | _shown(feature, images)
    if not found:
        raise NotApplicableError("no sequence has three images")
    return Scored({"sequences": found}, arrays)


def _some(setup: Setup, sequence: str, most: int) -> Ints:
    images = setup.rows_of(sequence, setup.queries)
    return images[evenly(len(images), most, nearest=True)]


def _density(feature: Floats, metres: Floats) -> dict[str, Any]:
    counts, metres_edges, feature_edges = np.histogram2d(
        metres, feature, bins=BINS, range=((0.0, metres.max()), (0.0, feature.max()))
    )
    return {"counts": counts, "metres_edges": metres_edges, "feature_edges": feature_edges}


def _shown(feature: Any, images: Ints) -> dict[str, Any]:
    some = evenly(len(images), SHOWN, nearest=True)
    return {"matrix": feature[np.ix_(some, some)], "rows": images[some]}
