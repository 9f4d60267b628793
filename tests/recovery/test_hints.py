"""Known positions, ways and turns that cannot be are refused in one sentence."""

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.recovery.hints import Anchors, Odometry, Turns


@pytest.mark.parametrize(
    ("points", "positions", "sigma", "words"),
    [
        ([0, 1], [[0.0, 0.0]], 1.0, "anchors are points"),
        ([], np.zeros((0, 2)), 1.0, "anchors are points"),
        ([0], [[0.0, np.nan]], 1.0, "the anchor at point 0 has a coordinate that is not a number"),
        ([3], [[0.0, 1.0]], 0.0, "the anchor at point 3 has a sigma that is not above 0"),
        ([3], [[0.0, 1.0]], [1.0, 2.0], "there are 2 sigmas for 1 anchors"),
        ([1, 1], [[0.0, 1.0], [0.0, 2.0]], 1.0, "each occurs once"),
        ([0.5], [[0.0, 1.0]], 1.0, "whole numbers"),
    ],
)
def test_anchors_that_cannot_be(points: object, positions: object, sigma: object, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Anchors(points, positions, sigma)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("i", "j", "metres", "sigma", "words"),
    [
        ([0], [1, 2], [[1.0, 0.0]], 1.0, "odometry is i"),
        ([2], [2], [[1.0, 0.0]], 1.0, "the odometry from point 2 to 2 leads from a point to itself"),
        ([0], [2], [[1.0, np.inf]], 1.0, "the odometry from point 0 to 2 has a coordinate"),
        ([0], [2], [[1.0, 0.0]], -1.0, "has a sigma that is not above 0"),
        ([0], [1.5], [[1.0, 0.0]], 1.0, "the points of odometry are whole numbers"),
    ],
)
def test_odometry_that_cannot_be(i: object, j: object, metres: object, sigma: object, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Odometry(i, j, metres, sigma)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("points", "radians", "sigma", "words"),
    [
        ([0, 1], [0.1], 1.0, "turns are points"),
        ([4], [90.0], 0.1, r"the turn at point 4 \(90 radians\) is not between -pi and pi"),
        ([4], [np.nan], 0.1, "is not between"),
        ([4], [0.1], 0.0, "has a sigma that is not above 0"),
        ([4, 4], [0.1, 0.2], 0.1, "more than one turn"),
        ([0.5], [0.1], 0.1, "the points of turns are whole numbers"),
    ],
)
def test_turns_that_cannot_be(points: object, radians: object, sigma: object, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Turns(points, radians, sigma)  # type: ignore[arg-type]
