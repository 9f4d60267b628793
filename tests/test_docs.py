"""What the documentation shows works as shown."""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import hooks
import numpy as np
import pytest
import torch

import mappable
from mappable.errors import BadInputError
from mappable.learning.settings import Settings, load_settings
from mappable.learning.trainer import train
from mappable.places.pixels import AnyImages
from mappable.readers.registry import find_reader, propose, read_places, reader_names

ROOT = Path(__file__).parent.parent


def code_blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


@pytest.mark.medium
def test_the_reader_of_the_guide_is_complete_and_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw: Callable[..., Path]
) -> None:
    (tmp_path / "robot_log.py").write_text(code_blocks("docs/extend.md", "python")[0])
    about = tmp_path / "robot_log-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: robot-log\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[mappable.readers]\nrobot_log = robot_log\n")
    style = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--check",
        "--config",
        ROOT / "pyproject.toml",
        tmp_path,
    ]
    assert subprocess.run(style, capture_output=True).returncode == 0
    monkeypatch.syspath_prepend(tmp_path)
    assert "robot_log" in reader_names()
    assert find_reader("robot_log").summary == "Logs of our robot: images with positions in metres."
    for step in range(-1, 3):
        draw(tmp_path / f"set/monday/camera/{1_700_000_000_050_000 + 100_000 * step}.jpg")
    rows = [f"{1_700_000_000_000_000 + 100_000 * step},{3.5 + step},-2,90" for step in range(3)]
    (tmp_path / "set/monday/poses.csv").write_text(
        "\n".join(["stamp,east,north,heading", *rows]) + "\n"
    )
    places = read_places("robot_log", tmp_path / "set", hall="north")
    assert places.x.tolist() == [4.0, 5.0]
    assert places.yaw == pytest.approx(0.0)  # a heading of 90 degrees is east
    assert set(places.frame) == {"north"}
    assert [len(note.items) for note in places.notes] == [2]
    assert [one.reader for one in propose(tmp_path / "set")] == ["robot_log"]
    (tmp_path / "set/monday/poses.csv").write_text("stamp,east,north,heading\n1,2,three,4\n")
    with pytest.raises(
        BadInputError, match=r"poses\.csv, row 2: column 'north' is 'three', expected a number"
    ):
        read_places("robot_log", tmp_path / "set")


def test_the_python_of_the_guide_runs_on_geotagged_photos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, geotagged: Callable[..., list[Path]]
) -> None:
    monkeypatch.chdir(tmp_path)
    geotagged(tmp_path / "holiday/day", 12)
    geotagged(tmp_path / "holiday/dusk", 8, datetime(2026, 5, 1, 21, tzinfo=UTC))
    shown = code_blocks("docs/readers.md", "python")[0]
    names: dict[str, object] = {}
    exec(shown, names)
    places, pixels = names["places"], names["pixels"]
    assert isinstance(places, mappable.Places)
    assert isinstance(pixels, np.ndarray)
    assert pixels.shape == (12, 180, 240, 3)
    assert sorted(names["near"][0].tolist()) == [1, 2]  # 4 m and 8 m away


def test_the_example_table_of_the_guide_is_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text(code_blocks("docs/readers.md", "csv")[0])
    places = read_places("manifest", tmp_path)
    assert list(places.split) == ["train", "train"]
    assert places.x[1] == 1.1


def test_the_robots_table_of_the_recipe_is_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text(code_blocks("docs/readers.md", "csv")[1])
    places = read_places("manifest", tmp_path)
    assert list(places.split) == ["train", "train", "calibration"]
    assert list(places.sequence) == ["run1", "run1", "run3"]
    assert places.yaw[0] == pytest.approx(0.0)  # a heading of 90 degrees is east


def test_every_column_is_explained_on_the_page_of_conventions() -> None:
    from mappable.places.table import COLUMNS

    page = (ROOT / "docs/conventions.md").read_text()
    for column in COLUMNS:
        assert f"`{column}`" in page


