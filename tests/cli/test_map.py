"""`mappable map`: build a map on disk from places and an encoder, and use it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from mappable.features.encoder import Encoder
from mappable.maps.landmarks import Landmarks
from mappable.places import load_places, save_places
from refusals import refused

Run = Callable[..., Result]


@pytest.mark.medium
def test_a_map_is_built_and_shown(
    mappable: Run, wall: Path, wall_encoder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "map"
    result = mappable(
        "map", "build", wall, out, "--encoder", wall_encoder.parent, "--landmarks", 50
    )
    assert result.exit_code == 0, result.output
    (taken,) = result.stderr.splitlines()
    for text in ("80 references", "160 calibration images", "119 queries left out"):
        assert text in taken
    assert set(Landmarks.open(out).places.split) == {"train"}
    assert mappable("map", "show", out).stdout == result.stdout.removesuffix(f"written to {out}\n")
    shown = json.loads(mappable("map", "show", out, "--json").stdout)
    assert (shown["landmarks"], shown["unit"], shown["calibration"]["images"]) == (50, "m", 160)
    assert (shown["encoder"], shown["encoder_kept"]) == (
        Encoder.load(wall_encoder).fingerprint,
        True,
    )


@pytest.mark.medium
def test_descriptors_made_before(
    mappable: Run, wall: Path, wall_encoder: Path, wall_map: Path, tmp_path: Path
) -> None:
    embedded, out = tmp_path / "embedded", tmp_path / "map"
    assert mappable("embed", wall_encoder, wall, embedded).exit_code == 0
    build = ["map", "build", wall, out, "--landmarks", 60, "--overwrite", "--descriptors"]
    assert not json.loads(mappable(*build, embedded, "--json").stdout)["encoder_kept"]
    same, known = Landmarks.open(out), Landmarks.open(wall_map)
    assert (same.encoder, same.places) == (known.encoder, known.places)
    np.testing.assert_array_equal(same.store.take(np.arange(60)), known.store.take(np.arange(60)))
    assert json.loads(mappable(*build, embedded, "--encoder", wall_encoder, "--json").stdout)[
        "encoder_kept"
    ]
    vectors = embedded / "descriptors.npy"
    refused(mappable(*build, embedded, "--fingerprint", "others"), known.encoder, "others")
    refused(mappable(*build, vectors), "--fingerprint")
    refused(
        mappable(*build, vectors, "--fingerprint", "others", "--elsewhere", embedded),
        "one encoder, got others and",
    )
    assert mappable(*build, vectors, "--fingerprint", "others").exit_code == 0
    refused(
        mappable("locate", out, wall / "fog"),
        "made outside Mappable, by others",
        "--fingerprint others",
    )


def test_landmarks_are_removed_and_maps_merged(
    mappable: Run, wall_map: Path, copied_map: Path, tmp_path: Path
) -> None:
    ids = Landmarks.open(wall_map).places.place_id.tolist()
    other = shutil.copytree(wall_map, tmp_path / "other")
    assert mappable("map", "remove", copied_map, *ids[:20]).exit_code == 0
    assert mappable("map", "remove", other, *ids[20:]).exit_code == 0
    merged = mappable("map", "add", copied_map, other)
    assert (merged.exit_code, merged.stderr) == (0, "")
    assert sorted(Landmarks.open(copied_map).places.place_id) == sorted(ids)
    assert len(Landmarks.open(other)) == 20
    refused(mappable("map", "add", copied_map, other), "already")
    refused(mappable("map", "remove", copied_map, "nowhere"), "no landmark 'nowhere'")


def test_damage_is_found_before_an_answer_and_before_a_change(
    mappable: Run, wall: Path, wall_map: Path, copied_map: Path, tmp_path: Path
) -> None:
    assert mappable("map", "verify", copied_map).exit_code == 0
    (descriptors,) = copied_map.glob("descriptors-*.npy")
    record = copied_map / "map.json"
    before, whole = record.read_bytes(), descriptors.read_bytes()
    descriptors.write_bytes(whole[:-4] + b"edit")  # of the same length, so only the checksum tells
    landmark = Landmarks.open(copied_map).places.place_id[0]
    for command in (
        ("map", "verify", copied_map),
        ("locate", copied_map, wall / "fog"),
        ("map", "add", copied_map, wall, "--sequence", "fog"),
        ("map", "remove", copied_map, landmark),
        ("map", "add", wall_map, copied_map),
        ("densify", copied_map, wall / "fog"),
        ("map", "show", copied_map, "--out", tmp_path / "landmarks.h5"),
    ):
        refused(mappable(*command), "damaged", descriptors.name)
    descriptors.write_bytes(whole[:-4])
    refused(mappable("map", "show", copied_map), descriptors.name, "truncated or damaged")
    assert record.read_bytes() == before
    descriptors.write_bytes(whole)
    record.write_bytes(before.replace(b'"unit": "m"', b'"unit": "frames"'))
    refused(mappable("map", "verify", copied_map), "map.json: damaged or edited")
    refused(mappable("map", "show", wall), "no map here")


def test_mistakes_are_found_before_any_image_is_described(
    mappable: Run, wall: Path, wall_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "embed", lambda *_, **__: pytest.fail("images were described"))
    monkeypatch.chdir(tmp_path)
    save_places(load_places(wall).where(split="test"), tmp_path / "test.parquet")
    save_places(load_places(wall)[:0], tmp_path / "none.parquet")
    encoder = ("--encoder", wall_encoder)
    for words, part in (
        ((wall, wall, *encoder), "contains files, but no map"),
        ((wall, "m", "--encoder", "nowhere"), "no such encoder file"),
        ((wall, "m"), "--encoder FILE"),
        ((".", "m", *encoder), "no such table of places"),
        (("test.parquet", "m", *encoder), "landmark"),
        (("none.parquet", "m", *encoder), "none.parquet: the table has no places"),
        ((wall, "m", *encoder, "--elsewhere", "none.parquet"), "none.parquet: the table has no"),
    ):
        refused(mappable("map", "build", *words), part)
    assert not Path("m").exists()
