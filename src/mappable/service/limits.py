"""The settings of a server, and the error of a request that it refuses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from pydantic import BaseModel, Field, PositiveFloat, PositiveInt, ValidationError

from mappable.errors import BadInputError, listed
from mappable.files import reading

Reserve = Callable[[int], None]


class RefusedError(Exception):
    """A request fails: its HTTP status, a reason in one word for the metrics, and a sentence for
    the client.
    """

    def __init__(self, status: int, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.reason, self.sentence = status, reason, sentence


class Settings(BaseModel, frozen=True, extra="forbid", strict=True, allow_inf_nan=False):
    """What `mappable serve --settings FILE` reads, in YAML. All values are above 0."""

    body: PositiveInt = Field(default=64_000_000, description="bytes of one request body")
    pixels: PositiveInt = Field(default=50_000_000, description="pixels of one image")
    memory: PositiveInt = Field(
        default=1_000_000_000, description="bytes of all requests in progress"
    )
    queue: PositiveInt = Field(
        default=256, description="images in progress; also images of one request"
    )
    connections: PositiveInt = Field(default=512, description="open connections")
    timeout: PositiveFloat = Field(
        default=60.0, description="seconds from a request to its response"
    )
    sessions: PositiveInt = Field(default=1000, description="cameras that are followed at once")
    session_timeout: PositiveFloat = Field(
        default=600.0, description="seconds without an update after which a session expires"
    )

    @classmethod
    def read(cls, file: Path) -> "Settings":
        """The settings of a YAML file; what it does not name has its default."""
        with reading(file):
            text = file.read_text("utf-8")
        try:
            return cls.model_validate(yaml.safe_load(text) or {})
        except yaml.YAMLError as error:
            raise BadInputError(f"{file}: not YAML: {' '.join(str(error).split())}") from None
        except ValidationError as error:
            problem = error.errors()[0]
            name = ".".join(map(str, problem["loc"])) or "the file"
            known = listed(cls.model_fields)
            raise BadInputError(
                f"{file}: {name}: {problem['msg'].lower()}; the settings are {known}"
            ) from None

    def to_yaml(self) -> str:
        """All settings with their meanings."""
        lines = {
            f"{name}: {value}": type(self).model_fields[name].description for name, value in self
        }
        width = max(map(len, lines))
        return "\n".join(f"{line:<{width}}  # {meaning}" for line, meaning in lines.items())


class Budget:
    """A quantity that all requests share, such as places in a queue, with an upper limit.

    A request that would exceed the limit fails with `reason` and `sentence`.
    """

    def __init__(self, limit: int, reason: str, sentence: str) -> None:
        self.limit, self.taken, self.reason, self.sentence = limit, 0, reason, sentence

    @contextmanager
    def reserving(self) -> Iterator[Reserve]:
        """A function that reserves more for one request, or raises; on exit, the request returns
        everything.
        """
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
