"""The reduction: products with the images to which it is fitted, and about the distances of all others."""

import numpy as np
import torch
from torch import Tensor

from mappable.features.reduction import Reduction, fit_reduction
from mappable.features.vectors import unit


def descriptors(count: int, numbers: int, seed: int = 0) -> Tensor:
    """Random ones whose numbers are correlated, and some much stronger than others."""
    random = np.random.default_rng(seed)
    basis = np.random.default_rng(9).normal(size=(40, numbers)) * 0.9 ** np.arange(40)[:, None]
    return unit(
        torch.from_numpy(
            random.normal(size=(count, 40)) @ basis + random.normal(size=numbers) / 2
        ).float()
    )


def test_products_with_the_images_of_the_fit_are_kept() -> None:
    landmarks, queries = descriptors(60, 32768), descriptors(20, 32768, seed=1)
    layer = fit_reduction(landmarks, 768, parts=64)
    assert layer.dimensions == 41 + 128  # the images span 41 dimensions
    short = layer(queries)
    torch.testing.assert_close(
        layer(landmarks) @ layer(landmarks).T, landmarks @ landmarks.T, atol=0.05, rtol=0
    )
    torch.testing.assert_close(short.norm(dim=1), torch.ones(20))
    whole, kept = queries @ landmarks.T, short @ layer(landmarks).T
    assert torch.corrcoef(torch.stack([whole.flatten(), kept.flatten()]))[0, 1] > 0.99
    scale = (kept * whole).sum(1) / whole.square().sum(1)
    assert (scale - 1).abs().max() < 0.25, "the sketch keeps the length of the rest"


def test_with_exact_axes_equations_1_and_2_are_a_projection_and_a_sketch_of_the_rest() -> None:
    """Axes that are signs themselves: the reduction computes what plain loops compute."""
    signs = torch.from_numpy(np.array([[1, 1, 1, 1], [1, -1, 1, -1]])).float() / 2
    layer = fit_reduction(torch.cat([2 * signs[:1], signs[1:]]), 12)
    random = layer.projection[2:]
    image = torch.tensor([0.1, 0.7, -0.3, 0.2])
    coordinates = signs @ image
    rest = image - coordinates @ signs
    expected = torch.cat([coordinates, random @ rest / len(random) ** 0.5])
    torch.testing.assert_close(layer(image[None])[0].abs(), unit(expected).abs(), atol=2e-3, rtol=0)


def test_what_is_stored_has_one_bit_per_sign_and_gives_the_same_layer() -> None:
    layer = fit_reduction(descriptors(20, 30), 12, parts=3)
    stored = layer.stored()
    assert stored["reduction.signs"].shape == (10, 4)
    again = Reduction.load(stored, 30)
    assert again.projection.equal(layer.projection)
    assert again.mixing.equal(layer.mixing)
