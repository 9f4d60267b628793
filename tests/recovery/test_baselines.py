"""The trivial rows: each drawing, and what it scores on routes that it fits."""

from dataclasses import dataclass

import numpy as np
import pytest

from mappable.arrays import Floats, Ints, path_length
from mappable.errors import BadInputError
from mappable.recovery.align import aligned_score
from mappable.recovery.baselines import circle, interpolated, line, point, trivial_rows
from simulated_ranges import route


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


def test_drawings_have_the_length_of_the_path() -> None:
    along = np.linspace(0.0, 672.0, 2000)
    for drawn in (line(along), line(along, 3), circle(along), circle(along, 3, turns=1.3)):
        assert path_length(drawn)[-1] == pytest.approx(672.0, rel=1e-4)
    assert not point(3, 3).any()
    np.testing.assert_allclose(circle(along)[0], circle(along)[-1], atol=1e-9)


def test_interpolation_is_linear_in_the_order_of_images_and_stops_at_the_ends() -> None:
    drawn = interpolated(8, np.array([6, 2]), np.array([[10.0, 4.0, 1.0], [2.0, 0.0, 1.0]]))
    assert drawn[:, 0].tolist() == [2.0, 2.0, 2.0, 4.0, 6.0, 8.0, 10.0, 10.0]
    assert drawn[:, 1].tolist() == [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 4.0]
    assert set(drawn[:, 2]) == {1.0}


def test_rows_of_routes_are_of_the_size_that_shapes_suggest() -> None:
    @dataclass
    class Known:
        points: Ints
        positions: Floats

    truth = route("loop", 400, seed=0)
    points = np.linspace(0, 399, 20).astype(np.int64)
    rows = trivial_rows(truth, Known(points, truth[points]))  # type: ignore[arg-type]
    assert rows["circle"].of_length < 5.0 < rows["straight line"].of_length < rows["point"].of_length
    assert rows["interpolated anchors"].of_length < 0.6
    assert rows["point"].of_gyration == pytest.approx(100.0)
    moved = trivial_rows(truth + 100.0, Known(points, truth[points]))  # type: ignore[arg-type]
    assert moved["interpolated anchors"].rmse == pytest.approx(np.hypot(100.0, 100.0), rel=0.01)
    assert moved["circle"].rmse == pytest.approx(rows["circle"].rmse)


def test_the_circle_takes_the_turns_that_suit_it() -> None:
    truth = route("loop", 200, seed=1)
    along = path_length(truth)
    best = trivial_rows(truth)["circle"].rmse
    assert best <= min(aligned_score(circle(along, turns=turns), truth).rmse for turns in (1.0, 1.1, 1.2))


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"path.*length"):
        trivial_rows(np.ones((4, 2)))
    with pytest.raises(BadInputError, match=r"circle.*0"):
        circle(np.arange(4.0), turns=0.0)
    with pytest.raises(BadInputError, match=r"\[0, 4\]"):
        interpolated(4, np.array([4, 0]), np.zeros((2, 2)))
