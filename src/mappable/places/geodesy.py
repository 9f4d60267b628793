"""Convert latitude and longitude (WGS 84, degrees) to metres and back, with pyproj."""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError, shown

if TYPE_CHECKING:
    from pyproj import Transformer

WGS84 = "EPSG:4326"


def utm_crs(latitude: float, longitude: float) -> str:
    """The EPSG code of the UTM zone of a point; the wide zones of Norway and Svalbard are treated
    as regular zones.

    >>> utm_crs(51.75, -1.25), utm_crs(-33.9, 151.2)
    ('EPSG:32630', 'EPSG:32756')
    """
    zone = min(60, int((longitude + 180) % 360 // 6) + 1)  # the remainder can be rounded up to 360
    return utm_zone_crs(zone, south=latitude < 0)


def utm_zone_crs(zone: int, south: bool) -> str:
    """The EPSG code of a UTM zone (1 to 60) in the northern or southern hemisphere."""
    return f"EPSG:{(32700 if south else 32600) + zone}"


def utm_name(crs: str) -> str:
    """The name of a UTM zone from its EPSG code.

    >>> utm_name("EPSG:32756")
    'utm-56S'
    """
    code = int(crs.removeprefix("EPSG:"))
    return f"utm-{code % 100:02d}{'S' if code > 32700 else 'N'}"


def project(latitude: Floats, longitude: Floats, crs: str) -> tuple[Floats, Floats]:
    """Easting and northing in metres, in `crs`, of points in degrees."""
    return transform(longitude, latitude, WGS84, crs)


def unproject(easting: Floats, northing: Floats, crs: str) -> tuple[Floats, Floats]:
    """Latitude and longitude in degrees of points in `crs`."""
    longitude, latitude = transform(easting, northing, crs, WGS84)
    return latitude, longitude


def from_ecef(xyz: Floats) -> tuple[Floats, Floats, Floats]:
    """Latitude and longitude in degrees, and height in metres above the ellipsoid, of points (n, 3)
    in ECEF.
    """
    converted = np.array(_transformer("EPSG:4978", "EPSG:4979").transform(*xyz.T), dtype=np.float64)
    return converted[1], converted[0], converted[2]


def transform(x: Floats, y: Floats, source: str, target: str) -> tuple[Floats, Floats]:
    """Convert points from one CRS to another; x is always east or longitude, y is north or
    latitude.
    """
    out_x, out_y = _transformer(source, target).transform(x, y)
    return np.asarray(out_x, dtype=np.float64), np.asarray(out_y, dtype=np.float64)


@lru_cache
def _transformer(source: str, target: str) -> "Transformer":
    from pyproj import Transformer
    from pyproj.exceptions import ProjError

    try:
        return Transformer.from_crs(source, target, always_xy=True)
    except ProjError:
        raise BadInputError(
            f"cannot convert from the CRS {shown(source)} to {shown(target)}"
        ) from None