@pytest.fixture
def asked(small_backbone: str, monkeypatch: pytest.MonkeyPatch) -> list[mappable.learning.Settings]:
    """All settings that are trained with, while a network of two layers takes one step in place of
    VGG-16.
    """
    settings_asked: list[mappable.learning.Settings] = []

    def quick(
        places: mappable.Places,
        images: AnyImages,
        settings: mappable.learning.Settings,
        **options: Any,
    ) -> mappable.features.Encoder:
        settings_asked.append(settings)
        small = {"backbone": small_backbone, "weights": "random", "iterations": 1}
        return train(places, images, settings.model_copy(update=small), **options)

    monkeypatch.setattr("mappable.learning.trainer.train", quick)
    return settings_asked


@pytest.mark.parametrize(
    ("fixture", "numbers"),
    [
        pytest.param("asked", 64 * 6, marks=pytest.mark.medium, id="two-layers"),
        pytest.param("tmp_path", 64 * 512, marks=pytest.mark.long, id="vgg16"),
    ],
)
def test_the_python_of_the_guide_to_training_runs(
    fixture: str,
    numbers: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request.getfixturevalue(fixture)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code_blocks("docs/train.md", "python")[0], names)
    places, encoder, descriptors = names["world"].places, names["encoder"], names["descriptors"]
    assert (descriptors.shape, descriptors.dtype) == ((len(places), numbers), np.float32)
    assert names["same"].fingerprint == encoder.fingerprint
    assert encoder.about.squared_distance_per_squared_feature == pytest.approx(10**2 / 0.6)
    exec(code_blocks("docs/train.md", "python")[1], names)
    assert names["rows"].shape == (1, 3)
    assert names["rows"][0, 0] == 0
    assert names["squared_distances"][0, 0] == pytest.approx(0, abs=1e-3)


def test_the_python_of_the_method_runs() -> None:
    names: dict[str, Any] = {}
    exec(code_blocks("docs/method.md", "python")[0], names)
    total = names["terms"].total
    assert total.shape == (8,)
    assert total.isfinite().all()
    torch.testing.assert_close(total.detach(), names["terms"].visual + 5 * names["terms"].geometric)


def test_the_python_and_the_file_of_the_page_of_settings_are_right(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(code_blocks("docs/settings.md", "python")[0], names)
    street = load_settings("street")
    assert names["settings"] == street.model_copy(update={"loss": "triplet", "seed": 3})
    (tmp_path / "mine.yaml").write_text(code_blocks("docs/settings.md", "yaml")[0])
    mine = load_settings("street", tmp_path / "mine.yaml")
    assert (mine.loss, mine.size, mine.cache_size) == ("lazy-quadruplet+huber", (240, 180), "all")
    assert (mine.epochs, mine.iterations) == (3, None)
    assert mine.negative_radius == street.negative_radius


@pytest.mark.medium
def test_the_training_of_the_quick_start_runs_on_photos_that_are_packed_in_two_sizes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    geotagged: Callable[..., list[Path]],
    asked: list[mappable.learning.Settings],
) -> None:
    monkeypatch.chdir(tmp_path)
    geotagged(tmp_path / "my_photos/walk", 40)
    places = mappable.convert("photos", "my_photos", "town")
    # As `mappable train --preset street-laptop` does.
    mappable.places.pack_images(places, "town", size=(160, 120))
    names: dict[str, Any] = {}
    exec(code_blocks("docs/quick-start.md", "python")[1], names)
    assert len(names["descriptors"]) == 40
    assert (asked[0].backbone, asked[0].clusters, asked[0].size) == ("vgg16", 64, (160, 120))
    assert (tmp_path / "python_model/encoder.safetensors").is_file()
    assert (tmp_path / "python_map/map.json").is_file()


# Rows of the capacity table, and the constant that each is a product of; hours are of constants in
# images per second.
CAPACITY = {
    "JPEG files": "JPEG of 1280x960",
    "packed images, for training": "packed image of 240x180",
    "table on disk": "place in a Parquet table",
    "table in memory, per process": "place in memory, while the table is read",
    "descriptors of 512 numbers": "descriptor of 512 numbers",
    "decoding, core hours": "decode and pack a JPEG",
    "describing on CPUs with ResNet-50, core hours": "describe, ResNet-50, 1,024 numbers",
    "describing on GPUs, H200 hours, at most": "train VGG-16 at 240x180",
    "upload to Milvus with one process, with its index, hours": "upload to Milvus, with its index",
}


