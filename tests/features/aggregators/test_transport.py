"""Optimal transport: equal shares for the clusters, and a dustbin for the rest."""

import pytest
import torch
from torch import Tensor

from mappable.features.aggregators import transport
from mappable.features.aggregators.transport import Transport
from mappable.features.vectors import unit


def layer_and_local(locations: int, clusters: int = 4) -> tuple[Transport, Tensor]:
    generator = torch.Generator().manual_seed(0)
    local = unit(torch.randn(500, 6, generator=generator))
    layer = Transport(6, clusters).requires_grad_(False)
    layer.initialize(local, 0)
    return layer, local[: 2 * locations].view(2, locations, 6)


@pytest.mark.parametrize(("locations", "share"), [(30, 1.0), (8, 1.0), (4, 0.5)])
def test_all_clusters_get_the_same_and_no_location_gives_more_than_one(
    locations: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "SWEEPS", 200)
    layer, local = layer_and_local(locations)
    weights = layer.assign(local)
    assert weights.shape == (2, 4, locations)
    torch.testing.assert_close(weights.sum(2), torch.full((2, 4), share), atol=1e-3, rtol=0)
    assert (weights >= 0).all()
    assert (weights.sum(1) <= 1 + 1e-5).all()


def test_it_is_the_plan_that_costs_least_up_to_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """An optimal plan is exp(scores + row + column), so its logarithm has the double differences of the scores."""
    monkeypatch.setattr(transport, "SWEEPS", 200)
    layer, local = layer_and_local(30)
    plan, scores = layer.assign(local).log(), (local @ layer.assignment.T).transpose(1, 2)
    difference = plan - scores
    difference = difference - difference[:, :1] - difference[:, :, :1] + difference[:, :1, :1]
    torch.testing.assert_close(difference, torch.zeros_like(difference), atol=1e-3, rtol=0)


def test_descriptors_have_length_one_and_gradients_reach_all_parameters() -> None:
    layer, _ = layer_and_local(30)
    layer.requires_grad_()
    maps = torch.randn(2, 6, 4, 5, generator=torch.Generator().manual_seed(1)).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        descriptors = layer(maps)
    assert (descriptors.dtype, descriptors.shape) == (torch.float32, (2, 24))
    torch.testing.assert_close(descriptors.norm(dim=1), torch.ones(2))
    torch.autograd.backward(descriptors[:, 0].sum())
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
        assert parameter.grad.any()
