"""One pass over a bag: times of images, positions, transforms, the lens and odometry."""

import hashlib
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.places.lenses import Lens
from mappable.places.notes import Findings
from mappable.places.odometry import RecordedOdometry
from mappable.places.rotations import AXES
from mappable.readers import bags
from mappable.readers.bags import Bag, Topic
from mappable.readers.ros_images import compressed_suffix
from mappable.readers.toolkit import TOLERANCE, naming_lens, unknown
from mappable.readers.tracks import Track, rising
from mappable.readers.transforms import Transform, TransformTree

UNKNOWN = (np.nan,) * 4
# time; position, quaternion x y z w, and covariance xx xy yy yaw.
Row = tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Samples:
    """The poses of one topic: times (ns), and their numbers (n, 11) as in `Row`; NaN if unknown.

    `number` is the number of each message in its topic.
    """

    time: Ints
    values: Floats
    number: Ints

    @classmethod
    def of(cls, rows: list[Row]) -> "Samples":
        values = np.array([row[1] for row in rows], dtype=np.float64).reshape(-1, 11)
        return cls(np.array([row[0] for row in rows], dtype=np.int64), values, np.arange(len(rows)))

    def __getitem__(self, rows: Ints | Bools) -> "Samples":
        return Samples(self.time[rows], self.values[rows], self.number[rows])

    @property
    def xyz(self) -> Floats:
        return self.values[:, :3]

    @property
    def turns(self) -> Floats:
        return self.values[:, 3:7]

    @property
    def is_pose(self) -> Bools:
        """Mask of the samples with a finite position and a unit quaternion."""
        lengths = np.linalg.norm(self.turns, axis=1)
        good: Bools = np.isfinite(self.xyz[:, :2]).all(axis=1) & (np.abs(lengths - 1) < TOLERANCE)
        return good

    def rising(self) -> "Samples":
        """The samples with a pose, in strictly increasing time."""
        good = self[self.is_pose]
        return good[rising(good.time)[0]] if len(good.time) else good

    def odometry(self) -> RecordedOdometry:
        steps = self.rising()
        forward = (
            Rotation.from_quat(steps.turns).apply(AXES["x"])
            if len(steps.time)
            else np.empty((0, 3))
        )
        yaw = np.arctan2(forward[:, 1], forward[:, 0])
        return RecordedOdometry(
            steps.time, np.column_stack([steps.xyz[:, :2], yaw]), steps.values[:, 7:]
        )


@dataclass(frozen=True)
class BagLog:
    """What a first pass over a bag found: images, poses, transforms, the lens and odometry.

    `message` is the number of each image in its topic, `child` the coordinate frame whose poses are
    the samples.
    """

    file: Path
    images: Topic
    poses: Topic
    message: Ints
    time: Ints
    suffixes: list[str]
    camera: str
    samples: Samples
    child: str
    odometry: Topic | None
    steps: Samples
    tree: TransformTree
    lens: Lens | None
    digest: Any

    @property
    def names(self) -> list[str]:
        return [str(time) for time in self.time.tolist()]


def scan(
    bag: Bag,
    image_topic: str | None,
    pose_topic: str | None,
    odometry: str | None,
    found: Findings,
    world: str = "map",
    body: str = "base_link",
) -> BagLog:
    """Read the messages of the chosen topics, in their order; what is odd is noted.

    If the pose topic is one of transforms, the positions are those of `body` in `world`.
    """
    images = bag.find(bags.IMAGES, image_topic, "image")
    poses = bag.find(
        bags.POSES if pose_topic is None else (*bags.POSES, *bags.TRANSFORMS), pose_topic, "pose"
    )
    others = (
        topic
        for topic in (poses, *bag.topics.values())
        if topic.type == bags.ODOMETRY and topic.count
    )
    steps = bag.find((bags.ODOMETRY,), odometry, "odometry") if odometry else next(others, None)
    info = bag.topics.get(
        f"{images.name.removesuffix('/compressed').rpartition('/')[0]}/camera_info"
    )
    lens_topics = [info] if info and info.type == bags.CAMERA_INFO else []
    trees = [topic for topic in bag.topics.values() if topic.type in bags.TRANSFORMS]
    chosen = {topic.name: topic for topic in (images, poses, steps, *lens_topics, *trees) if topic}
    rows: dict[str, list[Row]] = defaultdict(list)
    moving: dict[str, list[Row]] = defaultdict(list)
    times, suffixes, unstamped = list[int](), list[str](), list[str]()
    tree, lens, camera, child = TransformTree(), None, "", ""
    digest = hashlib.sha256(images.name.encode())
    for topic, number, recorded, data in bag.messages(chosen.values()):
        if topic in lens_topics and lens is not None:
            continue
        message = bag.parse(topic, data, number)
        if topic is images:
            time = _stamp(message) or recorded
            unstamped += [] if _stamp(message) else [f"{bag.file.name}/{number}"]
            times.append(time)
            suffixes.append((topic.type == bags.IMAGES[1] and compressed_suffix(message)) or ".jpg")
            camera = camera or str(message.header.frame_id).lstrip("/")
            digest.update(f"{time} {len(data)}\n".encode())
        elif topic in lens_topics:
            lens = _lens(bag, topic, message)
        elif topic in trees:
            for link in message.transforms:
                parent, name, pose = (
                    link.header.frame_id.lstrip("/"),
                    link.child_frame_id.lstrip("/"),
                    _values(link),
                )
                if not abs(math.hypot(*pose[3:7]) - 1) < TOLERANCE or not math.isfinite(
                    sum(pose[:3])
                ):
                    continue
                if name not in tree.joints:
                    tree.add(
                        parent, name, Transform(Rotation.from_quat(pose[3:7]), np.array(pose[:3]))
                    )
                if topic is poses:
                    moving[name].append((_stamp(link) or recorded, pose))
        else:
            rows[topic.name].append((_stamp(message) or recorded, _values(message)))
            child = child or (
                str(getattr(message, "child_frame_id", "")).lstrip("/") if topic is poses else ""
            )
    if not times:
        raise BadInputError(f"{bag.file}, topic {images.name}: no messages")
    found.note("images have no time in their header; the time of recording was used", unstamped)
    moments = np.array(times, dtype=np.int64)
    kept, late, again = rising(moments)
    found.note(
        "images were out of time order and were sorted", (f"{bag.file.name}/{row}" for row in late)
    )
    found.note(
        "images have the time of another (left out)", (f"{bag.file.name}/{row}" for row in again)
    )
    samples = Samples.of(rows[poses.name])
    if poses in trees:
        where = f"{bag.file}, topic {poses.name}"
        samples, child = _from_tree(where, tree, moving, world.lstrip("/"), body.lstrip("/")), body
    return BagLog(
        file=bag.file,
        images=images,
        poses=poses,
        message=kept,
        time=moments[kept],
        suffixes=[suffixes[row] for row in kept],
        camera=camera,
        samples=samples,
        child=child,
        odometry=steps,
        steps=Samples.of(rows[steps.name] if steps else []),
        tree=tree,
        lens=lens,
        digest=digest,
    )


