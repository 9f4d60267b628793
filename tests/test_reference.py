"""The generated parts of the documentation pages are what the program says about itself."""

import re
from pathlib import Path

import pytest
import reference

ROOT = Path(__file__).parent.parent
GENERATED = re.compile("<!-- end of (command|located image|readers)")
PAGES = ("commands", "maps", "readers")


def page(name: str) -> str:
    return (ROOT / f"docs/{name}.md").read_text("utf-8")


@pytest.mark.medium
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_program_says(name: str) -> None:
    now = page(name)
    assert reference.fill(now) == now, f"docs/{name}.md is stale: run `python scripts/reference.py`"


@pytest.mark.medium
def test_a_part_that_is_stale_or_not_written_yet_is_written() -> None:
    now = page("readers")
    empty = re.sub(r"(<!-- readers -->\n).*<!-- end of readers -->\n", r"\1", now, flags=re.DOTALL)
    assert len(empty) < 1000
    assert reference.fill(empty) == now
    assert reference.fill(now.replace("## kitti", "## KITTI")) == now


def test_every_page_with_a_generated_part_is_filled_and_checked() -> None:
    with_parts = {file.stem for file in (ROOT / "docs").glob("*.md") if GENERATED.search(file.read_text("utf-8"))}
    assert with_parts == set(PAGES) == {file.stem for file in reference.PAGES}


@pytest.mark.medium
def test_every_command_has_a_heading_and_a_generated_part() -> None:
    commands = page("commands")
    parts = re.findall(r"<!-- command (.+?) -->", commands)
    assert sorted(parts) == sorted(map(" ".join, reference.command_names()))
    assert re.findall(r"^### (.+)$", commands, flags=re.MULTILINE) == parts


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("maps", "| `distance` | Distance from the image to"),
        ("commands", "`mappable map build PLACES OUT`"),
        ("commands", "| `--storage STORAGE` | "),
        ("commands", " One of `float32`, `float16`. Default: "),
        ("commands", "| `MAP` | "),
        ("commands", "| `[OUT]` | "),
        ("commands", "| `--on-bad-image ON-BAD-IMAGE` |"),
        ("readers", "\n## tum\n"),
        ("readers", "| `spacing` | float | `1.0` |"),
    ],
)
def test_a_page_holds_fields_arguments_and_options(name: str, line: str) -> None:
    assert line in page(name)
