"""The lazy quadruplet loss: values by hand and by loops, its gradients, its two maxima apart."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mappable.learning.layout import Layout
from mappable.learning.losses.distances import TupleDistances, tuple_distances
from mappable.learning.losses.hinges import Margins
from mappable.learning.losses.lazy_quadruplet import lazy_quadruplet
from mappable.learning.losses.quadruplet import quadruplet

LAYOUT = Layout(positives=3, hard=2, random=1, other=True)
MARGINS = Margins(first=0.1, second=0.2)


def test_two_anchors_by_hand(given_distances: TupleDistances) -> None:
    # Either anchor's two maxima belong to different negatives: its second and first, its first and second.
    assert lazy_quadruplet(given_distances, MARGINS).tolist() == pytest.approx([0.13 + 0.23, 0.15 + 0.10])


def test_it_is_the_worst_of_each_of_two_loops_over_negatives(
    draw_tuples: Callable[..., Tensor], apart: Callable[..., float], dtype: torch.dtype
) -> None:
    descriptors = draw_tuples(LAYOUT, dtype)
    expected = []
    for anchor, *rest in descriptors:
        nearest = min(apart(anchor, positive) for positive in rest[:3])
        first = max(max(0.0, 0.1 + nearest - apart(anchor, negative)) for negative in rest[3:6])
        second = max(max(0.0, 0.2 + nearest - apart(negative, rest[6])) for negative in rest[3:6])
        expected.append(first + second)
    assert sum(value > 0 for value in expected) >= 2
    found = lazy_quadruplet(tuple_distances(descriptors, LAYOUT), MARGINS)
    assert found.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_gradients_are_those_of_finite_differences(draw_tuples: Callable[..., Tensor]) -> None:
    descriptors = draw_tuples(LAYOUT).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda values: lazy_quadruplet(tuple_distances(values, LAYOUT), MARGINS), descriptors
    )


@given(
    positive=st.lists(st.floats(0, 4), min_size=1, max_size=4),
    pairs=st.lists(st.tuples(st.floats(0, 4), st.floats(0, 4)), min_size=1, max_size=4),
)
def test_it_is_at_most_the_quadruplet_loss_and_equal_for_a_single_negative(
    positive: list[float], pairs: list[tuple[float, float]]
) -> None:
    negative, other = torch.tensor(pairs).double().T.unsqueeze(1)
    distances = TupleDistances(torch.tensor([positive]).double(), negative, other)
    lazy, eager = lazy_quadruplet(distances, MARGINS).item(), quadruplet(distances, MARGINS).item()
    assert lazy <= eager
    assert len(pairs) > 1 or lazy == eager
