"""Losses by name: what each adds up, what each shows, and how the forms of one relate."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor

from mappable.errors import BadInputError
from mappable.learning.losses import LOSS_NAMES, Loss, Terms
from slow_losses import loss_terms

VISUAL_NAMES = ("triplet", "quadruplet", "lazy-triplet", "lazy-quadruplet")
GEOMETRIC_NAMES = ("distance", "huber")
COMBINED_NAMES = tuple(
    f"{visual}+{geometric}" for visual in VISUAL_NAMES for geometric in GEOMETRIC_NAMES
)
MARGIN, SECOND_MARGIN, WEIGHT, SCALE, RADIUS, DELTA = 0.1, 0.2, 0.7, 0.6, 10.0, 0.4


def make(name: str, **options: Any) -> Loss:
    """A small loss whose every option differs from the default that it could be mistaken for."""
    sizes = {"positives": 3, "negatives": 4, "hard_negatives": 2}
    given = {
        "geometric_weight": WEIGHT,
        "feature_scale_squared": SCALE,
        "positive_radius": RADIUS,
        "huber_delta": DELTA,
    }
    return Loss(name, **{**sizes, **given, **options})


@pytest.fixture
def batch(draw_tuples: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Descriptors for a loss, and squared metres (B, pairs) of pairs up to the positive radius
    apart.
    """

    def draw(
        loss: Loss, dtype: torch.dtype = torch.float64, anchors: int = 4
    ) -> tuple[Tensor, Tensor]:
        metres = torch.rand(
            anchors, loss.positives, generator=torch.Generator().manual_seed(1), dtype=dtype
        )
        return draw_tuples(loss.layout, dtype, anchors), (metres * RADIUS).square()

    return draw


each_form = pytest.mark.parametrize(
    "loss", [make(name) for name in LOSS_NAMES], ids=lambda loss: loss.name
)


@each_form
def test_all_terms_are_those_of_loops_over_pairs(
    loss: Loss, batch: Callable[..., tuple[Tensor, Tensor]], dtype: torch.dtype
) -> None:
    descriptors, squared_metres = batch(loss, dtype)
    found = loss(descriptors, squared_metres)
    expected = [
        loss_terms(loss, *pair)
        for pair in zip(descriptors.tolist(), squared_metres.tolist(), strict=True)
    ]
    for field in fields(Terms):
        term = getattr(found, field.name)
        assert term.tolist() == pytest.approx(
            [one[field.name] for one in expected], rel=1e-4, abs=1e-6
        ), field.name
        assert term.dtype == dtype
        assert term.shape == (4,)


