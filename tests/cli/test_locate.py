"""`mappable locate` and `mappable densify`: images and a map to positions."""

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from mappable.features.encoder import Encoder
from mappable.maps.landmarks import Landmarks
from mappable.places import load_places, pack_images, save_places
from refusals import refused

Run = Callable[..., Result]


def located(mappable: Run, *words: object) -> list[dict[str, Any]]:
    result = mappable("locate", *words, "--json")
    assert result.exit_code == 0, result.output
    return list(json.loads(result.stdout))


def errors(wall: Path, entries: list[dict[str, Any]]) -> Any:
    """Errors of all images of the drive `fog`, in metres."""
    true = load_places(wall).where(sequence="fog").positions
    return np.linalg.norm(np.array([entry["coordinates"] for entry in entries]) - true, axis=1)


def test_images_are_located(mappable: Run, wall: Path, wall_map: Path) -> None:
    files = sorted((wall / "fog").iterdir())
    result = mappable("locate", wall_map, *files[:3])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    for text in ("image", "landmark", str(files[2]), "of 3 images; frame wall (m)"):
        assert text in result.stdout
    entries = located(mappable, wall_map, wall / "fog")
    assert [entry["image"] for entry in entries] == [str(file) for file in files]
    assert np.median(errors(wall, entries)) < 2
    assert sum(entry["confident"] for entry in entries) > 90
    narrow = located(mappable, wall_map, files[0], "--coverage", 0.3)
    assert narrow[0]["high"] - narrow[0]["low"] < entries[0]["high"] - entries[0]["low"]
    shown = mappable("locate", wall_map, wall / "fog").stdout
    reasons = [entry["reason"].partition(":")[0] for entry in entries if not entry["confident"]]
    assert f"{reasons.count(reasons[0])} not confident, such as " in shown


@pytest.mark.medium
def test_a_drive_and_a_converted_set(
    mappable: Run, wall: Path, wall_map: Path, tmp_path: Path
) -> None:
    entries = located(mappable, wall_map, wall / "fog", "--sequence")
    assert max(errors(wall, entries)) < 10
    both = located(mappable, wall_map, wall / "fog", wall / "rain", "--sequence")
    assert both[: len(entries)] == entries  # each folder is a drive of its own
    fog = load_places(wall).where(sequence="fog")
    save_places(fog, tmp_path / "fog/places.parquet")
    from_files = located(mappable, wall_map, tmp_path / "fog/places.parquet")
    assert [entry["image"] for entry in from_files] == fog.place_id.tolist()
    pack_images(fog, tmp_path / "fog", size=(64, 48))
    assert located(mappable, wall_map, tmp_path / "fog") == from_files


def test_an_image_that_does_not_decode_does_not_stop_the_others(
    mappable: Run, wall: Path, wall_map: Path, tmp_path: Path
) -> None:
    shutil.copy(wall / "fog/00020.png", tmp_path / "good.png")
    (tmp_path / "bad.jpg").write_text("no image")
    paths = [tmp_path / name for name in ("bad.jpg", "good.png", "gone.png")]
    result = mappable("locate", wall_map, *paths, "--json", "--out", tmp_path / "out.csv")
    assert result.exit_code == 3
    bad, good, gone = json.loads(result.stdout)
    assert (bad["error"] is None, good["error"] is None, gone["error"] is None) == (
        False,
        True,
        False,
    )
    assert f"error: {tmp_path}/bad.jpg: not an image" in result.stderr
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [bool(row["error"]) for row in rows] == [True, False, True]
    assert float(rows[1]["x"]) == good["coordinates"][0]
    nothing = mappable("locate", wall_map, paths[0], "--sequence")
    assert nothing.exit_code == 3
    assert "not an image in a known format" in nothing.stdout
    assert "confident for 0 of 1 images" in nothing.stdout


