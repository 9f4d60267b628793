"""Trajectories in TUM's format."""

from pathlib import Path

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.trajectories import TUM, read_tum, write_tum


@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_trajectory_is_written_as_tum(tmp_path: Path, dimensions: int) -> None:
    positions = np.random.default_rng(0).normal(0, 100, (4, dimensions))
    write_tum(tmp_path / "path.txt", positions)
    rows = np.loadtxt(tmp_path / "path.txt")
    assert rows[:, 0].tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(rows[:, 1 : 1 + dimensions], positions, atol=1e-6)
    assert (rows[:, 4:] == [0, 0, 0, 1]).all()
    assert dimensions == 3 or not rows[:, 3].any()
    table = read_tum(tmp_path / "path.txt")
    assert tuple(table.columns) == TUM
    np.testing.assert_allclose(table.numbers("y"), positions[:, 1], atol=1e-6)
    positions[1] = np.nan
    write_tum(tmp_path / "path.txt", positions, [1.5, 2.0, 2.5, 3.0])
    assert np.loadtxt(tmp_path / "path.txt")[:, 0].tolist() == [1.5, 2.5, 3.0]
    with pytest.raises(BadInputError, match=r"4 positions.*2"):
        write_tum(tmp_path / "path.txt", positions, [0, 1])


def test_headings_are_rotations_about_z(tmp_path: Path) -> None:
    write_tum(tmp_path / "path.txt", np.zeros((3, 2)), headings=[np.pi / 2, np.nan, -3.0])
    x, y, z, w = np.loadtxt(tmp_path / "path.txt")[:, 4:].T
    np.testing.assert_allclose(2 * np.arctan2(z, w), [np.pi / 2, 0.0, -3.0], atol=1e-8)
    assert not x.any()
    assert not y.any()
