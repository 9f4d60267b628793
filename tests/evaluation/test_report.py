"""The report: its numbers are those of the results, and a browser shows all of it without asking anybody for more."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mappable.evaluation.metrics import percent_within
from mappable.evaluation.result import Result, empty_result
from mappable.evaluation.rows import ROWS
from mappable.evaluation.scoring import Scored
from mappable.evaluation.setup import Setup, setup_of
from mappable.places.frames import Frame
from mappable.places.table import Places

ODD = "test-<script>alert(1)</script>&\"night'"  # a name that users may give
QUALITY = {"off-the-shelf": 25.0, "triplet": 12.0, "triplet+huber": 6.0}  # metres that models are off


@pytest.fixture(scope="module")
def setup() -> Setup:
    """A straight street of 300 m, driven in sun and at night."""
    names = {"train": ("train", "sun"), ODD: ("test", "night"), "test-sun": ("test", "sun")}
    along = np.arange(0.0, 300.0, 5.0)
    count = len(along)
    return setup_of(
        "made-up",
        Places(
            path=[f"{number}/{at:g}.jpg" for number in range(3) for at in along],
            x=np.tile(along, 3),
            y=np.repeat([0.0, 0.5, 1.0], count),
            sequence=np.repeat(list(names), count),
            split=np.repeat([split for split, _ in names.values()], count),
            condition=np.repeat([condition for _, condition in names.values()], count),
            frames=Frame("street"),
        ),
        positive_radius=10.0,
        negative_radius=25.0,
        landmarks=30,
    )


def made_up(setup: Setup, row: str, seed: int, **others: Any) -> Result:
    """What a model might have come to, in the shape that protocols have it."""
    off = QUALITY[row]
    random = np.random.default_rng([len(row), seed])
    errors, bound = random.exponential(off, len(setup.queries)), np.full(len(setup.queries), 2.5)
    near, far = (percent_within(errors, radius) for radius in (10.0, 25.0))
    conditions = setup.places.condition[setup.queries]
    r = 1.0 / (1.0 + off / 10.0)
    correlations = {"plain": r, "squared": r - 0.1, "within positive radius": None, "within negative radius": r / 2}
    sequences = {
        name: {"condition": "sun", "images": 60, "pairs": 1770, "pearson": correlations, "spearman": correlations}
        for name in (ODD, "test-sun")
    }
    region = {"landmarks": 30, "spacing": 10.0, "queries": 60, "positive": near - 9, "negative": far, "bound": 99.0}
    scored = {
        "table1": Scored(
            {
                "landmarks": 30,
                "landmark_seeds": [0, 1, 2],
                "positive": [near, near - 1, near + 1],
                "negative": [far, far, far],
                "bound": {"positive": [100.0, 99.0, 98.0], "negative": [100.0, 100.0, 100.0]},
                "median": float(np.median(errors)),
                "by_condition": {
                    name: {"queries": 60, "positive": near, "negative": far, "median": off, "bound": 100.0}
                    for name in sorted(set(conditions))
                },
                "recall": {"1": near, "5": near + 1, "10": near + 2, "20": near + 3},
                "queries": len(errors),
                "queries_with_positive": len(errors) - 1,
            },
            {"errors": errors, "bound": bound, "retrieved": setup.references[:1], "landmarks": setup.references[:30]},
        ),
        "curves": Scored({"tolerances": [0.0, 25.0], "percent": [0.0, far], "bound": [0.0, 100.0]}, {}),
        "proportionality": Scored({"sequences": sequences}, {}),
        "distance-matrices": Scored({"reference": "train", "queries": ODD, "pearson": r, "spearman": r + 0.01}, {}),
        "landmark-sweep": Scored(
            {
                "counts": [10, 30],
                "positive": [near - 20, near],
                "negative": [far - 20, far],
                "bound": {"positive": [70.0, 100.0], "negative": [100.0, 100.0]},
            },
            {},
        ),
        "generalisation": Scored(
            {"regions": {"region B": {"1.0": region, "1.25": region | {"spacing": 12.5, "landmarks": 24}}}}, {}
        ),
        "qualitative": Scored(
            {
                "landmarks": 30,
                "examples": [
                    {
                        "condition": "night",
                        "query": int(query),
                        "nearest": 0,
                        "nearest_metres": 1.5,
                        "retrieved": 3,
                        "error": off,
                    }
                    for query in setup.queries[:2]
                ],
            },
            {},
        ),
        "timing": Scored(
            {"hardware": "2 cores of x86_64", "queries": 40, "landmarks": 30}
            | {
                step: {"mean": 1.5 + n, "std": 0.25, "median": 1.4 + n}
                for n, step in enumerate(("describe", "kd-tree", "exact", "total"))
            },
            {},
        ),
        "localization": Scored(
            {
                "calibrated_on": "calibration",
                "coverage": 0.9,
                "covered": 91.25,
                "width": off / 2,
                "unconditional_width": 2 * off,
                "confident": 80.0,
                "refined": 75.0,
                "errors": {
                    name: {"median": off * share, "positive": near, "negative": far}
                    for name, share in (("top-1", 1.0), ("refined", 0.8), ("sequence", 0.5), ("bound", 0.2))
                },
                "by_condition": {"night": {"covered": 88.0, "confident": 70.0, "median": off, "top-1": off + 1}},
                "rejection": {
                    "thresholds": [0.5, 1.0],
                    "precision": [1.0, 0.9],
                    "recall": [0.5, 0.9],
                    "average_precision": r,
                    "accepted": 82.0,
                    "falsely_accepted": None,
                    "absent": 0,
                },
            },
            {},
        ),
        "map-recovery": Scored(
            {
                "sequence": ODD,
                "images": 60,
                "length": 295.0,
                "repetitions": 10,
                "known": 10,
                "rows": [
                    {"method": method, "group": group, "mean": mean, "std": 0.5, "percent": mean / 2.95, "rigid": rigid}
                    | {"rigid_percent": rigid and rigid / 2.95}
                    for method, group, mean, rigid in (
                        ("straight line", "trivial", 22.0, 23.0),
                        ("s-stress, classical MDS", "paper", 20.0, 30.0),
                        ("recover", "ours", off, off + 1),
                        ("recover_anchored", "ours, known positions", off / 2, None),
                    )
                ],
                "mask": {"tau": 0.5, "precision": 95.2, "recall": 40.0, "per_row": 4.5},
                "notes": ["The semidefinite program needs cvxpy, which is not installed: s-stress instead."],
            },
            {},
        ),
    }
    settings = {"loss": "triplet+huber" if row == "off-the-shelf" else row, "geometric_weight": 0.5, "size": [160, 120]}
    started = empty_result(setup, row=row, title=ROWS[row].title, seed=seed, encoder="ab12cd34ef", settings=settings)
    ran = {
        "hardware": "2 cores of x86_64",
        "date": "2026-01-31",
        "versions": {"torch": "2.13.0"},
        "command": "mappable x",
    }
    return replace(started, scored=scored, skipped={}, ran=ran | {"training_seconds": 90.0}, **others)
