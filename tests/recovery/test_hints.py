"""Known positions and motions that cannot be are refused in one sentence."""

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.recovery.hints import Anchors, Motions


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
def test_anchors_that_cannot_be(
    points: object, positions: object, sigma: object, words: str
) -> None:
    with pytest.raises(BadInputError, match=words):
        Anchors(points, positions, sigma)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("i", "j", "metres", "turns", "noise", "words"),
    [
        ([0], [1, 2], [[1.0, 0.0]], [0.0], (1.0, 0.1), "motions need"),
        ([2], [2], [[1.0, 0.0]], [0.0], (1.0, 0.1), "motion from point 2 to 2 leads"),
        ([0], [2], [[1.0, np.inf]], [0.0], (1.0, 0.1), "motion from point 0 to 2 .*coordinate"),
        ([0], [2], [[1e200, 0.0]], [0.0], (1.0, 0.1), "motion from point 0 to 2 .*beyond"),
        ([0], [2], [[1.0, 0.0]], [np.nan], (1.0, 0.1), "rotation"),
        ([0], [2], [[1.0, 0.0]], [0.0], (0.0, 0.1), "covariance"),
        ([0], [2], [[1.0, 0.0]], [0.0], (1.0, np.nan), "covariance"),
        ([0], [1.5], [[1.0, 0.0]], [0.0], (1.0, 0.1), r"motions.*integers.*1\.5"),
    ],
)
def test_motions_that_cannot_be(
    i: object, j: object, metres: object, turns: object, noise: tuple[float, float], words: str
) -> None:
    with pytest.raises(BadInputError, match=words):
        Motions(i, j, metres, turns, noise)  # type: ignore[arg-type]


def test_coordinates_whose_squares_overflow_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"anchor at point 4 has a coordinate beyond 1e\+09"):
        Anchors([3, 4], [[0.0, 0.0], [0.0, -1e38]], 1.0)
