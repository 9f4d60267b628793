"""Figures of landmarks, scatter, matrices, recovery and reliability show the numbers of the results."""

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest

from mappable.evaluation import paper
from mappable.evaluation.metrics import Correlation
from mappable.evaluation.protocol import NothingToDrawError, View
from mappable.evaluation.protocols.distance_matrices import Matrices
from mappable.evaluation.protocols.distance_matrices import draw as draw_matrices
from mappable.evaluation.protocols.localization.report import draw_localization
from mappable.evaluation.protocols.map_recovery import MapRecovery
from mappable.evaluation.protocols.map_recovery import draw as draw_map_recovery
from mappable.evaluation.protocols.proportionality import Proportionality, SequencePairs
from mappable.evaluation.protocols.proportionality import draw as draw_proportionality
from mappable.evaluation.protocols.table1.accuracy import draw_landmarks
from mappable.evaluation.result import Accuracy, Result
from mappable.evaluation.rows import ROWS
from mappable.evaluation.setup import Setup
from mappable.places.frames import Frame

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
    assert axes.get_title(loc="left") == "street: 90.0 % of queries have a landmark within 10 m"


@pytest.mark.medium
def test_places_along_a_line_in_frames(results: list[Result], setup: Setup) -> None:
    line = setup.places.replace(y=np.zeros(len(setup.places)), frames=Frame("street", unit="frames"))
    figure = draw_landmarks(View(results, replace(setup, places=line)))
    assert figure.axes[0].get_xlabel() == "x [frames]"
    figure.canvas.draw()
    every = [changed(results[0], "table1", landmarks=setup.references)]
    with pytest.raises(NothingToDrawError, match="dots"):
        draw_landmarks(View(every, replace(setup, places=line)))


def test_scatter(results: list[Result], setup: Setup) -> None:
    *panels, _ = draw_proportionality(View(results, setup)).axes
    for axes, result in zip(panels, [results[0], *results[2:]], strict=True):
        told = found(result, Proportionality)
        np.testing.assert_array_equal(axes.collections[0].get_array().filled(0), told.counts.T)
        pearson = told.sequences["test-sun"].pearson
        r, near = pearson.plain, pearson.within_negative
        assert axes.get_title() == f"{result.title}\nr = {r:.2f}, within 25 m: {near:.2f}"
    assert panels[0].get_xlabel() == "geometric distance [m]"


@pytest.mark.medium
def test_scatter_without_correlation(results: list[Result], setup: Setup) -> None:
    nothing = Correlation(None, None, None, None)
    facts = SequencePairs("", np.arange(3), 3, nothing, nothing)
    figure = draw_proportionality(View([changed(results[0], "proportionality", sequences={"$": facts})], setup))
    assert figure.axes[0].get_title().endswith("r = –, within 25 m: –")
    figure.canvas.draw()


def test_matrices(results: list[Result], setup: Setup) -> None:
    figure = draw_matrices(View(results, setup))
    images = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    told = [found(one, Matrices) for one in (results[0], *results[2:])]
    expected = [told[0].distances, *(one.feature for one in told)]
    for image, matrix in zip(images, expected, strict=True):
        np.testing.assert_array_equal(image, matrix)
    r = told[-1].pearson
    assert figure.axes[3].get_title() == f"Triplet + Huber\nr = {r:.2f}"
    assert figure.get_suptitle() == "train-sun (down) against test-sun (across); seed 0"
    assert draw_matrices(View(results[:1], setup)).get_suptitle() == "train-sun (down) against test-sun (across)"


def test_the_papers_figures_have_the_papers_models(results: list[Result], setup: Setup) -> None:
    rows = ("off-the-shelf", "triplet", "lazy-quadruplet", "lazy-quadruplet+distance", "triplet+huber")
    every = [replace(results[0], row=row, title=ROWS[row].title) for row in (*rows, "lazy-quadruplet+huber-ours")]
    best = found(every[-1], Accuracy)
    every[-1] = changed(every[-1], "table1", positive=[100.0] * len(best.positive))
    for draw, own in ((draw_proportionality, paper.FIGURE_1), (draw_matrices, paper.FIGURE_2)):
        figure = draw(View(every, setup))
        shown = {axes.get_title().split("\n")[0] for axes in figure.axes} - {"", "geometric"}
        ours = {"Off-the-shelf", "Lazy quadruplet", "Lazy quad. + Huber (ours)"}
        assert shown == {ROWS[row].title for row in own} | ours
        labels = [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel().endswith(("e image", "e distance"))]
        assert len(labels) == 2, "one per row of panels"


def test_recovery(results: list[Result], setup: Setup) -> None:
    lost = np.full((30, 2), np.nan)
    told = found(results[3], MapRecovery)
    lost[:20], length = told.positions["recovered"][:20], told.length
    other = {"recovered": lost, "smacof": np.full((30, 2), np.nan)}
    result = changed(results[3], "map-recovery", positions=told.positions | other)
    figure = draw_map_recovery(View([results[0], result], setup))
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles[1:] == [
        "completed",
        "true",
        "true",
        f"classical MDS: 1.0 m ({100 / length:.1f} %)",
        f"ours: 3.0 m ({300 / length:.1f} %)",
        f"ours, 10 known: 4.0 m ({400 / length:.1f} %)",
    ]
    recovered = next(axes for axes in figure.axes if axes.get_title().startswith("ours: "))
    np.testing.assert_array_equal(recovered.collections[0].get_offsets(), lost[:20])


def test_recovery_without_a_mask(results: list[Result], setup: Setup) -> None:
    paths = found(results[0], MapRecovery).positions
    lacking = {"masked": None, "completed": None, "positions": {"recovered": paths["recovered"]}}
    figure = draw_map_recovery(View([changed(results[0], "map-recovery", **lacking)], setup))
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles[:2] == ["true", "true"]  # the matrix, and the path
    assert titles[2].startswith("ours: 3.0 m")
    assert len(titles) == 3


def test_reliability(results: list[Result], setup: Setup) -> None:
    left, right = draw_localization(View(results, setup)).axes
    sure = results[3].conditions != "night"
    stated, true = (line.get_ydata() for line in left.lines)
    np.testing.assert_allclose(np.sort(found(results[3], Accuracy).errors[sure]) + 1.0, stated)
    assert len(true) == sure.sum()
    assert left.get_title() == "Triplet + Huber: 100 % of intervals contain the truth"
    assert [tick.get_text() for tick in right.get_yticklabels()] == ["night", "rain", "sun"]
    nominal, *marks = right.lines
    assert nominal.get_xdata() == [90.0, 90.0]
    for line in marks:
        np.testing.assert_array_equal(line.get_xdata(), [np.nan, 100.0, 100.0])


def test_no_confidence_no_figure(results: list[Result], setup: Setup) -> None:
    nobody = np.zeros(len(setup.queries), dtype=bool)
    with pytest.raises(NothingToDrawError, match="confident"):
        draw_localization(View([changed(results[0], "localization", confident=nobody)], setup))
