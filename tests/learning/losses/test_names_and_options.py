"""Names and options of losses: which there are, which images they want in a tuple, and what is refused."""

import re
from typing import Any

import pytest
import torch

from mappable.errors import BadInputError
from mappable.learning.layout import Layout
from mappable.learning.losses import LOSS_NAMES, Loss


def make(name: str, **options: Any) -> Loss:
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
    layout = make(name).layout
    if name in ("distance", "huber"):
        assert layout == Layout(positives=6, hard=0, random=0, other=False)
        assert layout.images == 7
    else:
        quadruplets = "quadruplet" in name
        assert layout == Layout(positives=6, hard=3, random=2 if quadruplets else 3, other=quadruplets)
        assert layout.images == 13


def test_all_pairs_are_wanted_by_a_geometric_term_alone() -> None:
    found = {name: make(name, geometric_pairs="all").layout.pairs for name in ("huber", "triplet+distance", "triplet")}
    assert found == {"huber": 21, "triplet+distance": 21, "triplet": 6}
    assert make("huber").layout.pairs == 6


def test_a_loss_with_distance_or_huber_in_its_name_is_geometric() -> None:
    visual = {"triplet", "quadruplet", "lazy-triplet", "lazy-quadruplet"}
    assert {name for name in LOSS_NAMES if not make(name).is_geometric} == visual


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("triplett", "triplet"), ("lazy_quadruplet+huber", "lazy-quadruplet+huber"), ("hubert", "huber")],
)
def test_an_unknown_name_is_refused_with_the_nearest_and_all_known_ones(name: str, nearest: str) -> None:
    with pytest.raises(BadInputError, match=re.escape(f"did you mean {nearest!r}?")) as refusal:
        make(name)
    assert all(known in str(refusal.value) for known in LOSS_NAMES)


def test_a_name_like_none_is_refused_without_a_guess() -> None:
    with pytest.raises(BadInputError, match=r"loss.*'cosine'"):
        make("cosine")


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("huber", {"feature_scale_squared": 0.0}, r"feature_scale_squared.*0.0"),
        ("huber", {"positive_radius": -1.0}, "positive_radius -1.0"),
        ("huber", {"huber_delta": float("nan")}, r"huber_delta.*nan"),
        ("triplet", {"margin": -0.1}, r"margin.*-0.1"),
        ("quadruplet", {"second_margin": float("inf")}, r"second_margin.*inf"),
        ("triplet+huber", {"geometric_weight": -1.0}, "geometric_weight -1.0"),
        ("distance", {"positives": 0}, r"positives.*0"),
        ("triplet", {"negatives": 0, "hard_negatives": 0}, r"negatives.*0.*loss.*'triplet'"),
        ("quadruplet", {"negatives": 1, "hard_negatives": 0}, r"negatives.*1.*loss.*'quadruplet'"),
        (
            "triplet",
            {"negatives": 4, "hard_negatives": 5},
            r"hard_negatives.*5.*4.*negatives.*loss.*'triplet'.*0.*4",
        ),
        ("lazy-quadruplet", {"negatives": 4, "hard_negatives": 4}, r"'lazy-quadruplet'.*0.*3"),
        ("triplet", {"hard_negatives": -1}, "hard_negatives -1"),
        ("quadruplet+huber", {"second_hinge": "both"}, r"second_hinge.*'both'"),
        ("huber", {"geometric_pairs": "some"}, r"geometric_pairs.*'some'"),
        ("triplet+huber", {"second_hinge": "residuals"}, r"quadruplet.*'triplet"),
        ("quadruplet", {"second_hinge": "residuals"}, "quadruplet"),
        ("quadruplet+huber", {"second_hinge": "residuals", "normalised": False}, "normalised"),
    ],
)
def test_options_that_make_no_loss_are_refused(name: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInputError, match=problem):
        make(name, **options)


def test_a_loss_without_visual_term_does_not_mind_a_lack_of_negatives() -> None:
    assert make("huber", positives=3, negatives=0, hard_negatives=0).layout.images == 4


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
        make("triplet+huber", positives=3, negatives=4)(torch.zeros(descriptors), torch.zeros(squared_metres))
