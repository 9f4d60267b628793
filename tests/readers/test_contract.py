"""What holds for every reader: golden tables, ten damages of each folder, proposals, documentation and options.

`golden.json` has the tables of version 0.2, and what each damage led to. Write it anew with
`python tests/readers/test_contract.py`, and read the difference.
"""

import json
import re
import shutil
import tempfile
import types
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.places.table import NUMBER_COLUMNS
from mappable.readers.registry import find_reader, propose, reader_names
from reader_folders import CASES, Case, damage, damages, described

FILE = Path(__file__).parent / "golden.json"
GOLDEN: dict[str, Any] = json.loads(FILE.read_text())
# Encode, flush every image to the disk, or start a process.
SLOW = {"rosbag", "video", "pittsburgh"}
WHERE = re.compile(r"(?:row|point|message|frame|camera) \d+")


def marked(name: str) -> Any:
    marks = [pytest.mark.medium] if CASES[name].reader in SLOW or name == "colmap-binary" else []
    if name == "colmap-binary" and find_spec("pycolmap") is None:
        marks.append(pytest.mark.skip(reason="pycolmap is not installed"))
    return pytest.param(name, marks=marks)


NAMES = [marked(name) for name in CASES]


def outcome(case: Case, folder: Path, file: Path) -> list[Any]:
    """The number of places of a damaged folder, or whether the error names the file, and the row
    that it names.
    """
    try:
        return [len(case.read(folder))]
    except BadInputError as error:
        text = str(error)
        assert "\n" not in text
        row = WHERE.search(text)
        return [file.name in text, row[0] if row else ""]


def damaged(case: Case, folder: Path) -> Iterator[tuple[str, str, list[Any]]]:
    """Each of ten damages of a folder: the way, the file, and the outcome."""
    for way, file in damages(folder):
        with tempfile.TemporaryDirectory() as there:
            copy = Path(there).resolve() / "set"
            shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*-frames"))
            inside = file.relative_to(folder)
            damage(copy / inside, way)
            yield way, inside.as_posix(), outcome(case, copy, inside)


@pytest.mark.parametrize("name", NAMES)
def test_the_golden_folder_gives_the_golden_table(
    name: str, golden_folder: Callable[[str], Path]
) -> None:
    found, golden = described(CASES[name].read(golden_folder(name))), GOLDEN[name]
    for column in NUMBER_COLUMNS:
        numbers, expected = (
            np.array(table["columns"][column], dtype=np.float64) for table in (found, golden)
        )
        np.testing.assert_allclose(numbers, expected, rtol=0, atol=1e-9, err_msg=column)
    for column in golden["columns"].keys() - {*NUMBER_COLUMNS}:
        assert found["columns"][column] == golden["columns"][column], column
    assert found["notes"] == golden["notes"]
    assert found["frames"] == golden["frames"]
    assert found["bayer"] == golden["bayer"]


@pytest.mark.medium
@pytest.mark.parametrize("name", NAMES)
def test_ten_damages_are_named_by_file_and_row(
    name: str, golden_folder: Callable[[str], Path]
) -> None:
    assert [list(one) for one in damaged(CASES[name], golden_folder(name))] == GOLDEN[name][
        "damages"
    ]


@pytest.mark.parametrize("name", [marked(name) for name, case in CASES.items() if not case.options])
def test_the_reader_of_a_golden_folder_is_proposed_first(
    name: str, golden_folder: Callable[[str], Path]
) -> None:
    case = CASES[name]
    found = propose(golden_folder(name) / case.inside)
    assert found[0].reader == case.reader
    for one in found:  # no reader claims a folder that it then refuses
        find_reader(one.reader).read(golden_folder(name) / case.inside, {})


@pytest.mark.parametrize("name", reader_names())
def test_an_empty_folder_and_a_missing_one_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=re.escape(str(tmp_path))):
        find_reader(name).read(tmp_path, {})
    with pytest.raises(BadInputError, match="no such file or folder"):
        find_reader(name).read(tmp_path / "nowhere", {})


@pytest.mark.parametrize("name", reader_names())
def test_every_reader_has_a_summary_a_tree_and_options_with_help(name: str) -> None:
    reader = find_reader(name)
    lines = reader.documentation.splitlines()
    assert reader.summary.endswith(".")
    assert lines[1] == ""
    assert "ROOT" in next(line for line in lines if line.startswith("    "))
    assert min(reader.image_size) > 0
    for option in reader.options:
        assert len(option.help) > 5, option.name
        if get_origin(option.type) is Literal:
            assert option.default in get_args(option.type), option.name
            continue
        kinds = (
            get_args(option.type)
            if get_origin(option.type) in (Union, types.UnionType)
            else (option.type,)
        )
        assert set(kinds) <= {str, int, float, bool, Path, list[str], type(None)}, option.name
        assert isinstance(option.default, tuple(get_origin(kind) or kind for kind in kinds)), (
            option.name
        )


def write_anew() -> None:
    """Write `golden.json` anew; without pycolmap, the binary model stays as it was."""
    golden = dict(GOLDEN)
    for name, case in CASES.items():
        if name == "colmap-binary" and find_spec("pycolmap") is None:
            continue
        with tempfile.TemporaryDirectory() as there:
            folder = Path(there).resolve() / "set"
            folder.mkdir()
            case.write(folder)
            golden[name] = described(case.read(folder)) | {"damages": list(damaged(case, folder))}
    text = json.dumps(golden, separators=(",", ":"), ensure_ascii=False)
    FILE.write_text(text.replace('},"', '},\n"').replace('],"', '],\n"') + "\n")


if __name__ == "__main__":
    write_anew()
