"""F² is the largest squared feature distance between images at most the positive radius apart."""

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.arrays import Ints
from mappable.learning import feature_scale
from mappable.learning.feature_scale import measure_feature_scale
from mappable.places.frames import Frame
from mappable.places.table import Places

RADIUS, YAW = 2.0, 0.5


@pytest.fixture
def places() -> Places:
    """Forty places on two floors whose coordinates say nothing of each other."""
    random = np.random.default_rng(4)
    return Places(
        path=[f"{number}.jpg" for number in range(40)],
        x=random.uniform(0, 10, 40),
        y=random.uniform(0, 10, 40),
        yaw=random.uniform(-np.pi, np.pi, 40),
        sequence=["ground"] * 20 + ["first"] * 20,
        frame=["ground"] * 20 + ["first"] * 20,
        frames=[Frame("ground"), Frame("first")],
    )


@pytest.fixture
def features() -> Tensor:
    return torch.nn.functional.normalize(
        torch.randn(40, 6, generator=torch.Generator().manual_seed(0)), dim=1
    )


def by_loops(places: Places, features: Tensor, yaw_limit: float | None) -> float:
    largest = 0.0
    for one in range(len(places)):
        for other in range(len(places)):
            apart = np.hypot(places.x[one] - places.x[other], places.y[one] - places.y[other])
            turned = abs((places.yaw[one] - places.yaw[other] + np.pi) % (2 * np.pi) - np.pi)
            near = one != other and places.frame[one] == places.frame[other] and apart <= RADIUS
            if near and (yaw_limit is None or turned < yaw_limit):
                largest = max(largest, float((features[one] - features[other]).square().sum()))
    return largest


@pytest.mark.parametrize("yaw_limit", [None, YAW])
@pytest.mark.parametrize("at_once", [1, 256])
def test_against_loops_over_all_pairs(
    yaw_limit: float | None,
    at_once: int,
    places: Places,
    features: Tensor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feature_scale, "PAIRS_AT_ONCE", at_once)
    found = measure_feature_scale(
        places, lambda rows: features[rows], positive_radius=RADIUS, yaw_limit=yaw_limit, seed=0
    )
    expected = by_loops(places, features, yaw_limit)
    assert 0 < expected < 4
    assert found == pytest.approx(expected, rel=1e-6)


def test_of_many_images_some_are_looked_at(
    places: Places, features: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_scale, "MAX_IMAGES", 25)
    asked: list[Ints] = []

    def describe(rows: Ints) -> Tensor:
        asked.append(rows)
        return features[rows]

    found = [
        measure_feature_scale(places, describe, positive_radius=RADIUS, yaw_limit=None, seed=seed)
        for seed in (0, 0, 1)
    ]
    assert [len(set(rows)) for rows in asked] == [25, 25, 25]
    assert asked[0].tolist() == asked[1].tolist() != asked[2].tolist()
    assert found[0] == pytest.approx(by_loops(places[asked[0]], features[asked[0]], None))
