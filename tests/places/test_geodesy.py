"""Geodesy: zones, their names, and points that everybody can look up."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.places.geodesy import project, transform, unproject, utm_crs


@given(st.floats(-80, 84), st.floats(-180, 180))
def test_the_zone_of_a_point_has_it_within_three_degrees_of_its_middle(
    latitude: float, longitude: float
) -> None:
    code = int(utm_crs(latitude, longitude).removeprefix("EPSG:"))
    zone = code % 100
    assert code // 100 == (327 if latitude < 0 else 326)
    assert 1 <= zone <= 60
    from_the_middle = (longitude - (6 * zone - 183) + 180) % 360 - 180
    assert abs(from_the_middle) <= 3 + 1e-9


def test_latitude_comes_first_in_pairs_of_degrees_and_east_first_in_pairs_of_metres() -> None:
    latitude, longitude = unproject(
        *project(np.array([51.75]), np.array([-1.25]), "EPSG:32630"), "EPSG:32630"
    )
    assert (latitude[0], longitude[0]) == pytest.approx((51.75, -1.25), abs=1e-9)
    web = transform(np.array([180.0]), np.array([0.0]), "EPSG:4326", "EPSG:3857")
    assert web[0][0] == pytest.approx(math.pi * 6_378_137, abs=1e-3)
    assert web[1][0] == pytest.approx(0, abs=1e-3)
