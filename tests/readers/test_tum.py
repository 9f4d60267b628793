"""The reader of TUM RGB-D folders and trajectories, on trees written as the benchmark's archives unpack."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

from mappable.readers.registry import read_places

component = st.floats(-1, 1)

quaternion = st.tuples(component, component, component, component).filter(lambda q: np.linalg.norm(q) > 0.1)

samples = st.lists(st.tuples(st.tuples(*[st.floats(-100, 100)] * 3), quaternion), min_size=2, max_size=6)

number_style = st.sampled_from([".17g", ".18e", "+.17f"])


@pytest.mark.medium
@given(
    samples, number_style, st.sampled_from([" ", "\t", "  "]), st.sampled_from(["\n", "\r\n", "\n# x\n\n"]), st.data()
)
@settings(max_examples=40)
def test_any_trajectory_is_interpolated_as_scipy_does(poses, style, gap, line_end, data):
    """Whatever the number format, white space and comments: positions linear, orientations by scipy's Slerp."""
    times = np.arange(len(poses)) / 10  # whole nanoseconds
    positions = np.array([position for position, _ in poses])
    rotations = Rotation.from_quat([q for _, q in poses])
    wanted = data.draw(st.lists(st.integers(0, int(times[-1] * 1000)), min_size=1, max_size=5, unique=True))
    rows = np.column_stack([positions, rotations.as_quat() * 1.01])  # a length that is not quite 1
    lines = [gap.join([f"{t:.1f}", *(f"{value:{style}}" for value in row)]) for t, row in zip(times, rows, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "groundtruth.txt").write_bytes((line_end.join(lines) + line_end).encode())
        (root / "rgb.txt").write_text("".join(f"{one / 1000} {one}.png\n" for one in sorted(wanted)))
        plane, looking = data.draw(st.sampled_from(["xy", "xz"])), data.draw(st.sampled_from(["z", "x"]))
        places = read_places("tum", root, plane=plane, looking=looking)
    at = np.array(sorted(wanted)) / 1000
    assert (places.time / 1e9) == pytest.approx(at, abs=1e-12)
    east, north, up = (0, 1, 2) if plane == "xy" else (0, 2, 1)
    for axis, column in ((east, places.x), (north, places.y), (up, places.z if plane == "xy" else -places.z)):
        assert column == pytest.approx(np.interp(at, times, positions[:, axis]), abs=1e-9)
    views = Slerp(times, rotations)(at).apply([0, 0, 1] if looking == "z" else [1, 0, 0])
    steps = (rotations[:-1].inv() * rotations[1:]).magnitude()
    for view, yaw in zip(views, places.yaw, strict=True):
        level = np.hypot(view[east], view[north])
        if level > 0.02 and (steps < 3.14).all():  # a half turn has two shorter ways
            assert [level * np.cos(yaw), level * np.sin(yaw)] == pytest.approx(view[[east, north]], abs=1e-6)
