"""Landmarks, scatter, matrices, recovery and reliability show what was found."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mappable.evaluation.figures.landmarks import draw_landmarks
from mappable.evaluation.figures.matrices import draw_matrices
from mappable.evaluation.figures.models import NothingToDrawError
from mappable.evaluation.figures.recovery import draw_map_recovery
from mappable.evaluation.figures.reliability import draw_localization
from mappable.evaluation.figures.scatter import draw_proportionality
from mappable.evaluation.result import Result
from mappable.evaluation.scoring import Scored
from mappable.evaluation.setup import Setup
from mappable.places.frames import Frame


def changed(result: Result, protocol: str, values: dict[str, Any], **arrays: Any) -> Result:
    """A result in which a protocol found something else."""
    before = result.scored[protocol]
    scored = Scored(before.values | values, before.arrays | arrays)
    return replace(result, scored=dict(result.scored) | {protocol: scored})


def test_landmarks(results: list[Result], setup: Setup) -> None:
    bound = np.where(np.arange(len(setup.queries)) < 9, 11.0, 10.0)
    axes = draw_landmarks([changed(results[0], "table1", {}, bound=bound)], setup).axes[0]
    at = setup.places.positions
    shown = [setup.references, setup.queries, results[0].arrays("table1")["landmarks"], setup.queries[:9]]
    for dots, rows in zip(axes.collections, shown, strict=True):
        np.testing.assert_array_equal(dots.get_offsets(), at[rows])
    assert axes.get_title(loc="left") == "street: 90.0 % of queries have a landmark within 10 m"


@pytest.mark.medium
def test_places_along_a_line_in_frames(results: list[Result], setup: Setup) -> None:
    line = setup.places.replace(y=np.zeros(len(setup.places)), frames=Frame("street", unit="frames"))
    figure = draw_landmarks(results, replace(setup, places=line))
    assert figure.axes[0].get_xlabel() == "x [frames]"
    figure.canvas.draw()
    every = [changed(results[0], "table1", {}, landmarks=setup.references)]
    with pytest.raises(NothingToDrawError, match="a row of dots"):
        draw_landmarks(every, replace(setup, places=line))


def test_scatter(results: list[Result], setup: Setup) -> None:
    *panels, _ = draw_proportionality(results, setup).axes
    for axes, result in zip(panels, [results[0], *results[2:]], strict=True):
        np.testing.assert_array_equal(
            axes.collections[0].get_array().filled(0), result.arrays("proportionality")["counts"].T
        )
        facts = result.scored["proportionality"].values["sequences"]["test-sun"]["pearson"]
        r, near = facts["plain"], facts["within negative radius"]
        assert axes.get_title() == f"{result.title}\nr = {r:.2f}, within 25 m: {near:.2f}"
    assert panels[0].get_xlabel() == "geometric distance [m]"


@pytest.mark.medium
def test_scatter_without_correlation(results: list[Result], setup: Setup) -> None:
    nothing = dict.fromkeys(("plain", "squared", "within positive radius", "within negative radius"))
    facts = {"condition": "", "images": 3, "pairs": 3, "pearson": nothing, "spearman": nothing}
    figure = draw_proportionality([changed(results[0], "proportionality", {"sequences": {"$": facts}})], setup)
    assert figure.axes[0].get_title().endswith("r = –, within 25 m: –")
    figure.canvas.draw()


def test_matrices(results: list[Result], setup: Setup) -> None:
    figure = draw_matrices(results, setup)
    images = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    found = [one.arrays("distance-matrices") for one in (results[0], *results[2:])]
    expected = [found[0]["metres"], *(one["feature"] for one in found)]
    for image, matrix in zip(images, expected, strict=True):
        np.testing.assert_array_equal(image, matrix)
    r = results[3].scored["distance-matrices"].values["pearson"]
    assert figure.axes[3].get_title() == f"Triplet + Huber\nr = {r:.2f}"
    assert figure.get_suptitle() == "train-sun (down) against test-sun (across); seed 0"
    assert draw_matrices(results[:1], setup).get_suptitle() == "train-sun (down) against test-sun (across)"


def test_recovery(results: list[Result], setup: Setup) -> None:
    lost = np.full((30, 2), np.nan)
    lost[:20] = results[3].arrays("map-recovery")["positions_recovered"][:20]
    nowhere = np.full((30, 2), np.nan)
    result = changed(results[3], "map-recovery", {}, positions_recovered=lost, positions_smacof=nowhere)
    figure = draw_map_recovery([results[0], result], setup)
    length = result.scored["map-recovery"].values["length"]
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


def test_reliability(results: list[Result], setup: Setup) -> None:
    left, right = draw_localization(results, setup).axes
    sure = results[3].conditions != "night"
    stated, true = (line.get_ydata() for line in left.lines)
    np.testing.assert_allclose(np.sort(results[3].arrays("table1")["errors"][sure]) + 1.0, stated)
    assert len(true) == sure.sum()
    assert left.get_title() == "Triplet + Huber: 100 % of intervals hold the truth"
    assert [tick.get_text() for tick in right.get_yticklabels()] == ["sun", "rain", "night"]
    nominal, *marks = right.lines
    assert nominal.get_xdata() == [90.0, 90.0]
    for line in marks:
        np.testing.assert_array_equal(line.get_xdata(), [100.0, 100.0, np.nan])


def test_no_confidence_no_figure(results: list[Result], setup: Setup) -> None:
    nobody = np.zeros(len(setup.queries), dtype=bool)
    with pytest.raises(NothingToDrawError, match="no model is confident of any query"):
        draw_localization([changed(results[0], "localization", {}, confident=nobody)], setup)
