"""UTM zones by name, and the zone that each point of a set shares with its neighbors."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints
from mappable.places import geodesy

BANDS = "CDEFGHJKLMNPQRSTUVWX"  # zone letters from south to north; N is the first one north of the equator
EARTH_RADIUS = 6371.0  # km
CELL = 20.0  # km; points in touching cells of this size lie beside each other


def zone_code(zone: str, letter: str, side: float) -> tuple[int, str]:
    """The EPSG code, or 0, and what is wrong with a name's zone; `side` is its latitude's sign, 0 if unknown."""
    if not zone:
        return 0, ""
    if not zone.isdecimal() or not 1 <= int(zone) <= 60:
        return 0, "names have a UTM zone that is not 1 to 60"
    band = letter.upper() if len(letter) == 1 and letter.upper() in BANDS else ""
    problem = "names have a zone letter that is none of C to X" if letter and not band else ""
    if not band and not side:
        return 0, problem or "names have a UTM zone, but neither its letter nor a latitude"
    south = side < 0 if side else band < "N"
    if band and south != (band < "N"):
        problem = "names have a zone letter beyond the equator from their latitude, which was believed"
    return int(geodesy.utm_zone_crs(int(zone), south).removeprefix("EPSG:")), problem


def home_zones(easting: Floats, northing: Floats, zone: Ints) -> Ints:
    """For each image the zone of most images around it, as its EPSG code; 0, an unknown zone, stays."""
    codes = [code for code in np.unique(zone).tolist() if code]
    if len(codes) < 2:
        return zone.copy()
    latitude, longitude = np.full(len(zone), np.nan), np.full(len(zone), np.nan)
    for code in codes:
        rows = zone == code
        latitude[rows], longitude[rows] = geodesy.unproject(easting[rows], northing[rows], f"EPSG:{code}")
    rows = np.isfinite(latitude) & np.isfinite(longitude)  # coordinates that no zone can hold stay where they are
    region = _regions(latitude[rows], longitude[rows])
    counts = np.zeros((region.max(initial=-1) + 1, len(codes)), dtype=np.int64)
    np.add.at(counts, (region, np.searchsorted(codes, zone[rows])), 1)
    homes = zone.copy()
    homes[rows] = np.array(codes)[counts.argmax(axis=1)][region]
    return homes


def _regions(latitude: Floats, longitude: Floats) -> Ints:
    """A number for each point, shared by points that a chain of touching cells of `CELL` kilometres joins."""
    phi, theta = np.deg2rad(latitude), np.deg2rad(longitude)
    earth = np.column_stack([np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)])
    cells = np.floor(earth * EARTH_RADIUS / CELL).astype(np.int64) + 512
    numbers, cell_of = np.unique((cells[:, 0] << 20) + (cells[:, 1] << 10) + cells[:, 2], return_inverse=True)
    corners = np.column_stack([numbers >> 20, numbers >> 10 & 1023, numbers & 1023])
    pairs = KDTree(corners).query_pairs(1.8, output_type="ndarray")  # cells that touch are at most √3 apart
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(numbers), len(numbers)))
    regions: Ints = connected_components(links, directed=False)[1][cell_of].astype(np.int64)
    return regions
