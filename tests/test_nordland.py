"""The study of Nordland: its protocol, that it goes on where it stopped, and the tables that it prints."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.learning.trainer import TrainingStopped
from mappable.places.readers import read_places

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts/nordland.py"
NORDLAND = Path(os.environ.get("MAPPABLE_NORDLAND") or ROOT.parent / "shared/data/nordland")
SMALL = {
    "backbone": "small",
    "weights": "random",
    "clusters": 2,
    "size": "64x36",
    "iterations": 3,
    "anchors": 2,
    "positives": 2,
    "negatives": 3,
    "hard_negatives": 1,
    "cache_every": 2,
    "cache_size": 10,
    "checkpoint_every": 1,
    "checkpoint_seconds": 0,
    "init_images": 4,
    "init_locations": 20,
    "precision": "float32",
}
with_the_images = pytest.mark.skipif(
    not (NORDLAND / "places.csv").is_file(),
    reason=f"the Nordland images are not at {NORDLAND}; set MAPPABLE_NORDLAND to their folder to run this",
)


@pytest.fixture(scope="module")
def nordland() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("nordland", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table_of(first: int, after_train: int, after_gap: int, last: int) -> str:
    """The table of a line like Nordland's, with these frames."""
    lines = ["path,sequence,condition,x,y,split"]
    for season in ("summer", "winter"):
        for frame in range(first, last):
            split = "train" if frame < after_train else "gap" if frame < after_gap else "test"
            lines.append(f"{season}/{frame:05d}.jpg,{season},{season},{frame},0,{split}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def line(tmp_path: Path, draw: Callable[..., Path]) -> Path:
    """A short line: 80 frames to train on and, behind a gap, 24 to test, which look the same in winter and summer."""
    folder = tmp_path / "line"
    for season in ("summer", "winter"):
        for frame in range(110):
            draw(folder / f"{season}/{frame:05d}.jpg", size=(64, 36))
    (folder / "places.csv").write_text(table_of(0, 80, 86, 110))
    return folder


@pytest.fixture
def run(nordland: ModuleType, small_backbone: str, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run the script on a folder with a network of two layers; returns what the file of results holds then."""

    def call(folder: Path, *arguments: str, **changes: object) -> dict[str, Any]:
        file = tmp_path / "study/results.json"
        values = [f"{name}={value}" for name, value in (SMALL | changes).items()]
        nordland.main([str(folder), "--out", str(file), "--device", "cpu", "--set", *values, *arguments])
        results: dict[str, Any] = json.loads(file.read_text())
        return results

    return call


def trained(results: dict[str, Any]) -> list[tuple[str, int]]:
    return [(model["row"], model["seed"]) for model in results["models"]]


# Rows and protocol


def test_the_rows_are_those_of_the_paper_and_its_combinations_with_our_weights(nordland: ModuleType) -> None:
    settings = {row: nordland.settings_of(row, 1, []) for row in nordland.ROWS}
    assert len(settings) == 15
    assert settings["off-the-shelf"].iterations == 0
    for row, of_row in settings.items():
        assert (of_row.seed, of_row.size, of_row.anchors, of_row.learning_rate) == (1, (240, 135), 8, 1e-5)
        assert (of_row.positive_radius, of_row.negative_radius) == (nordland.RIGHT, nordland.NEAR)
        if row != "off-the-shelf":
            assert of_row.iterations == 1200
            assert of_row.loss == row.removesuffix("-paper").removesuffix("-ours")
    scales = {row: (one.geometric_weight, one.feature_scale_squared) for row, one in settings.items()}
    assert {scales[row] for row in scales if row.endswith("-paper")} == {(0.5, 2.0)}
    assert {scales[row] for row in scales if row.endswith("-ours")} == {(5.0, 0.6)}
    assert settings["distance"].feature_scale_squared == settings["huber"].feature_scale_squared == 2.0


def test_the_error_is_how_many_frames_the_nearest_descriptor_is_off(nordland: ModuleType) -> None:
    random = np.random.default_rng(0)
    queries, references = (random.normal(size=(count, 8)).astype(np.float32) for count in (6, 9))
    queries, references = (some / np.linalg.norm(some, axis=1, keepdims=True) for some in (queries, references))
    query_frames, reference_frames = np.arange(100.0, 106.0), random.permutation(np.arange(98.0, 107.0))
    expected = []
    for query, frame in zip(queries, query_frames, strict=True):
        apart = [float(np.linalg.norm(query - reference)) for reference in references]
        expected.append(abs(int(frame) - int(reference_frames[apart.index(min(apart))])))
    assert nordland.frame_errors(queries, references, query_frames, reference_frames).tolist() == expected


def test_queries_are_the_winter_and_references_the_summer_images_of_the_test_split(
    nordland: ModuleType, line: Path
) -> None:
    data = nordland.Nordland(line, nordland.settings_of("triplet", 0, ["size=64x36"]))
    assert data.places.path[data.queries].tolist() == [f"winter/{frame:05d}.jpg" for frame in range(86, 110)]
    assert data.places.path[data.references].tolist() == [f"summer/{frame:05d}.jpg" for frame in range(86, 110)]
    assert (data.query_frames, data.places.unit) == (list(range(86, 110)), "frames")
    assert data.pixels.shape == (220, 36, 64, 3)


def test_a_line_without_a_season_is_refused(nordland: ModuleType, line: Path) -> None:
    (line / "places.csv").write_text((line / "places.csv").read_text().replace("summer,summer", "summer,autumn"))
    with pytest.raises(BadInputError, match=r"line: no place has the split 'test' and the condition 'summer'$"):
        nordland.Nordland(line, nordland.settings_of("triplet", 0, ["size=64x36"]))


# The study


def test_every_row_of_a_seed_comes_before_the_next_seed(line: Path, run: Callable[..., dict[str, Any]]) -> None:
    rows = ["off-the-shelf", "huber", "lazy-quadruplet+huber-ours"]
    results = run(line, "--rows", *rows, "--seeds", "4", "0")
    assert trained(results) == [(row, seed) for seed in (4, 0) for row in rows]
    shelf, huber, _ = results["models"][:3]
    assert shelf["errors"] == [0] * 24  # it looks the same in winter
    assert (shelf["training_seconds"], shelf["images_per_second"], shelf["settings"]["iterations"]) == (0.0, None, 0)
    assert huber["wall_seconds"] > huber["training_seconds"] > 0
    assert huber["images_per_second"] > 0
    assert (huber["precision"], huber["settings"]["loss"], huber["resumed"]) == ("float32", "huber", False)
    assert {"hardware", "torch", "date"} < huber.keys()


def test_models_that_are_there_are_not_trained_again_and_no_encoders_are_left(
    line: Path,
    run: Callable[..., dict[str, Any]],
    nordland: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    before = run(line, "--rows", "off-the-shelf", "triplet", "--seeds", "0")
    assert [file.name for file in (tmp_path / "study").rglob("*") if file.is_file()] == ["results.json"]
    train, seeds = nordland.train, []

    def counting(places: object, pixels: object, settings: Any, **options: object) -> object:
        seeds.append(settings.seed)
        return train(places, pixels, settings, **options)

    monkeypatch.setattr(nordland, "train", counting)
    after = run(line, "--rows", "off-the-shelf", "triplet", "--seeds", "0", "1", checkpoint_every=2)
    assert seeds == [1, 1]
    assert after["models"][:2] == before["models"]


def test_a_model_that_was_stopped_goes_on_to_the_same_result(
    line: Path, run: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    only = ("--rows", "triplet", "--seeds", "0")
    expected = run(line, *only)["models"][0]["errors"]
    (tmp_path / "study/results.json").unlink()
    with monkeypatch.context() as patch:
        patch.setattr("mappable.learning.trainer.held_back", lambda active, say: nullcontext(lambda: True))
        with pytest.raises(TrainingStopped, match="at iteration 1 of 3"):
            run(line, *only, "--work", str(tmp_path / "work"))
    assert (tmp_path / "work/triplet-seed0/checkpoint.safetensors").is_file()
    (model,) = run(line, *only, "--work", str(tmp_path / "work"))["models"]
    assert model["resumed"]
    assert model["errors"] == expected
    assert not list((tmp_path / "work").iterdir())


def test_what_another_study_left_unfinished_is_begun_anew(
    line: Path, run: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    only = ("--rows", "triplet", "--seeds", "0")
    with monkeypatch.context() as patch:
        patch.setattr("mappable.learning.trainer.held_back", lambda active, say: nullcontext(lambda: True))
        with pytest.raises(TrainingStopped):
            run(line, *only, learning_rate=1e-3)
    (model,) = run(line, *only)["models"]
    assert not model["resumed"]


def test_results_of_other_settings_or_other_images_are_refused(line: Path, run: Callable[..., dict[str, Any]]) -> None:
    only = ("--rows", "off-the-shelf", "--seeds", "0")
    run(line, *only)
    with pytest.raises(BadInputError, match=r"holds off-the-shelf, seed 0, with clusters 2 \(now 3\); choose another"):
        run(line, *only, clusters=3)
    (line / "places.csv").write_text(table_of(0, 80, 90, 110))
    with pytest.raises(BadInputError, match=r"results.json: was made of other test images; choose another --out$"):
        run(line, *only)


def test_no_model_is_begun_that_might_not_end_in_time(
    line: Path, run: Callable[..., dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = run(line, "--rows", "off-the-shelf", "--seeds", "0", "--minutes", "5")
    results["models"][0]["wall_seconds"] = 400.0
    (tmp_path / "study/results.json").write_text(json.dumps(results))
    rows = ("--rows", "off-the-shelf", "huber", "--seeds", "0", "1")
    assert trained(run(line, *rows, "--minutes", "5")) == [("off-the-shelf", 0)]
    assert "the time is up; 3 models are left: run it again to go on" in capsys.readouterr().err
    results["models"][0]["hardware"] = "a slower machine"
    (tmp_path / "study/results.json").write_text(json.dumps(results))
    assert len(trained(run(line, *rows, "--minutes", "5"))) == 4


def test_a_damaged_file_of_results_is_refused(nordland: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    for model in (
        '"errors": []',
        '"row": "quartet", "seed": 0, "errors": [1]',
        '"row": "huber", "seed": 0, "errors": ["a"]',
    ):
        file.write_text(f'{{"query_frames": [1], "models": [{{{model}}}]}}')
        with pytest.raises(BadInputError, match=r"results.json: not a file of results"):
            nordland.main(["--out", str(file), "--table"])
    for text in ("{", "[]"):
        file.write_text(text)
        with pytest.raises(BadInputError, match=r"results.json: not a file of results that can be read \("):
            nordland.main(["--out", str(file), "--table"])
    file.unlink()
    with pytest.raises(BadInputError, match=r"results.json: holds no models yet$"):
        nordland.main(["--out", str(file), "--table"])


# The tables


def test_the_tables_are_made_of_the_results_alone(
    nordland: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """80 queries in 4 blocks. Triplet: seed 0 is right on the first half, seed 1 also on half of the second."""
    half = [0] * 40 + [6] * 40
    models: list[tuple[str, int, list[int]]] = [
        ("triplet", 0, half),
        ("triplet", 1, [5] * 40 + [6, 4] * 20),
        ("triplet+huber-ours", 0, [5] * 80),
        ("triplet+huber-ours", 1, [0] * 80),
        ("triplet+huber-paper", 0, [20] * 40 + [21] * 40),
        ("lazy-quadruplet", 1, half),
        ("lazy-quadruplet+huber-ours", 1, [1] * 80),
        ("distance", 1, half),
    ]
    results = {
        "query_frames": list(range(1250, 1330)),
        "models": [{"row": row, "seed": seed, "errors": errors} for row, seed, errors in models],
    }
    (tmp_path / "results.json").write_text(json.dumps(results))
    nordland.main(["--out", str(tmp_path / "results.json"), "--table"])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "| row | γ | F² | within 5 frames, seeds 0, 1 | mean | 95 % interval | within 20 frames |",
        "|---|---|---|---|---|---|---|",
        "| triplet | – | – | 50.0, 75.0 | 62.5 | 25.0 to 100.0 | 100.0 |",
        "| lazy-quadruplet | – | – | –, 50.0 | 50.0 | 0.0 to 100.0 | 100.0 |",
        "| distance | – | 2 | –, 50.0 | 50.0 | 0.0 to 100.0 | 100.0 |",
        "| triplet+huber | 0.5 | 2 | 0.0, – | 0.0 | 0.0 to 0.0 | 50.0 |",
        "| triplet+huber | 5 | 0.6 | 100.0, 100.0 | 100.0 | 100.0 to 100.0 | 100.0 |",
        "| lazy-quadruplet+huber | 5 | 0.6 | –, 100.0 | 100.0 | 100.0 to 100.0 | 100.0 |",
        "",
        "| difference | γ | F² | seeds | points | 95 % interval | better |",
        "|---|---|---|---|---|---|---|",
        "| triplet+huber − triplet | 0.5 | 2 | 1 | -50.0 | -100.0 to +0.0 | no |",
        "| triplet+huber − triplet | 5 | 0.6 | 2 | +37.5 | +0.0 to +75.0 | no |",
        "| lazy-quadruplet+huber − lazy-quadruplet | 5 | 0.6 | 1 | +50.0 | +0.0 to +100.0 | no |",
    ]


def test_a_gain_along_the_whole_line_is_called_better(nordland: ModuleType) -> None:
    frames = list(range(200))
    models = [
        {"row": "triplet", "seed": 0, "errors": [9 if frame % 3 == 0 else 0 for frame in frames]},
        {"row": "triplet+distance-ours", "seed": 0, "errors": [9 if frame % 30 == 0 else 0 for frame in frames]},
    ]
    last = nordland.tables({"query_frames": frames, "models": models}).splitlines()[-1]
    assert last.startswith("| triplet+distance − triplet | 5 | 0.6 | 1 | +30.0 | +")
    assert last.endswith(" | yes |")


def test_the_script_says_what_is_wrong_in_one_sentence(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, SCRIPT, tmp_path, "--out", tmp_path / "results.json", "--set", "anchors=0"],
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "nordland: --set: anchors is 0, but should be a whole number of at least 1\n"


ON_A_BARE_MACHINE = """
import runpy, sys
for name in ("pyproj", "simplejpeg", "xxhash", "platformdirs", "h5py", "av", "matplotlib"):
    sys.modules[name] = None
from mappable.features import backbones
backbones.__path__.append(sys.argv[1])
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_it_runs_without_the_libraries_that_convert_and_export(
    line: Path, backbones_folder: Path, tmp_path: Path
) -> None:
    command: list[str | Path] = [sys.executable, "-c", ON_A_BARE_MACHINE, backbones_folder, SCRIPT, line]
    command += ["--out", tmp_path / "results.json", "--rows", "triplet", "--seeds", "0"]
    command += ["--set", *(f"{name}={value}" for name, value in SMALL.items())]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "| triplet | – | – | " in result.stdout


def test_the_python_of_the_page_runs() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/nordland.md").read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(shown, names)
    assert names["gain"].above_zero


def test_the_page_shows_the_tables_of_its_results(nordland: ModuleType, tmp_path: Path) -> None:
    results = json.loads((ROOT / "docs/results/nordland.json").read_text())
    page = (ROOT / "docs/nordland.md").read_text()
    for table in nordland.tables(results).split("\n\n"):
        assert table in page
    nordland.draw(results, tmp_path / "results.png")
    assert (tmp_path / "results.png").read_bytes().startswith(b"\x89PNG")


# With the images


@with_the_images
def test_nordland_has_372_queries_and_references_in_19_blocks(nordland: ModuleType) -> None:
    places = read_places("manifest", NORDLAND, unit="frames", other_splits="clear")
    queries, references = (nordland.rows_of_test(places, NORDLAND, one) for one in ("winter", "summer"))
    assert places.x[queries].tolist() == places.x[references].tolist() == list(range(1250, 1622))
    assert len(np.unique(nordland.route_blocks(places.x[queries], nordland.BLOCK))) == 19


@with_the_images
def test_a_small_study_of_nordland_runs_goes_on_and_prints_its_tables(
    tmp_path: Path, run: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "part"
    folder.mkdir()
    (folder / "places.csv").write_text(table_of(1150, 1200, 1250, 1290))
    for season in ("summer", "winter"):
        (folder / season).symlink_to(NORDLAND.resolve() / season)
    rows = ("--rows", "off-the-shelf", "triplet", "triplet+huber-ours", "--seeds", "0")
    first = run(folder, *rows)
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == 2 + 3 + 1 + 2 + 1
    assert "| triplet+huber − triplet | 5 | 0.6 | 1 | " in shown
    assert run(folder, *rows) == first
    assert capsys.readouterr().out == shown
