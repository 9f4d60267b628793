"""`mappable evaluate` with a map and images with known positions, and errors of `mappable reproduce`."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from mappable.errors import BadInputError
from mappable.evaluation.acceptance import RULES
from mappable.evaluation.evaluate import evaluate_map
from mappable.evaluation.protocols.localization import Localization
from mappable.evaluation.result import Accuracy
from mappable.evaluation.result import Result as Found
from mappable.localization.map import Map, open_map
from mappable.maps.encoders import encoder_of
from mappable.maps.landmarks import Landmarks
from mappable.places.files import load_places, save_places
from mappable.places.frames import Frame

pytestmark = pytest.mark.medium

Invoke = Callable[..., Result]
RADII = ("--positive-radius", "5", "--negative-radius", "15")


def test_a_map_is_evaluated_by_the_test_images_of_a_folder(
    mappable: Invoke, wall: Path, wall_map: Path, tmp_path: Path
) -> None:
    out = tmp_path / "found"
    protocols = "table1,localization"
    shown = mappable("evaluate", wall_map, wall, out, *RADII, "--protocols", protocols)
    assert shown.exit_code == 0, shown.output
    result, opened = Found.load(out), Landmarks.open(wall_map)
    queries = load_places(wall).where(split="test")
    assert (result.row, len(result.ids), result.unit, result.frame) == (
        opened.name,
        119,
        "m",
        "wall",
    )
    encoder = encoder_of(opened)
    found = Map(opened).locate_all(encoder.embed(queries))
    row = {name: number for number, name in enumerate(opened.places.place_id)}
    nearest = opened.places.positions[[row[one.candidates[0].landmark] for one in found]]
    errors = np.linalg.norm(queries.positions - nearest, axis=1)
    accuracy, told = result.get(Accuracy), result.get(Localization)
    assert accuracy is not None
    np.testing.assert_allclose(accuracy.errors, errors)
    assert told is not None
    assert told.calibrated_on == "a drive"
    assert told.methods["refined"].confident.tolist() == [one.confident for one in found]
    assert f"{np.mean(errors <= 5) * 100:.1f} %" in shown.output
    lines = [line.split() for line in shown.output.splitlines()]
    assert [
        line[0] for line in lines if line and line[0] in ("nearest", "refined", "sequence")
    ] == [
        "nearest",
        "refined",
        "sequence",
    ]
    assert f"{sum(one.confident for one in found)} of 119" in shown.output
    assert all(name in shown.output for name in RULES)
    assert f"report: {out / 'report.html'}" in shown.output
    assert "119 queries; 80 references and 160 calibration images left out" in shown.stderr
    assert json.loads((out / "report.json").read_text())["set"] == opened.name


@pytest.fixture
def later(wall: Path, tmp_path: Path) -> Path:
    """The folder of a later visit, whose images have the same names as those of the first."""
    sun = load_places(wall).where(sequence="sun")
    shutil.copytree(wall / "sun", tmp_path / "later/sun")
    save_places(sun.replace(root=tmp_path / "later", split=""), tmp_path / "later/places.parquet")
    return tmp_path / "later"


def test_queries_keep_their_ids_where_landmarks_have_the_same(
    mappable: Invoke, wall: Path, wall_encoder: Path, copied_map: Path, later: Path, tmp_path: Path
) -> None:
    def evaluated(folder: Path) -> Found:
        opened, queries = open_map(folder), load_places(later)
        radii = {"positive_radius": 5, "negative_radius": 15}
        return evaluate_map(opened, queries, **radii, protocols=["table1"])[0]

    rain, ids = load_places(wall).where(sequence="rain"), load_places(later).place_id.tolist()
    save_places(rain.replace(split=""), tmp_path / "rain.parquet")
    build = mappable(
        "map", "build", tmp_path / "rain.parquet", tmp_path / "rain", "--encoder", wall_encoder
    )
    assert build.exit_code == 0, build.output
    assert set(Landmarks.open(copied_map).places.place_id) < set(ids)
    for folder in (copied_map, tmp_path / "rain"):
        result = evaluated(folder)
        assert result.ids.tolist() == ids
        result.save(tmp_path / f"found-{folder.name}")
    compared = mappable("compare", tmp_path / "found-map", tmp_path / "found-rain")
    assert compared.stdout.startswith("note: the landmarks differ: "), compared.exception
    assert "note: the calibrations differ" in compared.stdout
    assert "80 queries" in compared.stdout
    wing = (
        load_places(wall)
        .where(sequence="fog")[:1]
        .replace(path=["wing.png"], place_id=["wing.png"])
    )
    (tmp_path / "new").mkdir()
    shutil.copy(wall / "fog/00020.png", tmp_path / "new/wing.png")
    save_places(wing.replace(root=tmp_path / "new"), tmp_path / "new/places.parquet")
    assert mappable("map", "add", copied_map, tmp_path / "new").exit_code == 0
    landmarks = Landmarks.open(copied_map).places
    # Paths begin elsewhere now, ids do not.
    assert set(landmarks.path).isdisjoint(landmarks.place_id)
    assert evaluated(copied_map).ids.tolist() == ids


def test_what_cannot_be_evaluated_is_one_sentence(
    mappable: Invoke, wall: Path, wall_map: Path, tmp_path: Path
) -> None:
    def refused(problem: str, *words: object) -> None:
        result = mappable("evaluate", wall_map, *words, tmp_path / "out")
        assert isinstance(result.exception, BadInputError), result.output
        assert problem in str(result.exception)
        assert not (tmp_path / "out" / "result.json").exists()

    refused("does not record its radii", wall)
    refused("no such table", tmp_path / "nowhere", *RADII)
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(wall, elsewhere)
    places = load_places(elsewhere).where(split="test")
    save_places(places.replace(frame="town", frames=Frame("town")), elsewhere / "places.parquet")
    refused("frame of the queries is town, expected wall", elsewhere, *RADII)
    (tmp_path / "file").touch()
    result = mappable("evaluate", wall_map, wall, tmp_path / "file", *RADII)
    assert "cannot be written" in str(result.exception)
    refused("unknown protocol 'table3'", wall, *RADII, "--protocols", "table3")
    save_places(load_places(wall).where(split="train"), tmp_path / "train.parquet")
    refused("train.parquet: no place has the split 'test'", tmp_path / "train.parquet", *RADII)
    save_places(
        load_places(wall).where(split="train").replace(split=""), tmp_path / "train.parquet"
    )
    refused(
        "sun/00000.png is a landmark of the map; evaluate with images that are not landmarks",
        tmp_path / "train.parquet",
        *RADII,
    )
    refused("got 5 and 2", wall, "--positive-radius", "5", "--negative-radius", "2")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("kitti",), "unknown set 'kitti', expected one of oxford, cold"),
        (("oxford",), "oxford: no folder of images given"),
        (("boreas", "--images", "/nowhere"), "/nowhere"),
        (("nordland", "--images", "."), "nordland has no preset; add --settings FILE"),
        (("street-v1", "--rows", "tripel"), "unknown row 'tripel'"),
        (("street-v1", "--seeds", "0,x"), "--seeds is '0,x'"),
        (("street-v1", "--seeds", "0,0"), "different numbers"),
        (("street-v1", "--set", "marginn=3"), "marginn"),
        (("boreas", "--images", ".", "--protocols", "table2"), "table2"),
        (
            ("street-v1", "--as-printed", "."),
            "--as-printed works with the paper's sets cold and oxford, got street-v1",
        ),
        (
            ("oxford", "--as-printed", "nowhere"),
            "convert Pittsburgh 250k with: mappable convert pittsburgh",
        ),
    ],
)
def test_a_study_that_cannot_be_is_one_sentence(
    mappable: Invoke, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    result = mappable("reproduce", words[0], tmp_path / "out", *words[1:])
    assert isinstance(result.exception, BadInputError), result.output
    assert problem in str(result.exception)