def _from_tree(
    where: str, tree: TransformTree, moving: dict[str, list[Row]], world: str, body: str
) -> Samples:
    """The poses of `body` in `world`, at the times of the first moving link above the body."""
    chain, name = list[str](), body
    while name != world:
        if name in chain:
            raise BadInputError(f"{where}: the transforms above {body} form a circle at {name}")
        if name not in tree.links:
            known = ", ".join(sorted(tree.links)[:20]) or "none"
            raise BadInputError(
                f"{where}: the transforms do not lead from {body} to {world}; they have {known}"
            )
        chain.append(name)
        name = tree.links[name][0]
    links = {name: Samples.of(moving[name]).rising() for name in chain if name in moving}
    if not links:
        raise BadInputError(f"{where}: {body} does not move in {world}")
    time = next(iter(links.values())).time
    time = time[time >= max(link.time[0] for link in links.values())]
    if not len(time):
        raise BadInputError(f"{where}: {body} moves only before a link above it is known")
    pose = Transform(Rotation.identity(), np.zeros(3))
    for name in chain:
        step = tree.links[name][1]
        if name in links:
            link = links[name]
            at = Track(
                link.time, link.xyz, unknown(len(link.time)), Rotation.from_quat(link.turns)
            ).at(time)
            step = Transform(at.turns, at.xyz)
        pose = step @ pose
    values = np.column_stack([pose.shift, pose.turn.as_quat(), np.full((len(time), 4), np.nan)])
    return Samples(time, values, np.arange(len(time)))


def _stamp(message: Any) -> int:
    """The time of a message in ns; 0 if its header has none."""
    return max(0, int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec))


def _values(message: Any) -> tuple[float, ...]:
    """Position, quaternion and covariance of a message with a position."""
    if hasattr(message, "latitude"):
        fixed = message.status.status >= 0  # -1: no fix
        xyz = (message.longitude, message.latitude, message.altitude) if fixed else (np.nan,) * 3
        return *xyz, *UNKNOWN, *UNKNOWN
    if hasattr(message, "point"):
        return message.point.x, message.point.y, message.point.z, *UNKNOWN, *UNKNOWN
    covariance: tuple[float, ...] = UNKNOWN
    if hasattr(message, "transform"):
        shift, turn = message.transform.translation, message.transform.rotation
    else:
        stated = getattr(message.pose, "covariance", None)
        pose = message.pose if stated is None else message.pose.pose
        shift, turn = pose.position, pose.orientation
        if stated is not None and np.isfinite(stated).all() and stated[0] > 0:  # zeros mean unknown
            covariance = stated[0], stated[1], stated[7], stated[35]
    return shift.x, shift.y, shift.z, turn.x, turn.y, turn.z, turn.w, *covariance


def _lens(bag: Bag, topic: Topic, message: Any) -> Lens | None:
    """The lens in a CameraInfo message (ROS 1 writes K and D, ROS 2 k and d); None if the camera is
    not calibrated.
    """
    matrix, bent = (
        np.array(getattr(message, name, getattr(message, name.lower(), None))) for name in "KD"
    )
    if matrix[0] == 0:
        return None
    center, focal = (float(matrix[2]), float(matrix[5])), (float(matrix[0]), float(matrix[4]))
    model = str(message.distortion_model) or "plumb_bob"
    model = "equidistant" if model == "fisheye" else model
    with naming_lens(f"{bag.file}, topic {topic.name}", "; use --no-undistort"):
        return Lens(
            (int(message.width), int(message.height)), focal, center, model, tuple(map(float, bent))
        )
