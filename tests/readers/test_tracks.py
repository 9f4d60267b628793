"""Tracks: poses between samples, against a loop that looks at one time after the other."""

import bisect
import cmath
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.readers.tracks import Track


def track(time: list[int], x: list[float] | None = None, yaw: list[float] | None = None) -> Track:
    xyz = np.zeros((len(time), 3))
    xyz[:, 0] = time if x is None else x
    return Track(
        np.array(time, dtype=np.int64), xyz, np.zeros(len(time)) if yaw is None else np.array(yaw)
    )


def pose_at(times: list[int], time: int) -> tuple[int, int, float, bool]:
    """The samples before and after one time, its share between them, and whether it is inside; in
    plain Python.
    """
    if time < times[0] or time > times[-1]:
        end = 0 if time < times[0] else len(times) - 1
        return end, end, 0.0, False
    after = bisect.bisect_left(times, time)
    before = after if times[after] == time else after - 1
    return (
        before,
        after,
        0.0 if before == after else (time - times[before]) / (times[after] - times[before]),
        True,
    )


NEAR_NOW = st.integers(0, 100).map(lambda step: 1_418_132_416_737_115_000 + step * 7_000_001)


@pytest.mark.medium
@given(
    st.lists(
        st.tuples(NEAR_NOW, st.floats(-100, 100), st.floats(-4, 4)),
        min_size=1,
        unique_by=lambda row: row[0],
    ),
    st.lists(NEAR_NOW | NEAR_NOW.map(lambda time: time + 1), max_size=20),
)
def test_poses_are_those_of_a_scalar_loop(
    rows: list[tuple[int, float, float]], wanted: list[int]
) -> None:
    rows.sort()
    times = [row[0] for row in rows]
    found = track(times, [row[1] for row in rows], [row[2] for row in rows]).at(
        np.array(wanted, dtype=np.int64)
    )
    for index, time in enumerate(wanted):
        before, after, share, inside = pose_at(times, time)
        assert (found.before[index], found.after[index], found.inside[index]) == (
            before,
            after,
            inside,
        )
        assert found.gap_s[index] == pytest.approx((times[after] - times[before]) / 1e9)
        x = rows[before][1] * (1 - share) + rows[after][1] * share
        assert found.xyz[index, 0] == pytest.approx(x, abs=1e-9)
        arc = cmath.phase(cmath.exp(1j * (rows[after][2] - rows[before][2])))
        if abs(arc) < math.pi - 1e-9:  # the shorter way, also across the seam
            assert (
                abs(cmath.exp(1j * (found.yaw[index] - rows[before][2] - share * arc)) - 1) < 1e-9
            )


def test_unknown_heights_and_yaws_stay_unknown_and_leave_the_rest_alone() -> None:
    xyz = np.array([(0.0, 0.0, math.nan), (2.0, 0.0, 4.0), (4.0, 0.0, 6.0)])
    found = Track(np.array([0, 2, 4]), xyz, np.array([math.nan, 0.0, 0.2])).at(np.array([1, 3]))
    np.testing.assert_array_equal(found.xyz, [[1, 0, math.nan], [3, 0, 5]])
    np.testing.assert_allclose(found.yaw, [math.nan, 0.1])
