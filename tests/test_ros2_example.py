"""The example for ROS 2: its logic, without a ROS; poses are written to a bag and read again."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mappable.localization import Estimate, Odometry

FOUND = Estimate(
    time=12.5,
    state="tracking",
    trusted=True,
    reason="",
    position=(3.0, 4.0),
    covariance=((0.5, 0.1), (0.1, 0.4)),
    heading=1.0,
    heading_deviation=0.1,
    on_map=0.99,
    landmark="a",
    places=(),
    revision="",
    frame="town",
    unit="m",
)


@pytest.fixture
def follower(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "examples" / "ros2"))
    import follower

    yield follower
    del sys.modules["follower"]


class Told:
    """A localizer whose estimates are given: it keeps what it was asked."""

    def __init__(self, *trusted: bool) -> None:
        self.trusted, self.asked, self.time = list(trusted), list[Odometry | None](), 0.0

    def update(self, image: Any, time: float, odometry: Odometry | None) -> Estimate:
        self.asked.append(odometry)
        return replace(FOUND, trusted=self.trusted.pop(0), time=time)


def test_it_is_silent_until_sure_and_gives_one_initial_pose(follower: Any) -> None:
    told = Told(False, True, True, False, True)
    robot = follower.Follower(told)
    topics = [
        [pose.topic for pose in robot.image(np.zeros((2, 2, 3), np.uint8), float(n))[1]]
        for n in range(5)
    ]
    both = ["/initialpose", "/global_pose"]
    assert topics == [[], both, ["/global_pose"], [], both]


def test_odometry_is_the_motion_between_images(follower: Any) -> None:
    told = Told(False, False, False)
    robot = follower.Follower(told)
    pixels = np.zeros((2, 2, 3), np.uint8)
    robot.odometry(1.0, 1.0, (0.0, 0.0, np.sin(np.pi / 4), np.cos(np.pi / 4)))  # looks along +y
    robot.image(pixels, 0.0)
    robot.odometry(1.0, 2.0, (0.0, 0.0, np.sin(np.pi / 4), np.cos(np.pi / 4)))
    robot.odometry(0.5, 3.0, (0.0, 0.0, 1.0, 0.0))
    robot.image(pixels, 1.0)
    assert told.asked[0] is None
    moved = told.asked[1]
    assert moved is not None
    assert (moved.forward, moved.left, moved.turn) == pytest.approx((2.0, 0.5, np.pi / 2))


def test_poses_go_through_a_bag(follower: Any, tmp_path: Path) -> None:
    pytest.importorskip("rosbags", reason="needs rosbags")
    from rosbags.rosbag2 import Reader, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    kinds, name = store.types, "geometry_msgs/msg/PoseWithCovarianceStamped"
    pose = follower.pose_of(FOUND, "/global_pose", "map")
    stamp = kinds["builtin_interfaces/msg/Time"](12, 500_000_000)
    inner = kinds["geometry_msgs/msg/Pose"](
        kinds["geometry_msgs/msg/Point"](*pose.position),
        kinds["geometry_msgs/msg/Quaternion"](*pose.orientation),
    )
    message = kinds[name](
        kinds["std_msgs/msg/Header"](stamp, pose.frame),
        kinds["geometry_msgs/msg/PoseWithCovariance"](inner, np.array(pose.covariance)),
    )
    with Writer(tmp_path / "bag", version=9) as writer:
        connection = writer.add_connection(pose.topic, name, typestore=store)
        writer.write(connection, 12_500_000_000, store.serialize_cdr(message, name))
    with Reader(tmp_path / "bag") as reader:
        ((connection, _, raw),) = reader.messages()
    read: Any = store.deserialize_cdr(raw, connection.msgtype)
    assert (connection.topic, read.header.frame_id) == ("/global_pose", "map")
    assert (read.pose.pose.position.x, read.pose.pose.position.y, read.pose.pose.position.z) == (
        3.0,
        4.0,
        0.0,
    )
    turned = read.pose.pose.orientation
    assert 2 * np.arctan2(turned.z, turned.w) == pytest.approx(1.0)
    covariance = read.pose.covariance.reshape(6, 6)
    np.testing.assert_allclose(covariance[:2, :2], FOUND.covariance)
    assert covariance[5, 5] == pytest.approx(0.01)
    assert (np.linalg.eigvalsh(covariance) > 0).all()
    without = follower.pose_of(
        replace(FOUND, heading=None, heading_deviation=None), "/global_pose", "map"
    )
    assert without.covariance[35] == 1e6
