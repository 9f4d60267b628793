"""The picture of a recovery: written for every mix of what is known, and what it shows."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.recovery import figure
from mappable.recovery.figure import draw_recovery
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from simulated_ranges import NOISES, measure, route

TRUTH = route("loop", 120, seed=3)
RANGES = measure(TRUTH, NOISES["mid"], seed=0, radius=20.0)


def result(positions: Floats) -> Recovered:
    return Recovered(positions, np.zeros(len(positions), dtype=np.int64), np.ones(len(RANGES), dtype=bool), 1.0, ())


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


def test_the_matrices_are_those_of_the_points_in_order() -> None:
    shown = figure._matrices(RANGES, np.arange(120), 2 * TRUTH, TRUTH)
    assert list(shown) == ["measured", "recovered", "true"]
    apart = np.linalg.norm(TRUTH[:, None] - TRUTH, axis=2)
    np.testing.assert_allclose(shown["true"], apart)
    np.testing.assert_allclose(shown["recovered"], 2 * apart)
    measured = shown["measured"]
    np.testing.assert_array_equal(measured[RANGES.i, RANGES.j], RANGES.metres)
    assert np.isfinite(measured).sum() == 120 + 2 * len(RANGES)
    np.testing.assert_array_equal(measured, measured.T)


def test_of_many_points_some_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure, "MATRIX_POINTS", 40)
    shown = figure._matrices(RANGES, np.arange(120), TRUTH, None)
    assert shown["measured"].shape == shown["recovered"].shape == (40, 40)
    assert np.isfinite(shown["measured"]).sum() > 40


@pytest.mark.medium
def test_points_of_other_parts_or_without_a_position_are_left_out(tmp_path: Path) -> None:
    positions = TRUTH.copy()
    positions[5] = np.nan
    parts = np.zeros(120, dtype=np.int64)
    parts[100:] = 1
    recovered = Recovered(positions, parts, np.ones(len(RANGES), dtype=bool), 1.0, ())
    draw_recovery(tmp_path / "some.svg", RANGES, recovered, truth=TRUTH)
    assert (tmp_path / "some.svg").read_text().startswith("<?xml")
    parts[:] = np.arange(120)
    with pytest.raises(BadInputError, match="two points"):
        draw_recovery(tmp_path / "none.png", RANGES, recovered)


@pytest.mark.medium
def test_the_same_recovery_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        draw_recovery(tmp_path / name, RANGES, result(TRUTH), truth=TRUTH)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_picture_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for file, part in ((tmp_path / "a.xyz", "written as .png"), (tmp_path / "file/a.png", "cannot be written")):
        with pytest.raises(BadInputError, match=part):
            draw_recovery(file, RANGES, result(TRUTH))


@pytest.mark.medium
def test_two_points_at_one_place_can_be_drawn(tmp_path: Path) -> None:
    ranges = Ranges(2, [0], [1], [0.0], 1.0)
    recovered = Recovered(np.zeros((2, 2)), np.zeros(2, dtype=np.int64), np.ones(1, dtype=bool), 1.0, ())
    draw_recovery(tmp_path / "one.png", ranges, recovered)
    assert (tmp_path / "one.png").stat().st_size > 1000
