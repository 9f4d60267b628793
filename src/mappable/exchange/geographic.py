"""Positions on Earth with their ellipses: GeoJSON, and KML for Google Earth."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from mappable.errors import shown
from mappable.exchange.poses import Pose, Poses
from mappable.files import write_text
from mappable.places.frames import Frame

RING = 48  # points of an ellipse
KML = "http://www.opengis.net/kml/2.2"
COLORS = {"trusted": "ff5abe3c", "doubtful": "ff2896f0"}  # opacity, blue, green, red
SIMPLE = (str, int, float, bool, type(None))  # values that become properties


def check_georeferenced(poses: Poses) -> str | None:
    """Why positions on this map have no latitude and longitude; None if they have."""
    frame = poses.frame
    return (
        None
        if frame.crs
        else f"needs latitude and longitude, but frame {shown(frame.name)} is not georeferenced"
    )


def write_geojson(file: Path, poses: Poses) -> int:
    """Write a point per located image, and its ellipse. All simple fields of the image are
    properties of both.
    """
    frame, features = poses.frame, []
    for _, pose in poses.located:
        facts = {name: value for name, value in pose.record.items() if isinstance(value, SIMPLE)}
        shapes: dict[str, dict[str, Any]] = {
            "position": {"type": "Point", "coordinates": _degrees(frame, pose)[0]}
        }
        if pose.ellipse is not None:
            shapes["ellipse"] = {"type": "Polygon", "coordinates": [_ring(frame, pose)]}
        for kind, shape in shapes.items():
            features.append(
                {"type": "Feature", "geometry": shape, "properties": {"kind": kind} | facts}
            )
    write_text(file, json.dumps({"type": "FeatureCollection", "features": features}) + "\n")
    return len(poses.located)


def write_kml(file: Path, poses: Poses) -> int:
    """Write a placemark per located image: its position and its ellipse, green if it is trusted,
    else orange.
    """
    frame = poses.frame
    root = ElementTree.Element("kml", xmlns=KML)
    document = _child(root, "Document")
    _child(document, "name", file.stem)
    for name, color in COLORS.items():
        style = ElementTree.SubElement(document, "Style", id=name)
        _child(_child(style, "IconStyle"), "color", color)
        _child(_child(style, "LineStyle"), "color", color)
        _child(_child(style, "PolyStyle"), "color", "40" + color[2:])
    for _, pose in poses.located:
        mark = _child(document, "Placemark")
        _child(mark, "name", pose.name)
        _child(mark, "description", pose.reason)
        _child(mark, "styleUrl", "#trusted" if pose.trusted else "#doubtful")
        shapes = _child(mark, "MultiGeometry")
        _child(_child(shapes, "Point"), "coordinates", _pairs(_degrees(frame, pose)))
        if pose.ellipse is not None:
            edge = _child(_child(_child(shapes, "Polygon"), "outerBoundaryIs"), "LinearRing")
            _child(edge, "coordinates", _pairs(_ring(frame, pose)))
    text = ElementTree.tostring(root, encoding="unicode")
    write_text(file, f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n')
    return len(poses.located)


def _ring(frame: Frame, pose: Pose) -> list[list[float]]:
    """The ellipse of a pose, counter-clockwise and closed."""
    angles = np.linspace(0.0, 2 * np.pi, RING, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    points = _degrees(frame, pose, circle @ np.asarray(pose.ellipse).T)
    return [*points, points[0]]


def _degrees(frame: Frame, pose: Pose, offsets: Any = ((0.0, 0.0),)) -> list[list[float]]:
    """Longitude and latitude of points at `offsets` (n, 2) from a pose, to 0.1 mm."""
    latitude, longitude = frame.to_latlon(np.array(pose.xyz[:2]) + np.asarray(offsets))
    # No jump at the 180th meridian.
    longitude = longitude[0] + (longitude - longitude[0] + 180) % 360 - 180
    return np.column_stack([longitude, latitude]).round(9).tolist()  # type: ignore[no-any-return]


def _pairs(points: list[list[float]]) -> str:
    return " ".join(f"{east},{north}" for east, north in points)


def _child(parent: ElementTree.Element, name: str, text: str = "") -> ElementTree.Element:
    child = ElementTree.SubElement(parent, name)
    child.text = text or None
    return child
