"""The reader of EuRoC folders: the mounting of the camera on the body, computed here by hand."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from mappable.readers.registry import read_places


def test_the_camera_is_placed_by_its_mounting(golden_folder: Callable[[str], Path]) -> None:
    places = read_places("euroc", golden_folder("euroc")).where(sequence="MH_01")
    number = np.arange(8) + 0.5
    angle = 0.2 * number
    np.testing.assert_allclose(places.yaw, angle, atol=1e-9)
    # Positions are linear between poses that are 0.2 rad apart, so they are off the circle of the
    # mounting by 1 mm.
    np.testing.assert_allclose(
        places.x, number + 0.2 * np.cos(angle) - 0.1 * np.sin(angle), atol=2e-3
    )
    np.testing.assert_allclose(
        places.y, -number + 0.2 * np.sin(angle) + 0.1 * np.cos(angle), atol=2e-3
    )
    np.testing.assert_allclose(places.z, 2.0, atol=1e-9)
