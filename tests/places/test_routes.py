"""Routes: how far along a place lies when the camera drives, creeps or stands, and cropping by length."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.places.frames import Frame
from mappable.places.routes import JITTER, crop_by_length, distance_along, steps
from mappable.places.table import Places


def route(points: Any, sequence: Any = None, **changes: Any) -> Places:
    points = np.array(points, dtype=float).reshape(-1, 3)
    names = [f"{row}.jpg" for row in range(len(points))]
    columns = dict(zip("xyz", points.T, strict=True))
    return Places(path=names, **columns, frames=Frame("town"), sequence=sequence, **changes)


def straight(x: Any) -> Places:
    return route([(value, 0, 0) for value in x])


def test_the_noise_of_a_standing_camera_adds_no_length() -> None:
    noise = np.random.default_rng(0).uniform(-JITTER / 3, JITTER / 3, (1000, 2))
    standing = route(np.column_stack([noise, np.zeros(1000)]))
    assert distance_along(standing).max() == 0
    assert steps(standing.positions).sum() > 5  # which a plain sum would have counted


@given(st.lists(st.tuples(*[st.integers(-5, 5)] * 2), min_size=1, max_size=20))
def test_without_small_steps_length_is_the_plain_sum(corners: list[tuple[int, int]]) -> None:
    expected = [0.0]
    for first, second in pairwise(corners):
        expected.append(expected[-1] + math.dist(first, second))
    assert distance_along(route([(*corner, 0) for corner in corners])) == pytest.approx(expected)


def test_a_crop_includes_both_its_ends() -> None:
    places = straight(range(10))
    assert crop_by_length(places, 3).x.tolist() == [0, 1, 2, 3]
    assert crop_by_length(places, 3, start=2).x.tolist() == [2, 3, 4, 5]
    assert crop_by_length(places, 2.9, start=2.1).x.tolist() == [3, 4, 5]
    assert crop_by_length(places, 0).x.tolist() == [0]
    assert crop_by_length(places, 1000) == places
    assert len(crop_by_length(places, 5, start=20)) == 0


def test_a_crop_takes_the_same_part_of_every_sequence() -> None:
    points = [(x, y, 0) for y in (0, 50) for x in (10 * y + np.arange(5))]
    cropped = crop_by_length(route(points, sequence=["a"] * 5 + ["b"] * 5), 2, start=1)
    assert cropped.path.tolist() == ["1.jpg", "2.jpg", "3.jpg", "6.jpg", "7.jpg", "8.jpg"]


def test_z_counts_only_in_three_dimensions() -> None:
    stairs = [(0, 0, 0), (3, 0, 4)]
    assert distance_along(route(stairs)).tolist() == [0, 3]
    assert distance_along(route(stairs, dimensions=3)).tolist() == [0, 5]


def test_every_sequence_begins_at_zero_even_if_rows_alternate() -> None:
    places = route([(0, 0, 0), (100, 0, 0), (1, 0, 0), (103, 0, 0)], sequence=["a", "b", "a", "b"])
    assert distance_along(places).tolist() == [0, 0, 1, 3]
