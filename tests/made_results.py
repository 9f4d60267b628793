"""Results of made-up models, for tests that compare, summarize or judge them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mappable.arrays import Floats
from mappable.evaluation.result import Accuracy, Result

RADII = (10.0, 25.0)  # metres


def made_result(errors: Floats, table1: Mapping[str, Any] | None = None, **facts: Any) -> Result:
    """A result of a model with these errors, one per query, and with other values in `table1` and other facts.

    There are 6 queries per block, in sun and rain in turn.
    """
    queries = np.arange(len(errors))
    positive, negative = (100 * float(np.mean(errors <= radius)) for radius in RADII)
    accuracy: dict[str, Any] = {
        "queries": queries,
        "landmarks": np.arange(20),
        "retrieved": np.zeros(len(errors), dtype=np.int64),
        "errors": errors,
        "bound": np.full(len(errors), 5.0),
        "landmark_seeds": [0],
        "positive": [positive],
        "negative": [negative],
        "bound_positive": [100.0],
        "bound_negative": [100.0],
        "recall": {"1": positive, "5": 95.0, "10": 100.0, "20": 100.0},
    }
    usual: dict[str, Any] = {
        "set": "street",
        "frame": "town",
        "unit": "m",
        "positive_radius": RADII[0],
        "negative_radius": RADII[1],
        "row": "mine",
        "title": "Mine",
        "seed": 0,
        "encoder": "e",
        "settings": {},
        "setup": "s",
        "ids": np.array([f"q{number}" for number in queries], dtype=object),
        "conditions": np.where(queries % 2 == 0, "sun", "rain").astype(object),
        "blocks": queries // 6,
        "scored": {"table1": Accuracy(**accuracy | dict(table1 or {}))},
    }
    return Result(**usual | facts)
