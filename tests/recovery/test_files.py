"""Files of ranges, matrices, known and true positions; and what is written can be read again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.recovery.files import (
    read_anchors,
    read_matrix,
    read_ranges,
    read_truth,
    write_positions,
)
from mappable.recovery.result import Recovered
from simulated_ranges import NOISES, measure, route


def text_file(folder: Path, text: str, name: str = "table.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def recovered(positions: Floats, covariances: Floats | None = None) -> Recovered:
    count = len(positions)
    return Recovered(
        positions, np.zeros(count, dtype=np.int64), np.ones(0, dtype=bool), 1.0, (), covariances
    )


# Ranges


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("with_sigma", [True, False])
def test_ranges_come_back_as_they_were_written(
    tmp_path: Path, suffix: str, with_sigma: bool
) -> None:
    ranges = measure(route("loop", 60, seed=0), NOISES["mid"], seed=0, radius=30.0)
    # By name, not place.
    columns = {"j": ranges.j.tolist(), "i": ranges.i.tolist(), "metres": ranges.metres.tolist()}
    if with_sigma:
        columns["sigma"] = ranges.sigma.tolist()
    file = tmp_path / f"ranges{suffix}"
    if suffix == ".csv":
        lines = [
            ",".join(columns),
            *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
        ]
        file.write_text("\n".join(lines))
    else:
        pyarrow.parquet.write_table(pyarrow.table(columns), file)
    read = read_ranges(file)
    assert read.count == 60
    for name in ("i", "j", "metres", "sigma"):  # the noise `mid` is what is assumed
        np.testing.assert_array_equal(getattr(read, name), getattr(ranges, name))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "the file is empty"),
        ("i,j,metres\n", "no ranges"),
        ("i,j,distance\n0,1,2\n", "no column metres"),
        ("i,j,metres\n0,1\n", "row 2: 2 values, but there are 3 columns"),
        ("i,j,metres\n0,1,2\n\n1,2,x\n", "row 4|metres|'x'|number"),
        ("i,j,metres\n0,1,nan\n", "row 2|metres|'nan'|finite"),
        ("i,j,metres\n0,1,-2\n", "row 2|metres|'-2'|0"),
        ("i,j,metres\n0,1.5,2\n", "row 2|j|'1.5'|number of a point"),
        ("i,j,metres\n-1,1,2\n", "row 2|i|'-1'|number of a point"),
        ("i,j,metres\n0,1,2\n1,1,2\n", "row 3|i|'1'|must differ from j"),
        ("i,j,metres\n0,1,2\n1,2,2\n1,0,2\n", "row 4|j|'0'|earlier row"),
        ("i,j,metres\n0,1,2\n1,9,2\n", "row 3|j|'9'|number of points, 5"),
        ("i,j,metres,sigma\n0,1,2,0\n", "row 2|sigma|'0'|above 0"),
        ('i,j,metres\n0,1,"2\n', "row 2: cannot be read"),
    ],
)
def test_a_bad_table_of_ranges_is_refused_by_file_row_and_value(
    tmp_path: Path, text: str, part: str
) -> None:
    file = text_file(tmp_path, text)
    with pytest.raises(BadInputError) as refused:
        read_ranges(file, count=5)
    assert str(file) in str(refused.value)
    assert all(word in str(refused.value) for word in part.split("|"))
    assert "\n" not in str(refused.value)


@given(st.binary(max_size=60))
def test_no_bytes_are_read_without_either_ranges_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "ranges.csv"
    file.write_bytes(b"i,j,metres\n" + content)
    try:
        problem = "" if len(read_ranges(file)) else "nothing"
    except BadInputError as error:
        problem = str(error)
    assert not problem or problem.startswith(str(file))


# Matrices


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    def write(array: Any, name: str = "matrix.npy") -> Path:
        np.save(tmp_path / name, array)
        return tmp_path / name

    return write


@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_matrix_becomes_ranges_by_its_scale_and_radius_or_mask(
    save: Callable[..., Path], dimensions: int
) -> None:
    points = np.random.default_rng(0).uniform(0, 10, (12, dimensions))
    metres = np.linalg.norm(points[:, None] - points, axis=2)
    file = save((np.square(metres) / 50).astype(np.float32))
    by_radius = read_matrix(file, scale=50.0, radius=6.0)
    by_mask = read_matrix(file, scale=50.0, mask=save(metres <= 6.0, "mask.npy"))
    assert len(by_radius) == (np.triu(metres <= 6.0, 1)).sum()
    for ranges in (by_radius, by_mask):
        np.testing.assert_allclose(ranges.metres, metres[ranges.i, ranges.j], rtol=1e-5)
        np.testing.assert_allclose(ranges.sigma, 0.05 * ranges.metres + 0.2)
    assert len(read_matrix(file, scale=50.0)) == 12 * 11 // 2


@pytest.mark.parametrize(
    ("matrix", "options", "part"),
    [
        (np.zeros((3, 4)), {}, "3 x 4|square"),
        (np.full((3, 3), np.nan), {}, "[0, 1] is nan|finite"),
        (-np.ones((3, 3)), {}, "is negative"),
        (np.arange(9.0).reshape(3, 3), {}, "differs from its mirror image"),
        (np.ones((3, 3)), {"scale": -1.0}, "scale|-1.0"),
        (np.ones((3, 3)), {"radius": 0.5}, "leave no pair"),
        (np.array([["a", "b"], ["c", "d"]]), {}, "not a .npy file of numbers|its type is <U1"),
    ],
)
def test_a_bad_matrix_is_refused(
    save: Callable[..., Path], matrix: Any, options: dict[str, Any], part: str
) -> None:
    file = save(matrix)
    with pytest.raises(BadInputError) as refused:
        read_matrix(file, **options)
    assert str(refused.value).startswith(str(file))
    assert all(word in str(refused.value) for word in part.split("|"))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "several.npz", a=np.zeros(2))
    for name, part in (
        ("objects.npy", "not a .npy file"),
        ("several.npz", "several arrays"),
        ("no.npy", "no such"),
    ):
        with pytest.raises(BadInputError, match=part):
            read_matrix(tmp_path / name)


# Known and true positions


@pytest.mark.parametrize("dimensions", [2, 3])
def test_known_positions_are_read(tmp_path: Path, dimensions: int) -> None:
    header = "point,x,y,z"[: 5 + 2 * dimensions]
    rows = ["4,1,2,3", "0,5,6,7"]
    plain = "\n".join([header, *(row[: 1 + 2 * dimensions] for row in rows)])
    anchors = read_anchors(text_file(tmp_path, plain))
    assert anchors.points.tolist() == [4, 0]
    assert anchors.positions.tolist() == [[1, 2, 3][:dimensions], [5, 6, 7][:dimensions]]
    assert np.broadcast_to(anchors.sigma, 2).tolist() == [0.5, 0.5]
    with_sigma = "\n".join(
        ["sigma," + header, *("0.25," + row[: 1 + 2 * dimensions] for row in rows)]
    )
    assert np.broadcast_to(read_anchors(text_file(tmp_path, with_sigma)).sigma, 2).tolist() == [
        0.25,
        0.25,
    ]


def test_the_truth_is_a_table_in_order_or_numbered_or_a_trajectory(tmp_path: Path) -> None:
    in_order = read_truth(text_file(tmp_path, "x,y\n0,1\n2,3\n"), 2)
    assert in_order.tolist() == [[0, 1], [2, 3]]
    numbered = read_truth(text_file(tmp_path, "point,x,y,z\n2,0,1,5\n0,2,3,6\n"), 3)
    assert numbered[2].tolist() == [0, 1, 5]
    assert np.isnan(numbered[1]).all()
    tum = read_truth(
        text_file(tmp_path, "# time x y z\n10.5 1 2 3 0 0 0 1\n11 4 5 6 0 0 0 1\n", "truth.txt"), 2
    )
    assert tum.tolist() == [[1, 2, 3], [4, 5, 6]]


# What is written


@pytest.mark.parametrize("dimensions", [2, 3])
def test_positions_are_written_with_their_covariances_and_read_as_a_truth(
    tmp_path: Path, dimensions: int
) -> None:
    random = np.random.default_rng(0)
    positions = random.normal(0, 100, (5, dimensions))
    roots = random.normal(size=(5, dimensions, dimensions))
    covariances = roots @ roots.transpose(0, 2, 1)
    write_positions(tmp_path / "deep/positions.csv", recovered(positions, covariances))
    np.testing.assert_allclose(read_truth(tmp_path / "deep/positions.csv", 5), positions, atol=1e-6)
    header, first, *_ = (tmp_path / "deep/positions.csv").read_text().splitlines()
    assert (
        header
        == {2: "point,part,x,y,xx,xy,yy", 3: "point,part,x,y,z,xx,xy,yy,xz,yz,zz"}[dimensions]
    )
    values = dict(zip(header.split(","), first.split(","), strict=True))
    assert float(values["xy"]) == pytest.approx(covariances[0, 0, 1], rel=1e-5)
    write_positions(tmp_path / "plain.csv", recovered(positions))
    assert (tmp_path / "plain.csv").read_text().startswith("point,part,x,y")
