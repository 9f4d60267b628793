"""Limits on connections: their number, and how long each may keep the server waiting."""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from mappable.service.limits import Limits

ANSWERED_BEYOND_LIMIT = 64  # connections beyond the limit that still get an error response; others are just closed


class Connections:
    """The open connections of a server."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.open = limits, 0

    @property
    def too_many(self) -> bool:
        return self.open > self.limits.connections

    def protocol(self) -> type[H11Protocol]:
        """The class that uvicorn creates for each connection."""
        connections = self

        class Connection(_Connection):
            shared = connections

        return Connection


class _Connection(H11Protocol):
    """A connection with timeouts for both directions.

    The server closes it if no request starts in time, or if a client keeps sending after the response. The server
    aborts it if the client does not read a response in time, or if all unread responses together exceed the memory.

    uvicorn itself has no such timeouts. It waits forever for headers, the rest of an unwanted body, and a client
    that does not read.
    """

    shared: Connections
    _read_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # call pause_writing whenever bytes wait here, resume_writing when none do
        self.shared.open += 1
        if self.shared.open > self.shared.limits.connections + ANSWERED_BEYOND_LIMIT:
            transport.abort()
        else:
            self._set_read_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_read_timer()

    def pause_writing(self) -> None:
        super().pause_writing()
        limits = self.shared.limits
        if sum(one.transport.get_write_buffer_size() for one in self.connections) > limits.memory:
            self.transport.abort()
        else:
            self._write_timer = self.loop.call_later(limits.timeout, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_write_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_read_timer()
        self._cancel_write_timer()
        self.shared.open -= 1
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._close_with("400 Bad Request", "the request is not HTTP")

    def _set_read_timer(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_read_timer()
        elif self._read_timer is None:
            self._read_timer = self.loop.call_later(self.shared.limits.read_timeout, self._time_out)

    def _cancel_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _time_out(self) -> None:
        seconds = self.shared.limits.read_timeout
        self._close_with("408 Request Timeout", f"the headers of the request did not arrive within {seconds:g} s")

    def _close_with(self, status: str, sentence: str) -> None:
        """Close the connection; send the error first, unless a request was answered before."""
        if self.cycle is None:
            body = json.dumps({"error": sentence}).encode()
            head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            rest = b"x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode() + rest + body)
        self.transport.close()
