"""Ctrl-C is held back while a step is under way, and a second one is not."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from mappable.interruption import held_back


@pytest.fixture(autouse=True)
def _handlers_are_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    yield
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_nothing_comes() -> None:
    with held_back() as interrupted:
        assert not interrupted()


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


def test_of_several_processes_the_first_alone_says_so(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(KeyboardInterrupt), held_back(say="one moment"):
        interrupt()
    assert capfd.readouterr() == ("", "")


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


def test_not_active_it_takes_effect_at_once() -> None:
    with held_back(False) as interrupted:
        assert not interrupted()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_other_threads_leave_signals_alone() -> None:
    said: list[bool] = []

    def work() -> None:
        with held_back() as interrupted:
            said.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert said == [False]


def test_within_another_one_it_does_nothing() -> None:
    reached: list[object] = []

    def stop() -> None:
        with held_back() as outer:
            with held_back() as inner:
                interrupt()
            reached.extend([outer(), inner()])

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert reached == [True, False]


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with held_back() as interrupted:
        interrupt()
        assert not interrupted()
    signal.signal(signal.SIGINT, before)
