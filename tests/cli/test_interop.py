"""Other tools read our files: evo and rerun by their own libraries, hloc by its documented layout."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from evo.core.metrics import PoseRelation, StatisticsType
from evo.core.sync import associate_trajectories
from evo.core.trajectory import PoseTrajectory3D
from evo.main_ape import ape
from evo.tools.file_interface import FileInterfaceException, read_tum_trajectory_file
from PIL import Image
from typer.testing import Result

from mappable.arrays import Floats
from mappable.features.encoder import Encoder
from mappable.maps.export import seconds_of
from mappable.maps.map import Map
from mappable.places import load_places, save_places
from mappable.places.table import Places
from mappable.recovery.align import aligned_score, score
from mappable.trajectories import write_tum
from refusals import refused

Run = Callable[..., Result]


@dataclass(frozen=True)
class Drive:
    """A drive in the fog, and the files that commands wrote about it."""

    places: Places
    entries: list[dict[str, Any]]  # of `locate --json`
    folder: Path

    @property
    def table(self) -> Path:
        return self.folder / "fog.parquet"


@pytest.fixture(scope="module")
def drive(mappable: Run, wall: Path, wall_map: Path, tmp_path_factory: pytest.TempPathFactory) -> Drive:
    folder = tmp_path_factory.mktemp("drive")
    places = load_places(wall).where(sequence="fog")
    save_places(places, folder / "fog.parquet")
    write_tum(folder / "truth.txt", places.positions, seconds_of(places))
    located = mappable(
        *("locate", wall_map, folder / "fog.parquet", "--json"),
        *("--tum", folder / "located.txt", "--pairs", folder / "pairs.txt"),
    )
    assert located.exit_code == 0, located.output
    recover = ("recover", "images", wall_map, folder / "fog.parquet", folder / "recovered")
    recovered = mappable(*recover, "--truth", folder / "fog.parquet")
    assert recovered.exit_code == 0, recovered.output
    return Drive(places, json.loads(located.stdout), folder)


# evo


def read_pair(truth: Path, estimate: Path) -> tuple[PoseTrajectory3D, PoseTrajectory3D]:
    """Both trajectories as evo reads them, at the times that both have."""
    return associate_trajectories(*(read_tum_trajectory_file(str(file)) for file in (truth, estimate)))


def evo_rmse(truth: Path, estimate: Path, **options: bool) -> float:
    result = ape(*read_pair(truth, estimate), PoseRelation.translation_part, **options)
    return float(result.stats[StatisticsType.rmse.value])


@pytest.mark.medium
def test_evo_reads_a_located_drive_and_scores_it_as_we_do(drive: Drive) -> None:
    truth, located = drive.folder / "truth.txt", drive.folder / "located.txt"
    confident = [row for row, one in enumerate(drive.entries) if one["confident"]]
    assert 100 < len(confident) < len(drive.places)
    found = read_tum_trajectory_file(str(located))
    assert found.check()[0], found.check()  # times ascend, rotations are rotations
    np.testing.assert_allclose(found.timestamps, drive.places.time[confident] / 1e9, atol=1e-6)
    at = np.array([drive.entries[row]["coordinates"] for row in confident])
    np.testing.assert_allclose(found.positions_xyz[:, :2], at, atol=1e-6)
    true, estimated = (one.positions_xyz[:, :2] for one in read_pair(truth, located))
    np.testing.assert_allclose(true, drive.places.positions[confident], atol=1e-6)
    assert evo_rmse(truth, located) == pytest.approx(score(estimated, true).rmse, abs=1e-9)
    rigid, similar = (aligned_score(estimated, true, scale=scale).rmse for scale in (False, True))
    assert evo_rmse(truth, located, align=True) == pytest.approx(rigid, abs=1e-9)
    assert evo_rmse(truth, located, align=True, correct_scale=True) == pytest.approx(similar, abs=1e-9)
    assert similar < rigid < score(estimated, true).rmse


def test_evo_scores_a_recovered_drive_as_our_summary_does_even_if_mirrored(drive: Drive, tmp_path: Path) -> None:
    truth, recovered = drive.folder / "truth.txt", drive.folder / "recovered/trajectory.txt"
    scores = json.loads((drive.folder / "recovered/summary.json").read_text())["scores"]
    free, measured = (scores[name]["rmse"] for name in ("aligned, scale free", "aligned, scale as measured"))
    positions = np.loadtxt(recovered)[:, 1:3]
    write_tum(tmp_path / "mirrored.txt", positions * [-1, 1], np.loadtxt(recovered)[:, 0])
    for file in (recovered, tmp_path / "mirrored.txt"):  # which a turn in space undoes, as both ways are flat
        assert evo_rmse(truth, file, align=True, correct_scale=True) == pytest.approx(free, abs=1e-5)
        assert evo_rmse(truth, file, align=True) == pytest.approx(measured, abs=1e-5)


def test_evo_refuses_a_drive_of_which_nothing_is_known(tmp_path: Path) -> None:
    write_tum(tmp_path / "none.txt", np.full((3, 2), np.nan))
    with pytest.raises(FileInterfaceException, match="8 entries per row"):
        read_tum_trajectory_file(str(tmp_path / "none.txt"))


@pytest.mark.medium
def test_evos_own_command(drive: Drive, tmp_path: Path) -> None:
    truth, located = drive.folder / "truth.txt", drive.folder / "located.txt"
    command = [Path(sys.executable).with_name("evo_ape"), "tum", truth, located, "-a"]
    own_home = os.environ | {"HOME": str(tmp_path), "MPLBACKEND": "agg", "MPLCONFIGDIR": str(tmp_path)}
    told = subprocess.run(command, env=own_home, capture_output=True, text=True, check=True).stdout
    (rmse,) = re.findall(r"rmse\s+([\d.]+)", told)
    assert float(rmse) == pytest.approx(evo_rmse(truth, located, align=True), abs=1e-6)


# hloc


def read_descriptors(file: Path) -> dict[str, Floats]:
    """By the layout that hloc documents: a group per image path, with the data set `global_descriptor`."""
    found: dict[str, Floats] = {}
    with h5py.File(file, "r") as opened:
        opened.visititems(lambda name, one: found.update({name: one[()]}) if isinstance(one, h5py.Dataset) else None)
    assert {name.rpartition("/")[2] for name in found} == {"global_descriptor"}
    return {name.rpartition("/")[0]: vector for name, vector in found.items()}


def test_hlocs_pairs_name_what_its_descriptors_hold_and_are_what_it_would_retrieve(
    mappable: Run, drive: Drive, wall_map: Path, wall_encoder: Path, tmp_path: Path
) -> None:
    assert mappable("map", "export", wall_map, tmp_path / "landmarks.h5").exit_code == 0
    embedded = mappable("embed", wall_encoder, drive.table, tmp_path / "queries.h5", "--format", "hloc")
    assert embedded.exit_code == 0, embedded.output
    with h5py.File(tmp_path / "queries.h5", "r") as opened:
        assert list(opened) == ["fog"]  # a folder is a group, in which its images are groups
        assert list(opened["fog"]["00020.png"]) == ["global_descriptor"]
    landmarks, queries = (read_descriptors(tmp_path / name) for name in ("landmarks.h5", "queries.h5"))
    assert set(landmarks) == set(Map.open(wall_map).places.path)
    assert set(queries) == set(drive.places.path)
    pairs = defaultdict(list)
    for line in (drive.folder / "pairs.txt").read_text().splitlines():
        query, landmark = line.split()
        pairs[query].append(landmark)
    names, vectors = list(landmarks), np.stack(list(landmarks.values()))
    assert list(pairs) == drive.places.path.tolist()
    for query, nearest in pairs.items():
        best = np.argsort(-(vectors @ queries[query]))[: len(nearest)]  # length one: the largest product is the nearest
        assert nearest == [names[row] for row in best]


# rerun


@pytest.fixture
def with_rerun() -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not here (490 MB): pip install 'mappable[rerun]'")


class Recording:
    """A recording, read by rerun: its columns by entity, static or by the number on a timeline."""

    def __init__(self, file: Path) -> None:
        from rerun.chunk import RrdReader

        self.reader = RrdReader(file)
        self.static: dict[str, dict[str, Any]] = defaultdict(dict)
        self.at: dict[str, dict[str, dict[int, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
        for chunk in self.reader.stream().to_chunks():
            columns = chunk.to_record_batch().to_pydict()
            for row in range(chunk.num_rows):
                values = {name: column[row] for name, column in columns.items() if ":" in name and column[row]}
                if chunk.is_static:
                    self.static[chunk.entity_path] |= values
                for timeline in chunk.timeline_names:
                    number = columns[timeline][row]
                    self.at[timeline][chunk.entity_path].setdefault(number, {}).update(values)

    def now(self, entity: str, column: str, timeline: str = "image") -> dict[int, Any]:
        return {number: values[column] for number, values in self.at[timeline][entity].items() if column in values}


def decoded(blob: list[list[int]]) -> Floats:
    return np.asarray(Image.open(io.BytesIO(bytes(blob[0]))), dtype=np.float64)


@pytest.mark.usefixtures("with_rerun")
def test_a_followed_drive_is_recorded_for_rerun(mappable: Run, wall: Path, wall_map: Path, tmp_path: Path) -> None:
    files, file = sorted((wall / "fog").iterdir())[:12], tmp_path / "run.rrd"
    result = mappable("follow", wall_map, *files, "--json", "--all", "--rerun", file)
    assert result.exit_code == 0, result.output
    told = [json.loads(line) for line in result.stdout.splitlines()]
    recording = Recording(file)
    written = recording.now("/estimate", "TextDocument:text")
    assert [json.loads(written[row][0]) for row in range(12)] == told
    at = recording.now("/world/now/estimate", "Points3D:positions")
    places = recording.now("/world/now/places", "Points3D:positions")
    for row, one in enumerate(told):
        np.testing.assert_allclose(at[row][0][:2], one["position"], atol=1e-4)
        assert len(places[row]) == len(one["places"])
    ellipse = np.array(recording.now("/world/now/ellipse", "LineStrips3D:strips")[7][0])[:, :2]
    away = ellipse - told[7]["position"]
    squared = np.einsum("ni,ij,nj->n", away, np.linalg.inv(told[7]["covariance"]), away)
    np.testing.assert_allclose(squared, -2 * np.log(0.05), rtol=1e-3)
    assert [one.total_seconds() for one in recording.at["time"]["/estimate"]] == [one["time"] for one in told]


@pytest.mark.usefixtures("with_rerun")
def test_a_run_is_recorded_for_rerun(mappable: Run, drive: Drive, wall_map: Path, wall: Path, tmp_path: Path) -> None:
    file, recovered = tmp_path / "deep/run.rrd", drive.folder / "recovered"
    command = ("locate", wall_map, drive.table, "--json", "--rerun", file, "--recovered", recovered)
    result = mappable(*command)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == drive.entries
    assert result.stderr == f"recording written to {file}\n"
    assert [one.name for one in file.parent.iterdir()] == ["run.rrd"]
    recording, landmarks = Recording(file), Map.open(wall_map).places
    assert (len(recording.reader.recordings()), len(recording.reader.blueprints())) == (1, 1)
    assert set(recording.at) == {"image", "time", "landmark"}

    known = recording.static["/world/landmarks"]
    np.testing.assert_allclose(np.array(known["Points3D:positions"])[:, :2], landmarks.positions, atol=1e-4)
    assert known["Points3D:labels"] == landmarks.place_id.tolist()
    (way,) = recording.static["/world/truth"]["LineStrips3D:strips"]
    np.testing.assert_allclose(np.array(way)[:, :2], drive.places.positions, atol=1e-4)
    (shape,) = recording.static["/world/recovered"]["LineStrips3D:strips"]
    off = score(np.array(shape)[:, :2], drive.places.positions).rmse
    scores = json.loads((recovered / "summary.json").read_text())["scores"]
    assert off == pytest.approx(scores["aligned, scale free"]["rmse"], abs=1e-3)

    estimates, errors = (
        recording.now("/world/now/estimate", "Points3D:positions"),
        recording.now("/plots/error", "Scalars:scalars"),
    )
    said = recording.now("/query/says", "TextDocument:text")
    intervals = recording.now("/world/now/interval", "LineStrips3D:strips")
    assert list(estimates) == list(errors) == list(said) == list(range(119))
    assert sorted(intervals) == [row for row, one in enumerate(drive.entries) if one["low"] is not None]
    at = dict(zip(landmarks.place_id, landmarks.positions, strict=True))
    for row, one in enumerate(drive.entries):
        np.testing.assert_allclose(estimates[row][0][:2], one["coordinates"], atol=1e-4)
        true = np.linalg.norm(np.subtract(one["coordinates"], drive.places.positions[row]))
        assert errors[row] == [pytest.approx(true)]
        assert one["image"] in said[row][0]
        assert (one["reason"] or "confident") in said[row][0]
        for ring, radius in zip(intervals.get(row, []), (one["low"], one["high"]), strict=False):
            radii = np.linalg.norm(np.array(ring)[:, :2] - at[one["landmark"]], axis=1)
            np.testing.assert_allclose(radii, radius, atol=1e-3)
    ellipse = np.array(recording.now("/world/now/ellipse", "LineStrips3D:strips")[7][0])[:, :2]
    away = ellipse - drive.entries[7]["coordinates"]
    squared = np.einsum("ni,ij,nj->n", away, np.linalg.inv(drive.entries[7]["covariance"]), away)
    np.testing.assert_allclose(squared, -2 * np.log(0.1), rtol=1e-3)  # where a share of 90 % ends

    pictures = recording.now("/query/image", "EncodedImage:blob")
    shown = recording.now("/landmark/image", "EncodedImage:blob")
    own = recording.now("/landmark/image", "EncodedImage:blob", "landmark")
    assert (len(pictures), len(shown), len(own)) == (119, 119, 60)
    for picture, path in ((pictures[7], drive.places.path[7]), (own[3], landmarks.path[3])):
        assert np.abs(decoded(picture) - np.asarray(Image.open(wall / path), dtype=np.float64)).mean() < 10
    row = landmarks.place_id.tolist().index(drive.entries[7]["landmark"])
    assert shown[7] == own[row]
    moments = list(recording.at["time"]["/query/image"])
    assert [moment.timestamp() for moment in moments] == pytest.approx((drive.places.time / 1e9).tolist())


@pytest.mark.usefixtures("with_rerun")
def test_a_recording_of_what_is_partly_missing(mappable: Run, wall: Path, wall_map: Path, tmp_path: Path) -> None:
    """Landmark images no longer exist, one image does not decode, and there are no true positions."""
    images = tmp_path / "images"
    images.mkdir()
    for name in ("00020.png", "00040.png"):
        shutil.copy(wall / "fog" / name, images / name)
    (images / "00030.png").write_text("no image")
    opened = Map.open(wall_map)
    Map.build(
        opened.places.replace(root=tmp_path / "gone"),
        opened.store.take(np.arange(60)),
        opened.encoder,
        about=opened.about,
        calibration=opened.calibration,
    ).save(tmp_path / "moved", opened.encoder_file)
    result = mappable("locate", tmp_path / "moved", images, "--rerun", tmp_path / "run.rrd")
    assert result.exit_code == 3
    told = result.stderr.splitlines()
    assert told[0].startswith("warning: the recording lacks 60 landmark images that cannot be read; ")
    assert told[0].endswith(".png: no such file or directory")
    assert told[1:] == [
        f"recording written to {tmp_path / 'run.rrd'}",
        f"error: {images / '00030.png'}: not an image in a known format",
    ]
    recording = Recording(tmp_path / "run.rrd")
    assert "/world/truth" not in recording.static
    assert "not an image" in recording.now("/query/says", "TextDocument:text")[1][0]
    assert list(recording.now("/query/image", "EncodedImage:blob")) == [0, 2]
    assert "Clear:is_recursive" in recording.at["image"]["/query/image"][1]
    assert not recording.now("/landmark/image", "EncodedImage:blob")
    errors = recording.now("/plots/error", "Scalars:scalars")
    assert all(np.isnan(one[0]) for one in errors.values())


def test_recordings_that_cannot_be_written_are_refused_before_any_image_is_described(
    mappable: Run, drive: Drive, wall_map: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Encoder, "embed", lambda *_, **__: pytest.fail("images were described"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.rrd").write_text("what was there")
    located = ("locate", wall_map, drive.table)
    refused(mappable("locate", tmp_path / "none", drive.table, "--rerun", "run.rrd"), "none: no map here")
    refused(mappable(*located, "--rerun", "old.rrd"), "old.rrd: exists", "--overwrite")
    refused(mappable(*located, "--rerun", "run.png"), "run.png: ", "end in .rrd")
    refused(mappable(*located, "--recovered", drive.folder / "recovered"), "--recovered needs --rerun FILE")
    monkeypatch.setitem(sys.modules, "rerun", None)
    without = mappable(*located, "--rerun", "run.rrd")
    refused(without, "recordings need rerun-sdk; install the extra rerun: pip install 'mappable[rerun]'")
    assert without.exit_code != 0
    assert [one.name for one in tmp_path.iterdir()] == ["old.rrd"]
    assert (tmp_path / "old.rrd").read_text() == "what was there"


@pytest.mark.usefixtures("with_rerun")
def test_what_was_recovered_from_other_images_is_refused(
    mappable: Run,
    drive: Drive,
    wall: Path,
    wall_map: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rewrite: Callable[..., None],
) -> None:
    monkeypatch.setattr(Encoder, "embed", lambda *_, **__: pytest.fail("images were described"))
    locate = ("locate", wall_map)
    recorded = ("--rerun", tmp_path / "run.rrd", "--recovered")
    own = drive.folder / "recovered"
    refused(
        mappable(*locate, wall / "rain", *recorded, own),
        "was recovered from 119 images, which are not the 160 given",
    )
    refused(
        mappable(*locate, drive.table, *recorded, wall),
        "summary.json is missing",
    )
    broken = shutil.copytree(own, tmp_path / "broken")
    (broken / "positions.csv").write_text((broken / "positions.csv").read_text().replace("\n3,0,", "\n3,0,x"))
    refused(mappable(*locate, drive.table, *recorded, broken), "positions.csv: damaged, or changed")
    summary = json.loads((own / "summary.json").read_text())
    del summary["files"]  # as of an earlier version
    rewrite(broken / "summary.json", summary)
    refused(
        mappable(*locate, drive.table, *recorded, broken),
        "positions.csv, row 5",
    )
    rewrite(broken / "summary.json", summary | {"dimensions": 3})
    refused(mappable(*locate, drive.table, *recorded, broken), "has 3 dimensions, expected 2")
