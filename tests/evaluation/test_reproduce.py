"""Whole studies, from a set's original files to the report: tiny sets and a tiny network, all other parts unchanged."""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from mappable.cli.app import app
from mappable.errors import BadInputError
from mappable.evaluation import as_printed
from mappable.evaluation.protocols import PROTOCOLS
from mappable.evaluation.protocols.generalization import Generalization
from mappable.evaluation.protocols.proportionality import Proportionality
from mappable.evaluation.report import failures_of
from mappable.evaluation.reproduce import (
    DESCRIPTORS,
    MODELS,
    RESULTS,
    PlannedModel,
    Study,
    load_study,
    plan,
)
from mappable.evaluation.result import RESULT, Accuracy, Result
from mappable.evaluation.rows import rows_named
from mappable.evaluation.scoring import Scoring
from mappable.evaluation.sets import find_set
from mappable.features.encoder import Encoder
from mappable.features.weight_files import shapes_of
from mappable.features.weights import WEIGHT_SETS
from mappable.learning.folder import OtherRunError
from mappable.locks import take
from mappable.places.files import save_places
from mappable.readers.registry import read_places
from nordland import NORDLAND

pytestmark = pytest.mark.medium

DRIVES = {  # split and condition, as the reader of Boreas states them
    "boreas-2020-12-01-13-26": ("train", "snow"),
    "boreas-2021-05-13-16-11": ("train", "sun"),
    "boreas-2021-10-15-12-35": ("calibration", "overcast"),
    "boreas-2021-01-26-11-22": ("test", "snow"),
    "boreas-2021-04-29-15-55": ("test", "rain"),
    "boreas-2021-06-17-17-52": ("test", "sun"),
    "boreas-2021-09-14-20-00": ("test", "night"),
}
TRAVERSALS = {
    "2014-11-18-13-20-12": "train",
    "2014-12-17-18-18-43": "train",
    "2015-02-03-08-45-10": "train",
    "2014-12-02-15-30-08": "train",
    "2015-02-13-09-16-26": "test",
    "2014-12-16-18-44-24": "test",
    "2015-10-29-12-18-17": "test",
}
FEW = ("off-the-shelf", "triplet+huber")
QUICK = [name for name in PROTOCOLS if name != "map-recovery"]


@pytest.fixture(scope="session")
def small(small_backbone: str) -> list[str]:
    """Settings of a tiny network that trains quickly."""
    return [
        *(
            f"backbone={small_backbone}",
            "weights=random",
            "clusters=2",
            "size=64x48",
            "init_images=4",
        ),
        *(
            "epochs=null",
            "iterations=2",
            "positives=2",
            "negatives=2",
            "hard_negatives=1",
            "landmarks=8",
        ),
    ]


