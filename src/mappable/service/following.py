"""Follow cameras in sessions: one localizer takes turns, because all that it remembers is in the store."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from mappable.arrays import Floats32
from mappable.errors import BadInputError
from mappable.maps.localizer import Estimate, Localizer, Odometry, read_note
from mappable.maps.map import Map
from mappable.maps.opened import OpenMap
from mappable.service.limits import RefusedError
from mappable.service.sessions import SessionStore

NAME = "the session"  # in errors, because clients know no files
RECENT = 50  # estimates that a session keeps for its streams
STREAM_SECONDS = 15.0  # longest time of a stream; a browser then asks again, from the last estimate on
POLL_SECONDS = 0.05  # time between two looks at a session, which another server may update
AGAIN = 100  # milliseconds after which a browser asks again
Result = TypeVar("Result")
NO_IMAGE: Floats32 = np.empty(0, dtype=np.float32)


class Following:
    """Sessions on one map. Each update restores the localizer, takes an image, and stores what it remembers."""

    def __init__(self, landmarks: Map, store: SessionStore) -> None:
        self._map, self._store = landmarks, store
        self._pool = ThreadPoolExecutor(1, "sessions")

    async def create(self) -> tuple[str, str]:
        """The id of a new session, and the revision of the map."""
        return await self._run(self._create)

    async def update(
        self, name: str, described: Floats32 | RefusedError, time: float, odometry: Odometry | None
    ) -> Estimate:
        """Take an image; the odometry of an image that cannot be read still counts."""
        return await self._run(self._update, name, described, time, odometry)

    async def remove(self, name: str) -> None:
        await self._run(self._store.remove, name)

    async def check(self, name: str) -> None:
        """Raise if there is no such session."""
        await self._run(self._store.stamp, name)

    async def events(self, name: str, after: int, seconds: float) -> AsyncIterator[str]:
        """Server-Sent Events: the estimates of a session after number `after`, for some seconds."""
        yield f"retry: {AGAIN}\n\n"
        stamp, loop = -1.0, asyncio.get_running_loop()
        end = loop.time() + min(seconds, STREAM_SECONDS)
        while loop.time() < end:
            try:
                now = await self._run(self._store.stamp, name)
                note = None if now == stamp else await self._run(self._note, name)
            except RefusedError:
                return  # the session was deleted
            stamp = now
            if note is not None:
                for number, text in enumerate(note["recent"], note["number"] - len(note["recent"]) + 1):
                    if number > after:
                        cloud = json.dumps(note["cloud"]) if number == note["number"] else "null"
                        yield f'id: {number}\ndata: {text[:-1]}, "cloud": {cloud}}}\n\n'
                after = max(after, note["number"])
            await asyncio.sleep(POLL_SECONDS)

    def close(self) -> None:
        """Stop the thread."""
        self._pool.shutdown(cancel_futures=True)

    @cached_property
    def _localizer(self) -> Localizer:
        return Localizer(OpenMap(self._map))

    async def _run(self, work: Callable[..., Result], *values: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *values)

    def _create(self) -> tuple[str, str]:
        self._localizer.reset()
        return self._store.create(
            self._localizer.to_bytes({"number": 0, "recent": [], "cloud": []})
        ), self._localizer.revision

    def _note(self, name: str) -> Any:
        return read_note(self._store.read(name), NAME)

    def _update(
        self, name: str, described: Floats32 | RefusedError, time: float, odometry: Odometry | None
    ) -> Estimate:
        localizer = self._localizer
        with self._store.hold(name) as slot:
            note = localizer.restore(slot.content, NAME)
            try:
                found = localizer.update(NO_IMAGE if isinstance(described, RefusedError) else described, time, odometry)
                recent = [*note["recent"][1 - RECENT :], json.dumps(asdict(found))]
                note = {"number": note["number"] + 1, "recent": recent, "cloud": localizer.cloud()}
                return found
            except BadInputError:
                if isinstance(described, RefusedError):
                    raise described from None
                raise
            finally:
                slot.content = localizer.to_bytes(note)
