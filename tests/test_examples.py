"""The examples run without arguments, and find what they should."""

import json
import re
import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from mappable.localization.map import Map
from mappable.maps.landmarks import Landmarks
from mappable.places.frames import Frame
from mappable.places.table import Places

EXAMPLES = Path(__file__).parents[1] / "examples"
PRINTED = {  # a pattern that the output must contain, and a limit of its last number
    "own_photos": (r"nearest photo monday.*\ndistance to it ([\d.]+) m", 4.0),
    "from_scratch": (r"confident, largest error of these ([\d.]+) m", 10.0),
    "drive": (r"as a drive: .*median error ([\d.]+) m", 1.0),
    "foreign_encoder": (r"median error ([\d.]+) m", 1.0),
    "follow_live": (
        r"image \d+: tracking\nimage \d+: x [\d.]+, y [\d.]+ m, standard deviation ([\d.]+)",
        3.0,
    ),
    "radio_ranges": (r"median error ([\d.]+) m", 0.2),
    "ask_server": (r"0013.jpg: x ([\d.]+), y [\d.]+ m, nearest landmark monday/00[024]0.jpg", 4.0),
}
PLOTS = {"drive", "radio_ranges"}
SLOW = {"ask_server", "own_photos"}  # they start other processes


def test_every_script_is_run_and_short() -> None:
    scripts = {file.stem: file for file in EXAMPLES.glob("*.py")}
    assert scripts.keys() == {*PRINTED, "drawn"}
    lines = {name: len(scripts[name].read_text("utf-8").splitlines()) for name in PRINTED}
    # 100 without comments, docstrings and its made-up input.
    assert lines.pop("from_scratch") <= 160
    assert max(lines.values()) <= 50
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    others = ("__pycache__", "ruff.toml")
    assert all(
        f"`{file.name}`" in listed for file in EXAMPLES.glob("[!R.]*") if file.name not in others
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in SLOW else pytest.mark.medium)
        for name in PRINTED
    ],
)
def test_an_example_runs_on_input_of_its_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAPPABLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    monkeypatch.syspath_prepend(str(EXAMPLES))
    plt.switch_backend("agg")
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    plt.close("all")
    sys.modules.pop("drawn", None)
    out = capsys.readouterr().out
    pattern, most = PRINTED[name]
    printed = re.search(pattern, out)
    assert printed, out
    assert float(printed[1]) <= most
    assert (tmp_path / f"{name}.png").exists() == (name in PLOTS)


@pytest.mark.medium
def test_the_notebook_runs_from_top_to_bottom(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = json.loads((EXAMPLES / "map.ipynb").read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 4)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec("".join(cell["source"]), names)
    plt.close("all")
    sys.modules.pop("drawn")
    printed = capsys.readouterr().out
    assert int(re.findall(r"(\d+) of 20 intervals", printed)[0]) >= 14
    alone, together = (float(error) for error in re.findall(r"median error ([\d.]+) m", printed))
    assert together < alone < 2


@pytest.mark.medium
@pytest.mark.parametrize(("seed", "light"), [(1, 0.0), (2, 1.0), (3, 2.0)])
def test_the_example_from_scratch_answers_as_the_library_does(seed: int, light: float) -> None:
    """By day and by night; the last images are from elsewhere."""
    example = runpy.run_path(str(EXAMPLES / "from_scratch.py"))
    positions, landmarks = example["made_up"](np.arange(0, 400, 5.0), seed)
    along = np.append(np.arange(2, 398, 7.0), np.arange(5000, 5050, 7.0))
    _, images = example["made_up"](along, seed + 1, light)
    paths = [f"{row}" for row in range(len(positions))]
    places = Places(path=paths, x=positions[:, 0], y=positions[:, 1], frames=Frame("town"))
    landmarks, images = landmarks.astype(np.float32), images.astype(np.float32)
    locations = Map(Landmarks.build(places, landmarks, "made-up")).locate_all(images)
    answers = example["Scratch"](landmarks.astype(np.float64), positions).locate(
        images.astype(np.float64)
    )
    assert {location.confident for location in locations} == {False, True}
    for answer, location in zip(answers, locations, strict=True):
        assert (str(answer.landmark), answer.confident) == (location.landmark, location.confident)
        np.testing.assert_allclose(answer.position, location.coordinates, atol=1e-3)
        expected = (location.distance, location.low, location.high)
        np.testing.assert_allclose((answer.metres, *answer.interval), expected, atol=1e-3)
