"""The settings of a server, and the error of a request that it refuses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from mappable.errors import BadInputError, listed, shown
from mappable.files import reading

Reserve = Callable[[int], None]


class RefusedError(Exception):
    """A request fails: its HTTP status, a reason in one word for the metrics, and a sentence for the client."""

    def __init__(self, status: int, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.reason, self.sentence = status, reason, sentence


def _setting(default: float, meaning: str) -> Any:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class Settings:
    """What `mappable serve --settings FILE` reads, in YAML. All values are above 0."""

    body: int = _setting(64_000_000, "bytes of one request body")
    pixels: int = _setting(50_000_000, "pixels of one image")
    memory: int = _setting(1_000_000_000, "bytes of all requests in progress")
    queue: int = _setting(256, "images in progress; also images of one request")
    connections: int = _setting(512, "open connections")
    timeout: float = _setting(60.0, "seconds from a request to its response")
    sessions: int = _setting(1000, "cameras that are followed at once")
    session_timeout: float = _setting(600.0, "seconds without an update after which a session expires")

    def __post_init__(self) -> None:
        for each in fields(self):
            value: Any = getattr(self, each.name)
            kinds = (int, float) if isinstance(each.default, float) else (int,)
            if isinstance(value, bool) or not isinstance(value, kinds) or not value > 0:
                expected = "a number" if float in kinds else "a whole number"
                raise BadInputError(f"setting {each.name} is {shown(value)}, expected {expected} above 0")

    @classmethod
    def read(cls, file: Path) -> "Settings":
        """The settings of a YAML file; what it does not name has its default."""
        with reading(file):
            text = file.read_text("utf-8")
        try:
            values = yaml.safe_load(text) or {}
        except yaml.YAMLError as error:
            raise BadInputError(f"{file}: not YAML: {' '.join(str(error).split())}") from None
        known = [each.name for each in fields(cls)]
        wrong = next((name for name in values if name not in known), None) if isinstance(values, dict) else file.name
        if wrong is not None:
            raise BadInputError(f"{file}: {shown(wrong)} is not a setting; expected some of: {listed(known)}")
        try:
            return cls(**values)
        except BadInputError as error:
            raise BadInputError(f"{file}: {error}") from None

    def to_yaml(self) -> str:
        """All settings with their meanings."""
        lines = [f"{each.name}: {getattr(self, each.name)}" for each in fields(self)]
        width = max(map(len, lines))
        return "\n".join(
            f"{line:<{width}}  # {each.metadata['meaning']}" for line, each in zip(lines, fields(self), strict=True)
        )


class Budget:
    """A quantity that all requests share, such as places in a queue, with an upper limit.

    A request that would exceed the limit fails with `reason` and `sentence`.
    """

    def __init__(self, limit: int, reason: str, sentence: str) -> None:
        self.limit, self.taken, self.reason, self.sentence = limit, 0, reason, sentence

    @contextmanager
    def reserving(self) -> Iterator[Reserve]:
        """A function that reserves more for one request, or raises; on exit, the request returns everything."""
        reserved = 0

        def reserve(count: int) -> None:
            nonlocal reserved
            if self.taken + count > self.limit:
                raise RefusedError(503, self.reason, self.sentence)
            self.taken += count
            reserved += count

        try:
            yield reserve
        finally:
            self.taken -= reserved
