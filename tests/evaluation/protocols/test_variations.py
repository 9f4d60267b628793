"""Varied settings: the figure, and the section of the report with the gain of each change."""

from dataclasses import replace

import pytest

from mappable.evaluation.protocol import NothingToDrawError, View
from mappable.evaluation.protocols.table1.variations import draw_variations, variations_section
from mappable.evaluation.result import Accuracy, Result
from mappable.evaluation.setup import Setup
from mappable.evaluation.summary import difference


@pytest.fixture(scope="module")
def varied(results: list[Result]) -> list[Result]:
    """Triplet with a margin of 0.1; with others, one of them only as good as off the shelf; and with two changes."""
    shelf, triplet = results[0], results[2]
    base = replace(triplet, settings={**triplet.settings, "margin": 0.1})
    rows = {"margin=0.3": base, "margin=1e-2": shelf, "loss=other": base, "margin=1, light=2": base}
    return [base, *(replace(one, row=f"triplet, {row}", title=row, seed=base.seed) for row, one in rows.items())]


def test_one_panel_per_setting_with_its_values_in_order(varied: list[Result], setup: Setup) -> None:
    figure = draw_variations(View(varied, setup))
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == ["margin"]
    assert [tick.get_text() for tick in panels[0].get_xticklabels()] == ["0.01", "0.1", "0.3"]
    line = panels[0].lines[0].get_ydata()
    assert line[1] == line[2] > line[0]


def test_without_variations_there_is_nothing_to_draw(results: list[Result], setup: Setup) -> None:
    with pytest.raises(NothingToDrawError):
        draw_variations(View(results, setup))
    view = View(results, setup)
    assert variations_section(view, view.models(Accuracy)) == []


def test_each_change_is_compared_with_the_row_without_it(varied: list[Result], setup: Setup) -> None:
    view = View(varied, setup)
    (section,) = variations_section(view, view.models(Accuracy))
    (table,) = section.tables
    assert table.columns[1].texts == ["margin 0.3", "margin 1e-2", "loss other", "margin 1, light 2"]
    lost = difference([varied[2]], [varied[0]])
    assert lost is not None
    assert table.columns[4].cells == [0.0, lost.mean, 0.0, 0.0]
    assert lost.mean < 0
    assert section.sentences[1].startswith("Triplet without changes: ")
