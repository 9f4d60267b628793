"""Rules for all commands: order of arguments, overwriting, `--json`, exit codes (docs/commands.md)."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import Result

from mappable.cli.app import app
from mappable.evaluation import report

Typed = Callable[..., "subprocess.CompletedProcess[str]"]
Run = Callable[..., Result]


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """All commands by their words; for `convert`, only the reader `manifest`."""
    below = {"manifest": command.get_command(None, "manifest")} if words == ("convert",) else {}
    below = below or getattr(command, "commands", {})
    for name, one in below.items():
        yield from commands(one, (*words, name))
    if not below:
        yield " ".join(words), command


COMMANDS = dict(commands(typer.main.get_command(app)))
# Valid words for each command that name something that does not exist.
MISTAKES = {
    "start": "start no",
    "convert manifest": "convert manifest no out",
    "places check": "places check no",
    "places show": "places show no",
    "places split": "places split no --test a",
    "simulate": "simulate no out",
    "train": "train no out",
    "encoders": "encoders no",
    "embed": "embed no no out",
    "export": "export no out.onnx",
    "map build": "map build no out --encoder no",
    "map show": "map show no",
    "map add": "map add no no",
    "map calibrate": "map calibrate no no",
    "map remove": "map remove no a",
    "map upload": "map upload no landmarks.db",
    "map verify": "map verify no",
    "locate": "locate no no.jpg",
    "follow": "follow no no.jpg",
    "densify": "densify no no.jpg",
    "recover": "recover no.csv out",
    "serve": "serve no",
    "evaluate": "evaluate no no out",
    "compare": "compare no no",
    "reproduce": "reproduce no",
    "demo": "demo file",
}
# CONTINUING commands continue stopped work; CHANGING ones change a map or a table in one step
# (docs/commands.md).
CONTINUING = {"start", "convert", "simulate", "train", "reproduce", "demo"}
CHANGING = {"places split", "map add", "map calibrate", "map remove", "densify"}
# These print no result: a server and a demonstration.
WITHOUT_JSON = {"serve", "demo"}


def options(name: str) -> set[str]:
    return {text for one in COMMANDS[name].params for text in one.opts if text.startswith("--")}


def arguments(name: str) -> list[str]:
    return [one.name for one in COMMANDS[name].params if one.param_type_name == "argument"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_map_is_the_first_argument_and_out_the_last(name: str) -> None:
    metavars = [one.metavar for one in COMMANDS[name].params if one.param_type_name == "argument"]
    assert "--map" not in options(name)
    assert "MAP" not in metavars[1:]
    assert "out" not in arguments(name)[:-1]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_writes_out_can_overwrite_and_what_prints_a_result_has_json(name: str) -> None:
    if "out" in arguments(name):
        assert "--overwrite" in options(name)
    assert ("--json" in options(name)) == (name not in WITHOUT_JSON)


@pytest.mark.medium
@pytest.mark.parametrize("name", COMMANDS)
def test_exit_codes(
    name: str, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    wrong = typed(*MISTAKES[name].split())
    assert wrong.returncode == 1
    assert wrong.stdout == "" or name == "demo"  # it prints its first step
    assert wrong.stderr.startswith("error: ")
    assert wrong.stderr.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    usage = typed(*name.split(), "--no-such-option")
    assert (usage.returncode, usage.stdout) == (2, "")
    assert "--no-such-option" in usage.stderr
    assert typed(*name.split(), "--help").returncode == 0
    monkeypatch.setattr(TyperCommand, "invoke", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    stopped = typed(*MISTAKES[name].split())
    assert (stopped.returncode, stopped.stdout) == (130, "")
    assert stopped.stderr.startswith("error: stopped; ")
    assert ("continues" in stopped.stderr) == (name.split()[0] in CONTINUING)
    assert ("all of the changes or none" in stopped.stderr) == (name in CHANGING)
    assert ("starts over" in stopped.stderr) == (
        name.split()[0] not in CONTINUING and name not in CHANGING
    )


def test_a_command_that_does_not_exist_is_a_usage_error_that_names_a_similar_one(
    typed: Typed,
) -> None:
    for words, similar in (
        (("trian",), "train"),
        (("map", "bild"), "build"),
        (("places", "splitt"), "split"),
    ):
        result = typed(*words)
        assert result.returncode == 2
        assert f"'{similar}'" in result.stderr


@pytest.mark.medium
def test_results_are_not_replaced_unasked(
    mappable: Run, wall: Path, wall_map: Path, tmp_path: Path
) -> None:
    def refused(file: str, *words: object) -> None:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("mine")
        error = mappable(*words).exception
        assert f"{tmp_path / file}: exists" in str(error)
        assert "--overwrite" in str(error)
        assert (tmp_path / file).read_text() == "mine"

    shutil.copy(wall_map / "map.json", tmp_path)
    drive = wall / "fog"
    refused("out.h5", "map", "show", wall_map, "--out", tmp_path / "out.h5")
    refused("out.csv", "locate", wall_map, drive, "--out", tmp_path / "out.csv")
    refused("map.png", "places", "show", wall, "--out", tmp_path / "map.png")
    refused("found/result.json", "evaluate", wall_map, wall, tmp_path / "found")
    assert "map.json: exists" in str(
        mappable("map", "build", wall, tmp_path, "--encoder", wall_map).exception
    )


@pytest.mark.medium
@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("map show MAP", {"landmarks", "encoder", "calibration"}),
        ("map verify MAP", {"landmarks", "files", "bytes"}),
        ("map remove MAP ID", {"landmarks", "encoder", "calibration"}),
        ("map add MAP WALL --sequence fog --spacing 100", {"landmarks", "encoder", "calibration"}),
        ("places show WALL", {"places", "sequences", "notes"}),
        ("places split WALL --calibration rain --test fog", {"train", "calibration", "test"}),
        ("convert manifest WALL OUT --no-pixels", {"places", "sequences", "notes"}),
        ("densify MAP IMAGES", {"images", "added", "landmarks", "left_out"}),
        ("embed MAP WALL OUT --split test", {"descriptors", "dimensions", "encoder"}),
        ("recover RANGES OUT", {"points", "ranges", "undetermined"}),
        (
            "evaluate MAP WALL OUT --positive-radius 5 --negative-radius 9 --protocols table1",
            {"report", "models"},
        ),
    ],
)
def test_json_is_all_that_standard_output_holds(
    words: str,
    keys: set[str],
    typed: Typed,
    wall: Path,
    copied_map: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report, "drawings", list)  # drawing takes seconds
    (tmp_path / "ranges.csv").write_text("i,j,metres\n0,1,1\n1,2,1\n0,2,1.5\n")
    (tmp_path / "images").mkdir()
    if "split" in words:
        wall = shutil.copytree(wall, tmp_path / "wall")
    shutil.copy(wall / "fog/00020.png", tmp_path / "images/1.png")
    place = json.loads(typed("locate", copied_map, wall / "sun/00000.png", "--json").stdout)[0][
        "landmark"
    ]
    meant = {"MAP": copied_map, "WALL": wall, "ID": place, "OUT": tmp_path / "out"}
    meant |= {"IMAGES": tmp_path / "images", "RANGES": tmp_path / "ranges.csv"}
    result = typed(*(meant.get(word, word) for word in words.split()), "--json")
    assert result.returncode == 0, result.stderr
    assert keys <= json.loads(result.stdout).keys()
