"""Metres from descriptors: the closed form, and what it does on a made-up route."""

import numpy as np
import pytest

from mappable.arrays import Floats, Floats32
from mappable.learning.metric import RIDGE, Metric, curve_to_metres, relations, same_view
from mappable.places.frames import Frame
from mappable.places.table import Places


def _route(
    images: int = 120, dimensions: int = 64, noise: float = 0.3, seed: int = 0
) -> tuple[Floats32, Floats]:
    """Descriptors that change slowly along a straight route with an image every 2 m, and with
    passing traffic.
    """
    random = np.random.default_rng(seed)
    positions = np.column_stack([2.0 * np.arange(images), np.zeros(images)])
    smooth = np.exp(-((positions[:, None, 0] - positions[None, :, 0]) ** 2) / 200)
    fixed = np.random.default_rng(99)
    texture, traffic = fixed.normal(size=(images, dimensions)), fixed.normal(size=(6, dimensions))
    descriptors = smooth @ texture + noise * random.normal(size=texture.shape)
    descriptors += 3 * random.normal(size=(images, 6)) @ traffic
    descriptors /= np.linalg.norm(descriptors, axis=1, keepdims=True)
    return descriptors.astype(np.float32), positions


def test_products_of_features_are_those_of_kernel_ridge_regression() -> None:
    descriptors, positions = _route(images=40)
    queries, _ = _route(images=40, seed=1)
    metric = Metric.fit(descriptors, positions, reach=20.0)
    kernel = np.array(
        [[np.exp(-np.linalg.norm(a - b) / 20.0) for a in positions] for b in positions]
    )
    inverse = np.linalg.inv(descriptors.astype(float) @ descriptors.T + RIDGE * np.eye(40))
    smoothed = queries.astype(float) @ descriptors.T @ inverse
    products = smoothed @ kernel @ smoothed.T
    lengths = np.sqrt(np.diag(products))
    features = metric.features(queries)
    np.testing.assert_allclose(
        features @ features.T, products / np.outer(lengths, lengths), atol=1e-4
    )


def test_metres_follow_distances_on_another_day() -> None:
    descriptors, positions = _route()
    later, _ = _route(seed=1)
    metric = Metric.fit(descriptors, positions, reach=20.0)
    metres = metric.distances(metric.features(later), metric.features(descriptors))
    apart = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    near = (apart > 0) & (apart <= 20.0)
    plain = np.linalg.norm(later[:, None] - descriptors[None], axis=2)
    assert np.corrcoef(metres[near], apart[near])[0, 1] > 0.9
    assert (
        np.corrcoef(metres[near], apart[near])[0, 1]
        > np.corrcoef(plain[near], apart[near])[0, 1] + 0.1
    )


def test_same_image_is_zero_metres_and_far_images_are_at_most_three_reaches() -> None:
    descriptors, positions = _route()
    metric = Metric.fit(descriptors, positions, reach=20.0)
    metres = metric.distances(metric.features(descriptors), metric.features(descriptors))
    assert np.diag(metres) == pytest.approx(np.zeros(120), abs=1e-3)
    assert metres.max() == pytest.approx(60.0)


def test_relations_of_a_distance_that_saturates() -> None:
    """Metres that are exact up to 30 m and stop there: equal to loops over pairs, and reach 37 m."""
    random = np.random.default_rng(0)
    metres = random.uniform(0, 100, 20_000)
    distances = np.minimum(metres, 30.0)
    found = relations(distances, metres, near=10.0, far=25.0)
    assert found.pearson["r1"] == found.pearson["r2"] == pytest.approx(1.0)
    near = [
        (distance, truth)
        for distance, truth in zip(distances, metres, strict=True)
        if truth <= 50.0
    ]
    assert found.pairs == {
        "r1": int((metres <= 10).sum()),
        "r2": int((metres <= 25).sum()),
        "2 r2": len(near),
        "all": 20_000,
    }
    assert found.pearson["2 r2"] == pytest.approx(np.corrcoef(np.array(near).T)[0, 1])
    assert found.reach == pytest.approx(37.5)  # 30 of 37.5 m is an error of 20 %


def test_a_curve_turns_feature_distances_into_metres() -> None:
    metres = np.random.default_rng(0).uniform(0, 50, 10_000)
    squared = 1 - np.exp(-metres / 20)
    curve = curve_to_metres(squared[:5000], metres[:5000])
    found = relations(squared[5000:], metres[5000:], near=5.0, far=20.0, curve=curve)
    assert found.reach > 45
    assert relations(squared[5000:], metres[5000:], near=5.0, far=20.0).reach == 0.0


def test_pairs_look_the_same_way_and_are_of_one_visit_or_two() -> None:
    places = Places(
        path=[f"{row}.jpg" for row in range(4)],
        x=[0.0, 1.0, 0.0, 0.5],
        y=[0.0] * 4,
        yaw=[0.0, 0.4, 3.0, np.nan],
        sequence=["a", "a", "b", "b"],
        frames=Frame("town"),
    )
    one, two = (same_view(places, places, across=across) for across in (False, True))
    assert np.argwhere(one).tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]
    assert np.argwhere(two).tolist() == [[0, 3], [1, 3], [3, 0], [3, 1]]
