"""Checks that readers share."""

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.readers.toolkit import check_poses

SHEAR = np.eye(4)
SHEAR[0, 1] = 0.2


@pytest.mark.parametrize(
    "matrix",
    [np.diag([1.0, 1, -1, 1]), np.diag([2.0, 2, 2, 1]), SHEAR],
    ids=["mirrored", "scaled", "sheared"],
)
def test_a_matrix_that_is_no_rotation_is_named_by_its_row(matrix: Floats) -> None:
    poses = np.stack([np.eye(4), matrix])
    check_poses(poses[:1], str)
    with pytest.raises(BadInputError, match=r"^row 1: "):
        check_poses(poses, lambda row: f"row {row}")
