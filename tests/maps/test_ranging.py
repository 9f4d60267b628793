"""Ranges from calibrated feature distances."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.maps import ranging
from mappable.maps.ranging import metres_of, ranges_between
from mappable.maps.spread import Spread


def test_ranges_are_those_between_the_images(town: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    positions, descriptors = town.drive
    ranges = ranges_between(town.calibration, descriptors)
    true = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    assert len(ranges) > 1000
    within = np.abs(ranges.metres - true) <= 1.645 * ranges.sigma
    assert within.mean() == pytest.approx(0.9, abs=0.1)
    assert (true <= 2 * town.calibration.response.reach).mean() > 0.8
    near = true <= town.calibration.response.reach
    assert 0.7 < np.square((ranges.metres - true) / ranges.sigma)[near].mean() < 1.3
    monkeypatch.setattr(ranging, "BLOCK", 37)
    in_blocks = ranges_between(town.calibration, descriptors)
    np.testing.assert_array_equal(in_blocks.i, ranges.i)
    np.testing.assert_allclose(in_blocks.metres, ranges.metres, rtol=1e-3)


def test_sigma_is_finite_where_too_few_pairs_are_known(town: Any) -> None:
    reach = town.calibration.response.reach
    few = replace(town.calibration, pairs=Spread.fit(np.array([0.3, 0.5]), np.array([1.0, 2.0])))
    metres, sigma = metres_of(few, np.array([0.4]))
    assert metres[0] == 1.5
    assert sigma[0] == pytest.approx(reach / (2 * 1.6449), rel=1e-4)  # anywhere within reach, with 90 %


def test_images_that_have_nothing_in_common(town: Any) -> None:
    with pytest.raises(BadInputError, match="near enough"):
        ranges_between(town.calibration, np.eye(4, 192, dtype=np.float32))
    with pytest.raises(BadInputError, match="at least two"):
        ranges_between(town.calibration, town.drive[1][:1])
