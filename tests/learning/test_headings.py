"""Headings of made-up visits against their course."""

import math
import re

import numpy as np
import pytest

from mappable.learning.headings import heading_offset, with_agreeing_headings
from mappable.places.angles import wrap
from mappable.places.frames import Frame
from mappable.places.neighbors import find_neighbors
from mappable.places.table import Places

COUNT = 120


def loop(turns: dict[str, float], *, noise: float = 0.0, backward: str = "") -> Places:
    """Visits of one round course of 120 m, whose yaw is the course plus the turn of the visit, in
    degrees.
    """
    random = np.random.default_rng(0)
    angle = np.linspace(0, 2 * math.pi, COUNT, endpoint=False)
    x, y, yaw = [], [], []
    for name, turn in turns.items():
        sign = -1 if name in backward else 1
        x.append(19 * np.cos(sign * angle) + random.normal(0, 0.1, COUNT))
        y.append(19 * np.sin(sign * angle) + random.normal(0, 0.1, COUNT))
        course = sign * (angle + math.pi / 2)
        yaw.append(wrap(course + math.radians(turn) + random.normal(0, noise, COUNT)))
    names = np.repeat(np.array(list(turns), dtype=object), COUNT)
    paths = [f"{name}/{row}.jpg" for row, name in enumerate(names)]
    columns = {"x": np.concatenate(x), "y": np.concatenate(y), "yaw": np.concatenate(yaw)}
    return Places(path=paths, sequence=names, frames=Frame("town"), **columns)


def pairs_across(places: Places, max_yaw: float) -> int:
    near = find_neighbors(places, 3.0, max_yaw=max_yaw)
    first = np.repeat(np.arange(len(places)), near.counts)
    return int((places.sequence[first] != places.sequence[near.rows]).sum())


def test_an_offset_is_the_mean_turn_of_yaw_from_the_course() -> None:
    places = loop({"a": 35.0, "b": -170.0}, noise=0.3)
    for name, turn in (("a", 35.0), ("b", -170.0)):
        offset = heading_offset(places, places.sequences()[name])
        assert abs(wrap(offset.mean - math.radians(turn))) < math.radians(5)
        assert 0.9 < offset.concentration < 1


def test_phones_that_are_mounted_85_degrees_apart_agree_afterward() -> None:
    places = loop({"a": 35.0, "b": -50.0}, noise=0.1)
    agreeing, sentence = with_agreeing_headings(places)
    limit = math.radians(30)
    assert pairs_across(places, limit) == 0
    assert pairs_across(agreeing, limit) > 0.95 * pairs_across(agreeing, math.pi)
    assert re.fullmatch("headings of b turned by 8[456] degrees to match a", sentence)
    np.testing.assert_array_equal(agreeing.yaw[:COUNT], places.yaw[:COUNT])


@pytest.mark.parametrize(
    ("turns", "noise", "backward"),
    [
        pytest.param({"a": 0.0, "b": 5.0}, 0.1, "", id="agree"),
        pytest.param({"a": 90.0, "b": 95.0}, 0.1, "", id="both look to the side"),
        pytest.param({"a": 0.0, "b": 0.0}, 0.1, "b", id="opposite directions of travel"),
        pytest.param({"a": 0.0, "b": 80.0}, 1.5, "", id="looks around"),
        pytest.param({"a": 40.0}, 0.0, "", id="one visit"),
    ],
)
def test_headings_that_do_not_contradict_stay(
    turns: dict[str, float], noise: float, backward: str
) -> None:
    places = loop(turns, noise=noise, backward=backward)
    agreeing, sentence = with_agreeing_headings(places)
    np.testing.assert_array_equal(agreeing.yaw, places.yaw)
    assert sentence == ""
