"""Progress bars: seen at a terminal, silent elsewhere, and never in the way of the items."""

import os
import pty
import subprocess
import sys

import pytest

from mappable.progress import progress_bar, track

SHOW = """
from mappable.progress import progress_bar, track
print(sum(track(range(30), "packing", total=30)))
with progress_bar("checking", 40) as advance:
    advance(15)
    advance(25)
"""


def test_without_a_terminal_items_pass_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(track((letter for letter in "abc"), "packing", total=3)) == ["a", "b", "c"]
    with progress_bar("packing", 3) as advance:
        advance(2)
    assert capfd.readouterr() == ("", "")


def test_items_come_one_at_a_time_and_errors_pass_through() -> None:
    taken = []
    for item in track(iter(range(10)), "packing", total=10):
        taken.append(item)
        if item == 2:
            break
    assert taken == [0, 1, 2]

    def failing():
        yield 1
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        list(track(failing(), "packing", total=2))


def test_at_a_terminal_the_bar_counts_on_standard_error_alone() -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    run = subprocess.run(
        [sys.executable, "-c", SHOW], stdout=subprocess.PIPE, stderr=theirs, env=environment, check=True
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert run.stdout == b"435\n"
    text = shown.decode()
    for expected in ("packing", "30/30", "checking", "40/40"):
        assert expected in text
