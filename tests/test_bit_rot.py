"""A flipped bit in any file of ours is found when the file is used; files of earlier versions still open."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from made_results import made_result
from mappable.errors import BadInputError
from mappable.evaluation.result import Result
from mappable.features.about import About
from mappable.features.files import encoder_bytes, read_encoder
from mappable.learning.checkpoint import Checkpoint
from mappable.places.files import load_places, save_places
from mappable.places.frames import Frame
from mappable.places.table import Places
from mappable.readers.conversion import FORMAT as CONVERSION
from mappable.recovery.files import RECOVERY

COUNT, FLIPS = 30, 40
NUMBERS = np.random.default_rng(0).normal(size=(2, COUNT))
PLACES = Places(
    path=[f"{n}.jpg" for n in range(COUNT)],
    x=NUMBERS[0],
    y=NUMBERS[1],
    sequence=["monday"] * COUNT,
    frames=Frame("town"),
    root=Path("/"),
)
ABOUT = About(weights="random", size=(4, 3), fit="crop", mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


def result() -> Result:
    return made_result(NUMBERS[0, :3], {"bound": NUMBERS[1, :3]})


Write, Read = Callable[[Path], object], Callable[[Path], object]
FILES: dict[str, tuple[Write, Read]] = {
    "places.parquet": (lambda file: save_places(PLACES, file), load_places),
    "places.csv.json": (
        lambda file: save_places(PLACES, file.with_suffix("")),
        lambda file: load_places(file.with_suffix("")),
    ),
    "convert.json": (lambda file: CONVERSION.write(file, {"root": "here"}), CONVERSION.read),
    "summary.json": (lambda file: RECOVERY.write(file, {"points": 3}), RECOVERY.read),
    "encoder.safetensors": (
        lambda file: file.write_bytes(encoder_bytes(ABOUT, {"w": torch.arange(99.0)})),
        read_encoder,
    ),
    "checkpoint.safetensors": (
        lambda file: Checkpoint(3, {"w": torch.arange(99.0)}, {}, {"seconds": 1.5}).save(file),
        Checkpoint.load,
    ),
    "result.json": (lambda file: result().save(file.parent), Result.load),
}


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_found_when_the_file_is_read(name: str, tmp_path: Path) -> None:
    file, (write, read) = tmp_path / name, FILES[name]
    write(file)
    read(file)
    whole = file.read_bytes()
    for number, position in enumerate(np.linspace(0, len(whole) - 1, FLIPS).astype(int)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << number % 8
        file.write_bytes(damaged)
        with pytest.raises(BadInputError, match=name) as caught:
            read(file)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["convert.json", "summary.json", "places.csv.json"])
def test_json_of_an_earlier_version_opens(name: str, tmp_path: Path) -> None:
    file, (write, read) = tmp_path / name, FILES[name]
    write(file)
    values = json.loads(file.read_text())
    assert values.pop("checksum").startswith("mappable-xxh3:")
    values.pop("table", None)
    file.write_text(json.dumps(values))
    with pytest.raises(BadInputError, match=rf"{name}: .*no checksum"):
        read(file)
    file.write_text(json.dumps(values | {"version": values["version"] - 1}))
    read(file)
