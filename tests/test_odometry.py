"""Odometry files: by row, by time, with pauses, cut, and what is wrong with them."""

from pathlib import Path

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.odometry import Track, read_track
from mappable.recovery.files import motions_of_track, read_odometry

TURN = "0 0 0.7071067811865476 0.7071067811865476"  # 90 degrees to the left


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_poses_become_motions_seen_from_the_point_before(tmp_path: Path) -> None:
    file = written(tmp_path, "one.tum", f"0 0 0 0 0 0 0 1\n1 2 0 0 {TURN}\n2 2 3 0 {TURN}\n")
    track = read_odometry(file)
    assert isinstance(track, Track)
    flat, solid = motions_of_track(track, 3, None, 2), motions_of_track(track, 3, None, 3)
    np.testing.assert_allclose(flat.metres, [[2, 0], [3, 0]], atol=1e-9)
    np.testing.assert_allclose(flat.rotations[0], [[0, -1], [1, 0]], atol=1e-9)
    np.testing.assert_allclose(solid.metres, [[2, 0, 0], [3, 0, 0]], atol=1e-9)


def test_times_of_images_select_poses_and_pauses_join_nothing(tmp_path: Path) -> None:
    rows = [f"{time},{time},0,0" for time in (0, 1, 2, 3, 100, 101, 102)]
    track = read_odometry(written(tmp_path, "one.csv", "\n".join(["time,x,y,yaw", *rows])))
    assert isinstance(track, Track)
    found = motions_of_track(track, 5, np.array([0.5, 2.5, 100.5, 101.5, 200.0]), 2)
    assert found.i.tolist() == [0, 2]
    np.testing.assert_allclose(found.metres[:, 0], [2.0, 1.0])
    found = motions_of_track(track, 7, np.array([2.0, 3.0, 40.0, 41.0, 100.0, 101.0, 102.0]), 2)
    assert found.i.tolist() == [0, 4, 5]  # two images lie inside the pause


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "i,dx\n0,1\n", "has the columns i, dx, expected"),
        (
            "a.csv",
            "time,x,y,yaw\n1,0,0,0\n1,1,0,0\n",
            "row 3: column 'time' is '1', expected a time later",
        ),
        ("a.tum", "0 0 0 0 0 0 0 1\n1 2 0\n", "row 2: 3 values, expected 8"),
        (
            "a.tum",
            "0 0 0 0 0 0 0 1\n1 2 0 0 0 0 0 5\n",
            "row 2: column 'qw' is '5': it does not make a rotation",
        ),
        ("a.tum", "0 0 0 0 0 0 0 1\n", "has 1 poses; give at least two"),
        (
            "a.csv",
            "i,j,forward,left,turn\n0,1,1,0,90\n",
            "row 2: column 'turn' is '90', expected -6.28319 to 6.28319",
        ),
        (
            "a.csv",
            "i,j,forward,left,turn,sigma\n0,1,1,0,0,1e-30\n",
            "row 2: column 'sigma' is '1e-30'",
        ),
        (
            "a.csv",
            "i,j,forward,left,turn\n2,2,1,0,0\n",
            "row 2: column 'j' is '2': it must differ from i",
        ),
    ],
)
def test_a_file_that_cannot_be_is_named(name: str, text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=words):
        read_odometry(written(tmp_path, name, text))


def test_motions_between_two_times_are_those_of_poses_and_of_motions(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    motions = random.normal(size=(20, 3))
    rows = [f"{n / 10},{','.join(map(str, row))}" for n, row in enumerate(motions.tolist())]
    (tmp_path / "motions.csv").write_text("\n".join(["time,forward,left,turn", *rows]))
    pose, poses = np.zeros(3), []
    for n, (forward, left, turn) in enumerate(motions):
        if n:
            cos, sin = np.cos(pose[2]), np.sin(pose[2])
            pose = pose + np.array([cos * forward - sin * left, sin * forward + cos * left, turn])
        poses.append(pose)
    rows = [
        f"{n * 100_000_000},{x},{y},{np.angle(np.exp(1j * yaw))}"
        for n, (x, y, yaw) in enumerate(poses)
    ]
    # Nanoseconds since 1970.
    rows = [f"1{int(row.split(',')[0]):018d},{row.split(',', 1)[1]}" for row in rows]
    (tmp_path / "poses.csv").write_text("\n".join(["time,x,y,yaw", *rows]))
    first, second = read_track(tmp_path / "motions.csv"), read_track(tmp_path / "poses.csv")
    for n in range(1, 20):
        one, other = (
            first.between((n - 1) / 10, n / 10),
            second.between(1e9 + (n - 1) / 10, 1e9 + n / 10),
        )
        assert one is not None
        assert other is not None
        assert (one.forward, one.left) == pytest.approx(motions[n, :2].tolist())
        assert np.angle(np.exp(1j * (one.turn - motions[n, 2]))) == pytest.approx(0, abs=1e-9)
        assert np.angle(np.exp(1j * (other.turn - one.turn))) == pytest.approx(0, abs=1e-5)
        assert (other.forward, other.left) == pytest.approx((one.forward, one.left), abs=1e-4)
    assert first.between(0.0, 5.0) is None
    assert first.between(-1.0, 0.5) is None
