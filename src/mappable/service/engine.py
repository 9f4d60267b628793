"""The engine: a map and its encoder in memory, and all work for requests, outside the event loop."""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import get_context

import numpy as np

from mappable.arrays import Floats32, Pixels
from mappable.errors import BadInputError
from mappable.features.image_encoder import ImageEncoder
from mappable.localization.location import Location, NotLocated
from mappable.localization.map import Map
from mappable.localization.ranging import check_metric, ranges_between
from mappable.maps.exact import Exact
from mappable.maps.landmarks import Landmarks
from mappable.recovery.hints import Anchors
from mappable.service.batching import Batcher, BatchSize, measure
from mappable.service.bodies import SentDescriptors, SentImage, decode
from mappable.service.limits import Budget, RefusedError, Settings
from mappable.service.metrics import Metrics
from mappable.service.responses import KnownPosition, Positions, Trajectory, trajectory
from mappable.service.solving import solve
from mappable.threads import cores

Described = Floats32 | RefusedError  # the descriptor (D,) of an image, or why it cannot be used


class Engine:
    """Locates and recovers images on one map; await all of its methods in the same event loop.

    Without an encoder, it takes descriptors only.
    """

    def __init__(
        self, opened: Landmarks, encoder: ImageEncoder | None, settings: Settings, metrics: Metrics
    ) -> None:
        self.map, self.settings, self.metrics = _in_memory(opened), settings, metrics
        self.opened = Map(self.map, encoder)
        self.rows = {str(name): row for row, name in enumerate(self.map.places.place_id)}
        self.batch_size: BatchSize | None = None
        if encoder is not None:
            opened.check_encoder(encoder.fingerprint)
            describe, about = encoder.for_queries(), encoder.about
            self.batch_size = measure(describe, about.size)
            self._batcher = Batcher(describe, self.batch_size.images, metrics.batch)
            raw = self.map.places.decoding
            self._decode = partial(
                decode, size=about.size, fit=about.fit, decoding=raw, most_pixels=settings.pixels
            )
        # Large images are slow: no other work waits for them.
        self._decoders = ThreadPoolExecutor(cores(), "images")
        self._solver: ProcessPoolExecutor | None = None
        self.queue = Budget(
            settings.queue, "queue", f"the queue is full: {settings.queue:,} images are waiting"
        )

    def map_changed(self) -> bool:
        """Whether the map on disk is not the one that is served."""
        return self.map.origin is not None and self.map.origin.changed()

    async def locate(
        self, images: list[SentImage], *, top_k: int, sequence: bool, coverage: float | None
    ) -> Positions:
        """Where images were taken, or why this is unknown; images of a `sequence` are located
        together.
        """
        described = await self._describe(images)
        names = [image.name for image in images]
        return await asyncio.to_thread(self._locate, names, described, top_k, sequence, coverage)

    async def describe(self, image: SentImage) -> Described:
        """The descriptor (D,) of an image, or the error if it does not decode."""
        return (await self._describe([image]))[0]

    async def recover(
        self, images: list[SentImage], known: list[KnownPosition], *, dimensions: int, ordered: bool
    ) -> Trajectory:
        """The trajectory of images; all images must decode."""
        anchors = self._check_recovery(known, dimensions)
        descriptors = []
        for described in await self._describe(images):
            if isinstance(described, RefusedError):
                raise described
            descriptors.append(described)
        names = [image.name for image in images]
        return await self._recover(names, np.stack(descriptors), anchors, dimensions, ordered)

    async def locate_descriptors(
        self,
        sent: SentDescriptors,
        encoder: str,
        *,
        top_k: int,
        sequence: bool,
        coverage: float | None,
    ) -> Positions:
        """Where the images of descriptors were taken; `encoder` is the name or fingerprint of the
        encoder.
        """
        with self._in_queue(len(sent.names)):
            self.map.check_encoder(encoder)
            rows = list(sent.descriptors)
            return await asyncio.to_thread(
                self._locate, sent.names, rows, top_k, sequence, coverage
            )

    async def recover_descriptors(
        self, sent: SentDescriptors, encoder: str, *, dimensions: int, ordered: bool
    ) -> Trajectory:
        """The trajectory of the images of descriptors."""
        with self._in_queue(len(sent.names)):
            self.map.check_encoder(encoder)
            anchors = self._check_recovery(sent.known, dimensions)
            return await self._recover(sent.names, sent.descriptors, anchors, dimensions, ordered)

    def close(self) -> None:
        """Stop all threads and the process, after the last request."""
        self._decoders.shutdown(cancel_futures=True)
        if self._solver is not None:
            self._solver.shutdown(cancel_futures=True)
        if self.batch_size is not None:
            self._batcher.close()

    async def _describe(self, images: list[SentImage]) -> list[Described]:
        if self.batch_size is None:
            raise RefusedError(
                422, "no_encoder", "the map has no encoder; send descriptors to /locate/descriptors"
            )
        with self._in_queue(len(images)):
            # The images of a request beyond these wait here: no other request waits for all of
            # them.
            waiting = asyncio.Semaphore(cores() + 2 * self.batch_size.images)
            decoding = asyncio.Semaphore(cores())
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._describe_one(image, waiting, decoding))
                    for image in images
                ]
            return [task.result() for task in tasks]

    async def _describe_one(
        self, image: SentImage, waiting: asyncio.Semaphore, decoding: asyncio.Semaphore
    ) -> Described:
        async with waiting:
            async with decoding:
                loop = asyncio.get_running_loop()
                pixels: Pixels | RefusedError = await loop.run_in_executor(
                    self._decoders, self._decode, image
                )
            if isinstance(pixels, RefusedError):
                return pixels
            return await asyncio.wrap_future(self._batcher.submit(pixels))

    @contextmanager
    def _in_queue(self, count: int) -> Iterator[None]:
        """Context of a request with `count` images; raise if that is too many."""
        if count > self.settings.queue:
            sentence = (
                f"the request has {count:,} images, more than the limit of {self.settings.queue:,}"
            )
            raise RefusedError(413, "too_many_images", sentence)
        with self.queue.reserving() as reserve:
            reserve(count)
            yield

    def _check_recovery(self, known: list[KnownPosition], dimensions: int) -> Anchors | None:
        check_metric(self.map.unit)
        for position in known:
            if len(position.coordinates) != dimensions:
                found = f"{len(position.coordinates)} coordinates"
                raise BadInputError(
                    f"the known position of point {position.point} has {found}, expected"
                    f" {dimensions}"
                )
        columns = (
            [getattr(position, name) for position in known]
            for name in ("point", "coordinates", "sigma")
        )
        return Anchors(*columns) if known else None

    def _locate(
        self,
        names: list[str],
        described: Sequence[Described],
        top_k: int,
        sequence: bool,
        coverage: float | None,
    ) -> Positions:
        refused = {
            row: each for row, each in enumerate(described) if isinstance(each, RefusedError)
        }
        descriptors = [each for each in described if not isinstance(each, RefusedError)]
        located: Iterator[Location] = iter(())
        if descriptors:
            locate = self.opened.locate_drive if sequence else self.opened.locate_all
            usable = [name for row, name in enumerate(names) if row not in refused]
            located = iter(
                locate(np.array(descriptors), names=usable, coverage=coverage, candidates=top_k)
            )
        outcomes = [
            NotLocated(name, str(refused[row])) if row in refused else next(located)
            for row, name in enumerate(names)
        ]
        if len(refused) == len(names) == 1:
            raise refused[0]
        for refusal in refused.values():
            self.metrics.error(refusal.reason)
        return Positions(
            outcomes, None if descriptors or not outcomes else "none of the images can be used"
        )

    async def _recover(
        self,
        names: list[str],
        descriptors: Floats32,
        anchors: Anchors | None,
        dimensions: int,
        ordered: bool,
    ) -> Trajectory:
        ranges = await asyncio.to_thread(
            ranges_between, self.opened.calibration, descriptors, ordered=ordered
        )
        # A process of its own: recoveries are slow, and hold Python's lock. It starts with the
        # first one.
        solver = self._solver = self._solver or ProcessPoolExecutor(1, get_context("spawn"))
        loop = asyncio.get_running_loop()
        try:
            solved = await loop.run_in_executor(solver, solve, ranges, anchors, dimensions, ordered)
        except BrokenProcessPool:
            if self._solver is solver:
                self._solver = None
            raise RefusedError(
                503, "solver", "the process that recovers trajectories ended; try again"
            ) from None
        return trajectory(names, *solved)


def _in_memory(opened: Landmarks) -> Landmarks:
    """The map with its descriptors in memory, because others may change or remove a memory-mapped
    file.

    The descriptors of a map with an index stay in their file, because there are very many.
    """
    if not isinstance(opened.store, Exact):
        return opened
    return replace(opened, store=opened.store.in_memory(), covariance=np.array(opened.covariance))
