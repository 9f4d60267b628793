"""Ranges from calibrated feature distances."""

from typing import Any

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.localization import ranging
from mappable.localization.ranging import ranges_between
from mappable.recovery.order import order_of


def test_ranges_are_those_between_the_images(town: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    positions, descriptors = town.drive
    ranges = ranges_between(town.calibration, descriptors)
    true = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    assert len(ranges) > 1000
    within = np.abs(ranges.metres - true) <= 1.645 * ranges.sigma
    assert within.mean() == pytest.approx(0.9, abs=0.1)
    assert (true <= 2 * town.calibration.growth.reach).mean() > 0.8
    near = true <= town.calibration.growth.reach
    assert 0.7 < np.square((ranges.metres - true) / ranges.sigma)[near].mean() < 1.3
    monkeypatch.setattr(ranging, "BATCH", 37)
    in_blocks = ranges_between(town.calibration, descriptors)
    np.testing.assert_array_equal(in_blocks.i, ranges.i)
    np.testing.assert_allclose(in_blocks.metres, ranges.metres, rtol=1e-3)


def spread(town: Any, count: int, share: float) -> np.ndarray:
    """Descriptors whose distances from each other are all about this share of the largest that
    gives a range.
    """
    noise = np.random.default_rng(0).normal(size=(count, 192))
    noise *= (
        share
        * town.calibration.growth.valid
        / np.sqrt(2)
        / np.linalg.norm(noise, axis=1, keepdims=True)
    )
    return (noise + np.ones(192) / np.sqrt(192)).astype(np.float32)


@pytest.mark.parametrize("count", [20, 150])
def test_images_that_all_look_alike_are_refused_where_their_order_counts(
    town: Any, count: int
) -> None:
    alike = spread(town, count, 0.95)
    message = (
        r"9\d\.\d % of all pairs and [\d.]+ % of consecutive pairs have a range, "
        r"and about \d+ % of ranges are false: use "
    )
    with pytest.raises(BadInputError, match=message):
        ranges_between(town.calibration, alike)
    assert (
        len(ranges_between(town.calibration, alike, ordered=False)) > 0.9 * count * (count - 1) / 2
    )
    assert len(ranges_between(town.calibration, alike[:8])) > 20  # too few to judge


def test_a_shuffled_drive_and_one_of_long_steps_are_refused(town: Any) -> None:
    seen = town.drive[1]
    with pytest.raises(BadInputError, match=r"take images closer together, and keep their order"):
        ranges_between(town.calibration, np.random.default_rng(0).permutation(seen)[:200])
    with pytest.raises(BadInputError, match=r"take images closer together|near enough by feature"):
        ranges_between(town.calibration, seen[::40])


def circle(radius: float) -> np.ndarray:
    """Three laps of 40 positions each."""
    angle = np.arange(120) * 2 * np.pi / 40
    return radius * np.column_stack([np.cos(angle), np.sin(angle)])


def test_a_drive_on_which_far_images_look_alike_here_and_there_is_refused(town: Any) -> None:
    seen, random = town.drive[1].copy(), np.random.default_rng(1)
    alike = random.choice(len(seen), 120, replace=False)
    seen[alike] = town.describe(np.zeros((120, 2)), 7)  # whatever they show, it is the same
    order = order_of(ranges_between(town.calibration, seen, ordered=False))
    assert order.score > 0.5  # consecutive images do not show it
    with pytest.raises(BadInputError, match="% of ranges are false"):
        ranges_between(town.calibration, seen)


def test_drives_that_stand_still_come_back_are_short_or_sparse_have_ranges(town: Any) -> None:
    positions, seen = town.drive
    drives = {
        "still": spread(town, 60, 0.3),
        "identical": np.repeat(seen[:1], 20, axis=0),
        "short": seen[:20],
        "half of it still": np.concatenate(
            [seen[:100], town.describe(np.repeat(positions[99:100], 100, axis=0), 8)]
        ),
        "there and back": np.concatenate([seen, town.describe(positions[::-1], 9)]),
        "three laps": np.concatenate(
            [town.describe(positions[:100], seed) for seed in (10, 11, 12)]
        ),
        "sparse": seen[::6],
        "small laps": town.describe(circle(8.0), 13),
    }
    for name, drive in drives.items():
        assert len(ranges_between(town.calibration, drive)) > len(drive) / 2, name
