"""Figures of landmarks, scatter, matrices, recovery and reliability show the numbers of the results."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest

from mappable.evaluation.protocol import NothingToDrawError, View
from mappable.evaluation.protocols.distance_matrices import Matrices
from mappable.evaluation.protocols.distance_matrices import draw as draw_matrices
from mappable.evaluation.protocols.localization.report import draw_localization
from mappable.evaluation.protocols.map_recovery import MapRecovery
from mappable.evaluation.protocols.map_recovery import draw as draw_map_recovery
from mappable.evaluation.protocols.proportionality import Proportionality
from mappable.evaluation.protocols.proportionality import draw as draw_proportionality
from mappable.evaluation.protocols.table1.accuracy import draw_landmarks
from mappable.evaluation.result import Accuracy, Result
from mappable.evaluation.setup import Setup

R = TypeVar("R")


def found(result: Result, kind: type[R]) -> R:
    one = result.get(kind)
    assert one is not None
    return one


def changed(result: Result, protocol: str, **values: Any) -> Result:
    """A result in which one protocol has another result."""
    before: Any = result.scored[protocol]
    return replace(result, scored=dict(result.scored) | {protocol: replace(before, **values)})


def test_landmarks(results: list[Result], setup: Setup) -> None:
    bound = np.where(np.arange(len(setup.queries)) < 9, 11.0, 10.0)
    axes = draw_landmarks(View([changed(results[0], "table1", bound=bound)], setup)).axes[0]
    at = setup.places.positions
    shown = [setup.references, setup.queries, found(results[0], Accuracy).landmarks, setup.queries[:9]]
    for dots, rows in zip(axes.collections, shown, strict=True):
        np.testing.assert_array_equal(dots.get_offsets(), at[rows])


def test_scatter(results: list[Result], setup: Setup) -> None:
    *panels, _ = draw_proportionality(View(results, setup)).axes
    for axes, result in zip(panels, [results[0], *results[2:]], strict=True):
        counts = found(result, Proportionality).counts
        np.testing.assert_array_equal(axes.collections[0].get_array().filled(0), counts.T)


def test_matrices(results: list[Result], setup: Setup) -> None:
    figure = draw_matrices(View(results, setup))
    images = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    told = [found(one, Matrices) for one in (results[0], *results[2:])]
    expected = [told[0].distances, *(one.feature for one in told)]
    for image, matrix in zip(images, expected, strict=True):
        np.testing.assert_array_equal(image, matrix)


def test_recovery(results: list[Result], setup: Setup) -> None:
    lost = np.full((30, 2), np.nan)
    told = found(results[3], MapRecovery)
    lost[:20] = told.positions["recovered"][:20]
    other = {"recovered": lost, "smacof": np.full((30, 2), np.nan)}
    result = changed(results[3], "map-recovery", positions=told.positions | other)
    figure = draw_map_recovery(View([results[0], result], setup))
    recovered = next(axes for axes in figure.axes if axes.get_title().startswith("ours: "))
    np.testing.assert_array_equal(recovered.collections[0].get_offsets(), lost[:20])


def test_reliability(results: list[Result], setup: Setup) -> None:
    left, right = draw_localization(View(results, setup)).axes
    sure = results[3].conditions != "night"
    stated, true = (line.get_ydata() for line in left.lines)
    np.testing.assert_allclose(np.sort(found(results[3], Accuracy).errors[sure]) + 1.0, stated)
    assert len(true) == sure.sum()
    nominal, *marks = right.lines
    assert nominal.get_xdata() == [90.0, 90.0]
    for line in marks:
        np.testing.assert_array_equal(line.get_xdata(), [np.nan, 100.0, 100.0])


def test_no_confidence_no_figure(results: list[Result], setup: Setup) -> None:
    nobody = np.zeros(len(setup.queries), dtype=bool)
    with pytest.raises(NothingToDrawError, match="confident"):
        draw_localization(View([changed(results[0], "localization", confident=nobody)], setup))
