"""ROS 1 and ROS 2 bags: topics, and messages of known types, read with the package rosbags.

The types of messages are those of rosbags itself. Definitions inside a bag are never used, because
rosbags turns definitions into Python code.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mappable import progress
from mappable.errors import BadInputError, MappableError, install_extra, listed, shown

IMAGES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"
ODOMETRY = "nav_msgs/msg/Odometry"
FIX = "sensor_msgs/msg/NavSatFix"
POSES = (  # in the order in which one is chosen, if a bag has several
    "geometry_msgs/msg/PoseWithCovarianceStamped",
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/TransformStamped",
    ODOMETRY,
    FIX,
    "geometry_msgs/msg/PointStamped",
)
TRANSFORMS = ("tf2_msgs/msg/TFMessage", "tf/msg/tfMessage")
# Ends of topics that an operator sends.
COMMANDS = ("initialpose", "goal", "goal_pose", "clicked_point")
SUFFIXES = (".bag", ".mcap", ".db3")


@dataclass(frozen=True)
class Topic:
    """A topic of a bag: its name, the type and number of its messages, and the connections of
    rosbags.
    """

    name: str
    type: str
    count: int
    connections: tuple[Any, ...]


class Bag:
    """An open bag. `topics` has its topics by name."""

    def __init__(self, file: Path, reader: Any, is_ros1: bool) -> None:
        self.file, self._reader, self._is_ros1 = file, reader, is_ros1
        self.topics: dict[str, Topic] = {}
        for name, info in sorted(reader.topics.items()):
            types = {str(connection.msgtype) for connection in info.connections}
            self.topics[name] = Topic(
                name, types.pop() if len(types) == 1 else "", info.msgcount, (*info.connections,)
            )

    def find(self, types: Sequence[str], wanted: str | None, what: str) -> Topic:
        """The topic `wanted`, or the only topic with one of `types`; poses take the first of
        `types` in the bag.
        """
        if wanted is not None:
            topic = self.topics.get(wanted) or self.topics.get(f"/{wanted}")
            if topic is None or topic.type not in types:
                found = "no such topic" if topic is None else f"its type is {topic.type or 'mixed'}"
                raise BadInputError(
                    f"{self.file}: {what} topic {shown(wanted)}: {found}; {self._choices(types)}"
                )
            return topic
        known = [topic for topic in self.topics.values() if topic.count and topic.type in types]
        known = [topic for topic in known if topic.name.rpartition("/")[2] not in COMMANDS]
        if what == "pose":
            best = min((types.index(topic.type) for topic in known), default=0)
            known = [topic for topic in known if topic.type == types[best]]
        if len(known) == 1:
            return known[0]
        if known:
            names = listed(topic.name for topic in known)
            raise BadInputError(
                f"{self.file}: several {what} topics ({names}); choose one with --{what}-topic"
            )
        raise BadInputError(f"{self.file}: no {what} topic; {self._choices(types)}")

    def _choices(self, types: Collection[str]) -> str:
        names = [topic.name for topic in self.topics.values() if topic.type in types]
        return (
            f"topics of such types: {listed(names) or 'none'}; `mappable convert auto` shows all"
            " topics"
        )

    def messages(self, topics: Collection[Topic]) -> Iterator[tuple[Topic, int, int, bytes]]:
        """Each message of some topics: topic, number in the topic, time of recording (ns) and
        bytes.
        """
        connections = [connection for topic in topics for connection in topic.connections]
        numbers = dict.fromkeys((topic.name for topic in topics), 0)
        if not connections:
            return
        with _naming(self.file):
            total = sum(topic.count for topic in topics)
            messages = self._reader.messages(connections=connections)
            for connection, time, data in progress.track(
                messages, f"reading {self.file.name}", total
            ):
                yield self.topics[connection.topic], numbers[connection.topic], time, data
                numbers[connection.topic] += 1

    def parse(self, topic: Topic, data: bytes, number: int) -> Any:
        """The message with these bytes; `number` is its number in the topic, for errors."""
        store = _typestore(self._is_ros1)
        try:
            read = store.deserialize_ros1 if self._is_ros1 else store.deserialize_cdr
            return read(data, topic.type)
        except Exception as error:  # damaged bytes can make the parser raise almost any exception
            reason = " ".join(str(error).split())[:100] or type(error).__name__
            raise BadInputError(
                f"{self.file}, topic {topic.name}, message {number}: damaged, or not a {topic.type}"
                f" ({reason})"
            ) from None


def find_bags(root: Path) -> list[Path]:
    """The bags in `root`: the file or ROS 2 folder itself, or all bags in the folder."""
    if root.is_file() and root.suffix.lower() not in SUFFIXES:
        raise BadInputError(
            f"{root}: the suffix is {root.suffix!r}, expected one of: {', '.join(SUFFIXES)}"
        )
    if root.is_file() or (root / "metadata.yaml").is_file():
        return [root]
    entries = (entry for entry in sorted(root.iterdir()) if not entry.name.startswith("."))
    found = [
        entry
        for entry in entries
        if (entry / "metadata.yaml").is_file()
        or (entry.suffix.lower() in SUFFIXES and entry.is_file())
    ]
    if not found:
        raise BadInputError(
            f"{root}: no bag found; expected .bag, .mcap or .db3 files, or folders with"
            " metadata.yaml"
        )
    repeated = [name for name, count in Counter(bag.stem for bag in found).items() if count > 1]
    if repeated:
        raise BadInputError(f"{root}: two bags have the name {repeated[0]}; rename one of them")
    return found


@contextmanager
def opened(file: Path) -> Iterator[Bag]:
    """Open a bag; every exception of rosbags becomes a BadInputError with the name of the bag."""
    try:
        from rosbags.rosbag1 import Reader as Reader1
        from rosbags.rosbag2 import Reader as Reader2
    except ImportError:
        raise MappableError(f"bags need the package rosbags; {install_extra('ros')}") from None
    is_ros1 = file.suffix.lower() == ".bag" and file.is_file()
    with _naming(file):
        reader: Any = Reader1(file) if is_ros1 else Reader2(file)
        reader.open()
        try:
            yield Bag(file, reader, is_ros1)
        finally:
            reader.close()


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    try:
        yield
    except MappableError:
        raise
    except MemoryError:  # of one read, so nothing was taken yet
        raise BadInputError(
            f"{file}: damaged (a record claims more bytes than there is memory)"
        ) from None
    except Exception as error:  # a damaged bag can make rosbags raise almost any exception
        reason = " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__
        raise BadInputError(f"{file}: damaged, half-copied or not a bag ({reason})") from None


@cache
def _typestore(is_ros1: bool) -> Any:
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if is_ros1 else Stores.LATEST)
    for name in TRANSFORMS:
        if name not in store.fielddefs:
            store.register(get_types_from_msg("geometry_msgs/TransformStamped[] transforms", name))
    return store
