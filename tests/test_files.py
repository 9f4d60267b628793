"""Every file is written by one atomic writer: if the disk is full, the error names the file, and the old file stays."""

import ast
import re
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

import mappable
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.export import write_descriptors
from mappable.files import write_atomically, write_text, written_together
from mappable.places.files import save_places
from mappable.places.frames import Frame
from mappable.places.table import Places
from mappable.recovery.files import RECOVERY, write_positions
from mappable.recovery.result import Recovered
from mappable.trajectories import write_tum

FullDisk = Callable[[int], AbstractContextManager[None]]
COUNT = 500
POSITIONS = np.random.default_rng(0).normal(size=(COUNT, 2))
PLACES = Places(
    path=[f"{n}.jpg" for n in range(COUNT)],
    x=POSITIONS[:, 0],
    y=POSITIONS[:, 1],
    frames=Frame("town"),
    root=Path("/"),
)
ABOUT = About(
    backbone="b", clusters=1, weights="w", size=(4, 3), fit="crop", mean=(0, 0, 0), std=(1,) * 3
)


def recovered() -> Recovered:
    return Recovered(POSITIONS, np.zeros(COUNT, dtype=np.int64), np.ones(3, dtype=bool), 1.0, ())


WRITERS: dict[str, Callable[[Path], object]] = {
    "text.txt": lambda file: write_text(file, "x" * 10_000),
    "positions.csv": lambda file: write_positions(file, recovered()),
    "trajectory.txt": lambda file: write_tum(file, POSITIONS),
    "summary.json": lambda file: RECOVERY.write(file, {"values": POSITIONS.tolist()}),
    "places.parquet": lambda file: save_places(PLACES, file),
    "places.csv": lambda file: save_places(PLACES, file),
    "descriptors.npy": lambda file: write_descriptors(
        file.parent, PLACES, np.eye(COUNT, dtype=np.float32), ABOUT, "0" * 16, "float32"
    ),
}
# Files that grow, or that only this process sees, and the writer itself.
OTHER_WRITES = {
    "files.py": 2,
    "places/packing.py": 1,  # pixels
    "features/activations.py": 3,
    "learning/metrics.py": 1,
    "exchange/kapture.py": 1,  # to a file of `written_together`
    "features/fetching.py": 1,  # in a temporary folder
    "features/onnx_int8.py": 1,  # in a temporary folder
}
LIBRARY_WRITERS = {
    "save",
    "savefig",
    "write_table",
    "save_file",
    "to_parquet",
    "tofile",
    "savez",
    "savetxt",
}
STREAMS = {"stream", "packed"}  # what write_atomically, or a buffer, is called in our code


@pytest.mark.parametrize("name", WRITERS)
def test_on_a_full_disk_the_old_file_stays_and_the_error_names_it(
    name: str, full_disk: FullDisk, tmp_path: Path
) -> None:
    file = tmp_path / name
    WRITERS[name](file)
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    with (
        full_disk(1024),
        pytest.raises(
            BadInputError,
            match=rf"{re.escape(str(tmp_path))}/{Path(name).stem}[^/]*: cannot be writ",
        ),
    ):
        WRITERS[name](file)
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


def test_files_that_are_written_together_are_all_new_or_all_old(
    full_disk: FullDisk, tmp_path: Path
) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"

    def write(text: str) -> None:
        with written_together(one, two) as (first, second):
            write_text(first, text)
            write_text(second, text * 100)

    write("old")
    with full_disk(100), pytest.raises(BadInputError, match=r"two\.txt: cannot be written"):
        write("new")
    assert one.read_text() == "old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["one.txt", "two.txt"]


def writes(node: ast.AST) -> bool:
    """True for a call that writes a file, unless it writes to a stream of the atomic writer."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in ("write_text", "write_bytes"):
        return True
    if node.func.attr == "open":
        modes = [
            str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)
        ]
        return any(re.fullmatch("[wax]b?\\+?b?|rb?\\+b?", mode) for mode in modes)
    if node.func.attr not in LIBRARY_WRITERS:
        return False
    names = {argument.id for argument in node.args if isinstance(argument, ast.Name)}
    if isinstance(node.func.value, ast.Name) and node.func.value.id in ("np", "pyarrow", "torch"):
        return not names & STREAMS
    return node.func.attr not in ("save", "savefig") and not names & STREAMS


@pytest.mark.medium
def test_no_other_code_writes_files() -> None:
    home = Path(mappable.__file__).parent
    counts = {
        file.relative_to(home).as_posix(): sum(map(writes, ast.walk(ast.parse(file.read_text()))))
        for file in home.rglob("*.py")
    }
    assert {name: count for name, count in counts.items() if count} == OTHER_WRITES


def test_a_reader_keeps_the_file_that_it_opened(tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "t.bin"
    write_atomically(file, lambda stream: stream.write(b"first, and long"))
    with file.open("rb") as opened:
        write_atomically(file, lambda stream: stream.write(b"second"))
        assert opened.read() == b"first, and long"
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"second", 0o644)
