"""Odometry from files."""

from pathlib import Path

import numpy as np
import pytest

from mappable.localization.odometry import read_odometry


def test_poses_and_motions_tell_the_same(tmp_path: Path) -> None:
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
    rows = [f"{n * 100_000_000},{x},{y},{np.angle(np.exp(1j * yaw))}" for n, (x, y, yaw) in enumerate(poses)]
    rows = [f"1{int(row.split(',')[0]):018d},{row.split(',', 1)[1]}" for row in rows]  # nanoseconds since 1970
    (tmp_path / "poses.csv").write_text("\n".join(["time,x,y,yaw", *rows]))
    first, second = read_odometry(tmp_path / "motions.csv"), read_odometry(tmp_path / "poses.csv")
    for n in range(1, 20):
        one, other = first.between((n - 1) / 10, n / 10), second.between(1e9 + (n - 1) / 10, 1e9 + n / 10)
        assert one is not None
        assert other is not None
        given = (one.forward, one.left, one.turn)
        assert given == pytest.approx(motions[n].tolist())
        assert np.angle(np.exp(1j * (other.turn - one.turn))) == pytest.approx(0, abs=1e-5)
        assert (other.forward, other.left) == pytest.approx(given[:2], abs=1e-4)
    assert first.between(0.0, 5.0) is None
    assert first.between(-1.0, 0.5) is None
