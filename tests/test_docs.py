"""What the documentation shows works as shown."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import api_page
import numpy as np
import pytest
import torch

import mappable
from mappable.learning.settings import load_settings
from mappable.learning.trainer import train
from mappable.places import readers
from mappable.places.pixels import AnyImages
from mappable.places.readers import find_reader, read_places, reader_names

ROOT = Path(__file__).parent.parent


def code_blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def load_script(path: str) -> ModuleType:
    """A Python file that is in no package, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.medium
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


def test_the_robots_table_of_the_recipe_is_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text(code_blocks("docs/own-data.md", "csv")[0])
    places = read_places("manifest", tmp_path)
    assert list(places.split) == ["train", "train", "calibration"]
    assert list(places.sequence) == ["run1", "run1", "run3"]
    assert places.yaw[0] == pytest.approx(0.0)  # a heading of 90 degrees is east


@pytest.mark.medium
def test_the_hook_of_the_site_fills_the_page_of_python_names() -> None:
    hooks = load_script("docs/hooks.py")
    api = hooks.on_page_markdown((ROOT / "docs/api.md").read_text())
    assert "<!--" not in api
    for line in (
        "| `mappable.load_places` |",
        "::: mappable.places.readers.read_places",
        "::: mappable.maps.map.Map\n",
    ):
        assert line in api


def test_the_page_on_contributing_includes_the_file_of_the_root_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = load_script("docs/hooks.py")
    monkeypatch.setattr(hooks, "ROOT", tmp_path)
    page = (ROOT / "docs/contributing.md").read_text()
    assert "](../" not in hooks.on_page_markdown(page)  # without the file there is no link to it
    (tmp_path / "CONTRIBUTING.md").write_text("# Contributing\n\nRead [the house](docs/house.md) first.\n")
    made = hooks.on_page_markdown(page)
    assert made.startswith("# Contributing\n\nRead [the house](house.md) first.\n")
    assert "](../" not in made


def test_every_column_is_explained_on_the_page_of_conventions() -> None:
    from mappable.places.table import COLUMNS

    page = (ROOT / "docs/conventions.md").read_text()
    for column in COLUMNS:
        assert f"`{column}`" in page


@pytest.mark.medium
def test_the_python_of_the_page_of_worlds_runs() -> None:
    names: dict[str, Any] = {}
    exec(code_blocks("docs/worlds.md", "python")[0], names)
    town = names["town"]
    assert town.pixels.shape == (len(town.places), 120, 160, 3)
    assert len(town.world.aliases) > 100


@pytest.fixture
def asked(small_backbone: str, monkeypatch: pytest.MonkeyPatch) -> list[mappable.learning.Settings]:
    """All settings that are trained with, while a network of two layers takes one step in place of VGG-16."""
    settings_asked: list[mappable.learning.Settings] = []

    def quick(
        places: mappable.Places, images: AnyImages, settings: mappable.learning.Settings, **options: Any
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
    fixture: str, numbers: int, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_the_python_of_the_page_of_losses_runs() -> None:
    names: dict[str, Any] = {}
    exec(code_blocks("docs/losses.md", "python")[0], names)
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
    mappable.places.pack_images(places, "town", size=(160, 120))  # as `mappable train --preset street-laptop` does
    names: dict[str, Any] = {}
    exec(code_blocks("docs/quick-start.md", "python")[1], names)
    assert len(names["descriptors"]) == 40
    assert (asked[0].backbone, asked[0].clusters, asked[0].size) == ("vgg16", 64, (160, 120))
    assert (tmp_path / "python_model/encoder.safetensors").is_file()
    assert (tmp_path / "python_map/map.json").is_file()


def test_the_readme_fits_on_one_screen_and_names_the_two_commands_of_a_checkout_first() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(readme.split()) <= 600
    commands = re.findall(r"^(make \w+|mappable [a-z]+)", readme, flags=re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]


def test_every_link_leads_to_a_page_and_a_heading() -> None:
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!http)([^)\s]+)\)", text):
            name, _, anchor = target.partition("#")
            file = page.parent / name if name else page
            assert file.exists(), f"{page.name}: {target}"
            headings = re.findall(r"^#+ (.+)$", file.read_text(), flags=re.MULTILINE) if anchor else []
            anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
            assert anchor in anchors or not anchor, f"{page.name}: {target}"


# Rows of the capacity table, and the constant that each is a product of; hours are of constants in images per second.
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
    cells = {cell[1]: cell[2:5] for line in lines if len(cell := [one.strip() for one in line.split("|")]) > 5}
    units = {"GB": 1e9, "MB": 1e6, "TB": 1e12, "kB": 1e3}

    def number(text: str) -> float:
        value, _, unit = text.replace(",", "").partition(" ")
        return float(value) * units.get(unit, 1)

    for row, constant in CAPACITY.items():
        for shown, count in zip(cells[row], (1e6, 1e8, 1e9), strict=True):
            one = number(cells[constant][0])
            expected = count / one / 3600 if "hours" in row else count * one
            assert number(shown) == pytest.approx(expected, rel=0.05), f"{row}: {shown}"


def test_the_glossary_is_in_alphabetical_order() -> None:
    page = (ROOT / "docs/glossary.md").read_text()
    words = [word.lower() for word in re.findall(r"^\*\*(.+?)\*\*", page, flags=re.MULTILINE)]
    assert len(words) >= 60
    assert words == sorted(words)
    letters = re.findall(r"^## (\w)$|^\*\*(\w)", page, flags=re.MULTILINE)
    heading = ""
    for letter, first in letters:
        heading = letter or heading
        assert not first or first == heading


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2])
    assert sorted(listed) == sorted(
        page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")
    )


def test_the_page_of_python_names_is_what_the_source_says() -> None:
    now = api_page.PAGE.read_text()
    assert api_page.page(now) == now, "docs/api.md is stale: run `python scripts/api_page.py`"


def test_the_page_of_python_names_has_every_public_name() -> None:
    page = api_page.PAGE.read_text()
    for name in mappable.__all__:
        room = getattr(mappable, name)
        if not isinstance(room, ModuleType):
            assert f"| `mappable.{name}` |" in page
            continue
        section = page.split(f"<!-- names mappable.{name}:")[1].partition("<!-- end of names -->")[0]
        assert re.findall(r"^### (\w+)$", section, flags=re.MULTILINE) != []
        assert set(re.findall(r"^### (\w+)$", section, flags=re.MULTILINE)) == set(room.__all__)


def test_a_signature_has_types_and_defaults_as_in_the_source() -> None:
    shown = api_page.describe("mappable.places.cache", "find_pack")
    assert "find_pack(out: Path | str, size: Size | None = None, fit: Fit | None = None) -> PackedImages" in shown
    frame = api_page.describe("mappable.places.frames", "Frame")
    assert "    unit: Unit = 'm',\n" in frame
    assert "- `to_latlon(xyz: Floats) -> tuple[Floats, Floats]`: " in frame
    with pytest.raises(SystemExit, match=r"cache\.py does not define no_such_name"):
        api_page.definition("mappable.places.cache", "no_such_name")
