"""The formulas of the losses: values by hand and by loops, in two precisions, and gradients by finite differences."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mappable.learning.layout import Layout
from mappable.learning.losses.terms import (
    Margins,
    TupleDistances,
    distance,
    hinges,
    huber,
    lazy_quadruplet,
    lazy_triplet,
    normalized_residuals,
    quadruplet,
    squared_distance,
    triplet,
    tuple_distances,
)

QUADRUPLETS = Layout(positives=3, hard=1, random=2, other=True)


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


LAYOUT = Layout(positives=3, hard=2, random=2, other=False)
MARGINS = Margins(first=0.1, second=0.2)


def test_the_triplet_loss_of_two_anchors_by_hand(given_distances: TupleDistances) -> None:
    # First anchor: 0.1 + 0.04 − 0.09 and 0.1 + 0.04 − 0.01; second: 0.1 + 0.5 − 0.45 and 0.1 + 0.5 − 0.55.
    assert triplet(given_distances, MARGINS).tolist() == pytest.approx([0.05 + 0.13, 0.15 + 0.05])


def test_all_positives_but_the_best_are_left_alone(draw_tuples: Callable[..., Tensor]) -> None:
    descriptors = draw_tuples(LAYOUT).requires_grad_()
    distances = tuple_distances(descriptors, LAYOUT)
    values = triplet(distances, MARGINS)
    values.sum().backward()
    assert descriptors.grad is not None
    moved = descriptors.grad[:, 1:4].abs().sum(-1) > 0
    best = torch.nn.functional.one_hot(distances.positive.argmin(1), 3).bool()
    assert moved.tolist() == (best & (values > 0)[:, None]).tolist()


@given(
    positive=st.lists(st.floats(0, 4), min_size=1, max_size=4),
    negative=st.lists(st.floats(0, 4), min_size=1, max_size=4),
    ease=st.floats(1e-6, 2),
)
def test_an_easy_negative_changes_nothing(positive: list[float], negative: list[float], ease: float) -> None:
    easy = [*negative, min(positive) + MARGINS.first + ease]
    without, with_it = (
        TupleDistances(torch.tensor([positive]).double(), torch.tensor([far]).double(), torch.empty(1, 0))
        for far in (negative, easy)
    )
    assert triplet(with_it, MARGINS).tolist() == pytest.approx(triplet(without, MARGINS).tolist(), abs=1e-15)


def test_the_quadruplet_loss_of_two_anchors_by_hand(given_distances: TupleDistances) -> None:
    # To the triplet loss come 0.2 + 0.04 − 0.01 of the first anchor, and 0.2 + 0.5 − 0.6 of the second.
    assert quadruplet(given_distances, MARGINS).tolist() == pytest.approx([0.18 + 0.23, 0.20 + 0.10])


def test_with_an_other_negative_far_from_all_it_is_the_triplet_loss(given_distances: TupleDistances) -> None:
    far = TupleDistances(given_distances.positive, given_distances.negative, torch.full((2, 3), 3.0))
    assert quadruplet(far, MARGINS).tolist() == triplet(far, MARGINS).tolist()


def test_a_negative_far_from_the_anchor_and_from_the_other_one_changes_nothing(given_distances: TupleDistances) -> None:
    easy = torch.full((2, 1), 3.0)
    negative, other = (torch.cat([far, easy], dim=1) for far in (given_distances.negative, given_distances.other))
    more = TupleDistances(given_distances.positive, negative, other)
    assert quadruplet(more, MARGINS).tolist() == pytest.approx(quadruplet(given_distances, MARGINS).tolist(), abs=1e-15)


def test_the_lazy_triplet_loss_of_two_anchors_by_hand(given_distances: TupleDistances) -> None:
    # The worst negatives: the second of the first anchor, 0.1 + 0.04 − 0.01; the first of the second, 0.1 + 0.5 − 0.45.
    assert lazy_triplet(given_distances, MARGINS).tolist() == pytest.approx([0.13, 0.15])


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
def test_the_lazy_triplet_loss_is_below_the_triplet_loss_and_an_easy_negative_changes_nothing(
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


def test_the_lazy_quadruplet_loss_of_two_anchors_by_hand(given_distances: TupleDistances) -> None:
    # Either anchor's two maxima belong to different negatives: its second and first, its first and second.
    assert lazy_quadruplet(given_distances, MARGINS).tolist() == pytest.approx([0.13 + 0.23, 0.15 + 0.10])


@given(
    positive=st.lists(st.floats(0, 4), min_size=1, max_size=4),
    pairs=st.lists(st.tuples(st.floats(0, 4), st.floats(0, 4)), min_size=1, max_size=4),
)
def test_the_lazy_quadruplet_loss_is_at_most_the_quadruplet_loss_and_equal_for_a_single_negative(
    positive: list[float], pairs: list[tuple[float, float]]
) -> None:
    negative, other = torch.tensor(pairs).double().T.unsqueeze(1)
    distances = TupleDistances(torch.tensor([positive]).double(), negative, other)
    lazy, eager = lazy_quadruplet(distances, MARGINS).item(), quadruplet(distances, MARGINS).item()
    assert lazy <= eager
    assert len(pairs) > 1 or lazy == eager


SIZES = st.floats(0.01, 100)


def test_residuals_of_two_anchors_by_hand() -> None:
    positive, squared_metres = torch.tensor([[0.5, 1.0], [2.0, 0.0]]), torch.tensor([[25.0, 25.0], [0.0, 100.0]])
    # F² = 2 stands for 10 m: a squared feature distance of 0.5 for 5 m, 1 for 7.07 m.
    assert normalized_residuals(positive, squared_metres, 2.0, 10.0).tolist() == [[0.0, 0.25], [1.0, -1.0]]


@given(metres=st.floats(0, 100), scale=SIZES, radius=SIZES)
def test_mappable_features_have_none(metres: float, scale: float, radius: float) -> None:
    squared_metres = torch.tensor([metres**2]).double()
    features = scale * squared_metres / radius**2
    relative = squared_metres / radius**2
    assert torch.all(normalized_residuals(features, squared_metres, scale, radius).abs() <= 1e-14 * relative)


def test_each_residual_is_squared(dtype: torch.dtype) -> None:
    residuals = torch.tensor([[0.0, 0.5], [-2.0, 3.0]], dtype=dtype)
    assert distance(residuals, 1.0).tolist() == [[0.0, 0.25], [4.0, 9.0]]
    assert distance(residuals, 1.0).dtype == dtype


DELTAS = st.floats(0.01, 10)


@pytest.mark.parametrize(
    ("residual", "value"), [(0.0, 0.0), (0.5, 0.125), (-0.5, 0.125), (1.0, 0.5), (-1.0, 0.5), (3.0, 2.5), (-3.0, 2.5)]
)
def test_the_huber_loss_by_hand(residual: float, value: float, dtype: torch.dtype) -> None:
    assert huber(torch.tensor([residual], dtype=dtype), 1.0).tolist() == [value]


@given(share=st.floats(-1, 1), delta=DELTAS)
def test_up_to_delta_it_is_half_the_distance_loss(share: float, delta: float) -> None:
    residuals = torch.tensor([share * delta]).double().clamp(-delta, delta)
    assert torch.equal(huber(residuals, delta), distance(residuals, delta) / 2)


@given(residual=st.floats(-1e3, 1e3), delta=DELTAS)
def test_the_huber_loss_is_the_area_under_a_slope_held_at_delta(residual: float, delta: float) -> None:
    bend = min(abs(residual), delta)
    area = bend**2 / 2 + (abs(residual) - bend) * delta
    found = huber(torch.tensor([residual], dtype=torch.float64), delta).item()
    assert found == pytest.approx(area, rel=1e-12, abs=1e-12)


@given(residual=st.floats(-1e3, 1e3), delta=DELTAS)
def test_the_slope_of_the_huber_loss_is_the_residual_held_at_delta(residual: float, delta: float) -> None:
    residuals = torch.tensor([residual], dtype=torch.float64, requires_grad=True)
    huber(residuals, delta).sum().backward()
    assert residuals.grad is not None
    assert residuals.grad.item() == pytest.approx(math.copysign(min(abs(residual), delta), residual))
