"""UTM zones: their codes from the fields of a name, and one common zone for points that are near each other."""

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints
from mappable.places import geodesy
from mappable.places.notes import Findings

# Zone letters from south to north; N is the first letter north of the equator.
BANDS = "CDEFGHJKLMNPQRSTUVWX"
EARTH_RADIUS_KM = 6371.0
CELL_KM = 20.0  # points in touching cells of this size count as near each other


def zone_code(zone: str, letter: str, side: float) -> tuple[int, str]:
    """The EPSG code of a zone (0 if unknown), and a problem ("" if none); `side` is the sign of the
    latitude or 0.
    """
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
        problem = (
            "names have a zone letter and a latitude on different hemispheres; the latitude was"
            " used"
        )
    return int(geodesy.utm_zone_crs(int(zone), south).removeprefix("EPSG:")), problem


def crs_of(code: int) -> str:
    return f"EPSG:{code}"


def move(x: Floats, y: Floats, zone: Ints, home: Ints, found: Findings, prefix: str = "") -> None:
    """Convert easting and northing from the zone of each point to its home, in place; the numbers
    are noted.
    """
    for source, target in sorted(
        set(zip(zone[zone != home].tolist(), home[zone != home].tolist(), strict=True))
    ):
        rows = (zone == source) & (home == target)
        x[rows], y[rows] = geodesy.transform(x[rows], y[rows], crs_of(source), crs_of(target))
        old, new = (geodesy.utm_name(crs_of(code)) for code in (source, target))
        text = f"images were converted from {old} to {new}, the zone of the images around them"
        found.say(f"{prefix}{np.count_nonzero(rows):,} {text}", warning=False)


def home_zones(easting: Floats, northing: Floats, zone: Ints) -> Ints:
    """For each image the EPSG code of the zone of most images around it; 0 (unknown) stays 0.

    Images are around each other if a chain of touching cells of `CELL_KM`, with images in all of
    them, joins them.
    """
    codes = [code for code in np.unique(zone).tolist() if code]
    if len(codes) < 2:
        return zone.copy()
    phi, theta = np.full((2, len(zone)), np.nan)  # latitude and longitude in radians
    for code in codes:
        rows = zone == code
        phi[rows], theta[rows] = np.deg2rad(
            geodesy.unproject(easting[rows], northing[rows], crs_of(code))
        )
    # Coordinates that no zone can hold keep their zone.
    rows = np.isfinite(phi) & np.isfinite(theta)
    earth = np.column_stack(
        [np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)]
    )[rows]
    cells, cell_of = np.unique(
        np.floor(earth * EARTH_RADIUS_KM / CELL_KM), axis=0, return_inverse=True
    )
    tree = KDTree(cells)
    touching = tree.sparse_distance_matrix(tree, 1.8)  # touching cells are at most √3 apart
    region = connected_components(touching, directed=False)[1][cell_of.ravel()]
    counts = np.zeros((region.max(initial=-1) + 1, len(codes)), dtype=np.int64)
    np.add.at(counts, (region, np.searchsorted(codes, zone[rows])), 1)
    homes = zone.copy()
    homes[rows] = np.array(codes)[counts.argmax(axis=1)][region]
    return homes
