"""Micro-batches: images of many requests through the encoder together."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Floats32, Pixels
from mappable.places.images import Size
from mappable.progress import track

Describe = Callable[[Pixels], Floats32]  # images (n, height, width, 3) to descriptors (n, D)
LARGEST = 32
NEARLY = 0.9  # of the best speed is as good: a difference like that may be what else the machine did
ROUNDS = 3
SECONDS = 5.0  # for measuring


@dataclass(frozen=True)
class BatchSize:
    """Images at a time, and how many a second the encoder describes so."""

    images: int
    per_second: float


def measure(describe: Describe, size: Size, clock: Callable[[], float] = time.perf_counter) -> BatchSize:
    """The smallest power of two that is nearly as fast as any: images of `size` (width, height) are described so."""
    taken = _times(describe, size, clock)
    speeds = {images: images / min(times[1:] or times) for images, times in taken.items()}  # the first is to warm up
    best = max(speeds.values())
    images = min(images for images, speed in speeds.items() if speed >= NEARLY * best)
    return BatchSize(images, speeds[images])


def _times(describe: Describe, size: Size, clock: Callable[[], float]) -> dict[int, list[float]]:
    """Seconds that batches took by their size, in turn, so that what else the machine does slows all.

    Batches that would take longer than what is left of the time are left out.
    """
    pixels = np.random.default_rng(0).integers(0, 256, (LARGEST, size[1], size[0], 3), dtype=np.uint8)
    sizes = [1 << power for power in range(LARGEST.bit_length())]
    taken: dict[int, list[float]] = {}
    end, last = clock() + SECONDS, 0.0
    for images in track(sizes * (1 + ROUNDS), "measuring the encoder", len(sizes) * (1 + ROUNDS)):
        start = clock()
        if start + (2 * last if images > 1 else 0) > end:
            break
        describe(pixels[:images])
        last = clock() - start
        taken.setdefault(images, []).append(last)
    return taken


@dataclass(frozen=True)
class _Job:
    pixels: Pixels
    answer: "Future[Floats32]"


class Batcher:
    """One thread that describes what is waiting, up to `size` images at a time; it never waits for a batch to fill.

    Batches have a power of two of images, so that few sizes occur, for each of which a GPU prepares itself once.
    `observe` is told the size of each.
    """

    def __init__(self, describe: Describe, size: int, observe: Callable[[int], None] = lambda images: None) -> None:
        self._describe, self.size, self._observe = describe, size, observe
        self._waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="encoder", daemon=True)
        self._thread.start()

    def submit(self, pixels: Pixels) -> "Future[Floats32]":
        """The descriptor (D,) of an image, when it is there; it can be cancelled until its turn comes."""
        job = _Job(pixels, Future())
        self._waiting.put(job)
        return job.answer

    def close(self) -> None:
        """What was submitted is finished first."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            jobs, last = self._more(first)
            for batch in _powers_of_two([job for job in jobs if job.answer.set_running_or_notify_cancel()]):
                self._answer(batch)
            if last:
                return

    def _more(self, first: _Job) -> tuple[list[_Job], bool]:
        """The first and what waits behind it, and whether that was the last."""
        jobs = [first]
        while len(jobs) < self.size and not self._waiting.empty():
            job = self._waiting.get()
            if job is None:
                return jobs, True
            jobs.append(job)
        return jobs, False

    def _answer(self, batch: Sequence[_Job]) -> None:
        self._observe(len(batch))
        try:
            descriptors = self._describe(np.stack([job.pixels for job in batch]))
        except BaseException as error:  # whatever it is, those who wait must hear of it, and the thread must live
            for job in batch:
                job.answer.set_exception(error)
            return
        for job, descriptor in zip(batch, descriptors, strict=True):
            job.answer.set_result(descriptor)


def _powers_of_two(jobs: Sequence[_Job]) -> Iterator[Sequence[_Job]]:
    """The jobs in order, in portions of the largest powers of two."""
    start = 0
    while start < len(jobs):
        length = 1 << ((len(jobs) - start).bit_length() - 1)
        yield jobs[start : start + length]
        start += length
