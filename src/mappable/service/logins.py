"""Limit how often one client may send a wrong token."""

import time
from collections import deque
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

SECONDS = 60.0  # in which wrong tokens are counted
MOST_CLIENTS = 10_000  # clients that are remembered


class Logins:
    """The times of the last wrong tokens, by client address; an IPv6 client is its network of 64 bits."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._failures: dict[str, deque[float]] = {}

    def must_wait(self, address: str) -> bool:
        """Whether a client has sent too many wrong tokens, so that its next token is not even compared."""
        times = self._failures.get(_client(address), deque())
        return len(times) == self._most and self._clock() - times[0] < SECONDS

    def failed(self, address: str) -> None:
        """Count a wrong token."""
        client = _client(address)
        times = self._failures.pop(client, deque(maxlen=self._most))
        times.append(self._clock())
        self._failures[client] = times  # at the end, so that the first one is the one seen longest ago
        if len(self._failures) > MOST_CLIENTS:
            del self._failures[next(iter(self._failures))]


def _client(address: str) -> str:
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(IPv6Address(int(found) >> 64 << 64)) if found.version == 6 else address
