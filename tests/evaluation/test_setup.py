"""Setups: references and queries, invalid setups, and blocks of the bootstrap."""

from collections.abc import Callable

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.evaluation.setup import Setup, blocks_of, setup_of
from mappable.places.frames import Frame
from mappable.places.table import Places
from mappable.readers.unposed import NOWHERE


@pytest.fixture
def table() -> Callable[..., Places]:
    def make(**columns: object) -> Places:
        usual = {
            "path": [f"{n}.jpg" for n in range(8)],
            "x": [0.0, 10, 20, 30, 0, 10, 20, 30],
            "y": [0.0] * 8,
            "sequence": ["a"] * 4 + ["b"] * 4,
            "condition": ["sun"] * 4 + ["rain"] * 4,
            "split": ["train"] * 4 + ["test"] * 4,
            "frames": Frame("town"),
        }
        return Places(**usual | columns)

    return make


def made(places: Places, **others: object) -> Setup:
    return setup_of("town", places, positive_radius=5.0, negative_radius=15.0, **others)


def test_splits_define_references_and_queries(table: Callable[..., Places]) -> None:
    setup = made(table(), landmarks=100)
    assert (setup.references.tolist(), setup.queries.tolist()) == ([0, 1, 2, 3], [4, 5, 6, 7])
    assert (setup.landmarks, setup.counts, setup.unit, setup.block) == (4, (), "m", 15.0)
    assert (setup.proportional, setup.matrices, setup.route) == (("b",), ("a", "b"), "b")


def test_roles_define_references_and_queries_without_splits(table: Callable[..., Places]) -> None:
    setup = made(table(split="", role=["reference"] * 4 + ["query"] * 4))
    assert (setup.references.tolist(), setup.queries.tolist()) == ([0, 1, 2, 3], [4, 5, 6, 7])


@pytest.mark.parametrize(
    ("columns", "others", "problem"),
    [
        ({"split": "train"}, {}, r"town.*queries.*'test'.*'query'"),
        ({"split": "test"}, {}, r"town.*references.*'train'"),
        ({"split": ""}, {}, r"town.*queries"),
        (
            {"frame": [NOWHERE.name] * 4 + ["town"] * 4, "frames": [NOWHERE, Frame("town")]},
            {},
            r"'a'.*references",
        ),
        (
            {"frame": ["hill"] * 4 + ["town"] * 4, "frames": [Frame("hill"), Frame("town")]},
            {},
            "hill, town",
        ),
        ({}, {"positive_radius": 20.0}, r"radii.*20.*15"),
    ],
)
def test_invalid_setups_raise(
    table: Callable[..., Places], columns: dict[str, object], others: dict[str, float], problem: str
) -> None:
    with pytest.raises(BadInputError, match=problem):
        setup_of(
            "town", table(**columns), **{"positive_radius": 5.0, "negative_radius": 15.0} | others
        )


def test_blocks_are_the_same_stretches_for_all_conditions(table: Callable[..., Places]) -> None:
    places = table(x=[0.0, 10, 20, 30, 1, 12, 19, 31], split="test")
    assert blocks_of(places, np.arange(8), 20.0).tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
