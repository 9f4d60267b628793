"""Check every request (host, connections, token, timeout), and count it."""

import asyncio
import hmac
import time

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mappable.service.connections import Connections
from mappable.service.hosts import Hosts
from mappable.service.limits import Limits, RefusedError
from mappable.service.logins import SECONDS, Logins
from mappable.service.metrics import Metrics
from mappable.service.page import is_open

WITHOUT_TOKEN = frozenset({"/health"})  # paths that need no token, in addition to those of the viewer
HEADERS = {  # Retry-After is in seconds
    401: {"WWW-Authenticate": "Bearer"},
    429: {"Retry-After": f"{SECONDS:g}"},
    503: {"Retry-After": "1"},
}
NOSNIFF = (b"x-content-type-options", b"nosniff")  # on every response


class Guard:
    """A wrapper of the application that checks and counts each request."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        connections: Connections,
        metrics: Metrics,
        token: str | None,
        hosts: Hosts,
    ) -> None:
        self.app, self.limits, self.connections, self.metrics = app, limits, connections, metrics
        self._token, self._hosts = None if token is None else token.encode(), hosts
        self._logins = Logins(limits.wrong_tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), NOSNIFF]}
            await send(message)

        try:
            try:
                async with asyncio.timeout(self.limits.timeout):
                    self._check(scope)
                    await self.app(scope, receive, sending)
            except TimeoutError:
                if status:
                    return  # in the middle of a response that the client does not read: the response is cut off
                sentence = f"the response took longer than {self.limits.timeout:g} s"
                raise RefusedError(503, "timeout", sentence) from None
        except RefusedError as refusal:
            self.metrics.error(refusal.reason)
            await answer(refusal)(scope, receive, sending)
        finally:
            self.metrics.request(_path(scope), status, time.perf_counter() - start)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if not self._hosts.allow(headers.get(b"host", b"").decode("latin-1")):
            sentence = "this server does not answer to the host name of the request; allow it with --allowed-host"
            raise RefusedError(421, "host", sentence)
        if self.connections.too_many:
            raise RefusedError(503, "connections", "too many open connections; try again later")
        if self._token is not None and scope["path"] not in WITHOUT_TOKEN and not is_open(scope["path"]):
            self._check_token(headers.get(b"authorization"), self._token, (scope.get("client") or ("",))[0])

    def _check_token(self, given: bytes | None, token: bytes, client: str) -> None:
        if given is not None:
            if self._logins.must_wait(client):
                raise RefusedError(429, "logins", f"too many wrong tokens; try again after {SECONDS:g} s")
            scheme, _, sent = given.partition(b" ")
            if scheme.lower() == b"bearer" and hmac.compare_digest(sent.strip(), token):
                return
            self._logins.failed(client)
        raise RefusedError(401, "token", "the token is missing or wrong: send Authorization: Bearer TOKEN")


def answer(refusal: RefusedError) -> JSONResponse:
    """The response for a failed request."""
    return JSONResponse({"error": refusal.sentence}, refusal.status, HEADERS.get(refusal.status))


def _path(scope: Scope) -> str:
    """The path of the route, or "other" for unknown paths, so that clients cannot create endless new labels."""
    return str(getattr(scope.get("route"), "path", "other"))
