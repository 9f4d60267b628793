"""A camera that is located while it moves."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.errors import MappableError
from mappable.localization.fitting import calibrate
from mappable.localization.localizer import Estimate, Localizer, Odometry
from mappable.localization.map import Map

pytestmark = pytest.mark.medium


@pytest.fixture
def localizer(town: Any) -> Localizer:
    return Localizer(Map(town.landmarks))


def motions(positions: Any, seed: int = 0, error: float = 0.05) -> list[Odometry]:
    """Odometry between positions (n, k), in a frame that never turns; the first one is no motion."""
    random = np.random.default_rng(seed)
    ways = np.diff(positions[:, :2], axis=0, prepend=positions[:1, :2])
    lengths = np.linalg.norm(ways, axis=1, keepdims=True)
    return [
        Odometry(*way, 0.0)
        for way in (ways + error * lengths * random.normal(size=ways.shape)).tolist()
    ]


def follow(
    localizer: Localizer, descriptors: Any, odometry: Any = None, start: float = 0.0
) -> list[Estimate]:
    given = [None] * len(descriptors) if odometry is None else odometry
    return [
        localizer.update(seen, start + n, moved)
        for n, (seen, moved) in enumerate(zip(descriptors, given, strict=True))
    ]


def off(found: list[Estimate], positions: Any) -> Any:
    return np.linalg.norm(np.array([one.position for one in found]) - positions, axis=1)


def test_a_drive_is_followed_from_its_third_image(town: Any, localizer: Localizer) -> None:
    positions, descriptors = town.drive[0][::2], town.drive[1][::2]
    found = follow(localizer, descriptors)
    assert not found[0].trusted
    assert found[0].reason
    trusted = np.array([one.trusted for one in found])
    assert trusted.argmax() <= 10
    assert trusted.mean() > 0.8
    errors = off(found, positions)
    assert np.median(errors) < 1.5
    assert (errors[trusted] < 10).all()
    assert all(one.state == "tracking" for one in found if one.trusted)
    assert all(one.places[0].probability >= one.places[-1].probability for one in found)


def test_odometry_helps_where_images_show_little(town: Any, localizer: Localizer) -> None:
    """Half of each image is noise."""
    positions, random = town.drive[0][::2], np.random.default_rng(3)
    noisy = town.drive[1][::2] + 1.2 / np.sqrt(192) * random.normal(
        size=(len(positions), 192)
    ).astype(np.float32)
    noisy /= np.linalg.norm(noisy, axis=1, keepdims=True)
    alone = off(follow(localizer, noisy), positions)
    localizer.reset()
    carried = off(follow(localizer, noisy, motions(positions)), positions)
    assert np.quantile(carried[10:], 0.9) < np.quantile(alone[10:], 0.9)


@pytest.mark.parametrize("with_odometry", [False, True])
def test_a_carried_off_camera_is_found_again(
    town: Any, localizer: Localizer, with_odometry: bool
) -> None:
    """Odometry knows nothing of it."""
    rows = np.concatenate([np.arange(0, 100, 2), np.arange(300, 400, 2), np.arange(120, 220, 2)])
    positions = town.drive[0][rows]
    odometry = motions(positions)
    for jump in (50, 100):
        odometry[jump] = Odometry(0.0, 0.0, 0.0)
    found = follow(localizer, town.drive[1][rows], odometry if with_odometry else None)
    trusted, errors = np.array([one.trusted for one in found]), off(found, positions)
    assert (errors[trusted] > 15).mean() < 0.05
    for jump in (50, 100):
        # The place must be certain again for three images.
        assert not trusted[jump : jump + 2].any()
        assert (trusted & (errors < 10))[jump : jump + 10].any()


def test_standing_still_and_reversing(town: Any, localizer: Localizer) -> None:
    rows = np.concatenate([np.arange(0, 120, 2), np.full(40, 120), np.arange(120, 20, -2)])
    positions = town.drive[0][rows]
    found = follow(localizer, town.drive[1][rows], motions(positions))
    assert (off(found, positions)[10:] < 10).mean() > 0.95


def test_images_from_elsewhere_are_not_trusted(town: Any, localizer: Localizer) -> None:
    found = follow(localizer, town.absent[:60])
    assert np.mean([one.trusted for one in found]) < 0.1
    assert {one.state for one in found if not one.trusted} <= {
        "lost",
        "several places",
        "off the map",
    }


@pytest.mark.parametrize("every", [2, 4])
def test_covariances_are_honest(town: Any, localizer: Localizer, every: int) -> None:
    positions = town.drive[0][::every]
    for odometry in (None, motions(positions)):
        localizer.reset()
        found = follow(localizer, town.drive[1][::every], odometry)
        errors = np.array([one.position for one in found]) - positions
        inverse = np.linalg.inv(np.array([one.covariance for one in found]))
        squared = np.einsum("ni,nij,nj->n", errors, inverse, errors)[[one.trusted for one in found]]
        assert (squared < 5.991).mean() > 0.85
        assert 0.1 < squared.mean() / 2 < 1.4


def test_a_saved_localizer_goes_on(town: Any, localizer: Localizer, tmp_path: Path) -> None:
    positions, descriptors = town.drive[0][::4], town.drive[1][::4]
    odometry = motions(positions)
    whole = follow(localizer, descriptors, odometry)
    first = Localizer(Map(town.landmarks))
    follow(first, descriptors[:40], odometry[:40])
    first.save(tmp_path / "state.safetensors")
    rebooted = Localizer(Map(town.landmarks))
    rebooted.load(tmp_path / "state.safetensors")
    assert follow(rebooted, descriptors[40:], odometry[40:], start=40.0) == whole[40:]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"time": 2.0}, "time is 2.000, expected later than 2.000"),
        ({"time": 1.5}, "time is 1.500, expected later than 2.000"),
        ({"time": float("nan")}, "time is nan"),
        ({"odometry": Odometry(float("nan"), 0.0, 0.0)}, "odometry: forward is nan"),
        (
            {"odometry": Odometry(0.0, 1e300, 0.0)},
            "odometry: left is 1e.300, expected a finite number of at most 1,000,000",
        ),
        ({"odometry": Odometry(0.0, 0.0, 0.0, [[1.0]])}, "covariance should be 3 x 3"),
        ({"image": np.zeros(192, dtype=np.float32)}, "length 0, expected 1"),
        ({"image": np.ones(3, dtype=np.float32)}, "3 numbers, expected 192 as in the map"),
    ],
)
def test_a_bad_update_is_refused_and_the_next_one_counts(
    town: Any, localizer: Localizer, given: dict[str, Any], words: str
) -> None:
    positions, descriptors = town.drive[0][::2], town.drive[1][::2]
    follow(localizer, descriptors[:3])
    with pytest.raises(MappableError, match=words):
        localizer.update(**({"image": descriptors[3], "time": 3.0} | given))
    found = [localizer.update(descriptors[n], float(n)) for n in range(4, 30)]
    assert off(found, positions[4:30])[-1] < 10
    assert found[-1].trusted


def test_a_long_pause_forgets_the_place_but_a_slower_camera_is_followed(
    town: Any, localizer: Localizer
) -> None:
    descriptors = town.drive[1][::2]
    assert follow(localizer, descriptors[:20])[-1].trusted
    found = [localizer.update(descriptors[20 + n], 1000.0 * (n + 1)) for n in range(10)]
    assert (found[0].trusted, found[0].state) == (False, "lost")
    assert found[0].reason == "no image came for 981.0 s, usually 1.0 s; the camera may be anywhere"
    assert all(one.trusted for one in found[-3:])


def test_headings_come_from_the_landmarks(town: Any) -> None:
    at = town.landmarks.places.positions
    yaw = np.arctan2(np.gradient(at[:, 1]), np.gradient(at[:, 0]))
    places = town.landmarks.places.replace(yaw=yaw)
    bare = replace(town.bare, places=places)
    known, seen = town.known
    along = np.interp(known[:, 0], np.sort(at[:, 0]), yaw[np.argsort(at[:, 0])])
    located = Map(
        bare.with_calibration(calibrate(bare, (town.places(known, "known", yaw=along), seen)))
    )
    found = follow(Localizer(located), town.drive[1][::2])
    truth = np.interp(town.drive[0][::2, 0], np.sort(at[:, 0]), yaw[np.argsort(at[:, 0])])
    errors = np.abs(np.array([one.heading for one in found]) - truth)
    assert np.median(errors) < 0.1
    assert found[0].heading_deviation is not None
    single = located.locate_all(town.drive[1][::2])
    held = [
        abs(one.heading - angle) <= one.heading_error
        for one, angle in zip(single, truth, strict=True)
        if one.heading
    ]
    assert np.mean(held) > 0.8
