"""Smoothed positions of a drive."""

import numpy as np
import pytest

from mappable.maps import smoothing
from mappable.maps.smoothing import lasting_jumps, smooth_path, step_along


def test_without_outliers_it_is_least_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoothing, "DEGREES_OF_FREEDOM", 1e12)
    random = np.random.default_rng(0)
    count, bend = 12, 0.21
    measured, deviations = random.normal(size=(count, 2)), random.uniform(0.5, 2, count)
    breaks = np.arange(count) == 5
    rows = [np.eye(count)[n] / deviations[n] for n in range(count)]
    wanted = [measured[n] / deviations[n] for n in range(count)]
    for n in range(1, count - 1):
        if not breaks[n] and not breaks[n + 1]:
            rows.append((np.eye(count)[n - 1] - 2 * np.eye(count)[n] + np.eye(count)[n + 1]) / bend)
            wanted.append(np.zeros(2))
    solved = np.linalg.lstsq(np.array(rows), np.array(wanted), rcond=None)[0]
    assert smooth_path(measured, deviations, bend, breaks) == pytest.approx(solved)


def test_a_straight_drive_stays_as_it_is() -> None:
    drive = np.arange(20.0)[:, None] * [2.0, 1.0]
    assert smooth_path(drive, np.ones(20), 0.66, np.zeros(20, dtype=bool)) == pytest.approx(drive)


def test_a_few_images_far_off_do_not_move_the_path() -> None:
    drive = np.arange(40.0)[:, None] * [2.0, 1.0]
    measured = drive.copy()
    measured[18:22] += [80.0, 10.0]
    found = smooth_path(measured, np.ones(40), 0.66, np.zeros(40, dtype=bool))
    assert np.linalg.norm(found - drive, axis=1).max() < 1.0


def test_a_break_lets_the_camera_be_anywhere() -> None:
    drive = np.arange(20.0)[:, None] * [2.0, 1.0]
    drive[10:] += 500.0
    assert smooth_path(drive, np.ones(20), 0.66, np.arange(20) == 10) == pytest.approx(drive)


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_images_stay_where_they_are(count: int) -> None:
    measured = np.arange(2.0 * count).reshape(count, 2)
    assert smooth_path(measured, np.ones(count), 1.0, np.zeros(count, dtype=bool)) == pytest.approx(measured)


def test_a_jump_lasts_if_the_drive_goes_on_from_there() -> None:
    drive = np.arange(40.0)[:, None] * [2.0, 1.0]
    assert not lasting_jumps(drive, 2.2, 3.0).any()
    cut = drive + np.where(np.arange(40) >= 20, 90.0, 0.0)[:, None]
    assert np.flatnonzero(lasting_jumps(cut, 2.2, 3.0)).tolist() == [20]


@pytest.mark.parametrize("every", [1, 2, 4, 8])
def test_a_cut_is_found_however_sparse_the_images_are(every: int) -> None:
    """The last 12 images are 150 m farther on; beside a step of 17.6 m the jump looks short, but it lasts."""
    random = np.random.default_rng(0)
    drive = np.arange(0, 24 * every, every)[:, None] * [2.2, 0.0] + random.normal(0, 1.0, (24, 2))
    drive[12:] += [150.0, 0.0]
    step = step_along(drive)
    assert np.flatnonzero(lasting_jumps(drive, step, 3.0)).tolist() == [12]
    drive[12:] -= [150.0, 0.0]
    assert not lasting_jumps(drive, step, 3.0).any()


def test_a_jump_there_and_back_does_not_last() -> None:
    drive = np.arange(40.0)[:, None] * [2.0, 1.0]
    drive[18:22] += 90.0
    assert not lasting_jumps(drive, 2.2, 3.0).any()
    assert not lasting_jumps(drive[16:22], 2.2, 3.0).any()


def test_the_step_along_a_path_is_little_longer_by_noise() -> None:
    random = np.random.default_rng(0)
    drive = np.arange(200.0)[:, None] * [0.6, 0.8]
    assert step_along(drive) == pytest.approx(1.0)
    assert 0.8 < step_along(drive + random.normal(0, 1.5, drive.shape)) < 1.1
    assert step_along(drive[:2]) == pytest.approx(1.0)
