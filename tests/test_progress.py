"""Progress: a bar at a terminal, a line per minute elsewhere, and never in the way of the items."""

from types import SimpleNamespace

import pytest

from mappable.progress import one_bar, progress_bar, track


class Clock:
    """Stands still until it is moved on."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    # Not the attribute of `time` itself: the event loops of servers in other threads would wait by
    # this clock.
    monkeypatch.setattr("mappable.progress.time", SimpleNamespace(monotonic=clock))
    return clock


def test_without_a_terminal_long_work_prints_a_line_per_minute(
    clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    with progress_bar("training", 6000) as advance:
        for step in range(60):
            clock.seconds += 10
            advance(100, f"loss {0.9 - step / 100:.2f}")
    out, lines = capfd.readouterr()
    first, *middle, last = lines.splitlines()
    assert out == ""
    assert first == "training: 600 of 6,000 (10 %), about 9 min left, loss 0.85"
    assert len(middle) == 8
    assert middle[-1] == "training: 5,400 of 6,000 (90 %), about 1 min left, loss 0.37"
    assert last == "training: 6,000 of 6,000 in 10 min"


def test_one_bar_says_how_long_the_whole_command_takes(
    clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    with one_bar("start", [("packing", 30.0), ("frozen layers", 100.0), ("training", 270.0)]):
        for title in ("packing images", "training triplet"):  # the frozen layers are known already
            for _ in track(range(10), title, 10):
                clock.seconds += 13
        with progress_bar("drawing", 5) as advance:  # a bar that nobody planned
            advance(5)
    lines = capfd.readouterr().err.splitlines()
    assert lines == [
        "start: 15 of 400 (3 %), about 28 min left, packing images",
        "start: 30 of 400 (7 %), about 27 min left, packing images",
        "start: 265 of 400 (66 %), about 2 min left, training triplet",
        "start: 400 of 400 in 4 min",
    ]
