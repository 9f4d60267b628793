"""The hinge: its closed form, and its gradient on either side of the corner."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mappable.learning.losses.hinges import hinges

DISTANCES = st.floats(0, 4)


@given(near=DISTANCES, far=st.lists(DISTANCES, min_size=1, max_size=6), margin=st.floats(0, 1))
def test_a_hinge_is_what_is_missing_to_the_margin(near: float, far: list[float], margin: float) -> None:
    found = hinges(torch.tensor([near], dtype=torch.float64), torch.tensor([far], dtype=torch.float64), margin)
    assert found.tolist() == [[max(0.0, margin + near - one) for one in far]]


def test_each_anchor_is_compared_with_its_own_negatives() -> None:
    near, far = torch.tensor([0.0, 1.0]), torch.tensor([[0.25, 0.5, 0.75], [0.5, 1.0, 1.5]])
    assert hinges(near, far, 0.5).tolist() == [[0.25, 0.0, 0.0], [1.0, 0.5, 0.0]]


def test_an_active_hinge_pulls_and_pushes_with_slope_one_and_an_idle_one_not_at_all() -> None:
    near = torch.tensor([0.5, 0.5], requires_grad=True)
    far = torch.tensor([[0.5], [0.75]], requires_grad=True)
    hinges(near, far, 0.125).sum().backward()
    assert near.grad is not None
    assert far.grad is not None
    assert near.grad.tolist() == [1.0, 0.0]
    assert far.grad.tolist() == [[-1.0], [0.0]]
