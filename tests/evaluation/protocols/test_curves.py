"""Curves and bars have the numbers of the results."""

from typing import TypeVar

import numpy as np
import pytest
from matplotlib.axes import Axes

from mappable.evaluation.protocol import View
from mappable.evaluation.protocols.curves import Curves
from mappable.evaluation.protocols.curves import draw as draw_curves
from mappable.evaluation.protocols.landmark_sweep import Sweep
from mappable.evaluation.protocols.landmark_sweep import draw as draw_sweep
from mappable.evaluation.protocols.localization import Localization
from mappable.evaluation.protocols.localization.report import RECALLS, draw_rejection, rejecting
from mappable.evaluation.protocols.table1.accuracy import draw_accuracy
from mappable.evaluation.result import Accuracy, Result
from mappable.evaluation.setup import Setup

R = TypeVar("R")


def found(results: list[Result], kind: type[R]) -> list[R]:
    return [one for result in results if (one := result.get(kind)) is not None]


def drawn(axes: Axes) -> dict[str, list[float]]:
    """Heights of all curves by legend label, without the number in the label."""
    return {str(line.get_label()).rsplit("  ", 1)[0]: list(line.get_ydata()) for line in axes.lines}


@pytest.mark.medium
def test_tolerance(results: list[Result], setup: Setup) -> None:
    top, *below = draw_curves(View(results, setup)).axes
    shelf, second, first, huber = found(results, Curves)
    curves = drawn(top)
    assert curves["upper bound"] == shelf.bound.tolist()
    assert curves["Off-the-shelf"] == shelf.percent.tolist()
    np.testing.assert_allclose(curves["Triplet"], np.mean([first.percent, second.percent], axis=0))
    assert {line.get_xdata()[0] for line in top.lines if len(line.get_xdata()) == 2} == {10.0, 25.0}
    assert drawn(below[0])["Triplet + Huber"] == huber.by_condition["night"].tolist()


def test_number_of_landmarks(results: list[Result], setup: Setup) -> None:
    axes = draw_sweep(View(results, setup)).axes[0]
    assert drawn(axes)["Triplet + Huber"] == found(results, Sweep)[3].positive
    assert drawn(axes)["upper bound"] == found(results, Sweep)[3].bound_positive


def test_one_bar_per_row_and_one_dot_per_seed(results: list[Result], setup: Setup) -> None:
    axes = draw_accuracy(View(results, setup)).axes[0]
    table = found(results, Accuracy)
    seeds = [table[2].positive[0], table[1].positive[0]]
    widths = [bar.get_width() for bar in axes.patches]
    assert widths[1::2] == pytest.approx([table[0].positive[0], np.mean(seeds), table[3].positive[0]])
    assert widths[4] == table[3].negative[0]
    assert list(axes.lines[0].get_xdata()) == seeds


def test_rejection(results: list[Result], setup: Setup) -> None:
    axes = draw_rejection(View(results, setup)).axes[0]
    _, precision, recall, _ = rejecting(found(results, Localization)[0], 10.0)
    curve = np.array(drawn(axes)["Off-the-shelf"])
    expected = 100 * np.interp(RECALLS, recall, precision)
    reached = max(recall) >= RECALLS
    np.testing.assert_allclose(curve[reached], expected[reached])
    assert np.isnan(curve[~reached]).all()
