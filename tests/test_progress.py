"""Progress: a bar at a terminal, a line per minute elsewhere, and never in the way of the items."""

import os
import pty
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from mappable.progress import one_bar, progress_bar, track

SHOW = """
from mappable.progress import one_bar, progress_bar, track
print(sum(track(range(30), "packing", total=30)))
with progress_bar("checking", 40) as advance:
    advance(15)
    advance(25)
"""

NOTED = """
from mappable.progress import progress_bar
with progress_bar("training", 1200) as advance:
    advance(100)
    advance(1100, "{note}")
"""


class Clock:
    """Stands still until it is moved on."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    # Not the attribute of `time` itself: the event loops of servers in other threads would wait by this clock.
    monkeypatch.setattr("mappable.progress.time", SimpleNamespace(monotonic=clock))
    return clock


def test_without_a_terminal_long_work_prints_a_line_per_minute(clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
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


def test_time_left_does_not_count_what_an_earlier_process_did(clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    with progress_bar("describing", 1000) as advance:
        advance(900)
        for _ in range(9):
            clock.seconds += 450
            advance(10)
    assert capfd.readouterr().err.splitlines()[0] == "describing: 910 of 1,000 (91 %), about 1 h 8 min left"


def test_of_several_processes_the_first_alone_prints_lines(
    clock: Clock, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    for _ in track(range(5), "packing", 5):
        clock.seconds += 61
    assert capfd.readouterr().err == ""


def shown_at_a_terminal(script: str, columns: int, **variables: str) -> tuple[bytes, str]:
    """Standard output, and what a terminal of that width is shown on standard error."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": str(columns)} | variables
    run = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=theirs, env=environment, check=True
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    return run.stdout, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())  # without colors


@pytest.mark.medium
def test_a_note_is_below_the_bar_and_cut_where_the_terminal_ends() -> None:
    note = "loss 0.4512 · visual 0.2511 · geometric 0.0123 · active 45 % · 1,234 images/s"
    script = NOTED.format(note=note)
    for columns, seen in ((80, note), (40, note[:39] + "…")):
        _, text = shown_at_a_terminal(script, columns)
        *_, bar, below, _ = text.replace("\r", "").split("\n")
        assert re.search(r"training ━+ 1200/1200 0:00:00$", bar)
        assert below == seen


@pytest.mark.medium
def test_of_several_processes_the_first_alone_shows_its_bar() -> None:
    script = NOTED.format(note="a note")
    assert "1200/1200" in shown_at_a_terminal(script, 80, RANK="0")[1]
    assert shown_at_a_terminal(script, 80, RANK="1") == (b"", "")


def test_one_bar_says_how_long_the_whole_command_takes(clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
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
