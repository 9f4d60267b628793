"""The reduction: principal components first, and random directions that keep the distances of all other images."""

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.features import reduction
from mappable.features.reduction import Reduction
from mappable.features.vectors import unit


def descriptors(count: int, numbers: int, seed: int = 0) -> Tensor:
    """Random ones whose numbers are correlated, and some much stronger than others."""
    random = np.random.default_rng(seed)
    mixing = random.normal(size=(numbers, numbers)) * 0.7 ** np.arange(numbers)[:, None]
    return unit(torch.from_numpy(random.normal(size=(count, numbers)) @ mixing + random.normal(size=numbers)).float())


def fitted(vectors: Tensor, parts: int, dimensions: int, seed: int = 0) -> Reduction:
    layer = Reduction(vectors.shape[1], parts, dimensions)
    layer.fit(vectors, seed)
    return layer.requires_grad_(False)


@pytest.mark.parametrize(("count", "numbers"), [(200, 20), (12, 200), (30, 30)])
def test_the_first_numbers_are_the_principal_components(count: int, numbers: int) -> None:
    vectors = descriptors(count, numbers)
    layer = fitted(vectors, 1, 8)
    components = np.linalg.svd(vectors.double().numpy() - vectors.double().numpy().mean(0))[2]
    principal = round(8 * reduction.PRINCIPAL)
    products = layer.projection[:principal].double().numpy() @ components[:principal].T
    np.testing.assert_allclose(np.abs(products), np.eye(principal), atol=1e-3)  # the sign is free
    centered = vectors @ layer.projection.T + layer.offset
    torch.testing.assert_close(centered.mean(0), torch.zeros(8), atol=1e-5, rtol=0)


def test_descriptors_come_out_at_length_one_in_float32() -> None:
    vectors = descriptors(40, 20)
    layer = fitted(vectors, 1, 5)
    with torch.autocast("cpu", torch.bfloat16):
        outcome = layer(vectors)
    assert (outcome.shape, outcome.dtype) == ((40, 5), torch.float32)
    torch.testing.assert_close(outcome.norm(dim=1), torch.ones(40))


@pytest.mark.parametrize("inner", [1024, 4096])
def test_images_from_elsewhere_keep_their_distances(inner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reduction is fitted to images that vary in few dimensions, and asked for images that vary in all."""
    monkeypatch.setattr(reduction, "INNER", inner)
    narrow = torch.zeros(30, 4096)
    narrow[:, :40] = torch.randn(30, 40, generator=torch.Generator().manual_seed(0))
    layer = fitted(unit(narrow), 16, 512)
    assert (layer.first is None) == (inner == 4096)
    wide = unit(torch.randn(20, 4096, generator=torch.Generator().manual_seed(1)))
    shared = unit(wide[:, None] + torch.randn(20, 20, 4096, generator=torch.Generator().manual_seed(2)) / 64)
    before = (wide[:, None] - shared).norm(dim=2)
    after = (layer(wide)[:, None] - layer(shared.flatten(0, 1)).view(20, 20, -1)).norm(dim=2)
    assert (after / before).mean().item() == pytest.approx(1, abs=0.03)
    assert (after / before).std().item() < 0.06


def test_a_seed_gives_one_projection_even_of_a_single_image() -> None:
    vectors = descriptors(1, 30)
    first, second, other = (fitted(vectors, 3, 7, seed=seed) for seed in (0, 0, 1))
    assert first.projection.equal(second.projection)
    assert not first.projection.equal(other.projection)
    assert first(descriptors(9, 30, seed=1)).isfinite().all()
