"""The beginning of a run: where the first clusters come from, and what stays frozen is computed once."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mappable.arrays import Pixels
from mappable.features.encoder import Encoder
from mappable.learning.settings import Settings
from mappable.learning.trainer import train
from mappable.places.files import load_places
from mappable.places.table import Places

pytestmark = pytest.mark.medium

Toy = tuple[Places, Pixels]
NewSettings = Callable[..., Settings]


def clusters(encoder: Encoder) -> torch.Tensor:
    return encoder.state_dict()["aggregator.centres"]


def test_clusters_of_another_set(
    toy: Toy, settings: NewSettings, toy_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = train(*toy, settings(iterations=0, init_source=str(toy_folder)))
    expected = Encoder.create(weights="random", size=(64, 48), clusters=4, backbone="small")
    expected.initialize(load_places(toy_folder), most=8, precision="float32")
    assert found.fingerprint == expected.fingerprint
    assert found.about.init_source == str(toy_folder)
    assert f"clusters: k-means on images of {toy_folder}\n" in capsys.readouterr().err
    own = train(*toy, settings(iterations=0))
    assert "clusters: k-means on images of the training set\n" in capsys.readouterr().err
    assert not clusters(own).equal(clusters(found))
    for source, expected in (("train", own), (str(toy_folder), found)):
        frozen = train(*toy, settings(iterations=0, trainable="last", init_source=source))
        torch.testing.assert_close(clusters(frozen), clusters(expected))


def test_what_is_frozen_is_computed_once_for_all_runs(
    toy: Toy, settings: NewSettings, tmp_path: Path
) -> None:
    chosen = settings(trainable="last", iterations=2)
    first = train(*toy, chosen, activations=tmp_path / "kept")
    (file,) = (tmp_path / "kept").glob("*.bin")
    before = file.stat()
    assert before.st_size == 50 * 5 * 12 * 16 * 4  # bytes
    train(
        *toy,
        chosen.model_copy(update={"loss": "triplet", "anchors": 3}),
        activations=tmp_path / "kept",
    )
    assert [one.name for one in (tmp_path / "kept").glob("*.bin")] == [file.name]
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert train(*toy, chosen).fingerprint == first.fingerprint
    file.write_bytes(file.read_bytes()[:-4])
    assert train(*toy, chosen, activations=tmp_path / "kept").fingerprint == first.fingerprint
    assert file.stat().st_size == before.st_size


def test_clusters_are_found_once_for_all_runs_of_a_seed(
    toy: Toy, settings: NewSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def trained(**changes: object) -> tuple[str, bool]:
        fingerprint = train(
            *toy, settings(iterations=0, **changes), activations=tmp_path / "kept"
        ).fingerprint
        return fingerprint, "k-means" in capsys.readouterr().err

    first, found = trained()
    assert found
    assert trained(loss="triplet") == (first, False)
    assert train(*toy, settings(iterations=0)).fingerprint == first
    assert trained(seed=1)[1]
    assert trained(init_images=3)[1]
    assert trained(clusters=3)[1]
    file = min((tmp_path / "kept").glob("clusters-*"), key=lambda one: one.stat().st_mtime_ns)
    file.write_bytes(file.read_bytes()[:-9])
    capsys.readouterr()
    assert trained() == (first, True)
