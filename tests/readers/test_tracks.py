"""Tracks: poses between samples, against a loop that looks at one time after the other."""

import bisect
import cmath
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.errors import BadInputError
from mappable.readers.tracks import Track

SECOND = 10**9


def track(time: list[int], x: list[float] | None = None, yaw: list[float] | None = None) -> Track:
    xyz = np.zeros((len(time), 3))
    xyz[:, 0] = time if x is None else x
    return Track(np.array(time, dtype=np.int64), xyz, np.zeros(len(time)) if yaw is None else np.array(yaw))


def pose_at(samples: Track, time: int) -> dict[str, Any]:
    """One time, in plain Python."""
    times = samples.time.tolist()
    if time < times[0] or time > times[-1]:
        end = 0 if time < times[0] else len(times) - 1
        return {"before": end, "after": end, "share": 0.0, "inside": False}
    after = bisect.bisect_left(times, time)
    before = after if times[after] == time else after - 1
    share = 0.0 if before == after else (time - times[before]) / (times[after] - times[before])
    return {"before": before, "after": after, "share": share, "inside": True}


NEAR_NOW = st.integers(0, 100).map(lambda step: 1_418_132_416_737_115_000 + step * 7_000_001)


@pytest.mark.medium
@given(
    st.lists(st.tuples(NEAR_NOW, st.floats(-100, 100), st.floats(-4, 4)), min_size=1, unique_by=lambda row: row[0]),
    st.lists(NEAR_NOW | NEAR_NOW.map(lambda time: time + 1), max_size=20),
)
def test_poses_are_those_of_a_scalar_loop(rows: list[tuple[int, float, float]], wanted: list[int]) -> None:
    rows.sort()
    samples = track([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])
    found = samples.at(np.array(wanted, dtype=np.int64))
    for index, time in enumerate(wanted):
        expected = pose_at(samples, time)
        before, after, share = expected["before"], expected["after"], expected["share"]
        assert (found.before[index], found.after[index]) == (before, after)
        assert found.inside[index] == expected["inside"]
        assert found.gap_s[index] == pytest.approx((samples.time[after] - samples.time[before]) / 1e9)
        x = rows[before][1] * (1 - share) + rows[after][1] * share
        assert found.xyz[index, 0] == pytest.approx(x, abs=1e-9)
        arc = cmath.phase(cmath.exp(1j * (rows[after][2] - rows[before][2])))
        if abs(arc) < math.pi - 1e-9:
            way = cmath.exp(1j * (found.yaw[index] - rows[before][2] - share * arc))
            assert abs(way - 1) < 1e-9


def test_yaw_crosses_the_seam_by_the_shorter_way() -> None:
    samples = track([0, 4], yaw=[math.pi - 0.2, -math.pi + 0.2])
    assert samples.at(np.array([1, 2, 3])).yaw.tolist() == [
        pytest.approx(math.pi - 0.1),
        pytest.approx(math.pi),
        pytest.approx(-math.pi + 0.1),
    ]


def test_a_time_on_a_sample_is_that_sample_alone() -> None:
    found = track([10, 20, 30], [1.0, 5.0, 7.0], [0.1, 0.2, 0.3]).at(np.array([10, 20, 30]))
    assert found.xyz[:, 0].tolist() == [1, 5, 7]
    assert found.yaw.tolist() == [0.1, 0.2, 0.3]
    assert found.before.tolist() == found.after.tolist() == [0, 1, 2]
    assert found.gap_s.tolist() == [0, 0, 0]
    assert found.inside.all()


def test_a_time_outside_has_the_pose_of_the_end_and_says_so() -> None:
    found = track([10, 20], [1.0, 5.0], [0.1, 0.2]).at(np.array([9, 10, 20, 21]))
    assert found.inside.tolist() == [False, True, True, False]
    assert found.xyz[:, 0].tolist() == [1, 1, 5, 5]
    assert found.yaw.tolist() == [0.1, 0.1, 0.2, 0.2]


def test_the_gap_is_in_seconds() -> None:
    found = track([0, SECOND // 2, 5 * SECOND]).at(np.array([1, SECOND]))
    assert found.gap_s.tolist() == [0.5, 4.5]


def test_nanoseconds_of_our_age_are_not_rounded_to_floats() -> None:
    start = 1_418_132_416_737_115_001
    samples = track([start, start + 2], [0.0, 2.0])
    assert samples.at(np.array([start + 1])).xyz[0, 0] == 1


def test_unknown_heights_and_yaws_stay_unknown_and_leave_the_rest_alone() -> None:
    xyz = np.array([(0.0, 0.0, math.nan), (2.0, 0.0, 4.0), (4.0, 0.0, 6.0)])
    found = Track(np.array([0, 2, 4]), xyz, np.array([math.nan, 0.0, 0.2])).at(np.array([1, 3]))
    assert found.xyz[:, 0].tolist() == [1, 3]
    assert np.isnan(found.xyz[0, 2])
    assert found.xyz[1, 2] == 5
    assert np.isnan(found.yaw[0])
    assert found.yaw[1] == pytest.approx(0.1)


def test_one_sample_is_a_track_and_no_time_is_a_question() -> None:
    assert track([5]).at(np.array([4, 5, 6])).inside.tolist() == [False, True, False]
    assert len(track([5]).at(np.array([], dtype=np.int64)).yaw) == 0


def test_samples_out_of_order_or_none_are_refused() -> None:
    with pytest.raises(BadInputError, match="samples"):
        track([])
    with pytest.raises(BadInputError, match=r"sample 2.*time is 3.*7"):
        track([1, 7, 3])
    with pytest.raises(BadInputError, match=r"sample 1.*time is 7.*7"):
        track([7, 7])
