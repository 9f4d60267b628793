"""Removed commands and options say what to use instead."""

import subprocess
import sys

import pytest


@pytest.mark.medium
def test_a_removed_option_stops_the_command() -> None:
    words = ["recover", "ranges.csv", "out", "--certificate"]
    result = subprocess.run(
        [sys.executable, "-m", "mappable", *words], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr.startswith("error: recover --certificate: no longer exists; ")
