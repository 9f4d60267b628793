"""One pass over a bag: times of images, positions, transforms, the lens and odometry."""

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from mappable import progress
from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.places.lenses import Lens
from mappable.places.notes import Findings
from mappable.places.odometry import RecordedOdometry
from mappable.places.rotations import AXES
from mappable.readers import bags
from mappable.readers.bags import Bag, Topic
from mappable.readers.ros_images import compressed_suffix
from mappable.readers.toolkit import TOLERANCE
from mappable.readers.tracks import PoseTrack, Track, rising
from mappable.readers.transforms import TransformTree

UNKNOWN_TURN = UNKNOWN_COVARIANCE = (np.nan,) * 4
Row = tuple[int, tuple[float, ...], tuple[float, ...], tuple[float, ...]]  # time, position, quaternion, covariance
Link = tuple[int, str, Floats, Floats]  # time, parent, translation, quaternion


@dataclass(frozen=True)
class Samples:
    """The poses of one topic: times (ns), positions, quaternions (x, y, z, w; NaN if unknown) and covariances.

    A covariance has xx, xy, yy, and that of the yaw. `number` is the number of each message in its topic, `child` the
    coordinate frame whose pose this is.
    """

    time: Ints
    xyz: Floats
    turns: Floats
    covariance: Floats
    number: Ints
    child: str = ""

    @classmethod
    def of(cls, rows: list[Row], child: str = "") -> "Samples":
        time = np.array([row[0] for row in rows], dtype=np.int64)
        xyz, turns, covariance = (np.array([row[part] for row in rows], dtype=np.float64) for part in (1, 2, 3))
        numbers = np.arange(len(rows))
        return cls(time, xyz.reshape(-1, 3), turns.reshape(-1, 4), covariance.reshape(-1, 4), numbers, child)

    def __getitem__(self, rows: Ints | Bools) -> "Samples":
        names = ("time", "xyz", "turns", "covariance", "number")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


@dataclass
class BagLog:
    """What a first pass over a bag found: times of images, poses, transforms, the lens and odometry."""

    file: Path
    images: Topic
    poses: Topic
    odometry: Topic | None
    message: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # number of each image in its topic
    time: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    suffixes: list[str] = field(default_factory=list)
    camera: str = ""
    samples: Samples = field(default_factory=lambda: Samples.of([]))
    steps: Samples = field(default_factory=lambda: Samples.of([]))
    tree: TransformTree = field(default_factory=TransformTree)
    lens: Lens | None = None
    digest: Any = None
    mounted: str = ""

    @property
    def names(self) -> list[str]:
        return [str(time) for time in self.time.tolist()]

    def describe(self, lens: Lens | None) -> str:
        """What was read of the bag."""
        used = [f"images {self.images.name}", f"positions {self.poses.name}"]
        used += [f"odometry {self.odometry.name}"] if self.odometry else []
        more = [text for text in (self.mounted, "images undistorted" if lens else "") if text]
        return f"{self.file.name}: " + "; ".join([", ".join(used), *more])


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
    poses = bag.find(bags.POSES if pose_topic is None else (*bags.POSES, *bags.TRANSFORMS), pose_topic, "pose")
    steps = bag.find((bags.ODOMETRY,), odometry, "odometry") if odometry else _first_odometry(bag, poses)
    log = BagLog(bag.file, images, poses, steps, digest=hashlib.sha256(images.name.encode()))
    info = bag.topics.get(f"{images.name.removesuffix('/compressed').rpartition('/')[0]}/camera_info")
    info = info if info and info.type == bags.CAMERA_INFO else None
    trees = [topic for topic in bag.topics.values() if topic.type in bags.TRANSFORMS]
    topics = {topic.name: topic for topic in (images, poses, steps, info, *trees) if topic}
    counts, total = dict.fromkeys(topics, 0), sum(topic.count for topic in topics.values())
    rows: dict[str, list[Row]] = {name: [] for name in topics}
    shots: list[tuple[int, str]] = []  # time and suffix of images
    child, unstamped = "", list[str]()
    moving: dict[str, list[Link]] = {}
    for name, recorded, data in progress.track(bag.messages(topics.values()), f"reading {bag.file.name}", total):
        topic, number = topics[name], counts[name]
        counts[name] += 1
        if topic is info and log.lens is not None:
            continue
        message = bag.parse(topic, data, number)
        if topic is images:
            time, stamped = _stamp(message, recorded)
            unstamped += [] if stamped else [f"{log.file.name}/{number}"]
            compressed = topic.type == bags.IMAGES[1]
            shots.append((time, (compressed_suffix(message) if compressed else None) or ".jpg"))
            log.camera = log.camera or str(message.header.frame_id)
            log.digest.update(f"{time} {len(data)}\n".encode())
        elif topic is info:
            log.lens = _lens(bag, topic, message)
        elif topic.type in bags.TRANSFORMS:
            for link in message.transforms:
                shift, turn = _vectors(link.transform.translation, link.transform.rotation)
                log.tree.add(link.header.frame_id, link.child_frame_id, np.array(shift), np.array(turn))
                if topic is poses:
                    entry = _stamp(link, recorded)[0], link.header.frame_id.lstrip("/"), np.array(shift), np.array(turn)
                    moving.setdefault(link.child_frame_id.lstrip("/"), []).append(entry)
        else:
            rows[name].append(_row(topic, message, recorded))
            child = child or (str(getattr(message, "child_frame_id", "")) if topic is poses else "")
    if not shots:
        raise BadInputError(f"{bag.file}, topic {images.name}: no messages")
    found.note("images have no time in their header; the time of recording was used", unstamped)
    log.samples = Samples.of(rows[poses.name], child)
    log.steps = Samples.of(rows[steps.name]) if steps else log.steps
    if poses.type in bags.TRANSFORMS:
        log.samples = _from_tree(log, moving, world.lstrip("/"), body.lstrip("/"))
    moments = np.array([shot[0] for shot in shots], dtype=np.int64)
    kept, late, again = rising(moments)
    found.note("images were out of time order and were sorted", (f"{log.file.name}/{row}" for row in late))
    found.note("images have the time of another (left out)", (f"{log.file.name}/{row}" for row in again))
    log.message, log.time, log.suffixes = kept, moments[kept], [shots[row][1] for row in kept]
    return log


