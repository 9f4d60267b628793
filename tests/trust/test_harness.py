"""The harnesses notice what they look for, and their short form passes."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from trust.counters import Counters

from trust import commands, damage, fuzz, kills, processes, soak, table, tiny

ROOT = Path(__file__).parent.parent.parent


def test_inputs_and_damages_are_the_same_in_every_run() -> None:
    data = bytes(range(256)) * 4
    for number in range(50):
        assert fuzz.mutated(data, random.Random(number)) == fuzz.mutated(data, random.Random(number))
    changed = [damage.damaged(data, kind, random.Random(1), b"other") for kind in damage.KINDS]
    assert len({*changed, data}) == 5


def test_an_exception_and_several_lines_are_noticed(tmp_path: Path) -> None:
    def read(base: Path, folder: Path) -> None:
        raise KeyError("x")

    target = fuzz.Target("broken", lambda base, folder: folder / "a", read)
    assert fuzz.try_input(target, tmp_path, tmp_path, tmp_path / "a", b"") == "KeyError: 'x'"


def test_a_mix_of_old_and_new_is_noticed() -> None:
    killer = object.__new__(kills.Killer)
    killer.before, killer.after = {"a": "old", "b": "old"}, {"a": "new", "b": "new", "c": "new"}
    assert killer.judge({"a": "new", "b": "old"}) == ""
    assert "b is absent" in killer.judge({"a": "old"})
    assert "a is half" in killer.judge({"a": "half", "b": "old"})
    assert killer.judge({"a": "old", "b": "old", "c": commands.ABSENT}) == ""


def test_answers_are_compared_up_to_rounding() -> None:
    assert soak.same([{"x": 1.0, "id": "a"}], [{"x": 1.00001, "id": "a"}])
    assert not soak.same([{"x": 1.0}], [{"x": 1.01}])
    assert not soak.same([{"x": 1.0}], [{"x": 1.0, "y": 2.0}])


def test_growing_memory_is_noticed() -> None:
    assert soak.growth([[second, 500.0 + second] for second in range(100)]) == 50
    assert soak.growth([[0, 100.0], *([second, 500.0] for second in range(1, 100))]) == 0


def test_partial_runs_add_up(tmp_path: Path) -> None:
    for _ in range(2):
        counters = Counters(tmp_path / "kill.json")
        counters.add("convert", "hit", 3)
        counters.fail("convert", "lost")
        counters.save()
    assert json.loads((tmp_path / "kill.json").read_text()) == {
        "convert": {"failures": ["lost", "lost"], "hit": 6, "failed": 2}
    }


def test_a_kill_precedes_every_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = []

    class Killer:
        changes = 30

        def __init__(self, *_: object) -> None:
            pass

        def try_once(self, kind: str, number: int, _: random.Random) -> tuple[bool, str, int]:
            if kind == kills.KINDS[0]:
                before.append(number)
            return True, "", 0

    monkeypatch.setattr(kills, "Killer", Killer)
    counters = Counters(tmp_path / "kill.json")
    kills.run_kills(tmp_path, tmp_path, counters, 12, ["convert"])
    assert before == list(range(1, 31))
    assert counters.get("convert", "hit") == 12 + 26
    lines = table.table(tmp_path, ["convert"]).splitlines()
    assert "| kills that hit a process at work | 38 | 0 | 1,000 |" in lines
    assert "| `convert` | 38 | 30 | 30 | 0 |" in lines


@pytest.mark.parametrize(
    ("status", "output", "sentence"),
    [
        (1, "error: a.csv: damaged\n", True),
        (1, "error: a.csv: damaged\nerror: b.csv: damaged\n", False),
        (3, "report: r\nerror: figure 1: no room\nerror: figure 2: no room\n", True),
        (3, "report: r\n", False),
        (1, "Traceback\nerror: x\n", False),
        (-9, "error: x\n", False),
    ],
)
def test_a_refusal_is_a_sentence(status: int, output: str, sentence: bool) -> None:
    assert processes.Ended(status, output, 0.1).sentence is sentence


@pytest.mark.medium
@pytest.mark.skipif(sys.platform != "linux", reason="the harnesses need fork and /proc")
def test_the_short_form_passes(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts/trust"), "--short", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("kill", "pairs", "damage", "fuzz", "http", "full", "soak"):
        assert f"{part}: " in done.stdout


@pytest.mark.medium
def test_the_weights_of_the_full_base_are_in_the_cache(tmp_path: Path) -> None:
    """Only the long form writes them, so that no short run notices if this fails."""
    tiny.write_weights(tmp_path)
    assert list((tmp_path / "cache").rglob("*vgg16-caffe*"))
