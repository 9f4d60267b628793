"""Opening encoders from files, folders and names; `test_onnx.py` opens ONNX files."""

from pathlib import Path

import pytest

from mappable.features.encoder import Encoder
from mappable.features.opening import open_file


@pytest.fixture
def run(encoder: Encoder, tmp_path: Path) -> Path:
    """The folder of a training run, as far as it matters here."""
    encoder.save(tmp_path / "run/encoder.safetensors")
    return tmp_path / "run"


def test_a_file_and_the_folder_of_its_run_hold_the_same_encoder(
    run: Path, encoder: Encoder
) -> None:
    for source in (run, str(run), run / "encoder.safetensors"):
        opened = open_file(source, "cpu")
        assert (opened.fingerprint, opened.dimensions) == (encoder.fingerprint, encoder.dimensions)
        assert (opened.device.type, opened.actual_precision("float32")) == ("cpu", "float32")
