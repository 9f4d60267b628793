"""MATLAB files: the same values as SciPy's reader, and damaged files refused where that reader crashes."""

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from mappable.errors import BadInputError
from mappable.places.matlab import read_matlab


def cells(values: list[object]) -> np.ndarray:
    column = np.empty((len(values), 1), dtype=object)
    column[:, 0] = values
    return column


CONTENT = {
    "numbers": np.arange(6.0).reshape(2, 3),
    "small": np.array([[1, 2, 300]], dtype=np.int32),
    "text": "Straße",
    "names": cells(["a.jpg", "bc.jpg", np.array([[1.5]])]),
    "one": {"first": np.eye(2), "second": cells(["x"])},
    "nothing": np.empty((0, 0)),
}


@pytest.mark.parametrize("compressed", [False, True])
def test_values_are_those_of_scipy(tmp_path: Path, compressed: bool) -> None:
    scipy.io.savemat(tmp_path / "a.mat", CONTENT, do_compression=compressed)
    found, known = read_matlab(tmp_path / "a.mat"), scipy.io.loadmat(tmp_path / "a.mat")
    assert {*found} == {*CONTENT}
    for name in ("numbers", "small", "text", "nothing"):
        np.testing.assert_array_equal(found[name], known[name])
    assert [value.tolist() for value in found["names"][:, 0]] == [["a.jpg"], ["bc.jpg"], [[1.5]]]
    np.testing.assert_array_equal(found["one"]["first"], known["one"][0, 0]["first"])
    assert found["one"]["second"][0, 0].tolist() == ["x"]


def test_rows_of_characters_are_texts(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"names": np.array(["ab ", "cde"])})
    assert read_matlab(tmp_path / "a.mat")["names"].tolist() == ["ab ", "cde"]


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_files_are_refused_or_read(tmp_path: Path, compressed: bool) -> None:
    """SciPy 1.17 ends the process with a segmentation fault for some of these files."""
    file, draw = tmp_path / "a.mat", random.Random(0)
    scipy.io.savemat(file, CONTENT, do_compression=compressed)
    whole = file.read_bytes()
    for _ in range(80):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(124, len(damaged))] = draw.choice([0, 1, 14, 15, 0x7F, 0xFF, draw.randrange(256)])
        file.write_bytes(damaged[: draw.choice([len(damaged), draw.randrange(len(damaged))])])
        with suppress(BadInputError):
            read_matlab(file)


def test_an_absurd_number_of_cells_is_refused(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"names": cells(["a"])}, do_compression=False)
    whole = (tmp_path / "a.mat").read_bytes()
    shape = whole.index(b"\x01\x00\x00\x00\x01\x00\x00\x00", 140)
    (tmp_path / "a.mat").write_bytes(whole[:shape] + b"\xff\xff\xff\x7f" * 2 + whole[shape + 8 :])
    with pytest.raises(BadInputError, match=r"a\.mat.*values"):
        read_matlab(tmp_path / "a.mat")
