"""Results of made-up models: from given errors, or from all protocols."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from mappable.arrays import Floats, Floats32, Ints, Pixels
from mappable.evaluation.evaluate import measure
from mappable.evaluation.protocols import PROTOCOLS, map_recovery
from mappable.evaluation.result import Accuracy, Result, empty_result
from mappable.evaluation.rows import ROWS
from mappable.evaluation.scoring import Scoring
from mappable.features.about import About

RADII = (10.0, 25.0)  # metres


def made_result(errors: Floats, table1: Mapping[str, Any] | None = None, **facts: Any) -> Result:
    """A result of a model with these errors, one per query, and with other values in `table1` and
    other facts.

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
        "chance_positive": 5.0,
        "chance_negative": 12.0,
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


@dataclass(frozen=True)
class Recalling:
    """An encoder that knows the descriptor of each image, by the row that its brightness states."""

    about: About
    values: Floats32
    device = torch.device("cpu")

    def for_queries(self) -> "Recalling":
        return self

    def __call__(self, images: Pixels) -> Floats32:
        return self.embed(images)

    def embed(self, images: Pixels, *, progress: bool = True) -> Floats32:
        rows = images[:, 0, 0].astype(int) @ [1, 256, 0]
        return self.values[np.minimum(rows, len(self.values) - 1)]


@dataclass(frozen=True)
class Numbered:
    """Images whose first two channels state their row."""

    def read(self, rows: Ints) -> Pixels:
        pixels = np.zeros((len(rows), 12, 16, 3), dtype=np.uint8)
        pixels[..., 0] = (rows % 256)[:, None, None]
        pixels[..., 1] = (rows // 256)[:, None, None]
        return pixels


def measured(
    scoring: Scoring, row: str, seed: int, names: Sequence[str] = tuple(PROTOCOLS)
) -> Result:
    """The result of all protocols, with an encoder; a map is recovered once, from 24 images."""
    encoder = Recalling(scoring.about, scoring.descriptors.values.astype(np.float32))
    ready = replace(scoring, load=lambda: (encoder, Numbered()))
    settings = {
        "loss": "triplet+huber" if row == "off-the-shelf" else row,
        "geometric_weight": 0.5,
        "size": [160, 120],
    }
    facts = {
        "row": row,
        "title": ROWS[row].title if row in ROWS else row,
        "seed": seed,
        "encoder": "ab12cd34",
    }
    started = empty_result(scoring.setup, settings=settings, **facts)  # type: ignore[arg-type]
    ran = {
        "hardware": "2 cores",
        "date": "2026-01-31",
        "command": "mappable x",
        "training_seconds": 90.0,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"IMAGES": 24, "REPETITIONS": 1}.items():
            patch.setattr(map_recovery, name, value)
        return measure(ready, replace(started, ran=ran), [PROTOCOLS[name] for name in names])
