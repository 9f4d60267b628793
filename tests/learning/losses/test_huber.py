"""The Huber loss of residuals: both branches, the seam between them, and half the distance loss below it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mappable.learning.losses.distance import distance
from mappable.learning.losses.huber import huber

DELTAS = st.floats(0.01, 10)


@pytest.mark.parametrize(
    ("residual", "value"), [(0.0, 0.0), (0.5, 0.125), (-0.5, 0.125), (1.0, 0.5), (-1.0, 0.5), (3.0, 2.5), (-3.0, 2.5)]
)
def test_values_by_hand(residual: float, value: float, dtype: torch.dtype) -> None:
    assert huber(torch.tensor([residual], dtype=dtype), 1.0).tolist() == [value]


@given(share=st.floats(-1, 1), delta=DELTAS)
def test_up_to_delta_it_is_half_the_distance_loss(share: float, delta: float) -> None:
    residuals = torch.tensor([share * delta]).double().clamp(-delta, delta)
    assert torch.equal(huber(residuals, delta), distance(residuals) / 2)


@given(residual=st.floats(-1e3, 1e3), delta=DELTAS)
def test_it_is_the_area_under_a_slope_held_at_delta(residual: float, delta: float) -> None:
    bend = min(abs(residual), delta)
    area = bend**2 / 2 + (abs(residual) - bend) * delta
    found = huber(torch.tensor([residual], dtype=torch.float64), delta).item()
    assert found == pytest.approx(area, rel=1e-12, abs=1e-12)


@given(residual=st.floats(-1e3, 1e3), delta=DELTAS)
def test_its_slope_is_the_residual_held_between_minus_and_plus_delta(residual: float, delta: float) -> None:
    residuals = torch.tensor([residual], dtype=torch.float64, requires_grad=True)
    huber(residuals, delta).sum().backward()
    assert residuals.grad is not None
    assert residuals.grad.item() == pytest.approx(math.copysign(min(abs(residual), delta), residual))


def test_gradients_are_those_of_finite_differences() -> None:
    residuals = torch.tensor([-2.0, -0.7, 0.2, 0.4, 0.6, 5.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda values: huber(values, 0.5), residuals)
