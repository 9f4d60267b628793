"""Calibration of confidence."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from mappable.localization.fitting import SURE, WRONG, _sure


def test_few_of_the_confident_answers_are_wrong() -> None:
    """The model is too sure: half of the answers at a probability of 0.9 to 0.97 are wrong, and
    none above.
    """
    mass = np.linspace(0.9, 1.0, 1001)
    errors = np.where((mass < 0.97) & (np.arange(1001) % 2 == 0), 100.0, 1.0)
    trial: Any = SimpleNamespace(mass=mass, errors=errors)
    level = _sure([trial], radius=10.0)
    assert (errors[mass >= level] > 10).mean() <= WRONG
    assert level == SURE[SURE >= 0.97][0]
