"""Squared feature distances of tuples: against a loop over pairs, and where two descriptors are the same."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mappable.learning.layout import Layout
from mappable.learning.losses.distances import squared_distance, tuple_distances

QUADRUPLETS = Layout(positives=3, hard=1, random=2, other=True)


def test_distances_are_those_of_a_loop_over_pairs(
    draw_tuples: Callable[..., Tensor], apart: Callable[..., float], dtype: torch.dtype
) -> None:
    descriptors = draw_tuples(QUADRUPLETS, dtype)
    found = tuple_distances(descriptors, QUADRUPLETS)
    for row, (anchor, *rest) in enumerate(descriptors):
        positives, negatives, other = rest[:3], rest[3:6], rest[6]
        assert found.positive[row].tolist() == pytest.approx([apart(anchor, one) for one in positives], rel=1e-5)
        assert found.negative[row].tolist() == pytest.approx([apart(anchor, one) for one in negatives], rel=1e-5)
        assert found.other[row].tolist() == pytest.approx([apart(one, other) for one in negatives], rel=1e-5)
        assert found.best[row].item() == min(found.positive[row].tolist())
    assert found.positive.dtype == found.negative.dtype == found.other.dtype == dtype


def test_on_unit_descriptors_they_are_two_minus_twice_the_cosine(draw_tuples: Callable[..., Tensor]) -> None:
    first, second = draw_tuples(QUADRUPLETS).unbind()[:2]
    assert torch.allclose(squared_distance(first, second), 2 - 2 * (first * second).sum(-1), atol=1e-14)


def test_a_tuple_may_lack_negatives_and_the_other_one(draw_tuples: Callable[..., Tensor]) -> None:
    layout = Layout(positives=2, hard=0, random=0, other=False)
    found = tuple_distances(draw_tuples(layout), layout)
    assert (found.positive.shape, found.negative.shape, found.other.shape) == ((4, 2), (4, 0), (4, 0))


def test_an_anchor_that_is_its_own_positive_is_at_zero_with_finite_gradients(
    draw_tuples: Callable[..., Tensor],
) -> None:
    descriptors = draw_tuples(QUADRUPLETS, torch.float32)
    descriptors[:, 2] = descriptors[:, 0]
    descriptors.requires_grad_()
    best = tuple_distances(descriptors, QUADRUPLETS).best
    assert best.tolist() == [0.0] * 4
    best.sum().backward()
    assert descriptors.grad is not None
    assert not descriptors.grad.any()


def test_close_descriptors_keep_their_distance_in_single_precision() -> None:
    first = torch.nn.functional.normalize(torch.arange(1.0, 32_769.0), dim=0)
    second = first.clone()
    second[-1] += 1e-5
    exact = (second[-1].double() - first[-1].double()).square().item()
    assert squared_distance(first, second).item() == pytest.approx(exact, rel=1e-6)


def test_the_best_positive_alone_has_a_gradient_even_when_two_are_equally_near() -> None:
    descriptors = torch.tensor([[[0.0], [0.5], [0.5], [0.9]]], requires_grad=True)
    tuple_distances(descriptors, Layout(positives=3, hard=0, random=0, other=False)).best.sum().backward()
    assert descriptors.grad is not None
    assert (descriptors.grad[0, 1:] != 0).sum() == 1


def test_gradients_are_those_of_finite_differences(draw_tuples: Callable[..., Tensor]) -> None:
    descriptors = draw_tuples(QUADRUPLETS, anchors=2).requires_grad_()

    def all_of_them(values: Tensor) -> tuple[Tensor, ...]:
        found = tuple_distances(values, QUADRUPLETS)
        return found.positive, found.negative, found.other, found.best

    assert torch.autograd.gradcheck(all_of_them, descriptors)
