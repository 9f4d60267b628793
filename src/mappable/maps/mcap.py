"""MCAP recordings with messages of ROS 2, which Foxglove and ROS read; a followed camera as such a recording."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mappable.errors import BadInputError, install_extra, shown
from mappable.files import write_atomically
from mappable.maps.between import spacing_of
from mappable.maps.localizer import Estimate
from mappable.maps.map import Map

POSE_TOPIC, PLACES_TOPIC, ESTIMATE_TOPIC = "/mappable/pose", "/mappable/places", "/mappable/estimate"
POSE = "geometry_msgs/msg/PoseWithCovarianceStamped"
MARKERS, TEXT = "visualization_msgs/msg/MarkerArray", "std_msgs/msg/String"
SPHERE, DELETE_ALL = 2, 3  # kind and action of a marker in ROS
UNKNOWN_HEIGHT = 1e6  # variance in square metres
UNKNOWN_TURN = (2 * np.pi) ** 2 / 12  # variance of an angle that may be any
LARGEST_TIME = 2**31  # seconds; ROS counts them in 32 bits

Message = tuple[str, str, int, Any]  # topic, type, time in nanoseconds, message


def check_mcap(file: Path, landmarks: Map) -> None:
    """Raise if poses on this map cannot be written as MCAP."""
    frame = landmarks.frame
    if file.suffix != ".mcap":
        raise BadInputError(f"{file}: the suffix is {shown(file.suffix)}, expected .mcap")
    if frame.unit != "m":
        raise BadInputError(f"{file}: needs metres, but the unit of frame {shown(frame.name)} is {frame.unit}")
    if find_spec("rosbags") is None:
        raise BadInputError(f"{file}: needs the package rosbags; {install_extra('ros')}")


def export_follow_mcap(file: Path, landmarks: Map, estimates: Sequence[Estimate]) -> None:
    """Write a followed camera: trusted poses, possible places as spheres, and each whole estimate as JSON.

    The volume of a sphere is proportional to the probability of its place.
    """
    check_mcap(file, landmarks)
    late = next((one.time for one in estimates if not 0 <= one.time < LARGEST_TIME), None)
    if late is not None:
        raise BadInputError(f"{file}: a time is {late}, expected seconds from 0 to {LARGEST_TIME:,}")
    size = 2 * spacing_of(landmarks.places.positions) or 1.0
    write_messages(file, [message for one in estimates for message in _messages(one, size)])


def write_messages(file: Path, messages: Iterable[Message]) -> None:
    """Write messages in the order of their times, atomically."""
    from rosbags.rosbag2 import StoragePlugin, Writer

    store, topics = _store(), {}
    with TemporaryDirectory() as folder:
        bag = Path(folder) / "bag"
        with Writer(bag, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
            for topic, kind, stamp, message in sorted(messages, key=lambda one: one[2]):
                if topic not in topics:
                    topics[topic] = writer.add_connection(topic, kind, typestore=store)
                writer.write(topics[topic], stamp, store.serialize_cdr(message, kind))
        content = next(bag.glob("*.mcap")).read_bytes()
    write_atomically(file, lambda stream: stream.write(content))


def pose_message(
    stamp: int,
    frame: str,
    position: Sequence[float],
    covariance: Sequence[Sequence[float]] | None,
    heading: tuple[float, float] | None = None,
) -> Message:
    """A pose with its covariance, and with a heading and its deviation if it is known; all zeros mean unknown in ROS.

    Without a heading, the orientation is that of the map.
    """
    types, whole = _types(), np.zeros((6, 6))
    if covariance is not None:
        whole[:, :] = np.diag([0.0, 0.0, UNKNOWN_HEIGHT, *[UNKNOWN_TURN] * 3])
        whole[: len(position), : len(position)] = covariance
        if heading is not None:
            whole[5, 5] = heading[1] ** 2
    with_covariance = types["PoseWithCovariance"](pose=_pose(position, heading), covariance=whole.ravel())
    return POSE_TOPIC, POSE, stamp, types["PoseWithCovarianceStamped"](_header(stamp, frame), with_covariance)


def _messages(one: Estimate, size: float) -> Iterable[Message]:
    types, stamp = _types(), round(one.time * 1e9)
    if one.trusted:
        known = one.heading is not None and one.heading_deviation is not None
        heading = (float(one.heading or 0), float(one.heading_deviation or 0)) if known else None
        yield pose_message(stamp, one.frame, one.position, one.covariance, heading)
    marks = [_marker(one, stamp, 0, (0.0, 0.0, 0.0), 0.0, DELETE_ALL)]
    for number, place in enumerate(one.places):
        marks.append(_marker(one, stamp, number, place.position, size * float(np.cbrt(place.probability))))
    yield PLACES_TOPIC, MARKERS, stamp, types["MarkerArray"](markers=marks)
    yield ESTIMATE_TOPIC, TEXT, stamp, types["String"](data=json.dumps(asdict(one)))


def _marker(one: Estimate, stamp: int, number: int, at: Sequence[float], size: float, action: int = 0) -> Any:
    types, nothing = _types(), np.empty(0, dtype=np.uint8)
    return types["Marker"](
        header=_header(stamp, one.frame),
        ns="places",
        id=number,
        type=SPHERE,
        action=action,
        pose=_pose(at, None),
        scale=types["Vector3"](x=size, y=size, z=size),
        color=types["ColorRGBA"](r=0.2, g=0.4, b=0.9, a=0.6),
        lifetime=types["Duration"](sec=0, nanosec=0),
        frame_locked=False,
        points=[],
        colors=[],
        texture_resource="",
        texture=types["CompressedImage"](header=_header(stamp, one.frame), format="", data=nothing),
        uv_coordinates=[],
        text=f"{one.places[number].landmark}: {one.places[number].probability:.2f}" if action == 0 else "",
        mesh_resource="",
        mesh_file=types["MeshFile"](filename="", data=nothing),
        mesh_use_embedded_materials=False,
    )


def _pose(position: Sequence[float], heading: tuple[float, float] | None) -> Any:
    types, half = _types(), 0.0 if heading is None else heading[0] / 2
    x, y, z = (*position, 0.0)[:3]
    turn = types["Quaternion"](x=0.0, y=0.0, z=float(np.sin(half)), w=float(np.cos(half)))
    return types["Pose"](position=types["Point"](x=x, y=y, z=z), orientation=turn)


def _header(stamp: int, frame: str) -> Any:
    seconds, rest = divmod(stamp, 10**9)
    return _types()["Header"](stamp=_types()["Time"](sec=seconds, nanosec=rest), frame_id=frame)


@cache
def _store() -> Any:
    from rosbags.typesys import Stores, get_typestore

    return get_typestore(Stores.ROS2_HUMBLE)


@cache
def _types() -> dict[str, Any]:
    return {name.rpartition("/")[2]: made for name, made in _store().types.items()}