def test_the_capacity_table_is_a_product_of_the_measured_constants() -> None:
    lines = (ROOT / "docs/scale.md").read_text().splitlines()
    cells = {
        cell[1]: cell[2:5]
        for line in lines
        if len(cell := [one.strip() for one in line.split("|")]) > 5
    }
    units = {"GB": 1e9, "MB": 1e6, "TB": 1e12, "kB": 1e3}

    def number(text: str) -> float:
        value, _, unit = text.replace(",", "").partition(" ")
        return float(value) * units.get(unit, 1)

    for row, constant in CAPACITY.items():
        for shown, count in zip(cells[row], (1e6, 1e8, 1e9), strict=True):
            one = number(cells[constant][0])
            expected = count / one / 3600 if "hours" in row else count * one
            assert number(shown) == pytest.approx(expected, rel=0.05), f"{row}: {shown}"


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2])
    assert sorted(listed) == sorted(
        page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")
    )


# Parts that docs/hooks.py writes when the site is built


def filled(page: Path) -> str:
    """A page as the site shows it, without blocks of code."""
    return re.sub(
        r"```.*?```", "", hooks.on_page_markdown(page.read_text("utf-8")), flags=re.DOTALL
    )


def test_the_tables_of_results_are_those_of_the_studies() -> None:
    spec = importlib.util.spec_from_file_location("study_tables", ROOT / "studies/tables.py")
    assert spec is not None
    assert spec.loader is not None
    study_tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study_tables)
    for page in study_tables.PAGES:
        text = page.read_text("utf-8")
        assert "<!-- table " in text
        assert study_tables.fill(text) == text, (
            f"{page.name} is stale: run `python studies/tables.py`"
        )
    assert len((ROOT / "docs/results.md").read_text("utf-8").split()) <= 2500


@pytest.mark.medium
def test_every_link_leads_to_a_page_and_a_heading() -> None:
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\((?!http)([^)\s]+)\)", filled(page)):
            name, _, anchor = target.partition("#")
            file = page.parent / name if name else page
            assert file.exists() or (page.stem == "contributing" and (ROOT / name).exists()), (
                f"{page.name}: {target}"
            )
            headings = re.findall(r"^#+ (.+)$", filled(file), flags=re.MULTILINE) if anchor else []
            anchors = [
                re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings
            ]
            assert anchor in anchors or not anchor, f"{page.name}: {target}"


@pytest.mark.medium
def test_every_command_has_a_heading_and_a_part() -> None:
    page = (ROOT / "docs/commands.md").read_text("utf-8")
    parts = re.findall(r"<!-- command (.+?) -->", page)
    assert sorted(parts) == sorted(hooks.command_names())
    assert re.findall(r"^### (.+)$", page, flags=re.MULTILINE) == parts


def test_every_setting_is_in_a_group_of_the_page() -> None:
    assert re.findall(r"^\| `(\w+)`", hooks.describe_settings(), flags=re.MULTILINE) == list(
        Settings.model_fields
    )


def test_the_picture_of_the_house_shows_every_room_in_the_order_of_the_contract() -> None:
    picture = (ROOT / "docs/house.md").read_text("utf-8").split("```")[1]
    rows = [
        re.findall(r"\w+(?= ──>)|(?<=──> )\w+", line)
        for line in picture.splitlines()
        if "──>" in line
    ]
    assert {name for row in rows for name in row} == {
        folder.parent.name for folder in hooks.PACKAGE.glob("*/__init__.py")
    }
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ][0]
    level = {
        name: number
        for number, layer in enumerate(contract["layers"])
        for name in re.findall(r"\w+", layer)
    }
    for row in rows:
        for left, right in pairwise(row):
            assert level[left] > level[right], f"{left} ──> {right}"


def test_every_module_begins_with_one_sentence_on_one_line() -> None:
    for module in hooks.PACKAGE.rglob("*.py"):
        line, _, rest = (ast.get_docstring(ast.parse(module.read_text("utf-8"))) or "").partition(
            "\n"
        )
        assert line.endswith((".", "?")), module
        assert not rest.partition("\n")[0], module
