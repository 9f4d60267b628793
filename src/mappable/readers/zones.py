"""UTM zones: their codes from the fields of a name, and one common zone for points that are near each other."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints
from mappable.places import geodesy

BANDS = "CDEFGHJKLMNPQRSTUVWX"  # zone letters from south to north; N is the first letter north of the equator
EARTH_RADIUS_KM = 6371.0
CELL_KM = 20.0  # points in touching cells of this size count as near each other


def zone_code(zone: str, letter: str, side: float) -> tuple[int, str]:
    """The EPSG code of a zone (0 if unknown), and a problem ("" if none); `side` is the sign of the latitude or 0."""
    if not zone:
        return 0, ""
    if not zone.isdecimal() or not 1 <= int(zone) <= 60:
        return 0, "names have a UTM zone that is not from 1 to 60"
    band = letter.upper() if len(letter) == 1 and letter.upper() in BANDS else ""
    problem = "names have a zone letter that is not from C to X" if letter and not band else ""
    if not band and not side:
        return 0, problem or "names have a UTM zone, but neither a zone letter nor a latitude"
    south = side < 0 if side else band < "N"
    if band and south != (band < "N"):
        problem = "names have a zone letter and a latitude on different hemispheres; the latitude was used"
    return int(geodesy.utm_zone_crs(int(zone), south).removeprefix("EPSG:")), problem


def home_zones(easting: Floats, northing: Floats, zone: Ints) -> Ints:
    """For each image the EPSG code of the zone of most images around it; 0 (unknown) stays 0."""
    codes = [code for code in np.unique(zone).tolist() if code]
    if len(codes) < 2:
        return zone.copy()
    latitude, longitude = np.full(len(zone), np.nan), np.full(len(zone), np.nan)
    for code in codes:
        rows = zone == code
        latitude[rows], longitude[rows] = geodesy.unproject(easting[rows], northing[rows], f"EPSG:{code}")
    rows = np.isfinite(latitude) & np.isfinite(longitude)  # coordinates that no zone can hold keep their zone
    region = _regions(latitude[rows], longitude[rows])
    counts = np.zeros((region.max(initial=-1) + 1, len(codes)), dtype=np.int64)
    np.add.at(counts, (region, np.searchsorted(codes, zone[rows])), 1)
    homes = zone.copy()
    homes[rows] = np.array(codes)[counts.argmax(axis=1)][region]
    return homes


def _regions(latitude: Floats, longitude: Floats) -> Ints:
    """The number of each point's region; a region is a chain of touching cells of `CELL_KM` with points in them."""
    phi, theta = np.deg2rad(latitude), np.deg2rad(longitude)
    earth = np.column_stack([np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)])
    cells = np.floor(earth * EARTH_RADIUS_KM / CELL_KM).astype(np.int64) + 512
    numbers, cell_of = np.unique((cells[:, 0] << 20) + (cells[:, 1] << 10) + cells[:, 2], return_inverse=True)
    corners = np.column_stack([numbers >> 20, numbers >> 10 & 1023, numbers & 1023])
    pairs = KDTree(corners).query_pairs(1.8, output_type="ndarray")  # touching cells are at most √3 apart
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(numbers), len(numbers)))
    regions: Ints = connected_components(links, directed=False)[1][cell_of].astype(np.int64)
    return regions
