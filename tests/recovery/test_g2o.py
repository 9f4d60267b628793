"""Pose graphs as files: what is written comes back, and damaged files are refused in one sentence."""

from pathlib import Path

import numpy as np
import pytest

from mappable.recovery.g2o import read_g2o, write_g2o
from mappable.recovery.hints import Motions
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges

pytestmark = pytest.mark.usefixtures("gtsam")

SQUARE = Motions([0, 1, 2, 3], [1, 2, 3, 0], [[2.0, 0.0]] * 4, [np.pi / 2] * 4, (0.1, 0.05))


@pytest.mark.parametrize("dimensions", [2, 3])
def test_motions_come_back(tmp_path: Path, dimensions: int) -> None:
    motions = SQUARE
    if dimensions == 3:
        turns = np.tile([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], (4, 1, 1))
        covariance = np.diag([0.01, 0.02, 0.03, 0.04, 0.05, 0.06])
        motions = Motions(SQUARE.i, SQUARE.j, [[2.0, 0.0, 0.0]] * 4, turns, covariance)
    recovered = recover(Ranges(4, [], [], [], []), dimensions, motions=motions)
    np.testing.assert_allclose(
        np.linalg.norm(recovered.positions[2] - recovered.positions[0]), 8**0.5, rtol=1e-3
    )
    write_g2o(tmp_path / "graph.g2o", recovered, motions)
    read = read_g2o(tmp_path / "graph.g2o")
    assert read.names.tolist() == [0, 1, 2, 3]
    for name in ("i", "j", "metres", "rotations", "covariance"):
        np.testing.assert_allclose(getattr(read.motions, name), getattr(motions, name), atol=1e-5)
