"""The reduction: principal components, after a random step that keeps the distances of all images."""

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.features import reduction
from mappable.features.reduction import fit_reduction
from mappable.features.vectors import unit


def descriptors(count: int, numbers: int, seed: int = 0) -> Tensor:
    """Random ones whose numbers are correlated, and some much stronger than others."""
    random = np.random.default_rng(seed)
    mixing = random.normal(size=(numbers, numbers)) * 0.7 ** np.arange(numbers)[:, None]
    return unit(torch.from_numpy(random.normal(size=(count, numbers)) @ mixing + random.normal(size=numbers)).float())


@pytest.mark.parametrize(("count", "numbers"), [(200, 20), (12, 200), (30, 30)])
def test_numbers_are_the_principal_components_half_whitened(count: int, numbers: int) -> None:
    vectors = descriptors(count, numbers).double().numpy()
    layer = fit_reduction(descriptors(count, numbers), 1, 6, 0)
    variances, components = np.linalg.eigh(np.cov(vectors.T))
    outcome = vectors @ layer.projection.double().numpy().T + layer.offset.double().numpy()
    np.testing.assert_allclose(outcome.mean(0), 0, atol=1e-5)
    expected = (vectors - vectors.mean(0)) @ components[:, :-7:-1] * (variances[:-7:-1] / variances[-1]) ** -0.25
    signs = np.sign((outcome * expected).sum(0))
    np.testing.assert_allclose(outcome * signs, expected, atol=1e-4)


def test_descriptors_come_out_at_length_one_in_float32() -> None:
    vectors = descriptors(40, 20)
    layer = fit_reduction(vectors, 1, 5, 0)
    with torch.autocast("cpu", torch.bfloat16):
        outcome = layer(vectors)
    assert (outcome.shape, outcome.dtype) == ((40, 5), torch.float32)
    torch.testing.assert_close(outcome.norm(dim=1), torch.ones(40))


@pytest.mark.parametrize("kinds_of_parts", [16, 1])
def test_the_first_step_keeps_the_distances_of_all_images(kinds_of_parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reduction is fitted to images that vary in few dimensions, and asked for images that vary in all.

    If all parts vary alike, the same projection of all parts would have four times the error without random signs.
    """
    monkeypatch.setattr(reduction, "INNER", 1024)
    narrow = torch.zeros(30, 4096)
    narrow[:, :40] = torch.randn(30, 40, generator=torch.Generator().manual_seed(0))
    layer = fit_reduction(unit(narrow), 16, 8, 0)
    assert layer.first is not None
    assert layer.first.shape == (256, 64)
    wide = torch.randn(20, 4096, generator=torch.Generator().manual_seed(1)) / 64
    noise = torch.randn(20, 20, kinds_of_parts * 256, generator=torch.Generator().manual_seed(2)) / 64
    other = wide[:, None] + noise.repeat(1, 1, 16 // kinds_of_parts)
    before = (wide[:, None] - other).norm(dim=2)
    after = (layer.shortened(wide)[:, None] - layer.shortened(other.flatten(0, 1)).view(20, 20, -1)).norm(dim=2)
    assert (after / before).mean().item() == pytest.approx(1, abs=0.02)
    assert (after / before).std().item() < 0.04


def test_a_seed_gives_one_projection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "INNER", 9)
    first, second, other = (fit_reduction(descriptors(20, 30), 3, 7, seed) for seed in (0, 0, 1))
    assert first.projection.equal(second.projection)
    assert not first.projection.equal(other.projection)


@pytest.mark.parametrize("images", [1, 2, 9])
def test_too_few_images_give_a_random_projection(images: int) -> None:
    layer = fit_reduction(descriptors(images, 20).repeat(5, 1), 1, 9, 0)
    assert layer.is_random
    torch.testing.assert_close(layer.projection @ layer.projection.T, 20 / 9 * torch.eye(9))
    assert not layer.offset.any()
    assert not fit_reduction(descriptors(10, 20), 1, 9, 0).is_random
