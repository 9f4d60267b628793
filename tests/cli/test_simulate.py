"""`mappable simulate` as a user types it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mappable.places import find_pack, load_places

pytestmark = pytest.mark.medium

COMMAND = [sys.executable, "-c", "from mappable.cli import main; main()"]
Typed = Callable[..., "subprocess.CompletedProcess[str]"]
TINY = ("--size", "32x24", "--every", "40")


@pytest.mark.long
def test_simulate_then_convert(tmp_path: Path, typed: Typed) -> None:
    out = tmp_path / "a street"
    command = [*COMMAND, "simulate", "street-v1-3d", out, "--parts", " main", *TINY]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    places = load_places(out)
    assert find_pack(out).load(places).shape == (len(places), 24, 32, 3)
    for text in (
        f"{len(places):,} places",
        "upper bound",
        "contact-sheet.jpg",
        f"'{out}'",
        "one image in 40",
    ):
        assert text in result.stdout
    assert json.loads((out / "world.json").read_text())["image_hash"] in result.stdout
    assert typed("simulate", "street-v1-3d", out, "--parts", "main", *TINY).stdout == result.stdout
    converted = typed("convert", "simulated", out, tmp_path / "small", "--size", "16x12")
    assert converted.returncode == 0, converted.stderr
    assert load_places(tmp_path / "small") == places


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("moon", "out"), "unknown world 'moon': use one of street-v1"),
        (("street-v1", "out", "--parts", "attic"), "has no part 'attic'"),
        (("street-v1", "out", "--size", "big"), "'big', expected WIDTHxHEIGHT"),
        (("street-v1-3d", "/proc/here", *TINY), "/proc/here"),
        (
            ("street-v1-3d", "out", "--device", "abacus", *TINY),
            "device must be cpu or cuda, got 'abacus'",
        ),
    ],
)
def test_mistakes_are_answered_with_one_sentence(
    arguments: tuple[str, ...],
    part: str,
    tmp_path: Path,
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = typed("simulate", *arguments)
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert part in result.stderr
    assert not list(tmp_path.iterdir())


def test_the_command_line_answers_without_loading_what_is_slow_to_load() -> None:
    code = (
        "import sys, mappable.cli.app; print({'torch', 'scipy', 'matplotlib'} & set(sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        == "set()\n"
    )
