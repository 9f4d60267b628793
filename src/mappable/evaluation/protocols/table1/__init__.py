"""Table I: percent of queries whose nearest landmark, by feature, is within each radius; by condition; recall@N."""

import numpy as np

from mappable.evaluation.metrics import percent_within, recall_at
from mappable.evaluation.models import Model
from mappable.evaluation.protocol import Drawing, Protocol, Section, View
from mappable.evaluation.protocols.table1.accuracy import accuracy_section, draw_accuracy, draw_landmarks
from mappable.evaluation.result import Accuracy
from mappable.evaluation.scoring import LANDMARK_SEEDS, Scoring, retrieval

RECALLS = (1, 5, 10, 20)


def score(scoring: Scoring) -> Accuracy:
    """Percentages per landmark seed; errors of every query, and all other fields, are of landmark seed 0."""
    setup, at = scoring.setup, scoring.setup.places.positions
    # If all references are landmarks, all seeds give the same map.
    seeds = LANDMARK_SEEDS if setup.landmarks is not None else LANDMARK_SEEDS[:1]
    within: list[list[float]] = []  # per seed: found and bound within the positive radius, then the negative radius
    for seed in reversed(seeds):
        landmarks = scoring.landmarks(seed)
        nearest = scoring.nearest(landmarks, max(RECALLS))
        apart = np.linalg.norm(at[setup.queries][:, None] - at[nearest], axis=2)
        errors, bound = apart[:, 0], scoring.metres(setup.queries, landmarks).min(axis=1)
        radii = setup.positive_radius, setup.negative_radius
        within.insert(0, [percent_within(own, radius) for radius in radii for own in (errors, bound)])
    positive, bound_positive, negative, bound_negative = (list(numbers) for numbers in zip(*within, strict=True))
    return Accuracy(
        queries=setup.queries,
        landmarks=landmarks,
        retrieved=nearest[:, 0],
        errors=errors,
        bound=bound,
        landmark_seeds=list(seeds),
        positive=positive,
        negative=negative,
        bound_positive=bound_positive,
        bound_negative=bound_negative,
        recall=recall_at(apart <= setup.positive_radius, bound <= setup.positive_radius, RECALLS),
    )


def sections(view: View, models: list[Model]) -> list[Section]:
    """One section of tables and figures."""
    return [accuracy_section(view, models)]


DRAWINGS = (
    Drawing(
        "table1",
        "Queries found within the positive radius (dark) and within the negative radius (light).",
        draw_accuracy,
    ),
    Drawing("landmarks", "The landmarks of the map, with all references and queries.", draw_landmarks),
)
PROTOCOL = Protocol("table1", Accuracy, retrieval, score, sections, DRAWINGS, of_a_map=True)
