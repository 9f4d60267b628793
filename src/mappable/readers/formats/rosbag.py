"""ROS 1 and ROS 2 bags: images of a camera topic, with positions from a pose, odometry or GPS topic.

    ROOT/                       or ROOT may be one bag
      monday.bag                ROS 1
      tuesday/                  ROS 2: a folder with metadata.yaml and .mcap or .db3 files
        metadata.yaml
      wednesday.mcap            ROS 2: a file alone, also .db3
      monday-frames/            written by this reader
        1700000000123456789.jpg an image; the name is its time in nanoseconds
        odometry.parquet        the odometry, if the bag has some
        bag.json                identifies the bag and topic of the images
      monday-left-image-frames/ the same with `--image-topic /left/image`

`mappable convert auto ROOT` shows all topics. The reader needs the package rosbags, but no ROS:
`pip install 'mappable[ros]'`.

- Images: `sensor_msgs/Image` (color, gray, Bayer, YUV 4:2:2) and `sensor_msgs/CompressedImage`.
  JPEG and PNG bytes are stored unchanged. Other images become JPEG files.
- Positions: `PoseStamped`, `PoseWithCovarianceStamped`, `TransformStamped`, `Odometry`, `NavSatFix`
  or `PointStamped`. If a bag has several such topics, name one with `--pose-topic`. Positions are
  interpolated in time between the messages before and after an image. Images outside, or in a gap,
  are left out and listed.
- `--pose-topic /tf` takes the positions from the transforms: those of the robot (`--body`) in the
  map (`--world`).
- The transform tree (`/tf_static`, `/tf`) gives the pose of the camera on the robot: its position,
  and its yaw. If the tree does not join camera and robot, or a joint is between them, the pose is
  used as it is, with a note.
- `camera_info` next to the image topic undistorts the images (plumb_bob, rational_polynomial,
  equidistant), unless `--no-undistort` is given.
- Times are those of the message headers. A header without a time counts with the time of recording.

Each bag is a sequence. Positions from `NavSatFix` share one UTM frame. Other positions have one
frame per bag, because a bag does not tell whether two runs share a map. `--frame NAME` states that
they do. Odometry drifts, so prefer another topic if there is one.

A topic of `Odometry` is stored next to the images, in `odometry.parquet`, which `mappable follow
--odometry` reads. Its columns are the time in nanoseconds, x, y, yaw, and the covariances xx, xy,
yy and yaw_yaw.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from PIL import Image
from scipy.spatial.transform import Rotation

from mappable.arrays import Ints
from mappable.errors import BadInputError, MappableError
from mappable.files import write_atomically
from mappable.places.frames import Vector
from mappable.places.images import JPEG_QUALITY
from mappable.places.lenses import Lens
from mappable.places.notes import Findings
from mappable.places.odometry import FILE, save_odometry
from mappable.places.rotations import AXES, viewing_yaw
from mappable.places.table import Places
from mappable.readers import bags
from mappable.readers.bag_logs import BagLog, scan
from mappable.readers.bags import find_bags, opened
from mappable.readers.recordings import Recording, check_numbers, claim, frames_folder
from mappable.readers.ros_images import compressed_pixels, compressed_suffix, raw_pixels
from mappable.readers.toolkit import joined, unknown
from mappable.readers.track_files import TrackPoints, in_frames
from mappable.readers.transforms import Transform

ONE_FILE = True
TRIAL = False  # a bag is long
REMARK = "choose among the topics above"
RECORD = "bag.json"
USES = {
    "image": bags.IMAGES,
    "position": bags.POSES,
    "lens": (bags.CAMERA_INFO,),
    "transform": bags.TRANSFORMS,
}


def fits(root: Path) -> str:
    """The first bag in ROOT with images and positions."""
    try:
        for file in find_bags(root):
            with opened(file) as bag:
                types = {topic.type for topic in bag.topics.values()}
                if types & {*bags.IMAGES} and types & {*bags.POSES, *bags.TRANSFORMS}:
                    return file.name
    except MappableError:
        pass
    return ""


def read(
    root: Path,
    found: Findings,
    *,
    image_topic: Annotated[str | None, "topic with the images (default: the only one)"] = None,
    pose_topic: Annotated[
        str | None, "topic with the positions (default: the only one of the best type)"
    ] = None,
    odometry_topic: Annotated[
        str | None, "topic of the odometry to keep (default: the first one)"
    ] = None,
    spacing: Annotated[
        float, "distance in metres between images along the track; 0 takes all images"
    ] = 0.25,
    max_gap_s: Annotated[
        float, "largest time in seconds between the positions before and after an image"
    ] = 2.0,
    offset_s: Annotated[float, "seconds to add to the time of each image"] = 0.0,
    frame: Annotated[
        str | None, "name of the frame, if all bags share one map (default: one per bag)"
    ] = None,
    body: Annotated[
        str | None, "coordinate frame of the robot (default: that of the messages, else base_link)"
    ] = None,
    world: Annotated[str, "coordinate frame of the positions, if the pose topic is /tf"] = "map",
    looking: Annotated[
        Literal["x", "z"], "forward axis of the poses, if the transform tree lacks the camera"
    ] = "x",
    heading: Annotated[
        Literal["none", "course"],
        "yaw, if the topic has no orientation: unknown, or the direction of travel",
    ] = "none",
    undistort: Annotated[bool, "undistort the images by camera_info"] = True,
    frames: Annotated[
        Path | None, "folder for the images (default: a folder such as monday-frames)"
    ] = None,
) -> Places:
    check_numbers(spacing, max_gap_s, offset_s, zero_spacing=True)
    logs, tracks = list[BagLog](), list[TrackPoints]()
    for file in find_bags(root):
        with opened(file) as bag:
            log = scan(
                bag, image_topic, pose_topic, odometry_topic, found, world, body or "base_link"
            )
        logs.append(log)
        tracks.append(_camera_points(log, body, AXES[looking], found).ordered(found))
    camera = f"-{image_topic.strip('/').replace('/', '-')}" if image_topic else ""
    tables = []
    for log, points, (placed, route) in zip(
        logs, tracks, in_frames(tracks, frame or "map"), strict=True
    ):
        name = log.file.stem
        if not points.in_degrees:
            placed = replace(placed, name=frame or name)
        recording = Recording("bags", name, log.file, log.time + round(offset_s * 1e9), log.names)
        rows = recording.choose(route, spacing, max_gap_s, found)
        images = frames_folder(log.file, name + camera, frames)
        lens = log.lens if undistort and log.lens and log.lens.distorts else None
        suffixes = [".jpg" if lens else log.suffixes[row] for row in rows]
        if len(rows):
            _extract(log, rows, suffixes, images, lens)
        topics = [f"images {log.images.name}", f"positions {log.poses.name}"]
        topics += [f"odometry {log.odometry.name}"] if log.odometry else []
        item = f"{log.file.name}: {', '.join(topics)}{'; images undistorted' if lens else ''}"
        found.note("bags were read", [item], warning=False)
        if log.poses.type == bags.ODOMETRY:
            found.note(
                "bags take positions from odometry, which drifts: use another topic if there"
                " is one",
                [name],
            )
        jitter = max(spacing, 0.5) / 2 if heading == "course" else None
        tables.append(recording.places(rows, suffixes, images, placed, route, jitter))
    if len(logs) > 1 and frame is None and not all(points.in_degrees for points in tracks):
        found.say(
            "each bag has its own frame; use the option frame if they share one map", warning=False
        )
    folder = (
        root if root.is_dir() and not (root / "metadata.yaml").is_file() else root.resolve().parent
    )
    return joined(frames or folder, tables)


def contents(root: Path) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The topics of all bags, as a table for `convert auto`: its header and its rows."""
    rows: list[tuple[str, ...]] = []
    for file in find_bags(root):
        with opened(file) as bag:
            for topic in bag.topics.values():
                use = next((use for use, types in USES.items() if topic.type in types), "")
                rows.append((file.name, topic.name, topic.type, f"{topic.count:,}", use))
    return ("bag", "topic", "type", "messages", "use"), rows


