"""Removed commands and options say what to use instead."""

import subprocess
import sys

import pytest

from mappable.cli.removed import REMOVED, removed


@pytest.mark.parametrize("name", REMOVED)
def test_each_removed_name_has_its_sentence(name: str) -> None:
    *command, last = name.split()
    assert name in str(removed([*command, "folder", f"{last}=1"] if last.startswith("-") else [*command, last]))


def test_what_exists_is_not_refused() -> None:
    assert removed(["recover", "ranges.csv", "out", "--truth", "file"]) is None


@pytest.mark.medium
def test_a_removed_option_stops_the_command() -> None:
    words = ["recover", "ranges.csv", "out", "--certificate"]
    result = subprocess.run([sys.executable, "-m", "mappable", *words], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("error: recover --certificate: no longer exists; ")
