"""Angles: wrapping, compass headings and the way between two yaws, against complex numbers."""

import cmath
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mappable.places.angles import interpolate_yaw, wrap, yaw_from_compass

ANGLES = st.floats(-1e4, 1e4)
BESIDE_THE_SEAM = [
    sign * other for sign in (1, -1) for other in (math.pi, math.nextafter(math.pi, 4), 3 * math.pi)
]


def direction(angle: float) -> complex:
    return cmath.exp(1j * angle)


@given(ANGLES | st.sampled_from(BESIDE_THE_SEAM))
def test_wrapping_keeps_the_direction_and_ends_in_the_half_open_circle(angle: float) -> None:
    wrapped = wrap(angle)
    assert -math.pi < wrapped <= math.pi
    assert abs(direction(wrapped) - direction(angle)) < 1e-9


@pytest.mark.parametrize(
    ("heading", "east_north"), [(0, (0, 1)), (90, (1, 0)), (180, (0, -1)), (270, (-1, 0))]
)
def test_the_compass_points_where_it_should(heading: float, east_north: tuple[int, int]) -> None:
    yaw = yaw_from_compass(math.radians(heading))
    assert (math.cos(yaw), math.sin(yaw)) == pytest.approx(east_north, abs=1e-12)


@given(ANGLES, ANGLES, st.floats(0, 1))
def test_the_way_between_two_yaws_is_the_shorter_arc(
    start: float, end: float, fraction: float
) -> None:
    arc = cmath.phase(direction(end) / direction(start))  # the signed shorter arc
    assume(abs(arc) < math.pi - 1e-6)  # opposite directions have two shorter arcs
    found = interpolate_yaw(np.array([start]), np.array([end]), np.array([fraction]))[0]
    assert -math.pi < found <= math.pi
    assert abs(direction(found) - direction(start) * direction(fraction * arc)) < 1e-8
