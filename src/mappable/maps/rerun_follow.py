"""Export estimates of a followed camera as a recording for the Rerun viewer: poses, ellipses and possible places."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from mappable.files import write_atomically
from mappable.maps.between import spacing_of
from mappable.maps.localizer import Estimate
from mappable.maps.map import Map
from mappable.maps.rerun_export import BLUE, GRAY, GREEN, IMAGE, ORANGE, TIME, check_rerun, in_space, ring

HELD = 0.95  # probability that an ellipse contains the camera, if the place is right
LEAST_RADIUS, MORE_RADIUS = 3.0, 9.0  # pixels: of a possible place with probability 0, and what probability 1 adds
ARROW = 2.0  # length of the arrow of the heading, in spacings of the landmarks


def export_follow(file: Path, landmarks: Map, estimates: Sequence[Estimate]) -> None:
    """Write a recording atomically."""
    check_rerun(file)
    write_atomically(file, lambda stream: _record(Path(stream.name), landmarks, estimates))


def _record(file: Path, landmarks: Map, estimates: Sequence[Estimate]) -> None:
    import rerun

    stream: Any = rerun.RecordingStream("mappable", recording_id=uuid4())
    stream.save(file)
    stream.set_log_tick_enabled(False)
    stream.set_log_time_enabled(False)
    stream.log("world", rerun.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
    at = in_space(landmarks.places.positions)
    points = rerun.Points3D(at, colors=GRAY, radii=-LEAST_RADIUS, labels=landmarks.places.place_id, show_labels=False)
    stream.log("world/landmarks", points, static=True)
    arrow = ARROW * spacing_of(landmarks.places.positions)
    for number, one in enumerate(estimates):
        stream.set_time(IMAGE, sequence=number)
        stream.set_time(TIME, duration=one.time)
        for entity, what in _shown(rerun, one, arrow).items():
            stream.log(entity, rerun.Clear(recursive=False) if what is None else what)
    stream.flush()
    stream.disconnect()


def _shown(rerun: Any, one: Estimate, arrow: float) -> dict[str, Any]:
    color, center = GREEN if one.trusted else ORANGE, in_space(np.array(one.position))
    shape = np.sqrt(-2 * np.log1p(-HELD)) * np.linalg.cholesky(np.array(one.covariance)[:2, :2])
    places, heading = None, None
    if one.places:
        radii = [-(LEAST_RADIUS + MORE_RADIUS * place.probability) for place in one.places]
        labels = [f"{place.landmark}: {place.probability:.2f}" for place in one.places]
        where = in_space(np.array([place.position for place in one.places]))
        places = rerun.Points3D(where, colors=BLUE, radii=radii, labels=labels, show_labels=False)
    if one.heading is not None:
        toward = arrow * np.array([[np.cos(one.heading), np.sin(one.heading), 0.0]])
        heading = rerun.Arrows3D(origins=center, vectors=toward, colors=color)
    return {
        "world/now/places": places,
        "world/now/estimate": rerun.Points3D(center, colors=color, radii=-6.0),
        "world/now/ellipse": rerun.LineStrips3D([ring(center[0], shape)], colors=color, radii=-1.5),
        "world/now/heading": heading,
        "says": rerun.TextDocument(f"{one.state}\n{one.reason or 'trusted'}"),
        "estimate": rerun.TextDocument(json.dumps(asdict(one))),  # all fields, for programs
        "plots/on_map": rerun.Scalars(one.on_map),
    }
