"""The server: uvicorn at an address; when stopped, it finishes what has begun."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from mappable.errors import BadInputError
from mappable.service.connections import Connections

KEEP_ALIVE = 5  # seconds that a connection may be idle between two requests
STOPPING = (signal.SIGINT, signal.SIGTERM)


def bind(host: str, port: int) -> socket.socket:
    """A socket at an address, which is ours from now on; clients wait until its server runs."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen()  # until then another may bind to it too
        except BaseException:
            bound.close()
            raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadInputError(f"cannot listen at {host}, port {port}: {reason}") from None
    return bound


def server_of(app: ASGIApp, bound: socket.socket, connections: Connections, ready: Callable[[str], None]) -> "Server":
    """What answers at an address once it is `run`; `ready` is told that address when clients are let in."""
    config = uvicorn.Config(
        app,
        http=connections.protocol(),
        ws="none",
        loop="asyncio",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=int(connections.limits.timeout) + 1,
    )
    return Server(config, bound, ready)


class Server(uvicorn.Server):
    """uvicorn's, which SIGINT or SIGTERM stop.

    Then nobody is let in any more, and requests under way are answered; after a second signal nobody is waited for.
    """

    def __init__(self, config: uvicorn.Config, bound: socket.socket, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._bound, self._ready = bound, ready

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        super().run(sockets or [self._bound])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready(_address_of(self._bound))

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but a server that was told to stop has not failed: the signal is not raised again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._stop) for number in STOPPING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def _address_of(bound: socket.socket) -> str:
    """As a browser takes it."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
