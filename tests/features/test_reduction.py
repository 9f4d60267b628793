"""The reduction: exact products with the images to which it is fitted, and about the distances of all others."""

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.features.reduction import EarlierReduction, fit_reduction
from mappable.features.vectors import unit


def descriptors(count: int, numbers: int, seed: int = 0) -> Tensor:
    """Random ones whose numbers are correlated, and some much stronger than others."""
    random = np.random.default_rng(seed)
    mixing = random.normal(size=(numbers, numbers)) * 0.98 ** np.arange(numbers)[:, None]
    return unit(torch.from_numpy(random.normal(size=(count, numbers)) @ mixing + random.normal(size=numbers)).float())


def test_products_with_the_images_of_the_fit_are_kept() -> None:
    landmarks, queries = descriptors(60, 4096), descriptors(20, 4096, seed=1)
    layer = fit_reduction(landmarks, 768, seed=0)
    assert layer.dimensions == 60 + 128  # 60 images span 60 dimensions
    short = layer(queries)
    torch.testing.assert_close(layer(landmarks) @ layer(landmarks).T, landmarks @ landmarks.T, atol=2e-3, rtol=0)
    torch.testing.assert_close(short.norm(dim=1), torch.ones(20))
    whole, kept = queries @ landmarks.T, short @ layer(landmarks).T
    scale = (kept * whole).sum(1, keepdim=True) / whole.square().sum(1, keepdim=True)
    assert (kept - scale * whole).abs().max() < 2e-3, "the order of landmarks is that of whole descriptors"
    assert (scale - 1).abs().max() < 0.25, "the sketch keeps the length of the rest"


def test_with_more_images_than_numbers_it_keeps_the_strongest_axes() -> None:
    vectors = descriptors(300, 400)
    layer = fit_reduction(vectors, 30, seed=0)
    strongest = np.linalg.svd(vectors.double().numpy(), full_matrices=False)[2][:25]
    axes, sketch = layer.projection[:25], layer.projection[25:]
    torch.testing.assert_close(axes.T @ axes, torch.from_numpy(strongest.T @ strongest).float(), atol=2e-3, rtol=0)
    assert (sketch @ vectors.T).abs().max() < 0.01, "the sketch is of what no image of the fit has"


def test_descriptors_come_out_at_length_one_in_float32() -> None:
    vectors = descriptors(40, 20)
    layer = fit_reduction(vectors, 5, seed=0)
    with torch.autocast("cpu", torch.bfloat16):
        outcome = layer(vectors)
    assert (outcome.shape, outcome.dtype) == ((40, 5), torch.float32)
    torch.testing.assert_close(outcome.norm(dim=1), torch.ones(40))


def test_a_seed_gives_one_sketch() -> None:
    first, second, other = (fit_reduction(descriptors(20, 30), 12, seed) for seed in (0, 0, 1))
    assert first.projection.equal(second.projection)
    assert not first.projection.equal(other.projection)


@pytest.mark.parametrize(("inputs", "shape"), [(40, None), (16 * 1024, (1024, 512))])
def test_the_layer_of_earlier_files_has_its_shapes(inputs: int, shape: tuple[int, int] | None) -> None:
    layer = EarlierReduction(inputs, 16 if shape else 1, 6)
    assert (None if layer.first is None else tuple(layer.first.shape)) == shape
    assert layer.projection.shape == (6, 8192 if shape else 40)
