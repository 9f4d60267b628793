"""`mappable start`: from a folder of images to a map with an estimate, and one sentence for each broken input."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from typer.testing import Result

from mappable.learning import auto
from mappable.maps.landmarks import Landmarks
from mappable.places.files import load_places

Typed = Callable[..., "CompletedProcess[str]"]
SMALL = {
    "weights": "random",
    "backbone": "small",
    "clusters": 16,
    "size": "64x48",
    "init_images": 20,
}
STEPS = {
    "iterations": 60,
    "trainable": "last",
    "anchors": 2,
    "positives": 2,
    "feature_scale_squared": 1,
    "cache_every": 30,
}


@pytest.fixture
def small(small_backbone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values from which `auto` starts, for a network of two layers."""
    bases = {"off-the-shelf": SMALL | {"iterations": 0, "dimensions": 2048}}
    monkeypatch.setattr(auto, "_base", lambda name: dict(bases.get(name, SMALL | STEPS)))


@pytest.fixture(scope="module")
def walls(wall: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images of three visits and a table, as a user would have it."""
    folder = shutil.copytree(wall, tmp_path_factory.mktemp("start") / "walls")
    places = load_places(folder)
    (folder / "places.parquet").unlink()
    rows = zip(places.path, places.x, places.y, strict=True)
    (folder / "places.csv").write_text(
        "path,x,y\n" + "".join(f"{path},{x:.2f},{y:.2f}\n" for path, x, y in rows)
    )
    return folder


@pytest.mark.medium
def test_one_command_makes_a_map_and_says_what_to_expect(
    walls: Path, small: None, mappable: Callable[..., Result], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    made = mappable("start", walls, out, "--no-serve")
    assert made.exit_code == 0, made.output
    for command in ("convert manifest", "places check", "train", "embed", "map build", "serve"):
        assert f"   mappable {command} " in made.stdout
    assert len(Landmarks.open(out / "map")) > 20
    assert "what would improve it most:\n  1. " in made.stdout
    assert "\n  3. " in made.stdout
    found = json.loads((out / "estimate.json").read_text())
    assert {one["name"] for one in found["visits"]} <= {"sun", "fog", "rain"}
    for one in found["expected"]:
        assert one["low"] <= one["value"] <= one["high"]
        assert one["name"] in made.stdout
    record = json.loads((out / "model/auto.json").read_text())
    assert record["chosen"]["kept"] in ("off-the-shelf", "trained")
    assert record["chosen"]["trained"] is not None  # it was trained, and judged on what it held out
    assert (
        sum(one["queries"] for one in found["visits"]) <= len(record["held_out"])
        or record["chosen"]["kept"] != "trained"
    )

    before = {file: file.stat().st_mtime_ns for file in (out / "map").iterdir()}
    again = mappable("start", walls, out, "--no-serve")
    assert again.exit_code == 0, again.output
    assert {file: file.stat().st_mtime_ns for file in (out / "map").iterdir()} == before
    model = ("--encoder", out / "model", "--estimate", "--json")
    alone = mappable("map", "build", out / "places", tmp_path / "alone", *model)
    assert json.loads(alone.stdout)["estimate"]["expected"] == found["expected"]


@pytest.mark.medium
def test_a_mended_table_is_kept_and_a_new_visit_is_added(
    walls: Path, small: None, mappable: Callable[..., Result], tmp_path: Path
) -> None:
    home, out = shutil.copytree(walls, tmp_path / "mine"), tmp_path / "out"
    table = rows(home)
    write(home, "\n".join([table[0], *(row for row in table[1:] if not row.startswith("rain"))]))
    assert mappable("start", home, out, "--no-serve").exit_code == 0
    known = len(load_places(out / "places"))
    mended = mappable("convert", "manifest", home, out / "places", "--spacing", "6", "--overwrite")
    assert mended.exit_code == 0, mended.output
    kept = len(load_places(out / "places"))
    again = mappable("start", home, out, "--no-serve")
    assert again.exit_code == 0, again.output
    assert len(load_places(out / "places")) == kept < known
    write(home, "\n".join(table))
    more = mappable("start", home, out, "--no-serve")
    assert more.exit_code == 0, more.output
    assert len(load_places(out / "places")) == len(table) - 1


@pytest.mark.medium
def test_a_run_that_was_killed_while_it_replaced_a_model_continues(
    walls: Path,
    small: None,
    mappable: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, out = shutil.copytree(walls, tmp_path / "mine"), tmp_path / "out"
    table = rows(home)
    write(home, "\n".join([table[0], *(row for row in table[1:] if not row.startswith("rain"))]))
    assert mappable("start", home, out, "--no-serve").exit_code == 0
    write(home, "\n".join(table))
    with monkeypatch.context() as killed:
        killed.setattr(
            "mappable.cli.train.run_plan", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        assert mappable("start", home, out, "--no-serve").exit_code != 0
    again = mappable("start", home, out, "--no-serve")
    assert again.exit_code == 0, again.output
    assert "rain" in set(Landmarks.open(out / "map").places.sequence)


def write(folder: Path, text: str) -> Path:
    (folder / "places.csv").write_text(text)
    return folder


def rows(walls: Path) -> list[str]:
    return (walls / "places.csv").read_text().splitlines()


def with_split(walls: Path) -> str:
    head, *others = rows(walls)
    return "\n".join([f"{head},split", *(f"{row},gap" for row in others)])


BROKEN: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "nothing there": (lambda home: home / "nowhere", ["nowhere", "no such file or folder"]),
    "images without positions": (
        lambda home: (home / "places.csv").unlink() or home,
        ["no reader fits", "no GPS", "columns path, x and y"],
    ),
    "a number that is none": (
        lambda home: write(home, "\n".join(rows(home)).replace("sun/00030.png,3.00,", "sun/00030.png,three,")),
        ["places.csv, row 3", "'three'", "number"],
    ),
    "radians": (
        lambda home: write(home, "path,latitude,longitude\nsun/00000.png,0.9,0.1\nsun/00030.png,0.91,0.1\n"),
        ["radians", "angles"],
    ),
    "no fix": (
        lambda home: write(home, "path,latitude,longitude\nsun/00000.png,0,0\nsun/00030.png,0,0\n"),
        ["latitude 0, longitude 0"],
    ),
    "an unknown split": (lambda home: write(home, with_split(home)), ["row 2", "'gap'", "other-splits clear"]),
    "two tables": (
        lambda home: write(home, "\n".join(rows(home))) and (home / "places.csv").rename(home / "a.csv")
        and shutil.copy(home / "a.csv", home / "b.csv") and home,
        ["a.csv, b.csv", "give the file"],
    ),
    "one position": (
        lambda home: write(home, "path,x,y\n" + "".join(f"{row.split(',')[0]},1,1\n" for row in rows(home)[1:])),
        ["same position", "check the columns"],
    ),
    "images that are not there": (
        lambda home: write(home, "path,x,y\na.jpg,0,0\nb.jpg,1,0\n"),
        ["a.jpg", "no such file", "--option images=FOLDER"],
    ),
    "a video that is none": (
        lambda home: (home / "drive.mp4").write_bytes(b"not a video") and home / "drive.mp4",
        ["drive.mp4"],
    ),
    "no images at all": (
        lambda home: write(home, "path,x,y\n"),
        ["places.csv", "no rows"],
    ),
    "a misspelled option": (lambda home: home, ["no option uint", "unit"]),
}  # fmt: skip


@pytest.mark.medium
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_input_gets_one_sentence(
    name: str, walls: Path, typed: Typed, tmp_path: Path
) -> None:
    home = shutil.copytree(walls, tmp_path / "mine")
    damage, words = BROKEN[name]
    given = ["--option", "uint=ft"] if name == "a misspelled option" else []
    ended = typed("start", damage(home), tmp_path / "out", "--no-serve", *given)
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    sentence = ended.stderr.strip().splitlines()[-1]
    for word in words:
        assert word in sentence
