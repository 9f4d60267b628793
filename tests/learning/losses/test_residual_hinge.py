"""The released second hinge: by hand, by a loop, and its gradients."""

import pytest
import torch

from mappable.learning.losses.residual_hinge import residual_hinges


def test_two_anchors_by_hand() -> None:
    costs, other = torch.tensor([[0.25, 0.5], [1.0, 0.75]]), torch.tensor([[1.0, 0.5, 0.0], [4.0, 1.0, 2.0]])
    # 0.125 + 0.25 − 0.5, − 0.25, − 0; 0.125 + 0.75 − 2, − 0.5, − 1
    assert residual_hinges(costs, other, 2.0, 0.125).tolist() == [[0.0, 0.125, 0.375], [0.0, 0.375, 0.0]]


def test_it_is_a_loop_over_negatives_with_the_least_cost(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(5)
    costs, other = (
        torch.rand(3, 4, generator=generator, dtype=dtype),
        torch.rand(3, 5, generator=generator, dtype=dtype),
    )
    found = residual_hinges(costs, other, 0.6, 0.2)
    for row in range(3):
        least = min(costs[row].tolist())
        expected = [max(0.0, 0.2 + least - one / 0.6) for one in other[row].tolist()]
        assert found[row].tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_gradients_are_those_of_finite_differences() -> None:
    costs = torch.tensor([[0.3, 0.5], [1.0, 0.7]], dtype=torch.float64, requires_grad=True)
    other = torch.tensor([[0.9, 0.5, 0.1], [3.0, 1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *values: residual_hinges(*values, 2.0, 0.2), (costs, other))
