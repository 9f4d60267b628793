"""Losses by name: what each adds up, what each shows, and how the forms of one relate."""

import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from mappable.errors import BadInputError
from mappable.learning.layout import Layout
from mappable.learning.losses import LOSS_NAMES, Loss, Terms
from slow_losses import loss_terms

VISUAL_NAMES = ("triplet", "quadruplet", "lazy-triplet", "lazy-quadruplet")
GEOMETRIC_NAMES = ("distance", "huber")
COMBINED_NAMES = tuple(f"{visual}+{geometric}" for visual in VISUAL_NAMES for geometric in GEOMETRIC_NAMES)
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
    """Descriptors for a loss, and squared metres (B, pairs) of pairs up to the positive radius apart."""

    def draw(loss: Loss, dtype: torch.dtype = torch.float64, anchors: int = 4) -> tuple[Tensor, Tensor]:
        metres = torch.rand(anchors, loss.positives, generator=torch.Generator().manual_seed(1), dtype=dtype)
        return draw_tuples(loss.layout, dtype, anchors), (metres * RADIUS).square()

    return draw


each_form = pytest.mark.parametrize("loss", [make(name) for name in LOSS_NAMES], ids=lambda loss: loss.name)


@each_form
def test_all_terms_are_those_of_loops_over_pairs(
    loss: Loss, batch: Callable[..., tuple[Tensor, Tensor]], dtype: torch.dtype
) -> None:
    descriptors, squared_metres = batch(loss, dtype)
    found = loss(descriptors, squared_metres)
    expected = [loss_terms(loss, *pair) for pair in zip(descriptors.tolist(), squared_metres.tolist(), strict=True)]
    for field in fields(Terms):
        term = getattr(found, field.name)
        assert term.tolist() == pytest.approx([one[field.name] for one in expected], rel=1e-4, abs=1e-6), field.name
        assert term.dtype == dtype
        assert term.shape == (4,)


@each_form
def test_gradients_are_those_of_finite_differences(loss: Loss, batch: Callable[..., tuple[Tensor, Tensor]]) -> None:
    descriptors, squared_metres = batch(loss)
    assert torch.autograd.gradcheck(lambda values: loss(values, squared_metres).total, descriptors.requires_grad_())
    terms = loss(descriptors, squared_metres)
    assert [field.name for field in fields(Terms) if getattr(terms, field.name).requires_grad] == ["total"]


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


