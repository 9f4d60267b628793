"""Limits on connections: how many, and how long each may keep the server waiting."""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from mappable.service.limits import Limits

SPARE = 64  # connections beyond the limit that are still told so; more are closed without a word


class Connections:
    """Those that are open."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.open = limits, 0

    @property
    def too_many(self) -> bool:
        return self.open > self.limits.connections

    def protocol(self) -> type[H11Protocol]:
        """What uvicorn makes of each."""
        connections = self

        class Connection(_Connection):
            shared = connections

        return Connection


class _Connection(H11Protocol):
    """One that is closed if no request has begun in time, or if an answered one sends on for too long.

    It is cut off if the client does not read an answer in time, or if what clients have not read is too much for the
    memory. uvicorn itself waits for ever: for the head of a request, for the rest of a body that nobody wants any more,
    and for a client to read.
    """

    shared: Connections
    _due: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # so that writing pauses and resumes as bytes wait here and are gone
        self.shared.open += 1
        if self.shared.open > self.shared.limits.connections + SPARE:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        limits = self.shared.limits
        if sum(one.transport.get_write_buffer_size() for one in self.connections) > limits.memory:
            self.transport.abort()
        else:
            self._unread = self.loop.call_later(limits.timeout, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._taken()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._taken()
        self.shared.open -= 1
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._say("400 Bad Request", "the request is not HTTP")

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._due is None:
            self._due = self.loop.call_later(self.shared.limits.read_timeout, self._close)

    def _forget(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _taken(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _close(self) -> None:
        seconds = self.shared.limits.read_timeout
        self._say("408 Request Timeout", f"the head of the request did not come within {seconds:g} s")

    def _say(self, status: str, sentence: str) -> None:
        """The last words, unless there was an answer before."""
        if self.cycle is None:
            body = json.dumps({"error": sentence}).encode()
            head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()
