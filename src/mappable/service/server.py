"""The server: uvicorn at an address; when stopped, it finishes the requests in progress."""

import os
import signal
import socket
import threading

import uvicorn
from starlette.types import ASGIApp

from mappable.errors import BadInputError
from mappable.service.limits import Settings

KEEP_ALIVE = 5  # seconds that a connection may be idle between two requests


def bind(host: str, port: int) -> socket.socket:
    """A socket that is bound to an address; clients can connect, but wait until the server runs."""
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
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


def server_of(app: ASGIApp, settings: Settings) -> uvicorn.Server:
    """A server for the application. At a signal, it finishes the requests in progress; at a second
    one, it stops.
    """
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=settings.connections,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=int(settings.timeout) + 1,
    )
    return uvicorn.Server(config)


def run(app: ASGIApp, settings: Settings, bound: socket.socket) -> None:
    """Serve until a signal. A stop is not a failure, so the signal that uvicorn raises again does
    nothing.
    """
    server = server_of(app, settings)
    # Only the main thread may handle signals.
    if threading.current_thread() is not threading.main_thread():
        server.run(sockets=[bound])
        return
    before = {
        number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        server.run(sockets=[bound])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def address_of(bound: socket.socket) -> str:
    """The address in the form that a browser accepts."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
