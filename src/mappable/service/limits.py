"""The limits of a server, and the error of a request that exceeds one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from mappable.errors import BadInputError

Reserve = Callable[[int], None]


class RefusedError(Exception):
    """A request fails: its HTTP status, a reason in one word for the metrics, and a sentence for the client."""

    def __init__(self, status: int, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.reason, self.sentence = status, reason, sentence


@dataclass(frozen=True)
class Limits:
    """All limits; times are in seconds."""

    body: int = 64 * 2**20  # bytes of one request body
    pixels: int = 50_000_000  # pixels of one image
    queue: int = 256  # images that are being decoded, wait for the encoder or are in it; also images per request
    timeout: float = 60.0  # from a request to its response, and again until the client has read the response
    read_timeout: float = 20.0  # for receiving the headers, and again for the body
    connections: int = 512  # open connections
    memory: int = 2**30  # bytes of all requests in progress; the same again for responses that clients have not read
    wrong_tokens: int = 10  # per minute and client address
    sessions: int = 1000  # cameras that are followed at once
    session_timeout: float = 600.0  # after which a session without updates expires

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise BadInputError(f"limit {field.name} must be above 0, got {value}")


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
