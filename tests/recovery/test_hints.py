"""Known positions, ways and turns that cannot be are refused in one sentence."""

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.recovery.hints import Anchors, Odometry, Turns


@pytest.mark.parametrize(
    ("points", "positions", "sigma", "words"),
    [
        ([0, 1], [[0.0, 0.0]], 1.0, "anchors"),
        ([], np.zeros((0, 2)), 1.0, "anchors"),
        ([0], [[0.0, np.nan]], 1.0, r"anchor at point 0 .*coordinate"),
        ([3], [[0.0, 1.0]], 0.0, r"anchor at point 3 .*sigma"),
        ([3], [[0.0, 1.0]], [1.0, 2.0], r"2.*1.*anchors"),
        ([1, 1], [[0.0, 1.0], [0.0, 2.0]], 1.0, "duplicate anchor point 1"),
        ([0.5], [[0.0, 1.0]], 1.0, r"anchors.*integers.*0\.5"),
    ],
)
def test_anchors_that_cannot_be(points: object, positions: object, sigma: object, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Anchors(points, positions, sigma)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("i", "j", "metres", "sigma", "words"),
    [
        ([0], [1, 2], [[1.0, 0.0]], 1.0, "odometry"),
        ([2], [2], [[1.0, 0.0]], 1.0, "odometry from point 2 to 2"),
        ([0], [2], [[1.0, np.inf]], 1.0, r"odometry from point 0 to 2 .*coordinate"),
        ([0], [2], [[1.0, 0.0]], -1.0, "sigma"),
        ([0], [1.5], [[1.0, 0.0]], 1.0, r"odometry.*integers.*1\.5"),
    ],
)
def test_odometry_that_cannot_be(i: object, j: object, metres: object, sigma: object, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Odometry(i, j, metres, sigma)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("points", "radians", "sigma", "words"),
    [
        ([0, 1], [0.1], 1.0, "turns"),
        ([4], [90.0], 0.1, r"turn at point 4 \(90 radians\)"),
        ([4], [np.nan], 0.1, "between"),
        ([4], [0.1], 0.0, "sigma"),
        ([4, 4], [0.1, 0.2], 0.1, "duplicate turn at point 4"),
        ([0.5], [0.1], 0.1, r"turns.*integers.*0\.5"),
    ],
)
def test_turns_that_cannot_be(points: object, radians: object, sigma: object, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        Turns(points, radians, sigma)  # type: ignore[arg-type]


def test_coordinates_whose_squares_overflow_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"anchor at point 4 has a coordinate beyond 1e\+09"):
        Anchors([3, 4], [[0.0, 0.0], [0.0, -1e38]], 1.0)
    with pytest.raises(BadInputError, match=r"from point 0 to 1 has a coordinate beyond 1e\+09"):
        Odometry([0], [1], [[1e200, 0.0]], 1.0)
