"""The engine: a map and its encoder in memory, and all work for requests, outside the event loop."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from mappable.arrays import Floats32, Pixels
from mappable.errors import BadInputError
from mappable.features.image_encoder import ImageEncoder
from mappable.maps.exact import Exact
from mappable.maps.locate import Locator
from mappable.maps.map import Map
from mappable.maps.queries import Readable, locate_readable
from mappable.maps.ranging import check_metric, ranges_between
from mappable.recovery.hints import Anchors
from mappable.recovery.pipeline import recover
from mappable.recovery.report import report
from mappable.service.answers import KnownPosition, Positions, Trajectory, positions, trajectory
from mappable.service.batching import Batcher, BatchSize, measure
from mappable.service.body import SentDescriptors, SentImage
from mappable.service.decoding import decode
from mappable.service.limits import Budget, Limits, RefusedError
from mappable.service.metrics import Metrics
from mappable.threads import cores

SWITCH_SECONDS = 0.0005  # after which a thread passes Python's lock on
Result = TypeVar("Result")


class Engine:
    """Locates and recovers images on one map; await all of its methods in the same event loop.

    Without an encoder, it takes descriptors only.
    """

    def __init__(self, opened: Map, encoder: ImageEncoder | None, limits: Limits, metrics: Metrics) -> None:
        self.map, self.limits, self.metrics = _in_memory(opened), limits, metrics
        self.locator, self.fingerprint = Locator(self.map), opened.encoder
        self.rows = {str(name): row for row, name in enumerate(self.map.places.place_id)}
        self.batch_size: BatchSize | None = None
        if encoder is not None:
            opened.check_encoder(encoder.fingerprint)
            self.batch_size, self._batcher = _batcher(encoder, metrics)
            about, raw = encoder.about, self.map.places.decoding
            self._decode = partial(decode, size=about.size, fit=about.fit, decoding=raw, most_pixels=limits.pixels)
        # The encoder has priority: NumPy's threads would take cores from it, and other threads Python's lock.
        self._blas, self._switch_seconds = threadpool_limits(1, "blas"), sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        self._pool = ThreadPoolExecutor(cores(), "requests")
        self._decoders = ThreadPoolExecutor(cores(), "images")  # large images are slow: no other work waits for them
        self._recoveries = ThreadPoolExecutor(1, "recovery")  # recoveries are slow: one at a time
        self.queue = Budget(limits.queue, "queue", f"the queue is full: {limits.queue:,} images are waiting")
        self.locator.locate(np.eye(1, self.map.store.dimensions, dtype=np.float32), encoder=self.fingerprint)

    async def run(self, work: Callable[..., Result], *values: Any, pool: Executor | None = None) -> Result:
        """The result of the blocking function `work`, called with `values` in a thread."""
        return await asyncio.get_running_loop().run_in_executor(pool or self._pool, work, *values)

    async def locate(self, images: list[SentImage], *, top_k: int, sequence: bool, coverage: float | None) -> "Located":
        """Where images were taken, or why this is unknown; images of a `sequence` are located together."""
        described = await self._describe(images)
        return await self.run(self._locate, images, described, top_k, sequence, coverage)

    async def describe(self, image: SentImage) -> "Floats32 | RefusedError":
        """The descriptor (D,) of an image, or the error if it does not decode."""
        return (await self._describe([image]))[0]

    async def recover(
        self, images: list[SentImage], known: list[KnownPosition], *, dimensions: int, ordered: bool
    ) -> Trajectory:
        """The trajectory of images; all images must decode."""
        anchors = self._check_recovery(known, dimensions)
        described = await self._describe(images)
        for one in described:
            if isinstance(one, RefusedError):
                raise one
        descriptors = np.stack([one for one in described if not isinstance(one, RefusedError)])
        names = [image.name for image in images]
        return await self.run(self._recover, names, descriptors, anchors, dimensions, ordered, pool=self._recoveries)

    async def locate_descriptors(
        self, sent: SentDescriptors, encoder: str, *, top_k: int, sequence: bool, coverage: float | None
    ) -> Positions:
        """Where the images of descriptors were taken; `encoder` is the name or fingerprint of the encoder."""
        with self._in_queue(len(sent.names)):
            self.map.check_encoder(encoder)
            images, rows = [SentImage(name, b"") for name in sent.names], list(sent.descriptors)
            return (await self.run(self._locate, images, rows, top_k, sequence, coverage))[0]

    async def recover_descriptors(
        self, sent: SentDescriptors, encoder: str, known: list[KnownPosition], *, dimensions: int, ordered: bool
    ) -> Trajectory:
        """The trajectory of the images of descriptors."""
        with self._in_queue(len(sent.names)):
            self.map.check_encoder(encoder)
            anchors = self._check_recovery(known, dimensions)
            values = sent.names, sent.descriptors, anchors, dimensions, ordered
            return await self.run(self._recover, *values, pool=self._recoveries)

    def close(self) -> None:
        """Stop all threads, after the last request; work that is still queued belongs to no request, and is dropped."""
        self._pool.shutdown(cancel_futures=True)
        self._decoders.shutdown(cancel_futures=True)
        self._recoveries.shutdown(cancel_futures=True)
        if self.batch_size is not None:
            self._batcher.close()
        self._blas.restore_original_limits()
        sys.setswitchinterval(self._switch_seconds)

    async def _describe(self, images: list[SentImage]) -> "list[Floats32 | RefusedError]":
        """The descriptor (D,) of each image, or the error of an image that does not decode."""
        if self.batch_size is None:
            raise RefusedError(422, "no_encoder", "the map has no encoder; send descriptors to /locate/descriptors")
        with self._in_queue(len(images)):
            slots = RequestSlots(cores(), 2 * self.batch_size.images)
            return await _all(self._describe_one(image, slots) for image in images)

    @contextmanager
    def _in_queue(self, count: int) -> Iterator[None]:
        """Context of a request with `count` images; raise if that is too many."""
        if count > self.limits.queue:
            sentence = f"the request has {count:,} images, more than the limit of {self.limits.queue:,}"
            raise RefusedError(413, "too_many_images", sentence)
        with self.queue.reserving() as reserve:
            reserve(count)
            yield

    def _check_recovery(self, known: list[KnownPosition], dimensions: int) -> Anchors | None:
        check_metric(self.map.unit)
        return _anchors(known, dimensions)

    async def _describe_one(self, image: SentImage, slots: "RequestSlots") -> "Floats32 | RefusedError":
        async with slots.in_progress:
            async with slots.decoding:
                try:
                    pixels: Pixels = await self.run(self._decode, image.data, image.name, pool=self._decoders)
                except RefusedError as refusal:
                    return refusal
            return await asyncio.wrap_future(self._batcher.submit(pixels))

    def _locate(
        self,
        images: list[SentImage],
        described: "Sequence[Floats32 | RefusedError]",
        top_k: int,
        sequence: bool,
        coverage: float | None,
    ) -> "Located":
        refused = {n: one for n, one in enumerate(described) if isinstance(one, RefusedError)}
        rows = np.array([n for n in range(len(described)) if n not in refused], dtype=np.int64)
        made = np.array([one for one in described if not isinstance(one, RefusedError)], dtype=np.float32)
        found = locate_readable(
            self.locator,
            [image.name for image in images],
            Readable(rows, made, refused),
            encoder=self.fingerprint,
            drives=[np.arange(len(rows))] if sequence else None,
            coverage=coverage,
            candidates=top_k,
        )
        return positions(found), list(refused.values())

    def _recover(
        self, names: list[str], descriptors: Floats32, anchors: Anchors | None, dimensions: int, ordered: bool
    ) -> Trajectory:
        ranges = ranges_between(self.locator.calibration, descriptors, ordered=ordered)
        solve = partial(recover, ranges, dimensions, anchors=anchors, ordered=ordered, assume_steps=True)
        if anchors is None:
            recovered = solve()
        else:  # GTSAM holds Python's lock while it solves, so it gets a process of its own
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                recovered = process.submit(solve).result()
        return trajectory(names, recovered, report(ranges, recovered, anchors=anchors))


Located = tuple[Positions, list[RefusedError]]  # one entry per image, and the errors of images that cannot be used


class RequestSlots:
    """How many images of one request may be decoded at once, and may be decoded or in the encoder at once.

    The other images of the request wait here, not in a queue that all requests share. So no request waits for all
    images of another one.
    """

    def __init__(self, decoding: int, encoding: int) -> None:
        self.decoding, self.in_progress = asyncio.Semaphore(decoding), asyncio.Semaphore(decoding + encoding)


def _batcher(encoder: ImageEncoder, metrics: Metrics) -> tuple[BatchSize, Batcher]:
    """The thread of the encoder, with the measured batch size."""
    describe = encoder.for_queries()
    size = measure(describe, encoder.about.size)
    return size, Batcher(describe, size.images, metrics.batch)


def _in_memory(opened: Map) -> Map:
    """The map with its descriptors in memory, because others may change or remove a memory-mapped file.

    The descriptors of a map with an index stay in their file, because there are very many.
    """
    if not isinstance(opened.store, Exact):
        return opened
    return replace(opened, store=opened.store.in_memory(), covariance=np.array(opened.covariance))


def _anchors(known: list[KnownPosition], dimensions: int) -> Anchors | None:
    if not known:
        return None
    for one in known:
        if len(one.coordinates) != dimensions:
            given = f"{len(one.coordinates)} coordinates"
            raise BadInputError(f"the known position of point {one.point} has {given}, expected {dimensions}")
    return Anchors(*([getattr(one, name) for one in known] for name in ("point", "coordinates", "sigma")))


async def _all(work: Any) -> list[Any]:
    """All results in order; if one fails, or if this call is canceled, the others are canceled."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]
