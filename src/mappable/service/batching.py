"""Micro-batches: the encoder describes images of several requests together."""

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
LARGEST_BATCH = 32  # images
# Share of the highest speed; other work on the machine may cause a difference of this size.
FAST_ENOUGH = 0.9
ROUNDS = 3  # measurements per batch size, after one to warm up
MEASURING_SECONDS = 5.0


@dataclass(frozen=True)
class BatchSize:
    """Images per batch, and the images per second that the encoder describes in such batches."""

    images: int
    per_second: float


def measure(
    describe: Describe, size: Size, clock: Callable[[], float] = time.perf_counter
) -> BatchSize:
    """The smallest power of two that is nearly as fast as any other, for images of `size` (width,
    height).
    """
    taken = _times(describe, size, clock)
    # The first one warms up.
    speeds = {images: images / min(times[1:] or times) for images, times in taken.items()}
    best = max(speeds.values())
    images = min(images for images, speed in speeds.items() if speed >= FAST_ENOUGH * best)
    return BatchSize(images, speeds[images])


def _times(describe: Describe, size: Size, clock: Callable[[], float]) -> dict[int, list[float]]:
    """Seconds per batch, by batch size. Sizes alternate, so that other work on the machine slows
    all of them equally.

    Skips a batch that would probably take longer than the remaining time.
    """
    pixels = np.random.default_rng(0).integers(
        0, 256, (LARGEST_BATCH, size[1], size[0], 3), dtype=np.uint8
    )
    sizes = [1 << power for power in range(LARGEST_BATCH.bit_length())]
    taken: dict[int, list[float]] = {}
    end, last = clock() + MEASURING_SECONDS, 0.0
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
    """One thread that describes waiting images, at most `size` per batch; it never waits for a
    batch to fill.

    The number of images in a batch is a power of two: a GPU prepares itself once per size, so few
    sizes are better. The thread calls `observe` with the size of each batch.
    """

    def __init__(
        self, describe: Describe, size: int, observe: Callable[[int], None] = lambda images: None
    ) -> None:
        self._describe, self.size, self._observe = describe, size, observe
        self._waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="encoder", daemon=True)
        self._thread.start()

    def submit(self, pixels: Pixels) -> "Future[Floats32]":
        """A future of the descriptor (D,) of an image; it can be canceled until its batch starts."""
        job = _Job(pixels, Future())
        self._waiting.put(job)
        return job.answer

    def close(self) -> None:
        """Finish all submitted images, then stop the thread."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            jobs, last = self._with_waiting(first)
            for batch in _powers_of_two(
                [job for job in jobs if job.answer.set_running_or_notify_cancel()]
            ):
                self._answer(batch)
            if last:
                return

    def _with_waiting(self, first: _Job) -> tuple[list[_Job], bool]:
        """The first job and waiting ones, at most `size`; True if the batcher was closed after
        them.
        """
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
        # Any error must reach the waiting requests, and must not end the thread.
        except BaseException as error:
            for job in batch:
                job.answer.set_exception(error)
            return
        for job, descriptor in zip(batch, descriptors, strict=True):
            job.answer.set_result(descriptor)


def _powers_of_two(jobs: Sequence[_Job]) -> Iterator[Sequence[_Job]]:
    """The jobs in order, in batches whose sizes are powers of two, each as large as possible."""
    start = 0
    while start < len(jobs):
        length = 1 << ((len(jobs) - start).bit_length() - 1)
        yield jobs[start : start + length]
        start += length
