"""Micro-batches: the fastest size is chosen, no request waits for a batch to fill, and nothing is lost."""

import threading
import time

import numpy as np
import pytest

from mappable.arrays import Floats32, Pixels
from mappable.service.batching import Batcher


def describe(pixels: Pixels) -> Floats32:
    """The first number of each image."""
    return pixels[:, 0, 0, :1].astype(np.float32)


def image(number: int) -> Pixels:
    return np.full((2, 2, 3), number, dtype=np.uint8)


@pytest.fixture
def gate() -> threading.Event:
    return threading.Event()


@pytest.fixture
def sizes() -> list[int]:
    return []


@pytest.fixture
def batcher(gate: threading.Event, sizes: list[int]) -> Batcher:
    """A batcher that starts its second batch when the gate opens."""

    def waiting(pixels: Pixels) -> Floats32:
        if len(sizes) > 1:
            gate.wait(10)
        return describe(pixels)

    return Batcher(waiting, 8, sizes.append)


def test_what_waits_goes_together_in_powers_of_two(
    batcher: Batcher, gate: threading.Event, sizes: list[int]
) -> None:
    assert batcher.submit(image(0)).result(10) == 0  # at once, though there is room for more
    second = batcher.submit(image(1))
    while len(sizes) < 2:
        time.sleep(0.001)
    others = [batcher.submit(image(number)) for number in range(2, 17)]
    gate.set()
    assert [one.result(10).item() for one in (second, *others)] == list(range(1, 17))
    assert sizes == [1, 1, 8, 4, 2, 1]
    batcher.close()


def test_what_is_cancelled_is_not_described(
    batcher: Batcher, gate: threading.Event, sizes: list[int]
) -> None:
    batcher.submit(image(0)).result(10)
    batcher.submit(image(1))
    while len(sizes) < 2:
        time.sleep(0.001)
    given_up, kept = batcher.submit(image(2)), batcher.submit(image(3))
    assert given_up.cancel()
    gate.set()
    assert kept.result(10) == 3
    batcher.close()
    assert sizes == [1, 1, 1]


def test_a_failure_is_told_to_those_who_wait_and_work_goes_on() -> None:
    def sometimes(pixels: Pixels) -> Floats32:
        if pixels.max() > 100:
            raise RuntimeError("too bright")
        return describe(pixels)

    batcher = Batcher(sometimes, 4)
    with pytest.raises(RuntimeError, match="too bright"):
        batcher.submit(image(200)).result(10)
    assert batcher.submit(image(7)).result(10) == 7
    batcher.close()
