"""docs/house.md shows the rooms that there are, and the order that the import contract gives them."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import house
import pytest

ROOT = Path(__file__).parent.parent


def picture() -> list[list[str]]:
    """The rows of rooms with arrows between them, of the picture on top of the page."""
    drawn = house.PAGE.read_text().split("```")[1]
    return [re.findall(r"\w+(?= ──>)|(?<=──> )\w+", line) for line in drawn.splitlines() if "──>" in line]


@pytest.mark.medium
def test_the_page_is_what_the_modules_say() -> None:
    now = house.PAGE.read_text()
    assert house.page(now) == now, "docs/house.md is stale: run `python scripts/house.py`"


def test_the_picture_shows_every_room() -> None:
    rooms = {folder.parent.name for folder in house.PACKAGE.glob("*/__init__.py")}
    assert {name for row in picture() for name in row} == rooms


def test_every_arrow_of_the_picture_is_in_the_contract() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    level = {name: number for number, layer in enumerate(contract["layers"]) for name in re.findall(r"\w+", layer)}
    for row in picture():
        for left, right in pairwise(row):
            assert level[left] > level[right], f"{left} ──> {right}"


@pytest.mark.parametrize("text", ["", '"""No period"""', '"""Two lines in\none sentence."""'])
def test_a_module_that_does_not_begin_with_one_sentence_is_named(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "ROOT", tmp_path)
    (tmp_path / "wrong.py").write_text(text)
    with pytest.raises(SystemExit, match=r"wrong\.py"):
        house.first_line(tmp_path / "wrong.py")