@pytest.mark.medium
def test_positions_go_out_in_the_formats_of_others(
    mappable: Run, wall: Path, wall_map: Path, tmp_path: Path
) -> None:
    places = load_places(wall).where(sequence="fog")
    save_places(places, tmp_path / "fog.parquet")
    files = [tmp_path / f"out/fog.{suffix}" for suffix in ("tum", "colmap", "kapture", "pairs")]
    outputs = [word for file in files for word in ("--out", file)]
    result = mappable("locate", wall_map, tmp_path / "fog.parquet", "--json", *outputs)
    entries = json.loads(result.stdout)
    confident = [row for row, entry in enumerate(entries) if entry["confident"]]
    for file in files[:3]:
        assert f"{len(confident)} of 119 positions written to {file}" in result.stderr
    expected = [entries[row]["coordinates"] for row in confident]
    tum = np.loadtxt(files[0])
    np.testing.assert_allclose(tum[:, 0], places.time[confident] / 1e9)
    np.testing.assert_allclose(tum[:, 1:3], expected, atol=1e-6)
    colmap = [line.split()[1:3] for line in files[1].read_text().splitlines()]
    np.testing.assert_allclose(np.array(colmap, dtype=float), expected, atol=1e-6)
    pairs = [line.split() for line in files[3].read_text().splitlines()]
    assert len(pairs) == 5 * 119
    assert pairs[0] == ["fog/00020.png", entries[0]["candidates"][0]["landmark"]]


def test_mistakes_are_found_before_any_image_is_described(
    mappable: Run,
    wall: Path,
    wall_map: Path,
    other_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Encoder, "embed", lambda *_, **__: pytest.fail("images were described"))
    monkeypatch.chdir(tmp_path)
    shutil.copy(wall / "fog/00020.png", tmp_path / "a b.png")
    save_places(load_places(wall)[:0], tmp_path / "none.parquet")
    (tmp_path / "empty").mkdir()
    fog = wall / "fog"
    for words, parts in (
        ((fog, "--out", "a.csv", "--out", tmp_path / "a.csv"), ("the same file twice",)),
        ((fog, wall / "rain", "--out", "out.tum"), ("2 sequences, such", "'fog'", "one drive")),
        ((fog, "--out", "out.gpx"), ("out.gpx", ".geojson")),
        (("a b.png", "--out", "out.colmap"), ("out.colmap", "a space")),
        ((fog, "--out", tmp_path), ("cannot be written",)),
        ((fog, "--encoder", other_encoder), ("but the map needs encoder",)),
        (("empty",), ("the folder has no images",)),
        (("none.parquet",), ("none.parquet: the table has no images",)),
    ):
        refused(mappable("locate", wall_map, *words), *parts)
    refused(
        mappable("locate", wall, fog),
        "no map here",
        "give a folder that `mappable map build` wrote",
    )
    assert mappable("locate", wall_map).exit_code == 2  # no images
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a b.png", "empty", "none.parquet"]


@pytest.mark.medium
def test_images_without_positions_become_landmarks(
    mappable: Run, wall: Path, wall_map: Path, copied_map: Path, tmp_path: Path
) -> None:
    drive = shutil.copytree(wall / "fog", tmp_path / "drive")
    again = shutil.copytree(copied_map, tmp_path / "again")
    dense = mappable("densify", copied_map, drive, "--sequence")
    assert dense.exit_code == 0, dense.output
    grown, before = Landmarks.open(copied_map), Landmarks.open(wall_map)
    added = int(grown.estimated.sum())
    assert added > 20
    assert re.search(rf"^added +{added}$", dense.stdout, re.MULTILINE)
    assert dense.stderr.startswith("warning: some added images are outside ")
    assert all(file.is_file() for file in grown.places.files)
    assert grown.places.place_id[:60].tolist() == before.places.place_id.tolist()
    np.testing.assert_array_equal(grown.places.positions[:60], before.places.positions)
    (drive / "bad.png").write_text("no image")
    some = mappable("densify", again, drive, "--within", 2)
    assert some.exit_code == 3
    assert "bad.png: not an image" in some.stderr
    refused(mappable("densify", again, drive), "already has a landmark", "00020.png")
