"""Proportionality: the paper's correlation, and same-view pairs within each radius, against loops."""

import math
from dataclasses import replace

import numpy as np
import pytest

from mappable.evaluation.protocols import proportionality
from mappable.evaluation.scoring import NotApplicableError, Scoring

pytestmark = pytest.mark.medium


def test_the_papers_number_is_over_all_pairs_of_one_sequence(scoring: Scoring) -> None:
    found, places = proportionality.run(scoring), scoring.setup.places
    rows = np.flatnonzero(places.sequence == found.sequence)
    vectors = scoring.descriptors.values.astype(np.float64)
    pairs = [(one, other) for place, one in enumerate(rows) for other in rows[place + 1 :]]
    feature = [np.linalg.norm(vectors[one] - vectors[other]) for one, other in pairs]
    metres = [math.dist(places.positions[one], places.positions[other]) for one, other in pairs]
    assert (found.images.tolist(), found.pairs, found.counts.sum()) == (
        rows.tolist(),
        len(pairs),
        len(pairs),
    )
    assert found.pearson == pytest.approx(np.corrcoef(feature, metres)[0, 1], abs=1e-4)
    with pytest.raises(NotApplicableError):
        proportionality.run(replace(scoring, setup=replace(scoring.setup, proportional=())))


def test_pairs_that_look_the_same_way_are_counted_within_each_radius(scoring: Scoring) -> None:
    """Images at even places of each drive look east, the others west."""
    places = scoring.setup.places
    yaw = np.pi * (np.arange(len(places)) % 2)
    found = proportionality.run(
        replace(scoring, setup=replace(scoring.setup, places=places.replace(yaw=yaw)))
    )
    rows = scoring.setup.queries
    expected = {visits: dict.fromkeys(("r1", "r2", "2 r2", "all"), 0) for visits in found.relations}
    for place, one in enumerate(rows):
        for other in rows[place + 1 :]:
            visits = (
                "one visit" if places.sequence[one] == places.sequence[other] else "across visits"
            )
            metres = math.dist(places.positions[one], places.positions[other])
            for name, radius in (("r1", 10.0), ("r2", 25.0), ("2 r2", 50.0), ("all", math.inf)):
                expected[visits][name] += yaw[one] == yaw[other] and metres <= radius
    assert list(expected) == ["one visit", "across visits"]
    for visits, ways in found.relations.items():
        for relations in ways.values():
            assert relations.pairs == expected[visits]
    descriptor, metric = found.relations["across visits"].values()
    assert metric.pearson["2 r2"] > 0.5  # type: ignore[operator]
    assert descriptor.pearson["r2"] > 0.3  # type: ignore[operator]
