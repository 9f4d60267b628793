"""What the documentation shows works as shown."""

import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mappable
from mappable.places import readers
from mappable.places.readers import find_reader, read_places, reader_names

ROOT = Path(__file__).parent.parent


def code_blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def test_the_reader_of_the_guide_is_found_by_its_file_name_and_passes_the_test_of_the_guide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw: Callable[..., Path]
) -> None:
    reader, test = code_blocks("docs/add-a-reader.md", "python")
    folder = tmp_path / "readers"
    folder.mkdir()
    (folder / "robot_log.py").write_text(reader)
    style = [sys.executable, "-m", "ruff", "format", "--check", "--config", ROOT / "pyproject.toml", folder]
    assert subprocess.run(style, capture_output=True).returncode == 0
    monkeypatch.setattr(readers, "__path__", [*readers.__path__, str(folder)])
    found = find_reader("robot_log")
    assert "robot_log" in reader_names()
    assert found.summary == "Logs of our robot: images with positions in metres."
    assert "\n    ROOT/\n      log.csv" in found.documentation
    names: dict[str, Any] = {}
    exec(test, names)
    names["test_a_log_becomes_places"](tmp_path, draw)


def test_the_python_of_the_guide_runs_on_geotagged_photos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, geotagged: Callable[..., list[Path]]
) -> None:
    monkeypatch.chdir(tmp_path)
    geotagged(tmp_path / "holiday/day", 12)
    geotagged(tmp_path / "holiday/dusk", 8, datetime(2026, 5, 1, 21, tzinfo=UTC))
    shown = code_blocks("docs/convert.md", "python")[0]
    names: dict[str, object] = {}
    exec(shown, names)
    places, pixels = names["places"], names["pixels"]
    assert isinstance(places, mappable.Places)
    assert isinstance(pixels, np.ndarray)
    assert pixels.shape == (12, 180, 240, 3)
    assert sorted(names["near"][0].tolist()) == [1, 2]  # 4 m and 8 m away


def test_the_example_table_of_the_guide_is_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text(code_blocks("docs/convert.md", "csv")[0])
    places = read_places("manifest", tmp_path)
    assert list(places.split) == ["train", "train"]
    assert places.x[1] == 1.1


def test_every_column_is_explained_on_the_page_of_conventions() -> None:
    from mappable.places.table import COLUMNS

    page = (ROOT / "docs/conventions.md").read_text()
    for column in COLUMNS:
        assert f"`{column}`" in page


def test_the_python_of_the_page_of_worlds_runs() -> None:
    names: dict[str, Any] = {}
    exec(code_blocks("docs/worlds.md", "python")[0], names)
    town = names["town"]
    assert town.pixels.shape == (len(town.places), 120, 160, 3)
    assert len(town.world.aliases) > 100
