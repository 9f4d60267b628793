"""The limits of a server, and the messages when one is reached."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from mappable.errors import BadInputError

Take = Callable[[int], None]


class RefusedError(Exception):
    """An answer other than what was asked for: an HTTP status, a word for the metrics, and one sentence."""

    def __init__(self, status: int, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.reason, self.sentence = status, reason, sentence


@dataclass(frozen=True)
class Limits:
    """All of them; times are in seconds."""

    body: int = 64 * 2**20  # bytes of one request
    pixels: int = 50_000_000  # of one image
    queue: int = 256  # images that are decoded, wait for the encoder or are with it; one request has no more either
    timeout: float = 60.0  # from a request to its answer, and then again until the client has read it
    read_timeout: float = 20.0  # for its head, and for its body
    connections: int = 512
    memory: int = 2**30  # bytes of all requests that are being read or answered; as much again of answers to be read

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise BadInputError(f"the limit {field.name} is {value}, but must be above 0")


class Share:
    """A quantity of which there is only so much for all requests together, such as places in a queue.

    Where it is used up, a request is refused for that `reason`, with that `sentence`.
    """

    def __init__(self, limit: int, reason: str, sentence: str) -> None:
        self.limit, self.taken, self.reason, self.sentence = limit, 0, reason, sentence

    @contextmanager
    def holding(self) -> Iterator[Take]:
        """A function that takes more of it for one request, or refuses the request; at the end all is given back."""
        held = 0

        def take(count: int) -> None:
            nonlocal held
            if self.taken + count > self.limit:
                raise RefusedError(503, self.reason, self.sentence)
            self.taken += count
            held += count

        try:
            yield take
        finally:
            self.taken -= held
