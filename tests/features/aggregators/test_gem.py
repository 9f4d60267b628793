"""GeM: a mean with an exponent, from the average to the maximum."""

import pytest
import torch

from mappable.features.aggregators.gem import GeM
from mappable.features.vectors import unit

MAPS = torch.rand(2, 5, 4, 3, generator=torch.Generator().manual_seed(0)) + 0.1


@pytest.mark.parametrize("exponent", [1.0, 3.0, 60.0])
def test_it_is_the_generalized_mean_of_each_channel(exponent: float) -> None:
    layer = GeM(5)
    layer.exponent.data.fill_(exponent)
    expected = unit(MAPS.double().pow(exponent).mean((2, 3)).pow(1 / exponent)).float()
    torch.testing.assert_close(layer(MAPS), expected)
    if exponent == 60.0:
        torch.testing.assert_close(layer(MAPS), unit(MAPS.amax((2, 3))), atol=0.03, rtol=0)


@pytest.mark.parametrize("maps", [torch.zeros(1, 5, 2, 2), torch.full((1, 5, 2, 2), 1e4), -MAPS])
def test_extreme_values_have_finite_descriptors_and_gradients(maps: torch.Tensor) -> None:
    layer, maps = GeM(5), maps.clone().requires_grad_()
    descriptors = layer(maps)
    torch.autograd.backward(descriptors.sum())
    assert descriptors.isfinite().all()
    assert maps.grad is not None
    assert maps.grad.isfinite().all()


def test_it_computes_in_float32_where_the_backbone_did_not() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        descriptors = GeM(5)(MAPS.bfloat16())
    assert descriptors.dtype == torch.float32
    torch.testing.assert_close(descriptors.norm(dim=1), torch.ones(2))