def photograph(file: Path, number: float) -> None:
    """An image that changes smoothly with the number."""
    columns, rows = np.meshgrid(np.arange(64), np.arange(48))
    waves = [
        np.sin(columns / 6 + number),
        np.cos(rows / 5 - number / 3),
        np.sin((columns + rows) / 9 + number / 2),
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((127 + 120 * np.stack(waves, axis=2)).astype(np.uint8)).save(file)


@pytest.fixture(scope="session")
def oxford(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven traversals of 100 m, pre-processed images each 5 m, INS poses twice a second."""
    root = tmp_path_factory.mktemp("oxford")
    columns = "timestamp,ins_status,latitude,longitude,altitude,northing,easting,down,utm_zone,yaw"
    for number, name in enumerate(TRAVERSALS):
        start, lines = 1417534208000000 + number * 10**10, [columns]
        for step in range(21):
            moment = start + step * 500_000
            place = f"51.76,-1.26,113.5,{5735000 + number / 10},{619500 + 5 * step},-112.2,30U,1.57"
            lines.append(f"{moment},INS_SOLUTION_GOOD,{place}")
            photograph(root / f"{name}_stereo_centre_01" / f"{moment}.png", step + number / 10)
        (root / name / "gps").mkdir(parents=True)
        (root / name / "gps" / "ins.csv").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture(scope="session")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of the paper, 12 m each, and those of its generalization regions."""
    root = tmp_path_factory.mktemp("cold")
    conditions = ("cloudy", "night", "sunny")
    runs = [
        f"freiburg/seq{path}_{one}{run}"
        for path in (1, 2)
        for one in conditions
        for run in (1, 2, 3)
    ]
    runs += [f"freiburg/seq3_{name}" for name in ("cloudy1", "cloudy2", "sunny2")]
    runs += [f"saarbruecken/seq4_{name}" for name in ("cloudy1", "cloudy2", "night2", "sunny2")]
    for number, run in enumerate(runs):
        for step in range(16):
            moment, x = 1152886490.04 + 1000 * number + step, 0.8 * step
            name = f"t{moment:.6f}_x{x:.6f}_y{number / 100:.6f}_a{0.01 * math.sin(step):.6f}.jpeg"
            photograph(root / run / "std_cam" / name, step + number / 20)
    return root


@pytest.fixture(scope="session")
def boreas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The drives of the protocol: 400 m to the north, an image every 5 m."""
    root = tmp_path_factory.mktemp("boreas")
    header = "GPSTime,easting,northing,altitude,vel_east,vel_north,vel_up,roll,pitch,heading,angvel_z,angvel_y,angvel_x"
    for number, name in enumerate(DRIVES):
        start, lines = 1606000000000000 + number * 10**11, [header]
        for step in range(81):
            moment = start + step * 500_000
            lines.append(
                f"{moment},{number / 10},{5 * step},0.5,0,10,0,-1.5707963267948966,0,0,0,0,0"
            )
            photograph(root / name / "camera" / f"{moment}.png", step + number / 10)
        (root / name / "applanix").mkdir()
        (root / name / "applanix/camera_poses.csv").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture(scope="session")
def nordland(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two films of 90 frames, the last 30 for the test."""
    root, lines = tmp_path_factory.mktemp("nordland"), ["path,sequence,condition,x,y,split"]
    for number, season in enumerate(("summer", "winter")):
        for frame in range(90):
            path = f"{season}/{frame:05d}.jpg"
            photograph(root / path, frame / 2 + number / 5)
            lines.append(f"{path},{season},{season},{frame},0,{'train' if frame < 60 else 'test'}")
    (root / "places.csv").write_text("\n".join(lines) + "\n")
    return root


Run = Callable[..., tuple[Study, list[PlannedModel], list[Result]]]


@pytest.fixture
def run(small: list[str], tmp_path: Path) -> Run:
    """Train and score the models of a set, below tmp_path/out."""

    def go(
        name: str,
        root: Path | None,
        values: Sequence[str] = (),
        rows: Sequence[str] = FEW,
        **options: object,
    ) -> tuple[Study, list[PlannedModel], list[Result]]:
        named = NORDLAND if name == "nordland" else find_set(name)
        models = plan(named, rows_named(rows), [0], [*small, *values])
        study = load_study(named, root, tmp_path / "out", models, device="cpu", **options)
        return study, models, list(study.run(models))

    return go


def accuracy(result: Result) -> Accuracy:
    found = result.get(Accuracy)
    assert found is not None
    return found


def regions(result: Result) -> list[str]:
    found = result.get(Generalization)
    return [] if found is None else list(found.regions)


def test_oxford(run: Run, oxford: Path) -> None:
    study, _, results = run("oxford", oxford, protocols=QUICK)
    setup = study.setup
    assert set(setup.places.sequence[setup.queries]) == {
        name for name, of in TRAVERSALS.items() if of == "test"
    }
    assert (setup.positive_radius, setup.negative_radius, setup.landmarks, setup.block) == (
        10,
        25,
        8,
        25,
    )
    assert setup.route == "2015-02-13-09-16-26"
    assert set(setup.places.condition[setup.gallery]) == {"snow"}
    assert [result.row for result in results] == ["off-the-shelf", "triplet+huber"]
    assert results[0].settings["iterations"] == 0
    assert (
        results[1].settings["geometric_weight"],
        results[1].settings["feature_scale_squared"],
    ) == (0.5, 2)
    assert set(results[0].skipped) == {"generalization", "landmark-sweep"}
    assert "79.46" in study.report(results).read_text()  # what the paper has


def test_boreas(run: Run, boreas: Path) -> None:
    study, _, results = run("boreas", boreas, protocols=QUICK)
    setup = study.setup
    places = setup.places
    for split, rows in (
        ("train", setup.references),
        ("test", setup.queries),
        ("calibration", setup.calibration),
    ):
        assert set(places.sequence[rows]) == {
            name for name, (of, _) in DRIVES.items() if of == split
        }
        assert places.y[rows].max() <= 250  # region B begins at 300 m, and 50 m are left out
    assert set(places.condition[setup.queries]) == {"snow", "rain", "sun", "night"}
    assert [region.name for region in setup.regions] == ["region B"]
    assert places.y[setup.regions[0].reference].min() == 300
    assert set(places.sequence[setup.regions[0].reference]) == {"boreas-2020-12-01-13-26"}
    assert regions(results[0]) == ["region B"]
    from mappable.learning.settings import load_settings

    chosen = find_set("boreas").setup(
        places, load_settings("street", overrides=["landmarks=8"]), choose=True
    )
    assert set(places.sequence[chosen.queries]) == {"boreas-2021-10-15-12-35"}


def test_as_printed(oxford: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights in the layout of the Caffe file."""
    random, weights = torch.Generator().manual_seed(0), {}
    for name, shape in shapes_of("vgg16").items():
        spread = (2 / (9 * shape[1])) ** 0.5 if name.endswith("weight") else 0.0
        weights[name] = spread * torch.randn(shape, generator=random)
    monkeypatch.setenv("MAPPABLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(as_printed, "CLUSTER_IMAGES", 6)
    for number in range(8):
        photograph(tmp_path / f"pittsburgh/000/{number:06d}_pitch1_yaw1.jpg", 3 * number)
    save_places(
        read_places("pittsburgh", tmp_path / "pittsburgh"), tmp_path / "places" / "places.parquet"
    )
    words = [
        "oxford",
        tmp_path / "out",
        "--images",
        oxford,
        "--rows",
        "off-the-shelf",
        "--protocols",
        "table1",
    ]
    words += ["--as-printed", tmp_path / "places", "--device", "cpu"]
    command = [
        "reproduce",
        *map(str, words),
        "--set",
        "size=48x32",
        "--set",
        "clusters=4",
        "--set",
        "landmarks=8",
    ]
    missing = CliRunner().invoke(app, command).exception
    assert "vgg16-caffe is not in the cache" in str(missing)
    assert "mappable encoders vgg16-caffe" in str(missing)
    torch.save(weights, tmp_path / "caffe.pth")
    caffe = WEIGHT_SETS["vgg16-caffe"]
    published = hashlib.sha256((tmp_path / "caffe.pth").read_bytes()).hexdigest()[:8]
    sources = tuple(replace(source, sha256=published) for source in caffe.sources)
    monkeypatch.setitem(WEIGHT_SETS, "vgg16-caffe", replace(caffe, sources=sources))
    for each in (["encoders", "vgg16-caffe", "--file", str(tmp_path / "caffe.pth")], command):
        done = CliRunner().invoke(app, each)
        assert done.exit_code == 0, done.output
    encoder = Encoder.load(
        tmp_path / "out" / MODELS / "off-the-shelf-seed0" / "encoder.safetensors"
    )
    assert torch.equal(
        encoder.backbone.state_dict()["features.5.weight"], weights["features.5.weight"]
    )
    assert (encoder.about.mean, encoder.about.init_source) == (
        WEIGHT_SETS["vgg16-caffe"].mean,
        str(tmp_path / "places"),
    )
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (
        "As printed: Caffe weights (vgg16-caffe), 6 Pittsburgh images" in report["headline"]["run"]
    )


def test_cold(run: Run, cold: Path) -> None:
    study, _, results = run("cold", cold, protocols=QUICK)
    setup = study.setup
    assert set(setup.places.frame[setup.queries]) == {"freiburg-a"}
    assert setup.proportional[0] == "freiburg-a/seq2_sunny3"
    assert setup.matrices == ("freiburg-a/seq2_cloudy2", "freiburg-a/seq2_cloudy3")
    assert set(setup.places.sequence[setup.gallery]) == {"freiburg-a/seq2_sunny1"}
    assert regions(results[0]) == ["Freiburg A", "Freiburg B", "Saarbrücken B"]
    first = setup.regions[0]
    assert set(setup.places.sequence[first.reference]) == {"freiburg-a/seq2_sunny2"}
    assert "83.47" in study.report(results).read_text()  # what the paper has


def test_nordland(run: Run, nordland: Path) -> None:
    study, models, results = run("nordland", nordland)  # by all protocols
    setup = study.setup
    assert (setup.unit, setup.landmarks, setup.block) == ("frames", None, 20.0)
    assert (len(setup.references), len(setup.queries)) == (30, 30)
    assert (setup.places.x[setup.queries] >= 60).all()
    assert {"generalization", "landmark-sweep", "map-recovery"} <= set(results[0].skipped)
    told = study.results(models)
    assert [one.row for one in told] == [one.row for one in results]
    assert failures_of(study.report(told)) == []


def test_no_step_is_repeated_and_no_stale_result_is_used(
    run: Run, nordland: Path, tmp_path: Path
) -> None:
    few = {"rows": ["triplet"], "protocols": ["table1", "curves"]}
    study, models, (first,) = run("nordland", nordland, **few)
    encoder = study.out / MODELS / models[0].folder / "encoder.safetensors"
    (descriptors,) = (study.out / DESCRIPTORS / models[0].folder).glob("*.npy")
    files = (encoder, descriptors)
    times = [file.stat().st_mtime_ns for file in files]
    _, _, (again,) = run("nordland", nordland, **few)
    assert [file.stat().st_mtime_ns for file in files] == times
    assert (accuracy(again).recall, again.ran, again.setup) == (
        accuracy(first).recall,
        first.ran,
        first.setup,
    )
    descriptors.unlink()
    run("nordland", nordland, **few)
    assert not descriptors.exists()  # complete results need none
    with pytest.raises(OtherRunError, match=r"margin 0\.1.*0\.3.*--overwrite"):
        run("nordland", nordland, values=["margin=0.3"], **few)
    _, _, (other,) = run("nordland", nordland, values=["margin=0.3"], overwrite=True, **few)
    assert other.settings["margin"] == 0.3
    assert other.encoder != first.encoder
    assert not descriptors.exists()
    changed = replace(study, setup=replace(study.setup, positive_radius=2.0))
    (narrow,) = changed.run(
        plan(NORDLAND, rows_named(["triplet"]), [0], _settings_of(models[0], "0.3"))
    )
    assert narrow.setup != other.setup
    assert accuracy(narrow).positive <= accuracy(other).positive


def _settings_of(model: PlannedModel, margin: str) -> list[str]:
    names = (
        "backbone",
        "weights",
        "clusters",
        "init_images",
        "iterations",
        "positives",
        "negatives",
    )
    values = model.settings.model_dump(mode="json")
    return [f"{name}={values[name]}" for name in (*names, "hard_negatives", "landmarks")] + [
        "size=64x48",
        f"margin={margin}",
    ]


def test_a_changed_image_is_described_and_scored_again(run: Run, nordland: Path) -> None:
    few = {"rows": ["off-the-shelf"], "protocols": ["table1"]}
    study, models, (first,) = run("nordland", nordland, **few)
    (file,) = (study.out / DESCRIPTORS / models[0].folder).glob("*.npy")
    test = study.setup.places.files[study.setup.queries[3]]
    before = test.read_bytes()
    photograph(test, 999.0)
    try:
        _, _, (other,) = run("nordland", nordland, **few)
    finally:
        test.write_bytes(before)
    assert not file.exists()
    assert other.encoder == first.encoder
    assert other.setup != first.setup


def test_other_protocols_are_kept_and_a_damaged_result_is_computed_again(
    run: Run, nordland: Path
) -> None:
    study, models, _ = run(
        "nordland", nordland, rows=["off-the-shelf"], protocols=["table1", "curves"]
    )
    _, _, (again,) = run(
        "nordland", nordland, rows=["off-the-shelf"], protocols=["proportionality"]
    )
    assert set(again.scored) == {"table1", "curves", "proportionality"}
    file = study.out / RESULTS / models[0].folder / RESULT
    file.write_bytes(file.read_bytes().replace(b"triplet", b"Triplet"))
    with pytest.raises(BadInputError, match=r"result\.json"):
        Result.load(file)
    _, _, (healed,) = run(
        "nordland", nordland, rows=["off-the-shelf"], protocols=["proportionality"]
    )
    assert set(healed.scored) == {"proportionality"}
    assert healed.get(Proportionality) is not None


def test_several_processes_share_the_models(run: Run, nordland: Path) -> None:
    few = {"rows": ["off-the-shelf", "triplet", "distance"], "protocols": ["table1"]}
    study, models, _ = run("nordland", nordland, **few | {"rows": ["off-the-shelf"]})
    models = plan(NORDLAND, rows_named(few["rows"]), [0], _settings_of(models[0], "0.1"))
    lock = take(study.out / RESULTS / f".{models[1].folder}.lock")  # as another process would
    assert lock is not None
    with lock:
        assert [one.row for one in study.run(models)] == ["off-the-shelf", "triplet"]
    assert [one.row for one in study.results(models)] == ["off-the-shelf", "triplet"]
    assert [one.row for one in study.run(models)] == ["off-the-shelf", "distance", "triplet"]


def test_a_failed_protocol_does_not_stop_others_and_is_retried(
    run: Run, nordland: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Scoring) -> None:
        raise KeyError("masked")

    few = {"rows": ["off-the-shelf"], "protocols": ["table1", "curves"]}
    monkeypatch.setitem(PROTOCOLS, "curves", replace(PROTOCOLS["curves"], run=broken))
    study, models, (first,) = run("nordland", nordland, **few)
    assert set(first.scored) == {"table1"}
    assert first.failed["curves"].startswith("KeyError: 'masked' (")
    (told,) = study.results(models)
    assert told.failed == first.failed
    assert failures_of(study.report([told])) == [
        f"protocol curves, Off-the-shelf: {first.failed['curves']}"
    ]
    monkeypatch.undo()
    study, models, (again,) = run("nordland", nordland, **few)
    assert set(again.scored) == {"table1", "curves"}
    assert not again.failed
    assert failures_of(study.report([again])) == []


def test_impossible_studies_raise(nordland: Path, small: list[str], tmp_path: Path) -> None:
    named = NORDLAND
    models = plan(named, rows_named(["triplet"]), [0], small)
    with pytest.raises(BadInputError, match=r"nordland.*folder"):
        load_study(named, None, tmp_path, models)
    with pytest.raises(BadInputError, match=r"street-v1.*rendered"):
        load_study(find_set("street-v1"), nordland, tmp_path, models)
    with pytest.raises(BadInputError, match=r"set.*'kitti'"):
        find_set("kitti")
    with pytest.raises(BadInputError, match=r"row.*'tripel'"):
        rows_named(["tripel"])
    with pytest.raises(BadInputError, match="nothing to train"):
        load_study(named, nordland, tmp_path, [])
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match="file"):
        load_study(named, nordland, tmp_path / "file", models)


def test_the_rows_are_those_of_the_paper_and_ours() -> None:
    assert len(rows_named(["table1"])) == 11
    assert len(rows_named(["ours"])) == 5
    assert [row.name for row in rows_named(["triplet+huber-ours", "triplet"])] == [
        "triplet",
        "triplet+huber-ours",
    ]
    assert {row.pure for row in rows_named(["table1"]) if row.combined} == {
        "triplet",
        "lazy-quadruplet",
    }
