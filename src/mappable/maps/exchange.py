"""Positions of located images for other programs, by the name of the file: GeoJSON, KML, COLMAP, kapture or MCAP.

MCAP has the heading of an image, if the map knows it. In kapture, all images have the same rotation.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist
from xml.etree import ElementTree

import numpy as np

from mappable.errors import BadInputError, listed, shown
from mappable.files import write_text, written_together
from mappable.maps.export import ellipse_shape, trusted
from mappable.maps.location import Location, Outcome
from mappable.maps.map import Map
from mappable.maps.mcap import check_mcap, pose_message, write_messages
from mappable.places.table import NO_TIME, Places

RING = 48  # points of an ellipse
KAPTURE = "# kapture format: 1.1\n"
KAPTURE_FILES = ("sensors.txt", "records_camera.txt", "trajectories.txt")
KML = "http://www.opengis.net/kml/2.2"


def exported_files(file: Path) -> list[Path]:
    """The files that `export` writes: the file itself, or those of a folder of kapture."""
    return [file / "sensors" / name for name in KAPTURE_FILES] if file.suffix == ".kapture" else [file]


def check_export(file: Path, landmarks: Map, places: Places) -> None:
    """Raise, before images are located, if `export` cannot write this file."""
    frame, suffix = landmarks.frame, file.suffix
    if suffix not in WRITERS:
        raise BadInputError(f"{file}: the suffix is {shown(suffix)}, expected one of: {listed(WRITERS)}")
    if suffix in (".geojson", ".kml") and not frame.crs:
        raise BadInputError(f"{file}: needs latitude and longitude, but frame {shown(frame.name)} is not georeferenced")
    if suffix == ".mcap":
        check_mcap(file, landmarks)
    for path in places.path:
        if (suffix == ".txt" and len(path.split()) != 1) or (suffix == ".kapture" and "," in path):
            sign = "space" if suffix == ".txt" else "comma"
            raise BadInputError(f"{file}: cannot contain the path {path!r} with a {sign}; rename the file or folder")


def export(file: Path, landmarks: Map, places: Places, found: Sequence[Outcome]) -> int:
    """Write the positions in the format of the suffix, and return their number.

    GeoJSON and KML hold all located images, and say which are confident. The other formats hold only those that
    `trusted` lists.
    """
    check_export(file, landmarks, places)
    return WRITERS[file.suffix](file, landmarks, places, found)


def _geojson(file: Path, landmarks: Map, places: Places, found: Sequence[Outcome]) -> int:
    features, count = [], 0
    for one in found:
        if not isinstance(one, Location):
            continue
        count += 1
        facts = {
            "image": one.image,
            "confident": one.confident,
            "reason": one.reason,
            "landmark": one.landmark,
            "distance": one.distance,
            "low": one.low,
            "high": one.high,
        }
        point = {"type": "Point", "coordinates": [_degrees(one.longitude), _degrees(one.latitude)]}
        features.append({"type": "Feature", "geometry": point, "properties": {"kind": "position"} | facts})
        ring = _ring(landmarks, one)
        if ring:
            area = {"type": "Polygon", "coordinates": [ring]}
            features.append({"type": "Feature", "geometry": area, "properties": {"kind": "ellipse"} | facts})
    write_text(file, json.dumps({"type": "FeatureCollection", "features": features}) + "\n")
    return count


def _kml(file: Path, landmarks: Map, places: Places, found: Sequence[Outcome]) -> int:
    root = ElementTree.Element("kml", xmlns=KML)
    document = _child(root, "Document")
    _child(document, "name", file.stem)
    for name, color in (("confident", "ff5abe3c"), ("doubtful", "ff2896f0")):  # opacity, blue, green, red
        style = ElementTree.SubElement(document, "Style", id=name)
        _child(_child(style, "IconStyle"), "color", color)
        _child(_child(style, "LineStyle"), "color", color)
        _child(_child(style, "PolyStyle"), "color", "40" + color[2:])
    located = [one for one in found if isinstance(one, Location)]
    for one in located:
        mark = _child(document, "Placemark")
        _child(mark, "name", one.image)
        distance = "" if one.distance is None else f"{one.distance:.1f} m from landmark {one.landmark}"
        _child(mark, "description", "; ".join(text for text in (one.reason, distance) if text))
        _child(mark, "styleUrl", "#confident" if one.confident else "#doubtful")
        shapes = _child(mark, "MultiGeometry")
        position = f"{_degrees(one.longitude)},{_degrees(one.latitude)}"
        _child(_child(shapes, "Point"), "coordinates", position)
        ring = _ring(landmarks, one)
        if ring:
            edge = _child(_child(_child(shapes, "Polygon"), "outerBoundaryIs"), "LinearRing")
            _child(edge, "coordinates", " ".join(f"{east},{north}" for east, north in ring))
    text = ElementTree.tostring(root, encoding="unicode")
    write_text(file, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n')
    return len(located)


def _colmap(file: Path, landmarks: Map, places: Places, found: Sequence[Outcome]) -> int:
    """`image x y z`, then the upper triangle of the covariance, row by row, which COLMAP skips."""
    lines = []
    for row, one in trusted(found):
        numbers = [*_xyz(one)]
        if one.covariance is not None:
            numbers += np.array(one.covariance)[np.triu_indices(len(one.coordinates))].tolist()
        lines.append(" ".join([places.path[row], *(f"{number:.6f}" for number in numbers)]) + "\n")
    write_text(file, "".join(lines))
    return len(lines)


def _kapture(file: Path, landmarks: Map, places: Places, found: Sequence[Outcome]) -> int:
    devices = [name.replace(",", "_") or "camera" for name in places.sequence]
    stamps = _stamps(places)
    if len(set(zip(stamps, devices, strict=True))) < len(stamps):  # cameras that took images at the same time
        stamps = list(range(len(places)))
    sensors = [f"{name}, , camera, UNKNOWN_CAMERA, 0, 0\n" for name in sorted(set(devices))]
    records = [f"{stamps[row]}, {devices[row]}, {path}\n" for row, path in enumerate(places.path)]
    poses = []
    for row, one in trusted(found):
        x, y, z = (f"{-value + 0.0:.6f}" for value in _xyz(one))  # from world to camera
        poses.append(f"{stamps[row]}, {devices[row]}, 1, 0, 0, 0, {x}, {y}, {z}\n")
    parts = {
        "# sensor_id, name, sensor_type, [sensor_params]+\n": sensors,
        "# timestamp, device_id, image_path\n": records,
        "# timestamp, device_id, qw, qx, qy, qz, tx, ty, tz\n": poses,
    }
    with written_together(*exported_files(file)) as names:
        for name, (columns, lines) in zip(names, parts.items(), strict=True):
            name.write_text("".join([KAPTURE, columns, *lines]), encoding="utf-8")
    return len(poses)


def _mcap(file: Path, landmarks: Map, places: Places, found: Sequence[Outcome]) -> int:
    stamps, rows = _stamps(places), trusted(found)
    if (places.time == NO_TIME).any():
        stamps = [second * 10**9 for second in stamps]
    name = landmarks.frame.name
    write_messages(
        file, [pose_message(stamps[row], name, one.coordinates, one.covariance, _heading(one)) for row, one in rows]
    )
    return len(rows)


def _heading(one: Location) -> tuple[float, float] | None:
    """The heading and its standard deviation, in radians; None if unknown."""
    if one.heading is None or one.heading_error is None or one.coverage is None:
        return None
    return one.heading, one.heading_error / NormalDist().inv_cdf((1 + one.coverage) / 2)


def _stamps(places: Places) -> list[int]:
    """The times of the images in nanoseconds; their numbers if a time is missing."""
    known = (places.time != NO_TIME).all()
    return [int(time) for time in places.time] if known else list(range(len(places)))


def _xyz(one: Location) -> tuple[float, ...]:
    return (*one.coordinates, 0.0)[:3]


def _ring(landmarks: Map, one: Location) -> list[list[float]]:
    """The ellipse of a position in degrees, longitude first: counter-clockwise and closed; empty if unknown."""
    shape = ellipse_shape(landmarks, one)
    if shape is None:
        return []
    angles = np.linspace(0.0, 2 * np.pi, RING, endpoint=False)
    around = np.array(one.coordinates[:2]) + np.column_stack([np.cos(angles), np.sin(angles)]) @ shape.T
    latitude, longitude = landmarks.frame.to_latlon(around)
    middle = one.longitude or 0.0
    longitude = middle + (longitude - middle + 180) % 360 - 180  # no jump at the 180th meridian
    points = [[_degrees(east), _degrees(north)] for east, north in zip(longitude, latitude, strict=True)]
    return [*points, points[0]]


def _degrees(value: float | None) -> float:
    return round(float(value if value is not None else np.nan), 9)  # 0.1 mm


def _child(parent: ElementTree.Element, name: str, text: str = "") -> ElementTree.Element:
    child = ElementTree.SubElement(parent, name)
    child.text = text or None
    return child


WRITERS: dict[str, Callable[[Path, Map, Places, Sequence[Outcome]], int]] = {
    ".geojson": _geojson,
    ".kml": _kml,
    ".txt": _colmap,
    ".kapture": _kapture,
    ".mcap": _mcap,
}
