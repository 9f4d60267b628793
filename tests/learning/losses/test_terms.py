"""The formulas of the losses: values by hand and by loops, in two precisions, and gradients by finite differences."""

import pytest
import torch

from mappable.learning.layout import Layout
from mappable.learning.losses.terms import (
    Margins,
    TupleDistances,
    huber,
    lazy_quadruplet,
    lazy_triplet,
    normalized_residuals,
    quadruplet,
    triplet,
    tuple_distances,
)


def test_the_best_positive_alone_has_a_gradient_even_when_two_are_equally_near() -> None:
    descriptors = torch.tensor([[[0.0], [0.5], [0.5], [0.9]]], requires_grad=True)
    tuple_distances(
        descriptors, Layout(positives=3, hard=0, random=0, other=False)
    ).best.sum().backward()
    assert descriptors.grad is not None
    assert (descriptors.grad[0, 1:] != 0).sum() == 1


MARGINS = Margins(first=0.1, second=0.2)


def test_the_triplet_loss_of_two_anchors_by_hand(given_distances: TupleDistances) -> None:
    # First anchor: 0.1 + 0.04 − 0.09 and 0.1 + 0.04 − 0.01; second: 0.1 + 0.5 − 0.45 and 0.1 + 0.5
    # − 0.55.
    assert triplet(given_distances, MARGINS).tolist() == pytest.approx([0.05 + 0.13, 0.15 + 0.05])


def test_the_quadruplet_loss_of_two_anchors_by_hand(given_distances: TupleDistances) -> None:
    # To the triplet loss come 0.2 + 0.04 − 0.01 of the first anchor, and 0.2 + 0.5 − 0.6 of the
    # second.
    assert quadruplet(given_distances, MARGINS).tolist() == pytest.approx(
        [0.18 + 0.23, 0.20 + 0.10]
    )


def test_the_lazy_triplet_loss_of_two_anchors_by_hand(given_distances: TupleDistances) -> None:
    # The worst negatives: the second of the first anchor, 0.1 + 0.04 − 0.01; the first of the
    # second, 0.1 + 0.5 − 0.45.
    assert lazy_triplet(given_distances, MARGINS).tolist() == pytest.approx([0.13, 0.15])


def test_the_lazy_quadruplet_loss_of_two_anchors_by_hand(given_distances: TupleDistances) -> None:
    # Either anchor's two maxima belong to different negatives: its second and first, its first and
    # second.
    assert lazy_quadruplet(given_distances, MARGINS).tolist() == pytest.approx(
        [0.13 + 0.23, 0.15 + 0.10]
    )


def test_residuals_of_two_anchors_by_hand() -> None:
    positive, squared_metres = (
        torch.tensor([[0.5, 1.0], [2.0, 0.0]]),
        torch.tensor([[25.0, 25.0], [0.0, 100.0]]),
    )
    # F² = 2 stands for 10 m: a squared feature distance of 0.5 for 5 m, 1 for 7.07 m.
    assert normalized_residuals(positive, squared_metres, 2.0, 10.0).tolist() == [
        [0.0, 0.25],
        [1.0, -1.0],
    ]


@pytest.mark.parametrize(
    ("residual", "value"),
    [(0.0, 0.0), (0.5, 0.125), (-0.5, 0.125), (1.0, 0.5), (-1.0, 0.5), (3.0, 2.5), (-3.0, 2.5)],
)
def test_the_huber_loss_by_hand(residual: float, value: float, dtype: torch.dtype) -> None:
    assert huber(torch.tensor([residual], dtype=dtype), 1.0).tolist() == [value]
