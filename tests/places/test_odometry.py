"""Files of odometry."""

from pathlib import Path

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.places.odometry import RecordedOdometry, load_odometry, save_odometry


def test_odometry_comes_back(tmp_path: Path) -> None:
    covariance = np.array([[1.0, 0.5, 2.0, 0.1], [np.nan] * 4])
    kept = RecordedOdometry(np.array([5, 9]), np.array([[1.0, 2.0, 0.5], [3.0, 4.0, -0.5]]), covariance)
    save_odometry(kept, tmp_path / "odometry.parquet", "/odom")
    found = load_odometry(tmp_path / "odometry.parquet")
    assert found.time.tolist() == [5, 9]
    np.testing.assert_array_equal(found.pose, kept.pose)
    np.testing.assert_array_equal(found.covariance, kept.covariance)


def test_damage_and_disorder_are_named(tmp_path: Path) -> None:
    file = tmp_path / "odometry.parquet"
    with pytest.raises(BadInputError, match=r"odometry\.parquet is missing"):
        load_odometry(file)
    save_odometry(RecordedOdometry(np.array([9, 5]), np.zeros((2, 3)), np.zeros((2, 4))), file, "/odom")
    with pytest.raises(BadInputError, match=r"odometry\.parquet: poses are not finite, or not in rising time"):
        load_odometry(file)
    data = bytearray(file.read_bytes())
    data[10] ^= 1
    file.write_bytes(data)
    with pytest.raises(BadInputError, match=r"odometry\.parquet"):
        load_odometry(file)
