"""Ctrl-C is held back while a step is under way, and a second one is not."""

import os
import signal
from collections.abc import Iterator

import pytest

from mappable.interruption import held_back


@pytest.fixture(autouse=True)
def _handlers_are_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    yield
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_takes_effect_at_the_end_and_says_so(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    taken: list[int] = []
    before = signal.signal(number, lambda number, frame: taken.append(number))
    with held_back(say="one moment") as interrupted:
        os.kill(os.getpid(), number)
        assert interrupted()
        assert taken == []
    assert taken == [number]
    signal.signal(number, before)
    assert capfd.readouterr().err == "\none moment\n"


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_second_takes_effect_at_once() -> None:
    reached = []

    def stop() -> None:
        with held_back() as interrupted:
            interrupt()
            reached.append(interrupted())
            interrupt()
            reached.append("after the second")

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert reached == [True]


def test_whoever_stops_because_of_it_is_not_stopped_again() -> None:
    def stop() -> None:
        with held_back():
            interrupt()
            raise LookupError

    with pytest.raises(LookupError):
        stop()
