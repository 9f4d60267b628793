"""One pass over a bag: times of images, positions, transforms, the lens and odometry."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from mappable import progress
from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.places import bags
from mappable.places.bags import Bag, Topic
from mappable.places.lenses import Lens
from mappable.places.notes import Findings, Note
from mappable.places.odometry import RecordedOdometry
from mappable.places.posed import PoseTrack
from mappable.places.ros_images import compressed_suffix
from mappable.places.rotations import AXES
from mappable.places.track_points import TrackPoints
from mappable.places.tracks import Track, rising
from mappable.places.transforms import TransformTree

UNKNOWN_COVARIANCE = (np.nan,) * 4


class BagLog:
    """What a first pass over a bag found: times of images, samples of positions, transforms, lens and odometry."""

    def __init__(self, file: Path, images: Topic, poses: Topic, odometry: Topic | None) -> None:
        self.file, self.images, self.poses, self.odometry = file, images, poses, odometry
        self.message: list[int] = []  # the number of each image in its topic
        self.stamps: list[int] = []
        self.suffixes: list[str] = []
        self.camera = ""
        self.samples: list[Sample] = []
        self.steps: list[Sample] = []
        self.tree = TransformTree()
        self.lens: Lens | None = None
        self.digest = hashlib.sha256(images.name.encode())
        self.points: TrackPoints
        self.mounted = ""

    @property
    def time(self) -> Ints:
        return np.array(self.stamps, dtype=np.int64)

    @property
    def names(self) -> list[str]:
        return [str(stamp) for stamp in self.stamps]

    def note(self, lens: Lens | None) -> Note:
        used = f"images {self.images.name}, positions {self.poses.name}"
        used += f", odometry {self.odometry.name}" if self.odometry else ""
        more = [text for text in (self.mounted, "images undistorted" if lens else "") if text]
        return Note("bags were read", (f"{self.file.name}: " + "; ".join([used, *more]),), warning=False)


@dataclass(frozen=True)
class Sample:
    """One position: time (ns), x, y, z, a quaternion (x, y, z, w) if known, and where it came from."""

    time: int
    xyz: tuple[float, float, float]
    quaternion: tuple[float, float, float, float] | None
    number: int
    child: str
    covariance: tuple[float, ...] = UNKNOWN_COVARIANCE


def scan(
    bag: Bag,
    image_topic: str | None,
    pose_topic: str | None,
    odometry: str | None,
    found: Findings,
    world: str = "map",
    body: str = "base_link",
) -> BagLog:
    """Read the messages of the chosen topics, in their order; what is odd goes to `found`.

    If the pose topic is one of transforms, the positions are those of `body` in `world`.
    """
    images = bag.find(bags.IMAGES, image_topic, "image")
    poses = bag.find(bags.POSES if pose_topic is None else (*bags.POSES, *bags.TRANSFORMS), pose_topic, "pose")
    steps = bag.find((bags.ODOMETRY,), odometry, "odometry") if odometry else _first_odometry(bag, poses)
    log = BagLog(bag.file, images, poses, steps)
    info = bag.topics.get(f"{images.name.removesuffix('/compressed').rpartition('/')[0]}/camera_info")
    info = info if info and info.type == bags.CAMERA_INFO else None
    trees = [one for one in bag.topics.values() if one.type in bags.TRANSFORMS]
    topics = {one.name: one for one in (images, poses, *([steps] if steps else []), *([info] if info else []), *trees)}
    counts = dict.fromkeys(topics, 0)
    total = sum(one.count for one in topics.values())
    moving: dict[str, list[tuple[int, str, Floats, Floats]]] = {}
    for name, recorded, data in progress.track(bag.messages(topics.values()), f"reading {bag.file.name}", total):
        topic, number = topics[name], counts[name]
        counts[name] += 1
        if topic is info and log.lens is not None:
            continue
        message = bag.parse(topic, data, number)
        if topic is images:
            _add_image(log, message, number, recorded, len(data), found)
        elif topic is info:
            log.lens = _lens(bag, topic, message)
        elif topic.type in bags.TRANSFORMS:
            for link in message.transforms:
                log.tree.add(link.header.frame_id, link.child_frame_id, *_transform(link.transform))
                if topic is poses:
                    entry = _stamp(link, recorded)[0], link.header.frame_id.lstrip("/"), *_transform(link.transform)
                    moving.setdefault(link.child_frame_id.lstrip("/"), []).append(entry)
        if topic is steps or (topic is poses and topic.type not in bags.TRANSFORMS):
            sample = _sample(topic, message, number, recorded)
            (log.samples if topic is poses else log.steps).append(sample)
    if not log.stamps:
        raise BadInputError(f"{bag.file}, topic {images.name}: no messages")
    if poses is steps:
        log.steps = log.samples
    if poses.type in bags.TRANSFORMS:
        log.samples = _from_tree(log, moving, world.lstrip("/"), body.lstrip("/"))
    _sort_images(log, found)
    return log


def _from_tree(
    log: BagLog, moving: dict[str, list[tuple[int, str, Floats, Floats]]], world: str, body: str
) -> list[Sample]:
    """The poses of `body` in `world`, at the times of the first moving link above the body."""
    place, name, seen = f"{log.file}, topic {log.poses.name}", body, {body}
    time: Ints | None = None
    turn, shift = Rotation.identity(), np.zeros(3)
    while name != world:
        if name in moving:
            link = _link(moving[name])
            time = link.track.time if time is None else time[time >= link.track.time[0]]
            if not len(time):
                raise BadInputError(f"{place}: {name} moves only before {moving[name][0][1]} is known")
            turn, shift = (turn, shift) if turn.single else (turn[-len(time) :], shift[-len(time) :])
            poses, turned = link.turned(time)
            turn, shift, name = turned * turn, turned.apply(shift) + poses.xyz, moving[name][0][1]
        elif name in log.tree.links:
            name, translation, quaternion = log.tree.links[name]
            fixed = Rotation.from_quat(quaternion)
            turn, shift = fixed * turn, fixed.apply(shift) + translation
        else:
            known = ", ".join(sorted({*moving, *log.tree.links})[:20]) or "none"
            raise BadInputError(f"{place}: the transforms do not lead from {body} to {world}; they have {known}")
        if name in seen:
            raise BadInputError(f"{place}: the transforms above {body} form a circle at {name}")
        seen.add(name)
    if time is None:
        raise BadInputError(f"{place}: {body} does not move in {world}")
    positions: Any = shift.tolist()
    values = zip(time.tolist(), positions, turn.as_quat().tolist(), strict=True)
    return [Sample(at, tuple(xyz), tuple(q), number, body) for number, (at, xyz, q) in enumerate(values)]


def _link(entries: list[tuple[int, str, Floats, Floats]]) -> PoseTrack:
    """One moving link over time; entries that are no pose, and repeated times, are skipped."""
    good = [one for one in entries if np.isfinite(one[2]).all() and abs(float(np.linalg.norm(one[3])) - 1) < 0.05]
    good = good or [(entries[0][0], entries[0][1], np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]))]
    time = np.array([one[0] for one in good], dtype=np.int64)
    rows = rising(time)[0]
    xyz, quaternions = (np.array([one[part] for one in good])[rows] for part in (2, 3))
    return PoseTrack(Track(time[rows], xyz, np.full(len(rows), np.nan)), quaternions)


def _first_odometry(bag: Bag, poses: Topic) -> Topic | None:
    if poses.type == bags.ODOMETRY:
        return poses
    return next((one for one in bag.topics.values() if one.type == bags.ODOMETRY and one.count), None)


def _stamp(message: Any, recorded: int) -> tuple[int, bool]:
    """The time of a message in ns, and whether its header has one."""
    stamp = int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)
    return (stamp, True) if stamp > 0 else (recorded, False)


def _add_image(log: BagLog, message: Any, number: int, recorded: int, size: int, found: Findings) -> None:
    time, stamped = _stamp(message, recorded)
    if not stamped:
        found["images have no time in their header; the time of recording was used"].append(f"{log.file.name}/{number}")
    compressed = log.images.type == bags.IMAGES[1]
    log.message.append(number)
    log.stamps.append(time)
    log.suffixes.append((compressed_suffix(message) if compressed else None) or ".jpg")
    log.camera = log.camera or str(message.header.frame_id)
    log.digest.update(f"{time} {size}\n".encode())


def _sort_images(log: BagLog, found: Findings) -> None:
    """Put images in order of time, and leave out those with the time of another."""
    kept, late, again = rising(log.time)
    for text, rows in (
        ("were out of time order and were sorted", late),
        ("have the time of another (left out)", again),
    ):
        found[f"images {text}"] += [f"{log.file.name}/{log.message[row]}" for row in rows]
    log.message, log.stamps, log.suffixes = (
        [values[row] for row in kept] for values in (log.message, log.stamps, log.suffixes)
    )


def _transform(transform: Any) -> tuple[Floats, Floats]:
    shift, turn = transform.translation, transform.rotation
    return np.array([shift.x, shift.y, shift.z]), np.array([turn.x, turn.y, turn.z, turn.w])


def _sample(topic: Topic, message: Any, number: int, recorded: int) -> Sample:
    time, _ = _stamp(message, recorded)
    if topic.type == bags.FIX:
        fixed = message.status.status >= 0  # -1: no fix
        xyz = (message.longitude, message.latitude, message.altitude) if fixed else (np.nan,) * 3
        return Sample(time, xyz, None, number, "")
    if topic.type.endswith("PointStamped"):
        return Sample(time, (message.point.x, message.point.y, message.point.z), None, number, "")
    child, covariance = str(getattr(message, "child_frame_id", "")), UNKNOWN_COVARIANCE
    if topic.type.endswith("TransformStamped"):
        shift, turn = message.transform.translation, message.transform.rotation
    else:
        pose = message.pose
        if hasattr(pose, "covariance"):
            values = pose.covariance
            given = bool(np.isfinite(values).all() and values[0] > 0)  # zeros mean unknown
            covariance = (values[0], values[1], values[7], values[35]) if given else UNKNOWN_COVARIANCE
            pose = pose.pose
        shift, turn = pose.position, pose.orientation
    return Sample(time, (shift.x, shift.y, shift.z), (turn.x, turn.y, turn.z, turn.w), number, child, covariance)


def _lens(bag: Bag, topic: Topic, message: Any) -> Lens | None:
    """The lens in a CameraInfo message (ROS 1 writes K and D, ROS 2 k and d); None if the camera is not calibrated."""
    matrix = np.array(message.K if hasattr(message, "K") else message.k)
    bent = np.array(message.D if hasattr(message, "D") else message.d)
    if matrix[0] == 0:
        return None
    center, focal = (float(matrix[2]), float(matrix[5])), (float(matrix[0]), float(matrix[4]))
    model = str(message.distortion_model) or "plumb_bob"
    model = {"fisheye": "equidistant"}.get(model, model)
    try:
        size = int(message.width), int(message.height)
        return Lens(size, focal, center, model, tuple(float(value) for value in bent))
    except BadInputError as error:
        raise BadInputError(f"{bag.file}, topic {topic.name}: {error}; use --no-undistort") from None


def read_bag_odometry(file: Path, wanted: str | None = None) -> RecordedOdometry:
    """Read the odometry of a bag: the topic `wanted`, or its only topic of odometry."""
    (found,) = bags.find_bags(file)
    with bags.opened(found) as bag:
        topic = bag.find((bags.ODOMETRY,), wanted, "odometry")
        steps = []
        for number, (_, recorded, data) in enumerate(bag.messages([topic])):
            steps.append(_sample(topic, bag.parse(topic, data, number), number, recorded))
    return odometry_of(steps)


def odometry_of(steps: list[Sample]) -> RecordedOdometry:
    """The samples of an odometry topic that are finite, in rising time."""
    xyz = np.array([step.xyz for step in steps], dtype=np.float64).reshape(-1, 3)
    turns = np.array([step.quaternion for step in steps], dtype=np.float64).reshape(-1, 4)
    usable = np.isfinite(xyz[:, :2]).all(axis=1) & (np.abs(np.linalg.norm(turns, axis=1) - 1) < 0.05)
    rows = np.flatnonzero(usable)
    rows = rows[rising(np.array([steps[row].time for row in rows], dtype=np.int64))[0]] if len(rows) else rows
    time = np.array([steps[row].time for row in rows], dtype=np.int64)
    covariance = np.array([steps[row].covariance for row in rows], dtype=np.float64).reshape(-1, 4)
    forward = Rotation.from_quat(turns[rows]).apply(AXES["x"]) if len(rows) else np.empty((0, 3))
    yaw = np.arctan2(forward[:, 1], forward[:, 0])
    return RecordedOdometry(time, np.column_stack([xyz[rows, :2], yaw]), covariance)
