"""Frames: there and back to the original coordinates, and distances against the geodesic on the ellipsoid."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyproj import Geod
from scipy.spatial.transform import Rotation

from mappable.errors import BadInputError
from mappable.places.frames import Frame, frame_from_latlon

WGS84 = Geod(ellps="WGS84")
METRES = st.floats(-1e7, 1e7)
POINTS = st.lists(st.tuples(METRES, METRES, METRES), min_size=1, max_size=8)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    quaternion = [*(draw(st.floats(-1, 1)) for _ in range(3)), draw(st.floats(0.1, 1))]
    axes = Rotation.from_quat(quaternion).as_matrix()
    if draw(st.booleans()):
        axes = axes[:, [1, 0, 2]]  # a left-handed original, such as (north, east, up)
    origin = tuple(draw(METRES) for _ in range(3))
    return Frame("any", origin=origin, axes=tuple(map(tuple, axes)))  # type: ignore[arg-type]


@pytest.mark.medium
@given(frames(), POINTS)
def test_from_original_is_the_inverse_of_to_original(
    frame: Frame, points: list[tuple[float, float, float]]
) -> None:
    xyz = np.array(points)
    assert frame.from_original(frame.to_original(xyz)) == pytest.approx(xyz, abs=1e-6)
    assert frame.to_original(frame.from_original(xyz)) == pytest.approx(xyz, abs=1e-6)


def test_the_plane_of_kitti_is_x_and_z() -> None:
    forward_left_up = (
        (0.0, -1.0, 0.0),
        (0.0, 0.0, -1.0),
        (1.0, 0.0, 0.0),
    )  # columns in camera axes: right, down, ahead
    frame = Frame("kitti", axes=forward_left_up)
    ahead_in_the_camera = np.array([[0.0, 0.0, 5.0], [2.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    assert frame.from_original(ahead_in_the_camera).tolist() == [[5, 0, 0], [0, -2, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": ""}, r"frame.*name"),
        ({"unit": "feet"}, r"frame.*'f'.*unit.*'feet'"),
        ({"unit": "frames", "crs": "EPSG:32632"}, r"frame.*'f'.*CRS.*EPSG:32632"),
        ({"origin": (0.0, math.nan, 0.0)}, r"frame.*'f'.*numbers"),
        ({"origin": (0.0, 0.0)}, r"frame.*'f'.*numbers"),
        ({"origin": ("a", 0.0, 0.0)}, r"frame.*'f'.*numbers"),
        ({"axes": ((2.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))}, r"frame.*'f'.*orthonormal"),
        ({"axes": ((1.0, 0.0), (0.0, 1.0))}, r"frame.*'f'.*orthonormal"),
        ({"axes": ((1.0,), (0.0, 1.0))}, r"frame.*'f'.*numbers"),
    ],
)
def test_a_frame_that_makes_no_sense_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInputError, match=problem):
        Frame(**({"name": "f"} | fields))


@pytest.mark.parametrize("latitude", [89.999, 90.0, -89.999, -90.0, 84.5, -80.5, 0.0])
@pytest.mark.parametrize("middle", [0.0, 6.0, 179.99, -180.0])
def test_distances_are_right_at_the_poles_and_at_every_border(
    latitude: float, middle: float
) -> None:
    """Around a pole all longitudes occur; elsewhere the points lie on both sides of a border of
    zones.
    """
    random = np.random.default_rng(0)
    spread = 180.0 if abs(latitude) > 89 else 0.01
    longitudes = (middle + random.uniform(-spread, spread, 20) + 180) % 360 - 180
    latitudes = np.clip(latitude + random.uniform(-0.01, 0.01, 20), -90, 90)
    frame, x, y = frame_from_latlon(latitudes, longitudes)
    first, second = np.triu_indices(20, 1)
    metres = WGS84.inv(longitudes[first], latitudes[first], longitudes[second], latitudes[second])[
        2
    ]
    assert np.hypot(x[first] - x[second], y[first] - y[second]) == pytest.approx(
        metres, rel=1.1e-3, abs=1e-6
    )
    back = np.array(frame.to_latlon(np.column_stack([x, y])))
    assert WGS84.inv(back[1], back[0], longitudes, latitudes)[2] == pytest.approx(
        np.zeros(20), abs=1e-3
    )


def test_latitude_and_longitude_are_refused_without_a_crs_or_a_point() -> None:
    with pytest.raises(BadInputError, match=r"frame.*'lab'.*CRS.*latitude.*longitude"):
        Frame("lab").to_latlon(np.zeros((1, 2)))
    with pytest.raises(BadInputError, match="point"):
        frame_from_latlon(np.array([]), np.array([]))
    with pytest.raises(BadInputError, match="finite"):
        frame_from_latlon(np.array([51.0, math.nan]), np.array([0.0, 0.0]))
