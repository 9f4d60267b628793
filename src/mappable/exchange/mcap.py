"""MCAP recordings with messages of ROS 2, which Foxglove and ROS read."""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mappable.errors import BadInputError, install_extra, shown
from mappable.exchange.poses import Pose, Poses
from mappable.files import write_atomically

POSE_TOPIC, RECORD_TOPIC = "/mappable/pose", "/mappable/estimate"
POSE = "geometry_msgs/msg/PoseWithCovarianceStamped"
TEXT = "std_msgs/msg/String"
UNKNOWN_HEIGHT = 1e6  # variance in square metres
UNKNOWN_TURN = (2 * np.pi) ** 2 / 12  # variance of an angle that may be any
LARGEST_TIME = 2**31  # seconds; ROS counts them in 32 bits

Message = tuple[str, str, int, Any]  # topic, type, time in nanoseconds, message


def check_mcap(poses: Poses) -> str | None:
    """Why poses on this map cannot be written as MCAP; None if they can."""
    frame = poses.frame
    if frame.unit != "m":
        return f"needs metres, but the unit of frame {shown(frame.name)} is {frame.unit}"
    if find_spec("rosbags") is None:
        return f"needs the package rosbags; {install_extra('ros')}"
    return None


def write_mcap(file: Path, poses: Poses) -> int:
    """Write trusted poses, and all fields of each image as JSON."""
    late = next((stamp for stamp in poses.stamps if not 0 <= stamp < LARGEST_TIME * 10**9), None)
    if late is not None:
        raise BadInputError(
            f"{file}: a time is {late / 1e9}, expected seconds from 0 to {LARGEST_TIME:,}"
        )
    frame = poses.frame.name
    messages = [_pose_message(poses.stamps[number], frame, pose) for number, pose in poses.trusted]
    for stamp, pose in zip(poses.stamps, poses.poses, strict=True):
        messages.append(
            (RECORD_TOPIC, TEXT, stamp, _types()["String"](data=json.dumps(pose.record)))
        )
    _write_messages(file, messages)
    return len(poses.trusted)


def _write_messages(file: Path, messages: Iterable[Message]) -> None:
    """Write messages in the order of their times, atomically."""
    from rosbags.rosbag2 import StoragePlugin, Writer

    store, topics = _store(), {}
    with TemporaryDirectory() as folder:
        bag = Path(folder) / "bag"
        with Writer(bag, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
            for topic, kind, stamp, message in sorted(messages, key=lambda message: message[2]):
                if topic not in topics:
                    topics[topic] = writer.add_connection(topic, kind, typestore=store)
                writer.write(topics[topic], stamp, store.serialize_cdr(message, kind))
        content = next(bag.glob("*.mcap")).read_bytes()
    write_atomically(file, lambda stream: stream.write(content))


def _pose_message(stamp: int, frame: str, pose: Pose) -> Message:
    """A pose with its covariance, and its heading if it is known. All zeros mean an unknown
    covariance in ROS.

    Without a heading, the orientation is that of the map.
    """
    types, whole = _types(), np.zeros((6, 6))
    turn = None if pose.heading_deviation is None else pose.heading
    if pose.covariance is not None:
        size = len(pose.covariance)
        whole[:, :] = np.diag([0.0, 0.0, UNKNOWN_HEIGHT, *[UNKNOWN_TURN] * 3])
        whole[:size, :size] = pose.covariance
        if turn is not None:
            whole[5, 5] = float(pose.heading_deviation or 0) ** 2
    with_covariance = types["PoseWithCovariance"](
        pose=_pose(pose.xyz, turn or 0.0), covariance=whole.ravel()
    )
    return (
        POSE_TOPIC,
        POSE,
        stamp,
        types["PoseWithCovarianceStamped"](_header(stamp, frame), with_covariance),
    )


def _pose(position: Sequence[float], turn: float) -> Any:
    types, half = _types(), turn / 2
    x, y, z = (*position, 0.0)[:3]
    orientation = types["Quaternion"](x=0.0, y=0.0, z=float(np.sin(half)), w=float(np.cos(half)))
    return types["Pose"](position=types["Point"](x=x, y=y, z=z), orientation=orientation)


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
