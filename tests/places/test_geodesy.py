"""Geodesy: zones, their names, and points that everybody can look up."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.errors import BadInputError
from mappable.places.geodesy import project, transform, unproject, utm_crs


@given(st.floats(-80, 84), st.floats(-180, 180))
def test_the_zone_of_a_point_has_it_within_three_degrees_of_its_middle(latitude: float, longitude: float) -> None:
    code = int(utm_crs(latitude, longitude).removeprefix("EPSG:"))
    zone = code % 100
    assert code // 100 == (327 if latitude < 0 else 326)
    assert 1 <= zone <= 60
    from_the_middle = (longitude - (6 * zone - 183) + 180) % 360 - 180
    assert abs(from_the_middle) <= 3 + 1e-9


@pytest.mark.parametrize(
    ("longitude", "zone"),
    [(-180.0, 1), (180.0, 1), (math.nextafter(-180.0, -181), 60), (179.999, 60), (-174.0, 2), (-0.001, 30), (0.0, 31)],
)
def test_a_border_belongs_to_the_zone_east_of_it(longitude: float, zone: int) -> None:
    assert utm_crs(10.0, longitude) == f"EPSG:{32600 + zone}"


def test_a_zone_s_middle_on_the_equator_is_the_false_easting() -> None:
    easting, northing = project(np.array([0.0, 0.0]), np.array([9.0, 15.0]), "EPSG:32632")
    assert easting[0] == pytest.approx(500_000, abs=1e-6)
    assert northing == pytest.approx([0, 0], abs=1e-6)
    assert easting[1] > 1_100_000
    south = project(np.array([0.0]), np.array([9.0]), "EPSG:32732")
    assert south[1][0] == pytest.approx(10_000_000, abs=1e-6)


def test_latitude_comes_first_in_pairs_of_degrees_and_east_first_in_pairs_of_metres() -> None:
    latitude, longitude = unproject(*project(np.array([51.75]), np.array([-1.25]), "EPSG:32630"), "EPSG:32630")
    assert (latitude[0], longitude[0]) == pytest.approx((51.75, -1.25), abs=1e-9)
    web = transform(np.array([180.0]), np.array([0.0]), "EPSG:4326", "EPSG:3857")
    assert web[0][0] == pytest.approx(math.pi * 6_378_137, abs=1e-3)
    assert web[1][0] == pytest.approx(0, abs=1e-3)


def test_an_unknown_crs_is_a_sentence() -> None:
    with pytest.raises(BadInputError, match=r"'EPSG:99999'.*'EPSG:4326'"):
        unproject(np.array([0.0]), np.array([0.0]), "EPSG:99999")
