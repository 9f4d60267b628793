"""Ranges from calibrated feature distances."""

from typing import Any

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.maps import ranging
from mappable.maps.ranging import ranges_between


def test_ranges_are_those_between_the_images(town: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    positions, descriptors = town.drive
    ranges = ranges_between(town.calibration, descriptors)
    true = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    assert len(ranges) > 1000
    within = np.abs(ranges.metres - true) <= 1.645 * ranges.sigma
    assert within.mean() == pytest.approx(0.9, abs=0.1)
    assert (true <= 2 * town.calibration.response.reach).mean() > 0.8
    monkeypatch.setattr(ranging, "BLOCK", 37)
    in_blocks = ranges_between(town.calibration, descriptors)
    np.testing.assert_array_equal(in_blocks.i, ranges.i)
    np.testing.assert_allclose(in_blocks.metres, ranges.metres, rtol=1e-3)


def test_images_that_have_nothing_in_common(town: Any) -> None:
    with pytest.raises(BadInputError, match="near enough"):
        ranges_between(town.calibration, np.eye(4, 192, dtype=np.float32))
    with pytest.raises(BadInputError, match="at least two"):
        ranges_between(town.calibration, town.drive[1][:1])
