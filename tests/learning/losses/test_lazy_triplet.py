"""The lazy triplet loss: values by hand and by loops, its gradients, and its place below the triplet loss."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mappable.learning.layout import Layout
from mappable.learning.losses.distances import TupleDistances, tuple_distances
from mappable.learning.losses.hinges import Margins
from mappable.learning.losses.lazy_triplet import lazy_triplet
from mappable.learning.losses.triplet import triplet

LAYOUT = Layout(positives=3, hard=2, random=2, other=False)
MARGINS = Margins(first=0.1, second=0.2)


def test_two_anchors_by_hand(given_distances: TupleDistances) -> None:
    # The worst negatives: the second of the first anchor, 0.1 + 0.04 − 0.01; the first of the second, 0.1 + 0.5 − 0.45.
    assert lazy_triplet(given_distances, MARGINS).tolist() == pytest.approx([0.13, 0.15])


def test_it_is_the_worst_of_a_loop_over_negatives(
    draw_tuples: Callable[..., Tensor], apart: Callable[..., float], dtype: torch.dtype
) -> None:
    descriptors = draw_tuples(LAYOUT, dtype)
    expected = []
    for anchor, *rest in descriptors:
        worst = 0.0
        for negative in rest[3:]:
            nearest = min(apart(anchor, positive) for positive in rest[:3])
            worst = max(worst, 0.1 + nearest - apart(anchor, negative))
        expected.append(worst)
    assert sum(value > 0 for value in expected) >= 2
    found = lazy_triplet(tuple_distances(descriptors, LAYOUT), MARGINS)
    assert found.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_gradients_are_those_of_finite_differences(draw_tuples: Callable[..., Tensor]) -> None:
    descriptors = draw_tuples(LAYOUT).requires_grad_()
    assert torch.autograd.gradcheck(lambda values: lazy_triplet(tuple_distances(values, LAYOUT), MARGINS), descriptors)


def test_only_the_nearest_negative_is_pushed(draw_tuples: Callable[..., Tensor]) -> None:
    descriptors = draw_tuples(LAYOUT).requires_grad_()
    distances = tuple_distances(descriptors, LAYOUT)
    values = lazy_triplet(distances, MARGINS)
    values.sum().backward()
    assert descriptors.grad is not None
    moved = descriptors.grad[:, 4:].abs().sum(-1) > 0
    nearest = torch.nn.functional.one_hot(distances.negative.argmin(1), 4).bool()
    assert moved.tolist() == (nearest & (values > 0)[:, None]).tolist()


@given(
    positive=st.lists(st.floats(0, 4), min_size=1, max_size=4),
    negative=st.lists(st.floats(0, 4), min_size=1, max_size=4),
    ease=st.floats(1e-6, 2),
)
def test_it_is_below_the_triplet_loss_and_an_easy_negative_changes_nothing(
    positive: list[float], negative: list[float], ease: float
) -> None:
    easy = [*negative, min(positive) + MARGINS.first + ease]
    without, with_it = (
        TupleDistances(torch.tensor([positive]).double(), torch.tensor([far]).double(), torch.empty(1, 0))
        for far in (negative, easy)
    )
    value = lazy_triplet(without, MARGINS).item()
    assert value <= triplet(without, MARGINS).item() <= len(negative) * value + 1e-12
    assert lazy_triplet(with_it, MARGINS).item() == value