def _from_tree(log: BagLog, moving: dict[str, list[Link]], world: str, body: str) -> Samples:
    """The poses of `body` in `world`, at the times of the first moving link above the body."""
    where, name, seen = f"{log.file}, topic {log.poses.name}", body, {body}
    time: Ints | None = None
    turn, shift = Rotation.identity(), np.zeros(3)
    while name != world:
        if name in moving:
            link = _link(moving[name])
            time = link.track.time if time is None else time[time >= link.track.time[0]]
            if not len(time):
                raise BadInputError(f"{where}: {name} moves only before {moving[name][0][1]} is known")
            turn, shift = (turn, shift) if turn.single else (turn[-len(time) :], shift[-len(time) :])
            poses, turned = link.at(time)
            turn, shift, name = turned * turn, turned.apply(shift) + poses.xyz, moving[name][0][1]
        elif name in log.tree.links:
            name, translation, quaternion = log.tree.links[name]
            fixed = Rotation.from_quat(quaternion)
            turn, shift = fixed * turn, fixed.apply(shift) + translation
        else:
            known = ", ".join(sorted({*moving, *log.tree.links})[:20]) or "none"
            raise BadInputError(f"{where}: the transforms do not lead from {body} to {world}; they have {known}")
        if name in seen:
            raise BadInputError(f"{where}: the transforms above {body} form a circle at {name}")
        seen.add(name)
    if time is None:
        raise BadInputError(f"{where}: {body} does not move in {world}")
    unknown = np.full((len(time), 4), np.nan)
    return Samples(time, shift, turn.as_quat(), unknown, np.arange(len(time)), body)


def _link(entries: list[Link]) -> PoseTrack:
    """One moving link over time; entries that are no pose, and repeated times, are skipped."""
    good = [one for one in entries if np.isfinite(one[2]).all() and abs(np.linalg.norm(one[3]) - 1) < TOLERANCE]
    good = good or [(entries[0][0], entries[0][1], np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]))]
    time = np.array([one[0] for one in good], dtype=np.int64)
    rows = rising(time)[0]
    xyz, quaternions = (np.array([one[part] for one in good])[rows] for part in (2, 3))
    return PoseTrack(Track(time[rows], xyz, np.full(len(rows), np.nan)), quaternions)


def _first_odometry(bag: Bag, poses: Topic) -> Topic | None:
    if poses.type == bags.ODOMETRY:
        return poses
    return next((topic for topic in bag.topics.values() if topic.type == bags.ODOMETRY and topic.count), None)


def _stamp(message: Any, recorded: int) -> tuple[int, bool]:
    """The time of a message in ns, and whether its header has one."""
    stamp = int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)
    return (stamp, True) if stamp > 0 else (recorded, False)


def _vectors(shift: Any, turn: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return (shift.x, shift.y, shift.z), (turn.x, turn.y, turn.z, turn.w)


def _row(topic: Topic, message: Any, recorded: int) -> Row:
    time, _ = _stamp(message, recorded)
    if topic.type == bags.FIX:
        fixed = message.status.status >= 0  # -1: no fix
        xyz = (message.longitude, message.latitude, message.altitude) if fixed else (np.nan,) * 3
        return time, xyz, UNKNOWN_TURN, UNKNOWN_COVARIANCE
    if topic.type.endswith("PointStamped"):
        return time, (message.point.x, message.point.y, message.point.z), UNKNOWN_TURN, UNKNOWN_COVARIANCE
    if topic.type.endswith("TransformStamped"):
        return time, *_vectors(message.transform.translation, message.transform.rotation), UNKNOWN_COVARIANCE
    pose, covariance = message.pose, UNKNOWN_COVARIANCE
    if hasattr(pose, "covariance"):
        values = pose.covariance
        if np.isfinite(values).all() and values[0] > 0:  # zeros mean unknown
            covariance = values[0], values[1], values[7], values[35]
        pose = pose.pose
    return time, *_vectors(pose.position, pose.orientation), covariance


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


def odometry_of(steps: Samples) -> RecordedOdometry:
    """The samples of an odometry topic that are finite, in rising time."""
    good = np.isfinite(steps.xyz[:, :2]).all(axis=1) & (np.abs(np.linalg.norm(steps.turns, axis=1) - 1) < TOLERANCE)
    steps = steps[good]
    steps = steps[rising(steps.time)[0]] if len(steps.time) else steps
    forward = Rotation.from_quat(steps.turns).apply(AXES["x"]) if len(steps.time) else np.empty((0, 3))
    yaw = np.arctan2(forward[:, 1], forward[:, 0])
    return RecordedOdometry(steps.time, np.column_stack([steps.xyz[:, :2], yaw]), steps.covariance)
