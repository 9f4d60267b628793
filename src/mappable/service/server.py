"""The server: uvicorn at an address; when stopped, it finishes the requests in progress."""

import os
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
    """A socket that is bound to an address; clients can connect, but wait until the server runs."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            if os.name == "posix":  # on Windows, this option would let two servers share one port
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen()  # before this call, another process may bind the same address
        except BaseException:
            bound.close()
            raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BadInputError(f"cannot listen on {host}, port {port}: {reason}") from None
    return bound


def server_of(app: ASGIApp, bound: socket.socket, connections: Connections, ready: Callable[[str], None]) -> "Server":
    """A server for the application; `run` starts it, and it calls `ready` with its address when it is up."""
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
    """A uvicorn server that stops at SIGINT or SIGTERM.

    After the first signal it accepts no more connections, and finishes the requests in progress. After a second signal
    it does not wait for clients.
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
        """As in uvicorn, but do not raise the signal again: stopping a server is not a failure."""
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
    """The address in the form that a browser accepts."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
