"""The trivial rows: each drawing, and what it scores on routes that it fits."""

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.recovery.baselines import interpolated, line, trivial_rows


def in_space(points: Floats, dimensions: int) -> Floats:
    """The same points, turned, and in 3-D lying aslant."""
    rng = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.normal(size=(dimensions, dimensions)))
    turned: Floats = np.pad(points, ((0, 0), (0, dimensions - 2))) @ rotation.T + 7.0
    return turned


@pytest.mark.parametrize("dimensions", [2, 3])
def test_each_drawing_is_exact_where_the_truth_is_one(dimensions: int) -> None:
    along = np.array([0.0, 1.0, 3.0, 4.0, 9.0, 11.0, 12.0, 15.0])
    straight = trivial_rows(in_space(line(along), dimensions))
    assert straight["straight line"].rmse == pytest.approx(0.0, abs=1e-9)
    assert straight["point"].of_gyration == pytest.approx(100.0)
    assert straight["circle"].of_gyration > 30.0
    angles = np.linspace(0, 2.2 * np.pi, 300)  # one and a tenth times around
    round_about = in_space(20.0 * np.stack([np.cos(angles), np.sin(angles)], 1), dimensions)
    rows = trivial_rows(round_about)
    assert rows["circle"].of_gyration < 0.1
    assert trivial_rows(round_about, scale=False)["circle"].of_gyration < 0.1
    assert rows["straight line"].of_gyration > 50.0
    assert list(rows) == ["point", "straight line", "circle"]


def test_interpolation_is_linear_in_the_order_of_images_and_stops_at_the_ends() -> None:
    drawn = interpolated(8, np.array([6, 2]), np.array([[10.0, 4.0, 1.0], [2.0, 0.0, 1.0]]))
    assert drawn[:, 0].tolist() == [2.0, 2.0, 2.0, 4.0, 6.0, 8.0, 10.0, 10.0]
    assert drawn[:, 1].tolist() == [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 4.0]
    assert set(drawn[:, 2]) == {1.0}
