"""The one path from ranges to positions: steps that no range measures are assumed, counted and said."""

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.recovery.anchored.pipeline import recover_anchored
from mappable.recovery.drive import missing_steps, recover_drive
from mappable.recovery.hints import Anchors
from mappable.recovery.ranges import Ranges
from mappable.recovery.report import report
from mappable.recovery.unanchored.pipeline import recover

COUNT = 12
STEP = 2.0


def chain(*missing: int) -> Ranges:
    """Points at equal steps on a line, with ranges to the next and the one after, but none across `missing` steps."""
    pairs = [(i, j) for i in range(COUNT) for j in (i + 1, i + 2) if j < COUNT]
    kept = [(i, j) for i, j in pairs if not any(i <= at < j for at in missing)]
    i, j = np.array(kept).T
    return Ranges(COUNT, i, j, STEP * (j - i), 0.1)


def test_a_step_is_assumed_where_no_range_joins_an_image_to_the_next() -> None:
    ranges = chain(3, 7)
    assert missing_steps(ranges).tolist() == [3, 7]
    recovered = recover_drive(ranges)
    assert recovered.assumed == 2
    assert set(recovered.parts.tolist()) == {0}
    assert recovered.used.shape == (len(ranges),)
    assert "2 of 12 images" in recovered.undetermined[-1]
    assert "2 m" in recovered.undetermined[-1]
    steps = np.linalg.norm(np.diff(recovered.positions, axis=0), axis=1)
    np.testing.assert_allclose(steps, STEP, atol=0.2)
    assert (report(ranges, recovered).assumed, report(ranges, recovered).ranges) == (2, len(ranges))


@pytest.mark.parametrize("options", [{"ordered": False}, {"assume_steps": False}])
def test_without_an_order_or_when_not_wanted_nothing_is_assumed(options: dict[str, bool]) -> None:
    recovered = recover_drive(chain(3, 7), **options)  # type: ignore[arg-type]
    assert recovered.assumed == 0
    assert set(recovered.parts.tolist()) == {0, 1, 2}


def test_a_drive_without_missing_steps_is_recovered_as_ever() -> None:
    ranges = chain()
    np.testing.assert_array_equal(recover_drive(ranges, seed=3).positions, recover(ranges, seed=3).positions)


@pytest.mark.medium
@pytest.mark.usefixtures("few_sweeps")
def test_known_positions_hold_both_sides_of_a_missing_step() -> None:
    ranges = chain(5)
    anchors = Anchors([0, 4], [[0.0, 0.0], [4 * STEP, 0.0]], 0.1)
    assert np.isnan(recover_anchored(ranges, anchors).positions[6:]).all()
    recovered = recover_drive(ranges, anchors=anchors)
    assert recovered.assumed == 1
    np.testing.assert_allclose(recovered.positions[6], [6 * STEP, 0.0], atol=STEP)


def test_images_that_stand_still_still_have_steps() -> None:
    still = Ranges(4, [0, 1, 0], [1, 2, 2], [0.0, 0.0, 0.0], 0.3)
    recovered = recover_drive(still)
    assert recovered.assumed == 1
    assert np.isfinite(recovered.positions).all()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(BadInputError, match="no ranges"):
        recover_drive(Ranges(3, [], [], [], 1.0))
    with pytest.raises(BadInputError, match="smacof"):
        recover_drive(chain(), anchors=Anchors([0], [[0.0, 0.0]], 0.1), method="smacof")
