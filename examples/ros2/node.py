"""A ROS 2 node around `follower.py`. Nobody has run it: it was written without a ROS at hand.

python node.py --ros-args -p map:=/srv/map -r image:=/camera/image_raw -r odom:=/odom
"""

import rclpy
from follower import GLOBAL, INITIAL, Follower, Pose, pixels_of
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.time import Time
from sensor_msgs.msg import Image

import mappable


class MappableNode(Node):
    """Subscribes to `image` and `odom`, and publishes poses."""

    def __init__(self) -> None:
        super().__init__("mappable")
        folder = self.declare_parameter("map", "").value
        frame = self.declare_parameter("frame", "map").value
        self.follower = Follower(mappable.Localizer(mappable.open_map(folder)), frame)
        self.topics = {
            topic: self.create_publisher(PoseWithCovarianceStamped, topic, 10) for topic in (INITIAL, GLOBAL)
        }
        self.create_subscription(Image, "image", self.on_image, qos_profile_sensor_data)
        self.create_subscription(Odometry, "odom", self.on_odometry, qos_profile_sensor_data)

    def on_odometry(self, message: Odometry) -> None:
        at, turned = message.pose.pose.position, message.pose.pose.orientation
        self.follower.odometry(at.x, at.y, (turned.x, turned.y, turned.z, turned.w))

    def on_image(self, message: Image) -> None:
        seconds = Time.from_msg(message.header.stamp).nanoseconds / 1e9
        try:
            pixels = pixels_of(bytes(message.data), message.height, message.width, message.step, message.encoding)
            found, poses = self.follower.image(pixels, seconds)
        except (mappable.MappableError, ValueError) as error:
            self.get_logger().warning(str(error))
            return
        self.get_logger().debug(f"{found.state}: {found.reason or 'trusted'}")
        for pose in poses:
            self.topics[pose.topic].publish(as_message(pose, message))


def as_message(pose: Pose, image: Image) -> PoseWithCovarianceStamped:
    message = PoseWithCovarianceStamped()
    message.header.stamp, message.header.frame_id = image.header.stamp, pose.frame
    at, turned = message.pose.pose.position, message.pose.pose.orientation
    at.x, at.y, at.z = pose.position
    turned.x, turned.y, turned.z, turned.w = pose.orientation
    message.pose.covariance = list(pose.covariance)
    return message


if __name__ == "__main__":
    rclpy.init()
    rclpy.spin(MappableNode())
