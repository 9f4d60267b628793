"""The picture of a recovery: written for every mix of what is known, and what it shows."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mappable.arrays import Floats
from mappable.recovery.figure import draw_recovery
from mappable.recovery.result import Recovered
from simulated_ranges import NOISES, measure, route

TRUTH = route("loop", 120, seed=3)
RANGES = measure(TRUTH, NOISES["mid"], seed=0, radius=20.0)


def result(positions: Floats) -> Recovered:
    return Recovered(
        positions,
        np.zeros(len(positions), dtype=np.int64),
        np.ones(len(RANGES), dtype=bool),
        1.0,
        (),
    )


@pytest.mark.medium
@pytest.mark.parametrize(
    ("dimensions", "with_truth", "with_anchors"),
    [(2, True, True), (3, True, False), (3, False, True), (2, False, False)],
)
def test_a_picture_is_drawn_of_whatever_is_known(
    tmp_path: Path, dimensions: int, with_truth: bool, with_anchors: bool
) -> None:
    truth = np.zeros((120, dimensions))
    truth[:, :2] = TRUTH
    file = tmp_path / "deep/recovery.png"
    draw_recovery(
        file,
        RANGES,
        result(truth + 1.0),
        truth=truth if with_truth else None,
        anchors=np.array([0, 60]) if with_anchors else None,
        title="a $title$",
    )
    with Image.open(file) as picture:
        assert picture.width > (1400 if with_truth else 900)  # a column more
        assert len(np.unique(np.asarray(picture.convert("L")))) > 50
