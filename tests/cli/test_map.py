"""`mappable map`: build a map on disk from places and an encoder, and use it."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from typer.testing import Result

from mappable.features.encoder import Encoder
from mappable.maps.landmarks import Landmarks
from mappable.places import load_places, pack_images, save_places
from refusals import refused

Run = Callable[..., Result]


@pytest.mark.medium
def test_a_map_is_built_and_shown(mappable: Run, wall: Path, wall_encoder: Path, tmp_path: Path) -> None:
    out = tmp_path / "map"
    result = mappable("map", "build", wall, out, "--encoder", wall_encoder.parent, "--landmarks", 50)
    assert result.exit_code == 0, result.output
    fingerprint = Encoder.load(wall_encoder).fingerprint
    for text in (
        "50 landmarks, spacing ",
        "frame wall: 2",
        f"encoder {fingerprint}, kept with the map; 192 numbers per descriptor, float32",
        "calibrated on a drive, 160 images",
        "feature distances measure up to ",
        f"written to {out}",
    ):
        assert text in result.stdout
    (taken,) = result.stderr.splitlines()
    for text in ("80 references", "160 calibration images", "119 queries left out"):
        assert text in taken
    opened = Landmarks.open(out)
    assert set(opened.places.split) == {"train"}
    assert opened.calibration is not None
    assert opened.calibration.calibrated_on == "a drive"
    assert opened.encoder_file is not None
    assert mappable("map", "show", out).stdout == result.stdout.removesuffix(f"written to {out}\n")
    shown = json.loads(mappable("map", "show", out, "--json").stdout)
    assert (shown["landmarks"], shown["unit"], shown["calibration"]["images"]) == (50, "m", 160)


@pytest.mark.medium
def test_landmarks_by_spacing_or_all_of_them(mappable: Run, wall: Path, wall_encoder: Path, tmp_path: Path) -> None:
    built = ["map", "build", wall, tmp_path / "map", "--encoder", wall_encoder, "--overwrite"]
    assert mappable(*built, "--spacing", 10, "--storage", "float16").exit_code == 0
    spaced = Landmarks.open(tmp_path / "map")
    assert np.linalg.norm(np.diff(spaced.places.positions, axis=0), axis=1).min() >= 10
    assert spaced.storage == "float16"
    assert "80 landmarks" in mappable(*built, "--all").stdout  # in place of the other
    refused(mappable(*built, "--all", "--landmarks", 3), "exclude each other")
    refused(mappable(*built, "--landmarks", 81), "cannot choose 81 landmarks of 80 places")
    assert len(Landmarks.open(tmp_path / "map")) == 80


@pytest.mark.medium
def test_packed_pixels_will_do(mappable: Run, wall: Path, wall_encoder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(wall, tmp_path / "wall")
    places = load_places(copy)
    pack_images(places, copy, size=(64, 48))
    shutil.rmtree(copy / "sun")
    built = mappable("map", "build", copy, tmp_path / "map", "--encoder", wall_encoder, "--elsewhere", copy)
    assert built.exit_code == 0, built.output
    assert "calibrated on a drive, 160 images and 359 from elsewhere" in built.stdout


@pytest.mark.medium
def test_without_a_calibration_split_the_map_s_own_visit_calibrates_until_a_drive_does(
    mappable: Run, wall: Path, wall_encoder: Path, tmp_path: Path
) -> None:
    places = load_places(wall)
    save_places(places.where(split="train").replace(split="", sequence="one visit"), tmp_path / "own.parquet")
    built = mappable("map", "build", tmp_path / "own.parquet", tmp_path / "map", "--encoder", wall_encoder)
    assert "calibrated on own visit" in built.stdout
    assert "intervals on another visit are stated, not measured" in built.stderr
    calibrated = mappable("map", "calibrate", tmp_path / "map", wall, "--split", "calibration")
    assert "calibrated on a drive, 160 images" in calibrated.stdout
    assert Landmarks.open(tmp_path / "map").calibration.calibrated_on == "a drive"


@pytest.mark.medium
def test_descriptors_made_before(mappable: Run, wall: Path, wall_encoder: Path, wall_map: Path, tmp_path: Path) -> None:
    embedded, out = tmp_path / "embedded", tmp_path / "map"
    assert mappable("embed", wall_encoder, wall, embedded).exit_code == 0
    build = ["map", "build", wall, out, "--landmarks", 60, "--overwrite", "--descriptors"]
    assert "not kept with the map" in mappable(*build, embedded).stdout
    same, known = Landmarks.open(out), Landmarks.open(wall_map)
    assert same.encoder == known.encoder
    assert same.places == known.places
    np.testing.assert_array_equal(same.store.take(np.arange(60)), known.store.take(np.arange(60)))
    assert "kept with the map" in mappable(*build, embedded, "--encoder", wall_encoder).stdout
    refused(mappable(*build, embedded, "--fingerprint", "others"), known.encoder, "others")
    refused(mappable(*build, embedded / "descriptors.npy"), "--fingerprint")
    foreign = mappable(*build, embedded / "descriptors.npy", "--fingerprint", "others", "--elsewhere", embedded)
    refused(foreign, "one encoder, got others and")
    assert (
        "encoder others, not kept" in mappable(*build, embedded / "descriptors.npy", "--fingerprint", "others").stdout
    )
    refused(
        mappable("locate", out, wall / "fog"),
        "made outside Mappable, by others",
        "--fingerprint others",
    )
    refused(mappable("map", "build", wall, tmp_path / "none"), "--encoder FILE")


def test_a_wing_is_added_without_training(mappable: Run, wall: Path, copied_map: Path) -> None:
    added = mappable("map", "add", copied_map, wall, "--sequence", "fog", "--spacing", 20)
    assert added.exit_code == 0, added.output
    grown = Landmarks.open(copied_map)
    assert 68 <= len(grown) <= 72
    assert grown.calibration is not None
    assert "calibrated with 60 landmarks; renew it: mappable map calibrate" in added.stderr
    before = len(grown)
    refused(mappable("map", "add", copied_map, wall, "--split", "test", "--condition", "fog"), "already")
    refused(mappable("map", "add", copied_map, wall, "--sequence", "hail"), "no place has sequence 'hail'")
    refused(mappable("map", "add", copied_map, wall, "--landmarks", 3, "--spacing", 3), "exclude each other")
    assert len(Landmarks.open(copied_map)) == before


def test_landmarks_are_removed_and_maps_merged(mappable: Run, wall_map: Path, copied_map: Path, tmp_path: Path) -> None:
    ids = Landmarks.open(wall_map).places.place_id.tolist()
    other = shutil.copytree(wall_map, tmp_path / "other")
    assert mappable("map", "remove", copied_map, *ids[:20]).exit_code == 0
    assert mappable("map", "remove", other, *ids[20:]).exit_code == 0
    assert len(Landmarks.open(copied_map)) == 40
    merged = mappable("map", "add", copied_map, other)
    assert merged.exit_code == 0, merged.output
    assert sorted(Landmarks.open(copied_map).places.place_id) == sorted(ids)
    assert merged.stderr == ""  # as many landmarks as it was calibrated with
    assert len(Landmarks.open(other)) == 20
    refused(mappable("map", "add", copied_map, other), "already")
    refused(mappable("map", "remove", copied_map, "nowhere"), "no landmark 'nowhere'")


def test_landmarks_for_hloc(mappable: Run, wall_map: Path, tmp_path: Path) -> None:
    assert (
        "60 descriptors of 192 numbers" in mappable("map", "show", wall_map, "--out", tmp_path / "landmarks.h5").stderr
    )
    places = Landmarks.open(wall_map).places
    with h5py.File(tmp_path / "landmarks.h5", "r") as opened:
        vectors = np.stack([opened[path]["global_descriptor"][()] for path in places.path])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    refused(mappable("map", "show", wall_map, "--out", tmp_path / "landmarks.csv"), "ends in .h5")


def test_a_sound_map_and_damaged_ones(mappable: Run, wall_map: Path, copied_map: Path, wall: Path) -> None:
    assert "undamaged; 60 landmarks in 4 files" in mappable("map", "verify", wall_map).stdout
    (descriptors,) = copied_map.glob("descriptors-*.npy")
    whole = descriptors.read_bytes()
    descriptors.write_bytes(whole[:-4] + b"edit")  # of the same length, so only the checksum tells
    refused(mappable("map", "verify", copied_map), "damaged", descriptors.name)
    refused(mappable("locate", copied_map, wall / "fog"), "damaged", descriptors.name)
    descriptors.write_bytes(whole[:-4])
    for command in (("verify", copied_map), ("show", copied_map), ("add", copied_map, wall)):
        refused(mappable("map", *command), descriptors.name, "truncated or damaged")
    refused(mappable("locate", copied_map, wall / "fog"), descriptors.name)
    descriptors.write_bytes(whole)
    text = (copied_map / "map.json").read_text()
    (copied_map / "map.json").write_text(text.replace('"unit": "m"', '"unit": "frames"'))
    refused(mappable("map", "verify", copied_map), "map.json: damaged or edited")
    refused(mappable("map", "show", wall), "no map here")


def test_mistakes_are_found_before_any_image_is_described(
    mappable: Run, wall: Path, wall_map: Path, wall_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "embed", lambda *_, **__: pytest.fail("images were described"))
    build = ["map", "build", wall]
    refused(mappable(*build, wall, "--encoder", wall_encoder), "contains files, but no map")
    refused(mappable(*build, tmp_path / "m", "--encoder", tmp_path / "nowhere"), "no such encoder file")
    refused(mappable("map", "build", tmp_path, tmp_path / "m", "--encoder", wall_encoder), "no such table of places")
    queries = load_places(wall).where(split="test")
    save_places(queries, tmp_path / "test.parquet")
    refused(mappable("map", "build", tmp_path / "test.parquet", tmp_path / "m", "--encoder", wall_encoder), "landmark")
    assert not (tmp_path / "m").exists()


@pytest.mark.medium
def test_a_large_map_without_faiss_gets_no_index_and_says_so(
    mappable: Run, wall: Path, wall_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = ["map", "build", wall, "--encoder", wall_encoder, "--landmarks", 50]
    monkeypatch.setattr("mappable.maps.approximate.WORTHWHILE", 40)
    monkeypatch.setitem(sys.modules, "faiss", None)
    built = mappable(*build, tmp_path / "new")
    assert built.exit_code == 0, built.output
    assert built.stderr.splitlines()[1].startswith("warning: FAISS is not installed: the map gets no index")
    assert len(Landmarks.verify(tmp_path / "new")) == 50


def test_a_damaged_map_is_not_made_sound_by_a_change(
    mappable: Run, wall: Path, wall_map: Path, copied_map: Path, tmp_path: Path
) -> None:
    (descriptors,) = copied_map.glob("descriptors-*.npy")
    whole = descriptors.read_bytes()
    descriptors.write_bytes(whole[:-4] + b"edit")
    before = (copied_map / "map.json").read_bytes()
    landmark = Landmarks.open(copied_map).places.place_id[0]
    for command in (
        ("map", "add", copied_map, wall, "--sequence", "fog"),
        ("map", "remove", copied_map, landmark),
        ("map", "add", copied_map, wall_map),
        ("map", "add", wall_map, copied_map),
        ("densify", copied_map, wall / "fog"),
        ("map", "show", copied_map, "--out", tmp_path / "landmarks.h5"),
    ):
        refused(mappable(*command), f"{copied_map}: damaged", descriptors.name)
    assert (copied_map / "map.json").read_bytes() == before
    assert not (tmp_path / "landmarks.h5").exists()


def test_tables_without_places_are_refused(mappable: Run, wall: Path, wall_encoder: Path, tmp_path: Path) -> None:
    none, out = tmp_path / "none.parquet", tmp_path / "map"
    save_places(load_places(wall)[:0], none)
    refused(mappable("map", "build", none, out, "--encoder", wall_encoder), "none.parquet: the table has no places")
    refused(
        mappable("map", "build", wall, out, "--encoder", wall_encoder, "--elsewhere", none),
        "none.parquet: the table has no",
    )
    assert not out.exists()


def test_a_map_folder_may_be_moved(mappable: Run, wall: Path, copied_map: Path, tmp_path: Path) -> None:
    copied_map.rename(tmp_path / "moved")
    assert mappable("locate", tmp_path / "moved", wall / "fog/00020.png").exit_code == 0
