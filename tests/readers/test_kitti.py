"""The reader of KITTI odometry and KITTI raw, on trees written as their archives unpack."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from mappable.readers.registry import read_places

TIMES = ["0.000000e+00", "1.036224e-01", "2.072464e-01", "3.108669e-01", "4.145279e-01"]


def write_sequence(
    root: Path,
    name: str,
    poses: Sequence[np.ndarray] | None,
    images: Sequence[str] = (),
    times: Sequence[str] | None = None,
    cameras: Sequence[str] = ("image_0", "image_1", "image_2", "image_3"),
) -> None:
    folder = root / "sequences" / name
    folder.mkdir(parents=True)
    for camera in cameras:
        (folder / camera).mkdir()
        for image in images:
            (folder / camera / image).write_bytes(b"not opened by the reader")
    if times is not None:
        (folder / "times.txt").write_text("".join(f"{time}\n" for time in times))
    if poses is not None:
        (root / "poses").mkdir(exist_ok=True)
        lines = (" ".join(f"{value:e}" for value in pose.ravel()) + "\n" for pose in poses)
        (root / "poses" / f"{name}.txt").write_text("".join(lines))


def numbered(count: int) -> list[str]:
    return [f"{number:06d}.png" for number in range(count)]


coordinate = st.floats(-1e4, 1e4, allow_nan=False)


@pytest.mark.medium
@given(
    st.lists(
        st.tuples(st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: np.linalg.norm(q) > 0.1), *[coordinate] * 3),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=30)
def test_any_pose_comes_back(poses):
    rotations = Rotation.from_quat([quaternion for quaternion, *_ in poses]).as_matrix()
    positions = np.array([position for _, *position in poses])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        matrices = np.concatenate([rotations, positions[:, :, None]], axis=2)
        write_sequence(root, "03", matrices, numbered(len(poses)), TIMES[: len(poses)])
        lines = (" ".join(repr(float(value)) for value in matrix.ravel()) for matrix in matrices)
        (root / "poses/03.txt").write_text("\n".join(lines))
        places = read_places("kitti", root)
    assert places.x.tolist() == positions[:, 0].tolist()
    assert places.y.tolist() == positions[:, 2].tolist()
    assert places.z.tolist() == (-positions[:, 1]).tolist()
    for yaw, rotation in zip(places.yaw, rotations, strict=True):
        east, north = rotation[0, 2], rotation[2, 2]  # of the optical axis, seen from above
        if np.hypot(east, north) > 0.02:
            assert np.hypot(east, north) * np.cos(yaw) == pytest.approx(east, abs=1e-9)
            assert np.hypot(east, north) * np.sin(yaw) == pytest.approx(north, abs=1e-9)
