"""Other tools read our files: evo by its own library, hloc by its documented layout."""

import json
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
from evo.tools.file_interface import read_tum_trajectory_file
from typer.testing import Result

from mappable.arrays import Floats
from mappable.maps.landmarks import Landmarks
from mappable.places import load_places, save_places
from mappable.places.table import Places
from mappable.recovery.align import aligned_score, score
from mappable.trajectories import write_tum

pytestmark = pytest.mark.medium

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
def drive(
    mappable: Run, wall: Path, wall_map: Path, tmp_path_factory: pytest.TempPathFactory
) -> Drive:
    folder = tmp_path_factory.mktemp("drive")
    places = load_places(wall).where(sequence="fog")
    save_places(places, folder / "fog.parquet")
    assert (
        mappable("places", "show", folder / "fog.parquet", "--out", folder / "truth.tum").exit_code
        == 0
    )
    located = mappable(
        *("locate", wall_map, folder / "fog.parquet", "--json"),
        *("--out", folder / "located.tum", "--out", folder / "hloc.pairs"),
    )
    assert located.exit_code == 0, located.output
    recover = ("recover", wall_map, folder / "fog.parquet", folder / "recovered")
    recovered = mappable(*recover, "--truth", folder / "fog.parquet")
    assert recovered.exit_code == 0, recovered.output
    return Drive(places, json.loads(located.stdout), folder)


# evo


def read_pair(truth: Path, estimate: Path) -> tuple[PoseTrajectory3D, PoseTrajectory3D]:
    """Both trajectories as evo reads them, at the times that both have."""
    return associate_trajectories(
        *(read_tum_trajectory_file(str(file)) for file in (truth, estimate))
    )


def evo_rmse(truth: Path, estimate: Path, **options: bool) -> float:
    result = ape(*read_pair(truth, estimate), PoseRelation.translation_part, **options)
    return float(result.stats[StatisticsType.rmse.value])


def test_evo_reads_a_located_drive_and_scores_it_as_we_do(drive: Drive) -> None:
    truth, located = drive.folder / "truth.tum", drive.folder / "located.tum"
    confident = [row for row, one in enumerate(drive.entries) if one["confident"]]
    assert 50 < len(confident) < len(drive.places)
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
    assert evo_rmse(truth, located, align=True, correct_scale=True) == pytest.approx(
        similar, abs=1e-9
    )
    assert similar <= rigid <= score(estimated, true).rmse


def test_evo_scores_a_recovered_drive_as_our_summary_does_even_if_mirrored(
    drive: Drive, tmp_path: Path
) -> None:
    truth, recovered = drive.folder / "truth.tum", drive.folder / "recovered/trajectory.txt"
    scores = json.loads((drive.folder / "recovered/summary.json").read_text())["scores"]
    free, measured = (
        scores[name]["rmse"] for name in ("aligned, scale free", "aligned, scale as measured")
    )
    positions = np.loadtxt(recovered)[:, 1:3]
    write_tum(tmp_path / "mirrored.txt", positions * [-1, 1], np.loadtxt(recovered)[:, 0])
    # Which a turn in space undoes, as both ways are flat.
    for file in (recovered, tmp_path / "mirrored.txt"):
        assert evo_rmse(truth, file, align=True, correct_scale=True) == pytest.approx(
            free, abs=1e-5
        )
        assert evo_rmse(truth, file, align=True) == pytest.approx(measured, abs=1e-5)


# hloc


def read_descriptors(file: Path) -> dict[str, Floats]:
    """By the layout that hloc documents: a group per image path, with the data set
    `global_descriptor`.
    """
    found: dict[str, Floats] = {}
    with h5py.File(file, "r") as opened:
        opened.visititems(
            lambda name, one: (
                found.update({name: one[()]}) if isinstance(one, h5py.Dataset) else None
            )
        )
    assert {name.rpartition("/")[2] for name in found} == {"global_descriptor"}
    return {name.rpartition("/")[0]: vector for name, vector in found.items()}


def test_hlocs_pairs_name_what_its_descriptors_hold_and_are_what_it_would_retrieve(
    mappable: Run, drive: Drive, wall_map: Path, wall_encoder: Path, tmp_path: Path
) -> None:
    assert mappable("map", "show", wall_map, "--out", tmp_path / "landmarks.h5").exit_code == 0
    embedded = mappable("embed", wall_encoder, drive.table, tmp_path / "queries.h5")
    assert embedded.exit_code == 0, embedded.output
    with h5py.File(tmp_path / "queries.h5", "r") as opened:
        assert list(opened) == ["fog"]  # a folder is a group, in which its images are groups
        assert list(opened["fog"]["00020.png"]) == ["global_descriptor"]
    landmarks, queries = (
        read_descriptors(tmp_path / name) for name in ("landmarks.h5", "queries.h5")
    )
    assert set(landmarks) == set(Landmarks.open(wall_map).places.path)
    assert set(queries) == set(drive.places.path)
    pairs = defaultdict(list)
    for line in (drive.folder / "hloc.pairs").read_text().splitlines():
        query, landmark = line.split()
        pairs[query].append(landmark)
    names, vectors = list(landmarks), np.stack(list(landmarks.values()))
    assert list(pairs) == drive.places.path.tolist()
    for query, nearest in pairs.items():
        # Length one: the largest product is the nearest.
        best = np.argsort(-(vectors @ queries[query]))[: len(nearest)]
        assert nearest == [names[row] for row in best]
