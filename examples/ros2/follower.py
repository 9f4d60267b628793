"""The logic of the node: images and odometry in, poses to publish out. It needs no ROS."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import atan2, cos, sin

import numpy as np
from numpy.typing import NDArray

from mappable import MappableError
from mappable.localization import Estimate, Localizer, Odometry

INITIAL, GLOBAL = "/initialpose", "/global_pose"
UNKNOWN = 1e6  # variance of what the map does not know: m² or rad²
CHANNELS = {"rgb8": (3, False), "bgr8": (3, True), "rgba8": (4, False), "bgra8": (4, True), "mono8": (1, False)}


@dataclass(frozen=True)
class Pose:
    """The content of a `geometry_msgs/PoseWithCovarianceStamped`."""

    topic: str
    seconds: float
    frame: str
    position: tuple[float, float, float]
    orientation: tuple[float, float, float, float]  # x, y, z, w
    covariance: tuple[float, ...]  # 36 numbers: x, y, z, and rotations about these axes


class Follower:
    """Follows one camera, and stays silent until it is sure.

    Every trusted pose goes to `/global_pose`. The first one after silence also goes to `/initialpose`, where AMCL
    starts.
    """

    def __init__(self, localizer: Localizer, frame: str = "map") -> None:
        self.localizer, self.frame, self.silent = localizer, frame, True
        self._now: tuple[float, float, float] | None = None  # pose by odometry
        self._then: tuple[float, float, float] | None = None  # the same at the last image

    def odometry(self, x: float, y: float, orientation: Sequence[float]) -> None:
        """Take the pose of a `nav_msgs/Odometry`; the orientation is a quaternion x, y, z, w."""
        qx, qy, qz, qw = orientation
        self._now = x, y, atan2(2 * (qw * qz + qx * qy), 1 - 2 * (qy * qy + qz * qz))

    def image(self, pixels: NDArray[np.uint8], seconds: float) -> tuple[Estimate, list[Pose]]:
        """Take an image; return the estimate, and what to publish. Raises `MappableError` if it cannot be used."""
        motion = None if self._now is None or self._then is None else _between(self._then, self._now)
        last = self.localizer.time
        try:
            found = self.localizer.update(pixels, seconds, motion)
        except MappableError:
            if last is None or seconds > last:  # only the image is bad: its odometry counts
                self._then = self._now
            raise
        self._then = self._now
        topics = [] if not found.trusted else [INITIAL, GLOBAL] if self.silent else [GLOBAL]
        self.silent = not found.trusted
        return found, [pose_of(found, topic, self.frame) for topic in topics]


def pixels_of(data: bytes, height: int, width: int, step: int, encoding: str) -> NDArray[np.uint8]:
    """The pixels (height, width, 3) of a `sensor_msgs/Image`."""
    if encoding not in CHANNELS:
        raise ValueError(f"encoding is {encoding!r}, expected {', '.join(CHANNELS)}")
    channels, swapped = CHANNELS[encoding]
    rows = np.frombuffer(data, np.uint8).reshape(height, step)[:, : width * channels]
    pixels = rows.reshape(height, width, channels)[..., : min(channels, 3)]
    pixels = np.repeat(pixels, 3, axis=2) if channels == 1 else pixels[..., ::-1] if swapped else pixels
    return np.ascontiguousarray(pixels)


def pose_of(found: Estimate, topic: str, frame: str) -> Pose:
    """The message of an estimate. Without a heading, the variance of the yaw is large."""
    covariance = np.diag([0.0, 0.0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN])
    axes = len(found.position)
    covariance[:axes, :axes] = found.covariance
    if found.heading_deviation is not None:
        covariance[5, 5] = found.heading_deviation**2
    half = (found.heading or 0.0) / 2
    x, y, z = (*found.position, 0.0)[:3]
    return Pose(
        topic, found.time, frame, (x, y, z), (0.0, 0.0, sin(half), cos(half)), tuple(covariance.ravel().tolist())
    )


def _between(then: tuple[float, float, float], now: tuple[float, float, float]) -> Odometry:
    x, y, turn = now[0] - then[0], now[1] - then[1], now[2] - then[2]
    forward, left = cos(then[2]) * x + sin(then[2]) * y, cos(then[2]) * y - sin(then[2]) * x
    return Odometry(forward, left, atan2(sin(turn), cos(turn)))
