"""Check every request (host, length, memory, time), and count it."""

import asyncio
import re
import time
from collections.abc import Iterable
from ipaddress import ip_address

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mappable.errors import BadInputError, shown
from mappable.service.limits import Budget, RefusedError, Settings
from mappable.service.metrics import Metrics

LOOPBACK = ("localhost", "127.0.0.1", "::1")
EVERY_ADDRESS = (
    "0.0.0.0",  # noqa: S104
    "::",
)  # listening there means listening on all addresses of the machine
NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
# An IPv6 address in brackets or a name; a port.
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+?))\.?(?::\d*)?")
HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}
NOSNIFF = (b"x-content-type-options", b"nosniff")  # on every response


class Hosts:
    """The names that the server answers to: of this machine, of its address, and others that the
    user allows.

    A web page of another site can let its own name lead to this server (DNS rebinding). The browser
    then lets the page read responses, but it sends that name in the header `Host`. It cannot forge
    an address, so a server that listens on every address answers to all addresses.
    """

    def __init__(self, listening: str = "127.0.0.1", others: Iterable[str] = ()) -> None:
        self._names = {*LOOPBACK, listening.lower(), *(_checked(other) for other in others)}
        self._addresses = listening in EVERY_ADDRESS

    def allow(self, header: str) -> bool:
        """Whether the server answers to the header `Host` of a request, which may contain a port."""
        match = HOST.fullmatch(header.strip().lower())
        name = match and (match[1] or match[2])
        return name in self._names or (self._addresses and _is_address(name or ""))


class Guard:
    """A wrapper of the application that checks and counts each request."""

    def __init__(
        self, app: ASGIApp, *, settings: Settings, memory: Budget, metrics: Metrics, hosts: Hosts
    ) -> None:
        self.app, self.settings, self.memory, self.metrics, self.hosts = (
            app,
            settings,
            memory,
            metrics,
            hosts,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, length = time.perf_counter(), 0, 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), NOSNIFF]}
            await send(message)

        async def receiving() -> Message:
            nonlocal length
            message = await receive()
            received = len(message.get("body", b""))
            length += received
            self._check_length(length)
            scope["state"]["reserve"](received)
            return message

        try:
            with self.memory.reserving() as reserve:
                scope.setdefault("state", {})["reserve"] = reserve
                headers = dict(scope["headers"])
                if not self.hosts.allow(headers.get(b"host", b"").decode("latin-1")):
                    sentence = (
                        "this server does not answer to this host name; allow it with"
                        " --allowed-host"
                    )
                    raise RefusedError(421, "host", sentence)
                declared = headers.get(b"content-length", b"0")
                self._check_length(int(declared) if declared.isdigit() else 0)
                async with asyncio.timeout(self.settings.timeout):
                    await self.app(scope, receiving, sending)
        except (RefusedError, TimeoutError) as error:
            if status:
                # In the middle of a response that the client does not read: the response is cut
                # off.
                return
            late = RefusedError(
                503, "timeout", f"the response took longer than {self.settings.timeout:g} s"
            )
            refusal = error if isinstance(error, RefusedError) else late
            self.metrics.error(refusal.reason)
            await answer(refusal)(scope, receive, sending)
        finally:
            # A client cannot create endless new labels.
            path = getattr(scope.get("route"), "path", "other")
            self.metrics.request(str(path), status, time.perf_counter() - start)

    def _check_length(self, length: int) -> None:
        if length > self.settings.body:
            sentence = f"the body is longer than the limit of {self.settings.body:,} bytes"
            raise RefusedError(413, "too_long", sentence)


def answer(refusal: RefusedError) -> JSONResponse:
    """The response for a failed request."""
    return JSONResponse({"error": refusal.sentence}, refusal.status, HEADERS.get(refusal.status))


def _checked(name: str) -> str:
    lower = name.lower().removesuffix(".")
    if not NAME.fullmatch(lower) and not _is_address(lower):
        raise BadInputError(
            f"--allowed-host is {shown(name)}, expected a host name without scheme and port"
        )
    return lower


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
