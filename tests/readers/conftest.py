"""Golden folders, written once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reader_folders import CASES


@pytest.fixture(scope="session")
def golden_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The golden folder of a case. A test that changes it makes a copy first."""
    written: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in written:
            written[name] = tmp_path_factory.mktemp(name) / "set"
            written[name].mkdir()
            CASES[name].write(written[name])
        return written[name]

    return folder