@each_form
def test_positives_and_negatives_may_stand_in_any_order(
    loss: Loss, batch: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    descriptors, squared_metres = batch(loss)
    anchor, positives, negatives, other = torch.split(
        descriptors, [1, loss.positives, loss.layout.negatives, int(loss.layout.other)], dim=1
    )
    turned = torch.cat([anchor, positives.flip(1), negatives.flip(1), other], dim=1)
    again = loss(turned, squared_metres.flip(1)).total
    assert torch.allclose(again, loss(descriptors, squared_metres).total, rtol=1e-12)


@pytest.mark.parametrize("name", COMBINED_NAMES)
def test_a_combination_is_its_visual_loss_and_gamma_times_its_geometric_one(
    name: str, batch: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    visual, geometric = name.split("+")
    both = make(name)
    descriptors, squared_metres = batch(both)
    first = make(visual)(descriptors, squared_metres).total
    second = make(geometric)(descriptors[:, : 1 + both.positives], squared_metres).total
    assert torch.allclose(both(descriptors, squared_metres).total, first + WEIGHT * second, rtol=1e-14)


@pytest.mark.parametrize("name", ["triplet", "quadruplet"])
def test_lazy_losses_are_at_most_the_others_with_equal_shares_of_active_hinges(
    name: str, batch: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    eager, lazy = make(name), make(f"lazy-{name}")
    some, less = eager(*batch(eager)), lazy(*batch(lazy))
    assert (less.total <= some.total).all()
    assert (less.total < some.total).any()
    assert torch.equal(less.active, some.active)


def test_the_visual_term_moves_the_best_positive_alone_and_the_geometric_one_moves_all(
    batch: Callable[..., tuple[Tensor, Tensor]],
) -> None:
    def moved(name: str) -> Tensor:
        loss = make(name)
        descriptors, squared_metres = batch(loss)
        loss(descriptors.requires_grad_(), squared_metres).total.sum().backward()
        assert descriptors.grad is not None
        return (descriptors.grad[:, 1:4].abs().sum(-1) > 0).sum(1)

    for name in VISUAL_NAMES:
        counts = moved(name)
        assert counts.max() == 1
    for name in (*GEOMETRIC_NAMES, *COMBINED_NAMES):
        assert moved(name).tolist() == [3] * 4


@pytest.mark.parametrize("name", GEOMETRIC_NAMES)
def test_features_proportional_to_metres_cost_nothing(name: str) -> None:
    loss = make(name, feature_scale_squared=2.0)
    metres = torch.tensor([[1.0, 4.0, 9.0], [0.0, 5.0, 10.0]], dtype=torch.float64)
    features = torch.cat([torch.zeros(2, 1), metres * 2**0.5 / RADIUS], dim=1)[:, :, None]  # on a line
    terms = loss(features, metres.square())
    assert terms.total.tolist() == pytest.approx([0, 0], abs=1e-20)
    assert terms.residual.tolist() == pytest.approx([0, 0], abs=1e-12)


@pytest.mark.parametrize("prefix", ["", "triplet+", "lazy-quadruplet+"])
def test_huber_is_half_the_distance_loss_while_residuals_are_below_delta(
    prefix: str, batch: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    squares, bent = make(f"{prefix}distance", huber_delta=10.0), make(f"{prefix}huber", huber_delta=10.0)
    descriptors, squared_metres = batch(squares)
    of_squares, of_bent = squares(descriptors, squared_metres), bent(descriptors, squared_metres)
    assert torch.equal(of_bent.geometric, of_squares.geometric / 2)
    same = replace(squares, geometric_weight=WEIGHT / 2)(descriptors, squared_metres)
    assert not prefix or torch.allclose(of_bent.total, same.total, rtol=1e-14)


def test_descriptors_that_are_not_numbers_are_not_hidden_by_a_hinge(
    batch: Callable[..., tuple[Tensor, Tensor]],
) -> None:
    for name in LOSS_NAMES:
        loss = make(name)
        descriptors, squared_metres = batch(loss)
        descriptors[1, -1, 0] = float("nan")
        assert loss(descriptors, squared_metres).total.isnan().tolist() == [False, True, False, False], name


def make_usual(name: str, **options: Any) -> Loss:
    return Loss(name, **{"feature_scale_squared": 2.0, "positive_radius": 10.0, **options})


def test_there_are_the_ten_of_the_paper_and_the_four_it_leaves_out() -> None:
    of_the_paper = {
        *("distance", "huber", "triplet", "quadruplet", "lazy-triplet", "lazy-quadruplet"),
        *("triplet+distance", "lazy-quadruplet+distance", "triplet+huber", "lazy-quadruplet+huber"),
    }
    left_out = {"lazy-triplet+distance", "quadruplet+distance", "lazy-triplet+huber", "quadruplet+huber"}
    assert set(LOSS_NAMES) == of_the_paper | left_out
    assert len(LOSS_NAMES) == 14


@pytest.mark.parametrize("name", LOSS_NAMES)
def test_tuples_have_thirteen_images_or_seven_without_visual_term(name: str) -> None:
    layout = make_usual(name).layout
    if name in ("distance", "huber"):
        assert layout == Layout(positives=6, hard=0, random=0, other=False)
        assert layout.images == 7
    else:
        quadruplets = "quadruplet" in name
        assert layout == Layout(positives=6, hard=3, random=2 if quadruplets else 3, other=quadruplets)
        assert layout.images == 13


def test_a_loss_with_distance_or_huber_in_its_name_is_geometric() -> None:
    visual = {"triplet", "quadruplet", "lazy-triplet", "lazy-quadruplet"}
    assert {name for name in LOSS_NAMES if not make_usual(name).is_geometric} == visual


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("triplett", "triplet"), ("lazy_quadruplet+huber", "lazy-quadruplet+huber"), ("hubert", "huber")],
)
def test_an_unknown_name_is_refused_with_the_nearest_and_all_known_ones(name: str, nearest: str) -> None:
    with pytest.raises(BadInputError, match=re.escape(f"did you mean {nearest!r}?")) as refusal:
        make_usual(name)
    assert all(known in str(refusal.value) for known in LOSS_NAMES)


def test_a_name_like_none_is_refused_without_a_guess() -> None:
    with pytest.raises(BadInputError, match=r"loss.*'cosine'"):
        make_usual("cosine")


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
        ("quadruplet", {"negatives": 1, "hard_negatives": 0}, r"negatives.*2.*loss.*'quadruplet'.*1"),
        (
            "triplet",
            {"negatives": 4, "hard_negatives": 5},
            r"hard_negatives.*5.*0 to 4.*loss.*'triplet'.*4",
        ),
        ("lazy-quadruplet", {"negatives": 4, "hard_negatives": 4}, r"hard_negatives.*4.*0 to 3.*'lazy-quadruplet'"),
        ("triplet", {"hard_negatives": -1}, r"hard_negatives.*-1"),
    ],
)
def test_options_that_make_no_loss_are_refused(name: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInputError, match=problem):
        make_usual(name, **options)


def test_a_loss_without_visual_term_does_not_mind_a_lack_of_negatives() -> None:
    assert make_usual("huber", positives=3, negatives=0, hard_negatives=0).layout.images == 4


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
        make_usual("triplet+huber", positives=3, negatives=4)(torch.zeros(descriptors), torch.zeros(squared_metres))
