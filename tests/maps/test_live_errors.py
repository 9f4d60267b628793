"""Errors of a tracked camera: what calibration drives tell about another drive."""

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.maps.live_errors import TrackedErrors, fit_live


def drive(off: Floats, spread: float = 0.0) -> TrackedErrors:
    """Errors (n, 2) of images 1 m apart; places extend along x only."""
    count = len(off)
    covariance = np.zeros((count, 2, 2))
    covariance[:, 0, 0] = spread
    return TrackedErrors(np.arange(float(count)), off, covariance, covariance + np.eye(2), np.zeros(count))


def test_a_route_on_one_line_has_errors_along_it() -> None:
    """Errors across the line are all 0. Taken for accuracy, they made stated deviations 100 times too small."""
    random = np.random.default_rng(0)
    along = np.column_stack([0.5 * random.standard_normal(400), np.zeros(400)])
    found = fit_live([drive(along, spread=0.01)], radius=5.0)
    assert found is not None
    stated = found.covariances(drive(along, spread=0.01).spread, np.zeros(400))
    assert np.sqrt(stated[:, 0, 0]) == pytest.approx(0.5, rel=0.2)


def test_alike_errors_tell_less_about_other_drives() -> None:
    random = np.random.default_rng(0)
    apart = random.standard_normal((400, 2))
    alike = np.repeat(random.standard_normal((20, 2)), 20, axis=0)
    alike *= np.sqrt(np.square(apart).mean() / np.square(alike).mean())
    first, second = (fit_live([drive(off)], radius=20.0) for off in (apart, alike))
    assert first is not None
    assert second is not None
    assert first.deviation == pytest.approx(1.0, rel=0.1)
    assert second.deviation > 1.1 * first.deviation