def _camera_points(log: BagLog, body: str | None, axis: Vector, found: Findings) -> TrackPoints:
    """The samples as poses of the camera, where the transform tree has it."""
    topic = f"topic {log.poses.name}"
    known = np.array(np.isfinite(log.samples.xyz[:, :2]).all(axis=1))
    lost = (
        f"{log.file.name}, {log.poses.name}, message {number}" for number in np.flatnonzero(~known)
    )
    found.note("messages have no position (left out)", lost)
    if not known.any():
        raise BadInputError(f"{log.file}, {topic}: none of {len(known):,} messages has a position")
    samples = log.samples[known]
    labels = [f"{topic}, message {number}" for number in samples.number]
    xyz, yaw = np.where(np.isfinite(samples.xyz), samples.xyz, np.nan), unknown(len(labels))
    if not samples.turns.any():  # robots that do not know their orientation send zeros
        found.note(
            "topics have no orientations, so yaws are unknown",
            [f"{log.file.name}: {log.poses.name}"],
        )
    elif not np.isnan(samples.turns).all():
        wrong = np.flatnonzero(~samples.is_pose)
        if len(wrong):
            values = " ".join(f"{value:g}" for value in samples.turns[wrong[0]])
            raise BadInputError(
                f"{log.file}, {labels[wrong[0]]}: the quaternion {values} does not have length 1"
            )
        pose, name = (
            Transform(Rotation.from_quat(samples.turns), xyz),
            body or log.child or "base_link",
        )
        mounted = log.tree.pose(log.camera, name.lstrip("/")) if log.camera else None
        if mounted is None:
            item = f"{log.file.name}: {log.camera or '(no name)'} on {name}"
            found.note(
                "transform trees do not give the pose of the camera; the pose of the robot was"
                " used",
                [item],
            )
        else:
            # An image's frame has z forward.
            axis, xyz = mounted.turn.apply(AXES["z"]), (pose @ mounted).shift
        yaw = viewing_yaw(pose.turn.apply(axis))
    in_degrees = log.poses.type == bags.FIX
    return TrackPoints(
        log.file, labels, samples.time, xyz[:, 0], xyz[:, 1], xyz[:, 2], yaw, in_degrees
    )


