"""Bags written by the writers of rosbags, for tests of the reader and for fuzzing."""

import io
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

Kind = Literal["ros1", "sqlite3", "mcap"]
START = 1_700_000_000 * 10**9
TF = "tf2_msgs/msg/TFMessage"


@cache
def _typestore(is_ros1: bool) -> Any:
    store = get_typestore(Stores.ROS1_NOETIC if is_ros1 else Stores.ROS2_HUMBLE)
    if TF not in store.fielddefs:
        store.register(get_types_from_msg("geometry_msgs/TransformStamped[] transforms", TF))
    return store


class BagWriter:
    """Messages for one bag; `write` writes it as ROS 1, or as ROS 2 with one of its two storages."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.store = _typestore(kind == "ros1")
        self.messages: list[tuple[int, str, Any]] = []

    def make(self, name: str, **fields: Any) -> Any:
        return self.store.types[name](**fields)

    def header(self, time: int, frame: str) -> Any:
        stamp = self.make("builtin_interfaces/msg/Time", sec=time // 10**9, nanosec=time % 10**9)
        extra = {"seq": 0} if self.kind == "ros1" else {}
        return self.make("std_msgs/msg/Header", stamp=stamp, frame_id=frame, **extra)

    def add(self, topic: str, time: int, message: Any) -> None:
        self.messages.append((time, topic, message))

    def point(self, x: float, y: float, z: float, kind: str = "Point") -> Any:
        return self.make(f"geometry_msgs/msg/{kind}", x=float(x), y=float(y), z=float(z))

    def quaternion(self, values: Iterable[float]) -> Any:
        x, y, z, w = (float(value) for value in values)
        return self.make("geometry_msgs/msg/Quaternion", x=x, y=y, z=z, w=w)

    def pose(self, position: Iterable[float], turn: Iterable[float] = (0, 0, 0, 1)) -> Any:
        return self.make(
            "geometry_msgs/msg/Pose",
            position=self.point(*position),
            orientation=self.quaternion(turn),
        )

    def add_pose(
        self, topic: str, time: int, position: Iterable[float], turn: Iterable[float] = (0, 0, 0, 1)
    ) -> None:
        message = self.make(
            "geometry_msgs/msg/PoseStamped",
            header=self.header(time, "map"),
            pose=self.pose(position, turn),
        )
        self.add(topic, time, message)

    def add_odometry(
        self,
        topic: str,
        time: int,
        position: Iterable[float],
        turn: Iterable[float] = (0, 0, 0, 1),
        variance: float = 0,
    ) -> None:
        covariance = np.diag(np.full(6, variance)).ravel()
        still = self.make(
            "geometry_msgs/msg/Twist",
            linear=self.point(0, 0, 0, "Vector3"),
            angular=self.point(0, 0, 0, "Vector3"),
        )
        pose = self.make(
            "geometry_msgs/msg/PoseWithCovariance",
            pose=self.pose(position, turn),
            covariance=covariance,
        )
        twist = self.make(
            "geometry_msgs/msg/TwistWithCovariance", twist=still, covariance=np.zeros(36)
        )
        fields = {
            "header": self.header(time, "odom"),
            "child_frame_id": "base_link",
            "pose": pose,
            "twist": twist,
        }
        self.add(topic, time, self.make("nav_msgs/msg/Odometry", **fields))

    def add_fix(
        self, topic: str, time: int, latitude: float, longitude: float, status: int = 0
    ) -> None:
        fields = {
            "header": self.header(time, "gps"),
            "status": self.make("sensor_msgs/msg/NavSatStatus", status=status, service=1),
            "latitude": latitude,
            "longitude": longitude,
            "altitude": 12.5,
            "position_covariance": np.zeros(9),
            "position_covariance_type": 0,
        }
        self.add(topic, time, self.make("sensor_msgs/msg/NavSatFix", **fields))

    def add_transform(
        self,
        time: int,
        parent: str,
        child: str,
        shift: Iterable[float],
        turn: Iterable[float],
        topic: str = "/tf_static",
    ) -> None:
        transform = self.make(
            "geometry_msgs/msg/Transform",
            translation=self.point(*shift, "Vector3"),
            rotation=self.quaternion(turn),
        )
        fields = {
            "header": self.header(time, parent),
            "child_frame_id": child,
            "transform": transform,
        }
        link = self.make("geometry_msgs/msg/TransformStamped", **fields)
        self.add(topic, time, self.make(TF, transforms=[link]))

    def add_image(
        self,
        topic: str,
        time: int,
        data: bytes | np.ndarray[Any, Any],
        encoding: str,
        size: tuple[int, int],
        step: int | None = None,
        stamp: int | None = None,
        frame: str = "camera_optical",
    ) -> None:
        fields = {
            "header": self.header(time if stamp is None else stamp, frame),
            "height": size[1],
            "width": size[0],
            "encoding": encoding,
            "is_bigendian": 0,
            "step": step or len(np.frombuffer(data, np.uint8)) // max(1, size[1]),
            "data": np.frombuffer(data, np.uint8),
        }
        self.add(topic, time, self.make("sensor_msgs/msg/Image", **fields))

    def add_compressed(
        self, topic: str, time: int, pixels: np.ndarray[Any, Any], kind: str = "JPEG"
    ) -> bytes:
        packed = io.BytesIO()
        Image.fromarray(pixels).save(packed, kind)
        self.add_bytes(topic, time, packed.getvalue(), kind.lower())
        return packed.getvalue()

    def add_bytes(self, topic: str, time: int, data: bytes, name: str) -> None:
        fields = {
            "header": self.header(time, "camera_optical"),
            "format": name,
            "data": np.frombuffer(data, np.uint8),
        }
        self.add(topic, time, self.make("sensor_msgs/msg/CompressedImage", **fields))

    def add_camera_info(
        self,
        topic: str,
        time: int,
        size: tuple[int, int],
        focal: float,
        bent: Iterable[float],
        model: str = "plumb_bob",
    ) -> None:
        matrix = np.array([focal, 0, size[0] / 2, 0, focal, size[1] / 2, 0, 0, 1.0])
        region = self.make(
            "sensor_msgs/msg/RegionOfInterest",
            x_offset=0,
            y_offset=0,
            height=0,
            width=0,
            do_rectify=False,
        )
        fields = {
            "D": np.array([*bent], dtype=float),
            "K": matrix,
            "R": np.eye(3).ravel(),
            "P": np.zeros(12),
        }
        fields = (
            fields
            if self.kind == "ros1"
            else {name.lower(): value for name, value in fields.items()}
        )
        message = self.make(
            "sensor_msgs/msg/CameraInfo",
            header=self.header(time, "camera_optical"),
            height=size[1],
            width=size[0],
            distortion_model=model,
            binning_x=0,
            binning_y=0,
            roi=region,
            **fields,
        )
        self.add(topic, time, message)

    def write(self, folder: Path, name: str) -> Path:
        """Write the bag; ROS 2 bags are folders."""
        pack: Callable[[Any, str], Any] = (
            self.store.serialize_ros1 if self.kind == "ros1" else self.store.serialize_cdr
        )
        target = folder / (f"{name}.bag" if self.kind == "ros1" else name)
        folder.mkdir(parents=True, exist_ok=True)
        if self.kind == "ros1":
            writer: Any = Writer1(target)
        else:
            plugin = StoragePlugin.MCAP if self.kind == "mcap" else StoragePlugin.SQLITE3
            writer = Writer2(target, version=9, storage_plugin=plugin)
        with writer:
            connections: dict[str, Any] = {}
            for time, topic, message in self.messages:
                kind = type(message).__msgtype__
                if topic not in connections:
                    connections[topic] = writer.add_connection(topic, kind, typestore=self.store)
                writer.write(connections[topic], time, bytes(pack(message, kind)))
        return target


def noise(seed: int, size: tuple[int, int] = (32, 24)) -> np.ndarray[Any, Any]:
    """A picture of soft colors."""
    small = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize(size, Image.Resampling.BICUBIC))
