"""The reader of Pittsburgh 250k and 30k: .mat files in both layouts, and plain folders without positions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from mappable.errors import BadInputError
from mappable.readers.registry import read_places

EAST, NORTH = 584_321.125, 4_476_543.75  # in the middle of Pittsburgh


def name(panorama: int, pitch: int = 1, yaw: int = 1) -> str:
    return f"{panorama // 1000:03d}/{panorama:06d}_pitch{pitch}_yaw{yaw}.jpg"


def cells(names: Sequence[Any]) -> np.ndarray:
    """A MATLAB cell array, N x 1."""
    column = np.empty((len(names), 1), dtype=object)
    column[:, 0] = names
    return column


def utm(count: int, start: int = 0) -> np.ndarray:
    """2 x N: east and north, a metre further east and two further north from image to image."""
    steps = np.arange(start, start + count, dtype=np.float64)
    return np.stack([EAST + steps, NORTH + 2 * steps])


def lists(database: Sequence[Any], queries: Sequence[Any], start: int = 0) -> dict[str, Any]:
    """The fields of dbStruct in their order."""
    return {
        "whichSet": "train",
        "dbImageFns": cells(database),
        "utmDb": utm(len(database), start),
        "qImageFns": cells(queries),
        "utmQ": utm(len(queries), start + 100),
        "numImages": float(len(database)),
        "numQueries": float(len(queries)),
        "posDistThr": 25.0,
        "posDistSqThr": 625.0,
        "nonTrivPosDistSqThr": 100.0,
    }


def save(file: Path, fields: dict[str, Any], struct: bool = True, compressed: bool = True) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    scipy.io.savemat(file, {"dbStruct": fields} if struct else fields, do_compression=compressed)
    return file


def without(field: str) -> dict[str, Any]:
    fields = lists([name(0), name(1)], [name(2)])
    del fields[field]
    return fields


def but(**changes: Any) -> dict[str, Any]:
    return lists([name(0), name(1)], [name(2)]) | changes


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (without("utmDb"), "no field utmDb; found: whichSet, dbImageFns, qImageFns"),
        (without("qImageFns"), "no field qImageFns; found:"),
        (but(utmDb=utm(3)), "utmDb is 2x3, expected 2x2 numbers for 2 images"),
        (but(utmQ=utm(1).T), "utmQ is 1x2, expected 2x1 numbers for 1 images"),
        (but(utmDb=utm(2) * [1, np.nan]), "column 2 of utmDb is [nan, nan], expected a position in UTM"),
        (but(utmQ=np.array([[EAST], [np.inf]])), "column 1 of utmQ is [584321.125, inf], expected a position in UTM"),
        (but(utmDb=utm(2) * [[1, 0], [1, 1]]), "column 2 of utmDb is [0.0, 4476545.75], expected a position in UTM"),
        (but(utmDb=utm(2) * [[1, 1], [1, 0]]), "column 2 of utmDb is [584322.125, 0.0], expected a position in UTM"),
        (but(utmQ=utm(1)[::-1]), "column 1 of utmQ is [4476543.75, 584321.125], expected a position in UTM"),
        (but(dbImageFns=cells([name(0), 5.0])), "element 2 of dbImageFns is not text"),
        (but(dbImageFns=cells([name(0), ""])), "element 2 of dbImageFns is not text"),
        (but(qImageFns=np.array([[1.0]])), "element 1 of qImageFns is not text"),
    ],
)
@pytest.mark.medium
def test_a_mat_file_with_wrong_fields_is_refused_by_name(tmp_path: Path, fields: dict[str, Any], problem: str) -> None:
    file = save(tmp_path / "pitts30k_train.mat", fields)
    with pytest.raises(BadInputError) as caught:
        read_places("pittsburgh", tmp_path)
    assert str(caught.value).startswith(f"{file}: {problem}")


def test_a_mat_file_of_version_7_3_is_refused_in_one_sentence(tmp_path: Path) -> None:
    text = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2018 HDF5 schema 1.00 ."
    header = text.ljust(116) + bytes(8) + b"\x00\x02IM"  # text, subsystem offset, version 2 and byte order
    (tmp_path / "pitts30k_train.mat").write_bytes(header.ljust(512, b"\x00") + b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(BadInputError, match=r"7\.3"):
        read_places("pittsburgh", tmp_path)