def _extract(log: BagLog, rows: Ints, suffixes: list[str], folder: Path, lens: Lens | None) -> None:
    """Write the missing images and the odometry to the folder."""
    digest = log.digest.copy()
    digest.update(repr(lens).encode())
    claim(folder / RECORD, {"sha256": digest.hexdigest()}, log.file)
    if log.odometry and not (folder / FILE).exists():
        save_odometry(log.steps.odometry(), folder / FILE, log.odometry.name)
    files = {
        log.message[row]: folder / f"{log.names[row]}{s}"
        for row, s in zip(rows, suffixes, strict=True)
    }
    present = {file.name for file in folder.iterdir()}
    missing = {number: file for number, file in files.items() if file.name not in present}
    for number, message in _wanted(log, {*missing}):
        try:
            _save(message, log.images.type == bags.IMAGES[1], missing[number], lens)
        except BadInputError as error:
            raise BadInputError(
                f"{log.file}, topic {log.images.name}, message {number}: {error}"
            ) from None


def _wanted(log: BagLog, numbers: set[int]) -> Iterator[tuple[int, Any]]:
    """The image messages with these numbers; the bag is not read beyond the last one."""
    if numbers:
        with opened(log.file) as bag:
            topic, last = bag.topics[log.images.name], max(numbers)
            for _, number, _, data in bag.messages([topic]):
                if number in numbers:
                    yield number, bag.parse(topic, data, number)
                if number == last:
                    return


def _save(message: Any, compressed: bool, file: Path, lens: Lens | None) -> None:
    if compressed and lens is None and compressed_suffix(message):
        write_atomically(file, lambda stream: stream.write(bytes(message.data)))
        return
    pixels = compressed_pixels(message) if compressed else raw_pixels(message)
    pixels = lens.undistort(pixels) if lens is not None else pixels
    write_atomically(
        file, lambda stream: Image.fromarray(pixels).save(stream, "JPEG", quality=JPEG_QUALITY)
    )