@each_form
def test_gradients_are_those_of_finite_differences(
    loss: Loss, batch: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    descriptors, squared_metres = batch(loss)
    assert torch.autograd.gradcheck(
        lambda values: loss(values, squared_metres).total, descriptors.requires_grad_()
    )
    terms = loss(descriptors, squared_metres)
    assert [field.name for field in fields(Terms) if getattr(terms, field.name).requires_grad] == [
        "total"
    ]


@each_form
def test_an_anchor_that_is_its_own_positive_has_a_finite_gradient(
    loss: Loss, batch: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    descriptors, squared_metres = batch(loss, torch.float32)
    descriptors[:, 1], squared_metres[:, 0] = descriptors[:, 0], 0.0
    terms = loss(descriptors.requires_grad_(), squared_metres)
    assert terms.best.tolist() == [0.0] * 4
    terms.total.sum().backward()
    assert descriptors.grad is not None
    assert descriptors.grad.isfinite().all()


@each_form
def test_an_anchor_s_value_does_not_depend_on_the_batch_so_that_micro_batches_add_up(
    loss: Loss, batch: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    descriptors, squared_metres = batch(loss)
    whole, alone = descriptors.clone().requires_grad_(), descriptors.clone().requires_grad_()
    loss(whole, squared_metres).total.mean().backward()
    for rows in (slice(0, 3), slice(3, 4)):
        (loss(alone[rows], squared_metres[rows]).total.sum() / 4).backward()
    assert whole.grad is not None
    assert alone.grad is not None
    assert torch.allclose(whole.grad, alone.grad, rtol=1e-12)


@pytest.mark.parametrize("name", COMBINED_NAMES)
def test_a_combination_is_its_visual_loss_and_gamma_times_its_geometric_one(
    name: str, batch: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    visual, geometric = name.split("+")
    both = make(name)
    descriptors, squared_metres = batch(both)
    first = make(visual)(descriptors, squared_metres).total
    second = make(geometric)(descriptors[:, : 1 + both.positives], squared_metres).total
    assert torch.allclose(
        both(descriptors, squared_metres).total, first + WEIGHT * second, rtol=1e-14
    )


@pytest.mark.parametrize("name", GEOMETRIC_NAMES)
def test_features_proportional_to_metres_cost_nothing(name: str) -> None:
    loss = make(name, feature_scale_squared=2.0)
    metres = torch.tensor([[1.0, 4.0, 9.0], [0.0, 5.0, 10.0]], dtype=torch.float64)
    # On a line.
    features = torch.cat([torch.zeros(2, 1), metres * 2**0.5 / RADIUS], dim=1)[:, :, None]
    terms = loss(features, metres.square())
    assert terms.total.tolist() == pytest.approx([0, 0], abs=1e-20)
    assert terms.residual.tolist() == pytest.approx([0, 0], abs=1e-12)


def test_descriptors_that_are_not_numbers_are_not_hidden_by_a_hinge(
    batch: Callable[..., tuple[Tensor, Tensor]],
) -> None:
    for name in LOSS_NAMES:
        loss = make(name)
        descriptors, squared_metres = batch(loss)
        descriptors[1, -1, 0] = float("nan")
        assert loss(descriptors, squared_metres).total.isnan().tolist() == [
            False,
            True,
            False,
            False,
        ], name


def make_usual(name: str, **options: Any) -> Loss:
    return Loss(name, **{"feature_scale_squared": 2.0, "positive_radius": 10.0, **options})


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("huber", {"feature_scale_squared": 0.0}, r"feature_scale_squared.*0.0"),
        ("huber", {"positive_radius": -1.0}, r"positive_radius.*-1.0"),
        ("huber", {"huber_delta": float("nan")}, r"huber_delta.*nan"),
        ("triplet", {"margin": -0.1}, r"margin.*-0.1"),
        ("quadruplet", {"second_margin": float("inf")}, r"second_margin.*inf"),
        ("triplet+huber", {"geometric_weight": -1.0}, r"geometric_weight.*-1.0"),
        ("distance", {"positives": 0}, r"positives.*0"),
        ("triplet", {"negatives": 0, "hard_negatives": 0}, r"negatives.*1.*loss.*'triplet'.*0"),
        (
            "quadruplet",
            {"negatives": 1, "hard_negatives": 0},
            r"negatives.*2.*loss.*'quadruplet'.*1",
        ),
        (
            "triplet",
            {"negatives": 4, "hard_negatives": 5},
            r"hard_negatives.*5.*0 to 4.*loss.*'triplet'.*4",
        ),
        (
            "lazy-quadruplet",
            {"negatives": 4, "hard_negatives": 4},
            r"hard_negatives.*4.*0 to 3.*'lazy-quadruplet'",
        ),
        ("triplet", {"hard_negatives": -1}, r"hard_negatives.*-1"),
    ],
)
def test_options_that_make_no_loss_are_refused(
    name: str, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BadInputError, match=problem):
        make_usual(name, **options)


@pytest.mark.parametrize(
    ("descriptors", "squared_metres"),
    [
        ((4, 7, 5), (4, 3)),
        ((4, 8, 5), (4, 1)),
        ((4, 8, 5), (3,)),
        ((4, 8, 5), (1, 3)),
        ((4, 8), (4, 3)),
        ((8, 5), (4, 3)),
    ],
)
def test_shapes_that_would_only_broadcast_are_refused(
    descriptors: tuple[int, ...], squared_metres: tuple[int, ...]
) -> None:
    with pytest.raises(BadInputError, match=r"\(B, 8, D\).*\(B, 3\)"):
        make_usual("triplet+huber", positives=3, negatives=4)(
            torch.zeros(descriptors), torch.zeros(squared_metres)
        )
