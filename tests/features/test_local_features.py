"""Local features: the network's shapes, key points of real images, and matches that fit one affine map."""

import numpy as np
import pytest
import torch

from mappable.features.local_features import LocalFeatures, count_inliers, describe_locally
from mappable.features.weight_files import shapes_of
from mappable.features.xfeat import XFeat


def features(points: np.ndarray, seed: int) -> LocalFeatures:
    random = np.random.default_rng(seed)
    descriptors = random.normal(size=(len(points), 64))
    descriptors /= np.linalg.norm(descriptors, axis=1, keepdims=True)
    return LocalFeatures(points.astype(np.float32), descriptors.astype(np.float32))


def texture(seed: int, height: int = 160, width: int = 240) -> np.ndarray:
    """An image of overlapping rectangles."""
    random = np.random.default_rng(seed)
    image = np.zeros((height, width, 3), dtype=np.uint8)
    for _ in range(60):
        y, x = random.integers(0, height - 10), random.integers(0, width - 10)
        image[y : y + random.integers(8, 40), x : x + random.integers(8, 40)] = random.integers(0, 255, 3)
    return image


def test_matches_that_fit_one_map_are_counted() -> None:
    random = np.random.default_rng(0)
    first = features(random.uniform(0, 200, (120, 2)), 1)
    moved = first.points @ np.array([[1.1, 0.1], [-0.05, 0.9]], dtype=np.float32) + 7
    moved[:40] = random.uniform(0, 200, (40, 2))  # wrong matches
    assert 78 <= count_inliers(first, LocalFeatures(moved, first.descriptors)) <= 90
    assert count_inliers(first, features(random.uniform(0, 200, (120, 2)), 2)) < 15
    nothing = LocalFeatures(np.empty((0, 2), np.float32), np.empty((0, 64), np.float32))
    assert count_inliers(first, nothing) == 0


def test_points_on_one_spot_fit_no_map() -> None:
    one = features(np.full((20, 2), 5.0), 1)
    assert count_inliers(one, one) == 0


def test_the_network_has_one_descriptor_and_65_logits_per_cell() -> None:
    with torch.inference_mode():
        found, reliable, logits = XFeat().eval()(torch.rand(1, 1, 64, 96))
    assert (found.shape, reliable.shape, logits.shape) == ((1, 64, 8, 12), (1, 1, 8, 12), (1, 65, 8, 12))
    assert sum(np.prod(shape) for shape in shapes_of("xfeat").values()) == 660_654


@pytest.mark.medium
def test_a_shifted_image_matches_and_another_one_does_not() -> None:
    """With the authors' weights."""
    whole = texture(0, 200, 300)
    first, shifted, other = (describe_locally(one) for one in (whole[:160, :240], whole[20:180, 30:270], texture(1)))
    np.testing.assert_allclose(np.linalg.norm(first.descriptors, axis=1), 1.0, atol=1e-5)
    assert (first.points >= 0).all()
    assert (first.points <= [240, 160]).all()
    assert count_inliers(first, shifted) > 3 * count_inliers(first, other)
