"""Every file format of ours: what is damaged, foreign or of another version is one sentence that names the file."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from safetensors.numpy import save_file

import mappable
from mappable.errors import BadInputError
from mappable.evaluation.result import Result
from mappable.features.descriptors import read_descriptors
from mappable.features.files import read_encoder
from mappable.features.foreign.onnx_model import parse_kept
from mappable.features.onnx_file import Facts
from mappable.formats import KEY, Format
from mappable.learning.checkpoint import Checkpoint
from mappable.localization.localizer import Localizer
from mappable.maps.folder import read_map
from mappable.places.cache import read_about
from mappable.places.files import load_places
from mappable.places.world_record import read_record
from mappable.readers import recordings
from mappable.readers.conversion import convert
from mappable.recovery.files import RECOVERY

DEPTH = 200_000
TEXTS = {
    "empty": "",
    "truncated": '{"format": "NAME", "version": 1, "about": {"back',
    "not JSON": "places of mine",
    "not a table": "[1, 2]",
    "other format": '{"format": "mappable teapot", "version": 1}',
    "later version": '{"format": "NAME", "version": 99}',
    "earlier version": '{"format": "NAME", "version": 0}',
    "no version": '{"format": "NAME"}',
    "a version that is no number": '{"format": "NAME", "version": "two"}',
    "nested deeply": "[" * DEPTH + "]" * DEPTH,
    "only a header": '{"format": "NAME", "version": VERSION}',
}
Write, Read = Callable[[Path, str], None], Callable[[Path], object]


def in_json(file: Path, text: str) -> None:
    file.write_text(text)


def beside_csv(file: Path, text: str) -> None:
    file.with_suffix("").write_text("place_id\n")
    file.write_text(text)


def in_parquet(file: Path, text: str) -> None:
    pyarrow.parquet.write_table(
        pyarrow.table({"x": [1.0]}).replace_schema_metadata({KEY: text}), file
    )


def in_safetensors(file: Path, text: str) -> None:
    save_file({"learner/x": np.zeros(3)}, file, {KEY: text})


def read_index(file: Path) -> object:
    pytest.importorskip("faiss")
    from mappable.maps.approximate import Approximate
    from mappable.maps.exact import Exact

    return Approximate.load(file, Exact(np.ones((2, 3), dtype=np.float32)))


FORMATS: dict[str, tuple[str, Write, Read]] = {
    "mappable places": ("places.parquet", in_parquet, load_places),
    "mappable places, CSV": (
        "places.csv.json",
        beside_csv,
        lambda file: load_places(file.with_suffix("")),
    ),
    "mappable pack": ("pack.json", in_json, lambda file: read_about(file.parent)),
    "mappable conversion": (
        "convert.json",
        in_json,
        lambda file: convert("photos", "elsewhere", file.parent),
    ),
    "mappable world": ("world.json", in_json, lambda file: read_record(file.parent)["preset"]),
    "mappable frames": ("video.json", in_json, recordings.FORMAT.read),
    "mappable encoder": ("encoder.safetensors", in_safetensors, read_encoder),
    "mappable onnx encoder": (
        "encoder.onnx",
        in_json,
        lambda file: Facts.from_text(file.read_text(), file),
    ),
    "mappable foreign onnx encoder": (
        "kept.onnx",
        in_json,
        lambda file: parse_kept(file.read_text(), file),
    ),
    "mappable descriptors": (
        "descriptors.json",
        in_json,
        lambda file: read_descriptors(file.parent),
    ),
    "mappable checkpoint": ("checkpoint.safetensors", in_safetensors, Checkpoint.load),
    "mappable index": ("index.safetensors", in_safetensors, read_index),
    # Needs no map yet.
    "mappable localizer": ("state.safetensors", in_safetensors, Localizer.__new__(Localizer).load),
    "mappable map": ("map.json", in_json, lambda file: read_map(file.parent)),
    "mappable result": ("result.json", in_json, Result.load),
    "mappable recovery": ("summary.json", in_json, RECOVERY.read),
}
# Read without fields.
HEADER_ONLY = ("mappable world", "mappable recovery", "mappable conversion", "mappable frames")
WRITTEN_ONLY = {"mappable report", "mappable odometry"}
CONTAINERS = [
    name for name, (_, write, _) in FORMATS.items() if write in (in_parquet, in_safetensors)
]


def in_source() -> dict[str, int]:
    """All formats that the source defines, with their versions."""
    texts = [file.read_text() for file in Path(mappable.__file__).parent.rglob("*.py")]
    return {
        name: int(version)
        for text in texts
        for name, version in re.findall(r'Format\(\s*"([^"]+)",\s*(\d+)', text)
    }


def sentence(read: Read, file: Path) -> str:
    with pytest.raises(BadInputError) as refusal:
        read(file)
    said = str(refusal.value)
    assert file.name.removesuffix(".json") in said or str(file.parent) in said
    assert "\n" not in said
    assert len(said) < 500
    return said


def test_all_formats_are_tested_here_and_named_alike() -> None:
    found = in_source()
    assert set(found) == {name.partition(",")[0] for name in FORMATS} | WRITTEN_ONLY
    assert all(name.startswith("mappable ") for name in found)


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("name", FORMATS)
def test_a_header_that_is_not_right_is_refused_in_one_sentence(
    name: str, kind: str, tmp_path: Path
) -> None:
    file_name, write, read = FORMATS[name]
    format_name = name.partition(",")[0]
    if kind == "only a header" and format_name in HEADER_ONLY:
        pytest.skip("its fields are checked by those who need them")
    text = (
        TEXTS[kind].replace("NAME", format_name).replace("VERSION", str(in_source()[format_name]))
    )
    write(tmp_path / file_name, text)
    said = sentence(read, tmp_path / file_name)
    expected = {
        "other format": "teapot",
        "later version": "99",
        "earlier version": "0",
        "not a table": format_name,
    }
    assert expected.get(kind, "") in said


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.95])
def test_a_file_that_was_cut_off_is_refused_in_one_sentence(
    name: str, share: float, tmp_path: Path
) -> None:
    file_name, write, read = FORMATS[name]
    write(tmp_path / file_name, "{}")
    content = (tmp_path / file_name).read_bytes()
    (tmp_path / file_name).write_bytes(content[: int(share * len(content))])
    sentence(read, tmp_path / file_name)


def test_what_is_written_is_read_again_without_its_header(tmp_path: Path) -> None:
    kind, values = Format("mappable teapot", 3, "boil again"), {"litres": 1.5, "name": "süß \udcff"}
    kind.write(tmp_path / "pot.json", values)
    assert kind.read(tmp_path / "pot.json") == values
    assert (
        (tmp_path / "pot.json")
        .read_text()
        .startswith('{\n  "format": "mappable teapot",\n  "version": 3,\n')
    )
    assert kind.is_header_of((tmp_path / "pot.json").read_bytes())
    assert not Format("mappable cup", 3, "").is_header_of((tmp_path / "pot.json").read_bytes())
