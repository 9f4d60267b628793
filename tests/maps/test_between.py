"""Positions between landmarks."""

import numpy as np
import pytest

from mappable.maps.between import Between, interpolate, spacing_of
from mappable.maps.exact import Exact

FLOOR = 0.1


def between(positions: list[list[float]], descriptors: np.ndarray, reach: float = 20.0) -> Between:
    return Between(
        np.array(positions),
        Exact(descriptors.astype(np.float32)),
        reach=reach,
        floor=FLOOR,
        spacing=spacing_of(np.array(positions)),
    )


def test_distances_to_points_of_chords_are_those_to_the_mean_of_descriptors() -> None:
    random = np.random.default_rng(0)
    vectors, query = random.normal(size=(5, 6)), random.normal(size=6)
    around = between([[0, 0], [4, 0], [8, 1], [12, 0], [500, 0]], vectors).around(1)
    assert around.rows.tolist() == [0, 1, 2, 3]
    ends = vectors[around.rows]
    share = around.share[:, None]
    mean = (1 - share) * ends[around.first] + share * ends[around.second]
    squared = around.squared(np.square(query - ends).sum(1)[None])[0]
    np.testing.assert_allclose(squared, np.square(query - mean).sum(1) + (share * (1 - share))[:, 0] * FLOOR, rtol=1e-5)
    assert around.points[0].tolist() == [0, 0]
    assert [2.0, 0.0] in around.points.tolist()


@pytest.mark.parametrize("ends", [[[0.0, 0.0], [4.0, 2.0]], [[0.0, 0.0, 1.0], [4.0, 2.0, 3.0]]])
def test_an_image_half_way_is_placed_half_way(ends: list[list[float]]) -> None:
    vectors = np.array([[1.0, 0.0], [0.0, 1.0]])
    middle = np.array([[0.5, 0.5]])
    squared = np.square(middle - vectors).sum(1)[None]
    found = interpolate(between(ends, vectors), np.array([0]), np.array([[0, 1]]), squared, temperature=0.01)
    np.testing.assert_allclose(found.position[0], np.mean(ends, axis=0), atol=0.01)
    assert found.supported.all()
    along = np.array(ends[1]) - ends[0]
    spread = np.sqrt(along @ found.spread[0] @ along) / np.linalg.norm(along)
    assert 0 < spread < 0.25 * np.linalg.norm(along)


def test_a_landmark_by_itself_is_where_the_image_is() -> None:
    lonely = between([[0, 0], [4, 0], [900, 7]], np.eye(3))
    found = interpolate(lonely, np.array([2]), np.array([[2, 0]]), np.array([[0.2, 1.4]]), temperature=0.02)
    assert found.position[0].tolist() == [900, 7]
    assert not found.supported[0]
    assert found.matched[0] == pytest.approx(0.2)


def test_landmarks_that_were_not_asked_for_count_as_far() -> None:
    three = between([[0, 0], [4, 0], [8, 0]], np.eye(3))
    found = interpolate(three, np.array([0]), np.array([[0]]), np.array([[0.1]]), temperature=0.02)
    assert found.position[0].tolist() == [0, 0]


def test_spacing_is_the_usual_distance_to_the_next() -> None:
    assert spacing_of(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 9.0]])) == 5.0
    assert spacing_of(np.array([[1.0, 1.0]])) == 0.0
    assert spacing_of(np.zeros((3, 2))) == 0.0
    cameras = np.repeat(np.arange(10.0), 2)[:, None] * [5.0, 0.0] + np.tile([[0.0, 0.0], [0.0, 0.1]], (10, 1))
    assert spacing_of(cameras, apart=0.5) == 5.0
