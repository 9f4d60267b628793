"""Sessions: each follows one camera, in the memory of this process."""

import asyncio
import json
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from mappable.arrays import Floats32
from mappable.errors import BadInputError
from mappable.localization.localizer import Estimate, Localizer
from mappable.localization.map import Map
from mappable.odometry import Odometry
from mappable.service.limits import RefusedError, Settings

RECENT = 50  # estimates that a session keeps for its streams
# Longest time of a stream; a browser then asks again, from the last estimate on.
STREAM_SECONDS = 15.0
AGAIN = 100  # milliseconds after which a browser asks again
NO_IMAGE: Floats32 = np.empty(0, dtype=np.float32)


@dataclass
class Session:
    """A camera: its localizer, and its last estimates as JSON, each with its number."""

    localizer: Localizer
    used: float
    count: int = 0
    recent: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=RECENT))
    cloud: list[list[float]] = field(default_factory=list)
    updated: asyncio.Event = field(default_factory=asyncio.Event)


class Sessions:
    """All sessions on one map. A session that nobody updates expires; all of them end with the
    server.
    """

    def __init__(
        self, opened: Map, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._opened, self._settings, self._clock = opened, settings, clock
        self._sessions: dict[str, Session] = {}
        self._thread = ThreadPoolExecutor(1, "sessions")  # updates take turns

    async def create(self) -> tuple[str, str]:
        """The id of a new session, and the revision of the map."""
        self._expire()
        if len(self._sessions) >= self._settings.sessions:
            sentence = (
                f"there are {len(self._sessions):,} sessions already; delete one, or try again"
                " later"
            )
            raise RefusedError(503, "sessions", sentence)
        localizer = await self._run(Localizer, self._opened)
        name = secrets.token_hex(16)
        self._sessions[name] = Session(localizer, self._clock())
        return name, localizer.revision

    def find(self, name: str) -> Session:
        """The session; raises if there is none."""
        self._expire()
        if name not in self._sessions:
            sentence = f"the session {name[:32]!r} does not exist, or it expired; create a new one"
            raise RefusedError(404, "session", sentence)
        return self._sessions[name]

    async def update(
        self,
        name: str,
        described: Floats32 | RefusedError,
        seconds: float,
        odometry: Odometry | None,
    ) -> Estimate:
        """Take an image; the odometry of an image that cannot be read still counts."""
        session = self.find(name)
        session.used = self._clock()
        loop = asyncio.get_running_loop()
        estimate: Estimate = await self._run(
            self._update, session, described, seconds, odometry, loop
        )
        return estimate

    def remove(self, name: str) -> None:
        """Forget a session."""
        self.find(name).updated.set()
        del self._sessions[name]

    async def events(self, name: str, after: int, seconds: float) -> AsyncIterator[str]:
        """Server-Sent Events: the estimates of a session after number `after`, for some seconds."""
        yield f"retry: {AGAIN}\n\n"
        loop = asyncio.get_running_loop()
        end = loop.time() + min(seconds, STREAM_SECONDS)
        while name in self._sessions and loop.time() < end:
            session = self._sessions[name]
            session.updated.clear()
            for number, text in list(session.recent):
                if number > after:
                    cloud = json.dumps(session.cloud) if number == session.count else "null"
                    yield f'id: {number}\ndata: {text[:-1]}, "cloud": {cloud}}}\n\n'
                    after = number
            try:
                await asyncio.wait_for(session.updated.wait(), end - loop.time())
            except TimeoutError:
                return

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(cancel_futures=True)

    async def _run(self, work: Callable[..., Any], *values: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *values)

    def _update(
        self,
        session: Session,
        described: Floats32 | RefusedError,
        seconds: float,
        odometry: Odometry | None,
        loop: asyncio.AbstractEventLoop,
    ) -> Estimate:
        image = NO_IMAGE if isinstance(described, RefusedError) else described
        try:
            estimate = session.localizer.update(image, seconds, odometry)
        except BadInputError:
            if isinstance(described, RefusedError):
                raise described from None
            raise
        session.cloud = session.localizer.cloud()
        session.count += 1
        session.recent.append((session.count, json.dumps(asdict(estimate))))
        loop.call_soon_threadsafe(session.updated.set)
        return estimate

    def _expire(self) -> None:
        oldest = self._clock() - self._settings.session_timeout
        self._sessions = {
            name: session for name, session in self._sessions.items() if session.used >= oldest
        }
