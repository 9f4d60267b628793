"""The reader of KITTI odometry: any pose comes back."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from mappable.readers.registry import read_places
from reader_folders import lines, put, words

quaternions = st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: float(np.linalg.norm(q)) > 0.1)


@pytest.mark.medium
@given(st.lists(st.tuples(quaternions, *[st.floats(-1e4, 1e4)] * 3), min_size=1, max_size=4))
@settings(max_examples=30)
def test_any_pose_comes_back(poses: list[tuple[tuple[float, ...], float, float, float]]) -> None:
    rotations = Rotation.from_quat([quaternion for quaternion, *_ in poses]).as_matrix()
    positions = np.array([position for _, *position in poses])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for number in range(len(poses)):
            put(root / f"sequences/03/image_2/{number:06d}.png")
        matrices = np.concatenate([rotations, positions[:, :, None]], axis=2)
        put(root / "poses/03.txt", lines(words(matrix) for matrix in matrices))
        places = read_places("kitti", root)
    assert places.x.tolist() == positions[:, 0].tolist()
    assert places.y.tolist() == positions[:, 2].tolist()
    assert places.z.tolist() == (-positions[:, 1]).tolist()
    for yaw, rotation in zip(places.yaw, rotations, strict=True):
        east, north = rotation[0, 2], rotation[2, 2]  # of the optical axis, seen from above
        length = np.hypot(east, north)
        if length > 0.02:
            assert (length * np.cos(yaw), length * np.sin(yaw)) == pytest.approx((east, north), abs=1e-9)
