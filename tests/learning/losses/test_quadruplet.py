"""The quadruplet loss: values by hand and by loops, its gradients, and when it is the triplet loss."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mappable.learning.layout import Layout
from mappable.learning.losses.distances import TupleDistances, tuple_distances
from mappable.learning.losses.hinges import Margins
from mappable.learning.losses.quadruplet import quadruplet
from mappable.learning.losses.triplet import triplet

LAYOUT = Layout(positives=3, hard=2, random=1, other=True)
MARGINS = Margins(first=0.1, second=0.2)


def test_two_anchors_by_hand(given_distances: TupleDistances) -> None:
    # To the triplet loss come 0.2 + 0.04 − 0.01 of the first anchor, and 0.2 + 0.5 − 0.6 of the second.
    assert quadruplet(given_distances, MARGINS).tolist() == pytest.approx([0.18 + 0.23, 0.20 + 0.10])


def test_it_is_two_loops_over_negatives(
    draw_tuples: Callable[..., Tensor], apart: Callable[..., float], dtype: torch.dtype
) -> None:
    descriptors = draw_tuples(LAYOUT, dtype)
    expected = []
    for anchor, *rest in descriptors:
        nearest = min(apart(anchor, positive) for positive in rest[:3])
        first = sum(max(0.0, 0.1 + nearest - apart(anchor, negative)) for negative in rest[3:6])
        second = sum(max(0.0, 0.2 + nearest - apart(negative, rest[6])) for negative in rest[3:6])
        expected.append(first + second)
    assert sum(value > 0 for value in expected) >= 2
    found = quadruplet(tuple_distances(descriptors, LAYOUT), MARGINS)
    assert found.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_gradients_are_those_of_finite_differences(draw_tuples: Callable[..., Tensor]) -> None:
    descriptors = draw_tuples(LAYOUT).requires_grad_()
    assert torch.autograd.gradcheck(lambda values: quadruplet(tuple_distances(values, LAYOUT), MARGINS), descriptors)


def test_with_an_other_negative_far_from_all_it_is_the_triplet_loss(given_distances: TupleDistances) -> None:
    far = TupleDistances(given_distances.positive, given_distances.negative, torch.full((2, 3), 3.0))
    assert quadruplet(far, MARGINS).tolist() == triplet(far, MARGINS).tolist()


def test_a_negative_far_from_the_anchor_and_from_the_other_one_changes_nothing(given_distances: TupleDistances) -> None:
    easy = torch.full((2, 1), 3.0)
    negative, other = (torch.cat([far, easy], dim=1) for far in (given_distances.negative, given_distances.other))
    more = TupleDistances(given_distances.positive, negative, other)
    assert quadruplet(more, MARGINS).tolist() == pytest.approx(quadruplet(given_distances, MARGINS).tolist(), abs=1e-15)
