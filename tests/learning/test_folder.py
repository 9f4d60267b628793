"""A folder that holds a run is gone on with, or begun anew, only if that is asked for and makes sense."""

import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from mappable.arrays import Pixels
from mappable.checksums import SEAL, UNSEALED, seal
from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.learning.folder import OtherRunError
from mappable.learning.settings import Settings
from mappable.learning.trainer import TrainingStopped, train
from mappable.locks import alone_in
from mappable.places.table import Places

pytestmark = pytest.mark.medium

Toy = tuple[Places, Pixels]
NewSettings = Callable[..., Settings]
BeforeStep = Callable[..., AbstractContextManager[None]]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != ".lock"}


def test_a_folder_that_holds_a_run_is_not_touched_unasked(
    toy: Toy, settings: NewSettings, tmp_path: Path
) -> None:
    chosen = settings(iterations=3)
    before = train(*toy, chosen, out=tmp_path).fingerprint
    held = contents(tmp_path)
    with pytest.raises(
        BadInputError, match=r"encoder\.safetensors: .*iterations 3 \(now 2\).*--overwrite"
    ):
        train(*toy, settings(iterations=2), out=tmp_path)
    assert contents(tmp_path) == held
    assert train(*toy, settings(iterations=2), out=tmp_path, overwrite=True).fingerprint != before
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 4


def test_the_older_encoder_stays_until_there_is_a_new_one(
    toy: Toy, settings: NewSettings, before_step: BeforeStep, tmp_path: Path
) -> None:
    before = train(*toy, settings(iterations=1), out=tmp_path).fingerprint
    with (
        before_step(4, lambda _: os.kill(os.getpid(), signal.SIGINT)),
        pytest.raises(TrainingStopped),
    ):
        train(*toy, settings(), out=tmp_path, overwrite=True)
    assert Encoder.load(tmp_path / "encoder.safetensors").fingerprint == before
    with pytest.raises(OtherRunError, match=r"checkpoint\.safetensors.*seed"):
        train(*toy, settings(seed=7), out=tmp_path)
    # Goes on from the checkpoint, next to the older encoder.
    finished = train(*toy, settings(), out=tmp_path)
    assert finished.fingerprint == train(*toy, settings()).fingerprint != before
    assert Encoder.load(tmp_path / "encoder.safetensors").fingerprint == finished.fingerprint
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_goes_on(
    toy: Toy,
    settings: NewSettings,
    start: Callable[..., Any],
    train_arguments: Callable[..., list[object]],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    for options in (("--overwrite",), ()):
        with alone_in(out, "training"):
            code, text = start(*train_arguments(settings(), out, *options)).wait()
        assert code == 1
        assert text.splitlines()[-1].startswith(
            f"error: {out}: another process is training there right now"
        )
    assert contents(out) == {}
    train(*toy, settings(iterations=1), out=out)  # which is alone again


def test_a_finished_run_is_not_trained_again(
    toy: Toy, settings: NewSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = settings(iterations=3)
    before = train(*toy, chosen, out=tmp_path).fingerprint
    monkeypatch.setattr(Encoder, "create", lambda **_: pytest.fail("a new encoder was made"))
    held = contents(tmp_path)
    for name in (
        "checkpoint.safetensors",
        ".encoder.safetensors.torn",
        ".checkpoint.safetensors.torn",
    ):
        (tmp_path / name).write_bytes(b"left by a run that was killed just before its end")
    watching = chosen.model_copy(update={"checkpoint_every": 1, "monitor_every": 1, "landmarks": 3})
    assert train(*toy, watching, out=tmp_path).fingerprint == before
    assert contents(tmp_path) == held
    file = tmp_path / "encoder.safetensors"
    problem = (
        r"margin 0\.1 \(now 0\.3\), seed 0 \(now 1\); use the same settings, or start again with"
        r" --overwrite"
    )
    with pytest.raises(BadInputError, match=problem):
        train(*toy, settings(iterations=3, margin=0.3, seed=1), out=tmp_path)
    with pytest.raises(BadInputError, match="other training images"):
        train(toy[0], toy[1] ^ 1, chosen, out=tmp_path)
    whole = file.read_bytes()
    later = whole.replace(b'\\"version\\": 3', b'\\"version\\": 9', 1)
    file.write_bytes(seal(SEAL.sub(UNSEALED.encode(), later, count=1)))
    with pytest.raises(BadInputError, match=r"encoder\.safetensors.*mappable"):
        train(*toy, chosen, out=tmp_path)
    file.write_bytes(whole[:-100])
    with pytest.raises(BadInputError, match=r"encoder\.safetensors.*damaged"):
        train(*toy, chosen, out=tmp_path)


@pytest.fixture
def stopped(toy: Toy, settings: NewSettings, before_step: BeforeStep, tmp_path: Path) -> Path:
    """The folder of a run that was stopped by Ctrl-C in its fourth step of ten."""
    with (
        before_step(4, lambda _: os.kill(os.getpid(), signal.SIGINT)),
        pytest.raises(TrainingStopped) as caught,
    ):
        train(*toy, settings(), out=tmp_path / "stopped")
    assert (
        str(caught.value)
        == f"stopped at iteration 4 of 10, which is saved in {tmp_path / 'stopped'}"
    )
    return tmp_path / "stopped"


def test_a_stopped_run_goes_on_only_with_the_same_settings_and_images(
    toy: Toy, settings: NewSettings, stopped: Path
) -> None:
    file = r"checkpoint\.safetensors: trained"
    for changes, problem in (
        (
            {"loss": "triplet"},
            r"with loss 'triplet\+huber' \(now 'triplet'\); use the same settings",
        ),
        ({"iterations": 20, "size": (64, 32)}, r"with iterations 10 \(now 20\)"),
        (
            {"iterations": None, "epochs": 0.5},
            r"with iterations 10 \(now None\), epochs None \(now 0\.5\)",
        ),
    ):
        images = toy[1][:, :32] if "size" in changes else toy[1]
        with pytest.raises(BadInputError, match=f"{file} {problem}"):
            train(toy[0], images, settings(**changes), out=stopped)
    x = toy[0].x + 0.25
    with pytest.raises(BadInputError, match=rf"{file}.*other training images"):
        train(toy[0].replace(x=x), toy[1], settings(), out=stopped)
    whole = train(*toy, settings())
    watching = settings(checkpoint_every=1, monitor_every=1, landmarks=3)
    assert train(*toy, watching, out=stopped).fingerprint == whole.fingerprint
