"""PCA-whitening against the covariance that it is made of."""

import numpy as np
import pytest
import torch

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.features.whitening import Whitening, fit_whitening


def descriptors(count: int, numbers: int, seed: int = 0) -> torch.Tensor:
    """Random ones whose numbers are correlated, and some much stronger than others."""
    random = np.random.default_rng(seed)
    mixing = random.normal(size=(numbers, numbers)) * 0.7 ** np.arange(numbers)[:, None]
    return torch.from_numpy(random.normal(size=(count, numbers)) @ mixing + random.normal(size=numbers)).float()


def projected(whitening: Whitening, vectors: torch.Tensor) -> Floats:
    """What the whitening makes of the vectors before it brings them to length one."""
    result: Floats = ((vectors.double() - whitening.mean) @ whitening.projection.double().T).numpy()
    return result


SHAPES = [(200, 12), (12, 200), (30, 30)]  # more descriptors than numbers, fewer, as many


@pytest.mark.parametrize(("count", "numbers"), SHAPES)
def test_numbers_are_uncorrelated_and_of_variance_one(count: int, numbers: int) -> None:
    vectors = descriptors(count, numbers)
    outcome = projected(fit_whitening(vectors, 6), vectors)
    np.testing.assert_allclose(outcome.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(np.cov(outcome.T), np.eye(6), atol=1e-3)


@pytest.mark.parametrize(("count", "numbers"), SHAPES)
def test_the_strongest_components_of_the_covariance_are_kept(count: int, numbers: int) -> None:
    vectors = descriptors(count, numbers)
    strengths, components = np.linalg.eigh(np.cov(vectors.double().numpy().T))
    projection = fit_whitening(vectors, 4).projection.double().numpy()
    for number in range(4):
        expected = components[:, -1 - number] / np.sqrt(strengths[-1 - number])
        length = np.linalg.norm(expected)
        assert np.linalg.norm(projection[number]) == pytest.approx(length, rel=1e-4)
        assert abs(projection[number] @ expected) == pytest.approx(length**2, rel=1e-4)  # the sign is free


def test_descriptors_come_out_at_length_one_in_float32() -> None:
    vectors = descriptors(40, 20)
    whitening = fit_whitening(vectors, 5)
    assert whitening.dimensions == 5
    with torch.autocast("cpu", torch.bfloat16):
        outcome = whitening(vectors)
    assert (outcome.shape, outcome.dtype) == ((40, 5), torch.float32)
    torch.testing.assert_close(outcome.norm(dim=1), torch.ones(40))


@pytest.mark.parametrize("dimensions", [0, -1, 10, 21])
def test_as_many_dimensions_as_the_descriptors_allow(dimensions: int) -> None:
    with pytest.raises(BadInputError, match=rf"10.*20.*9.*{dimensions}"):
        fit_whitening(descriptors(10, 20), dimensions)


def test_descriptors_that_hardly_differ_are_refused() -> None:
    with pytest.raises(BadInputError, match="3 dimensions"):
        fit_whitening(torch.eye(2, 20).repeat(5, 1), 3)
