"""Which models a figure shows."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from mappable.evaluation import paper
from mappable.evaluation.models import best_of, few_of, models_of
from mappable.evaluation.protocol import NothingToDrawError, View
from mappable.evaluation.protocols.curves import Curves
from mappable.evaluation.result import Accuracy, Result
from mappable.evaluation.rows import ROWS
from mappable.evaluation.setup import Setup

pytestmark = pytest.mark.medium
Make = Callable[..., list[Result]]


@pytest.fixture
def made(results: list[Result]) -> Make:
    """Results of some rows with accuracy only."""

    def make(**accuracies: float) -> list[Result]:
        known = results[0].get(Accuracy)
        assert known is not None
        scored = {row: {"table1": replace(known, positive=[percent] * 5)} for row, percent in accuracies.items()}
        return [replace(results[0], row=row, scored=found) for row, found in scored.items()]

    return make


def rows(results: Sequence[Result]) -> list[str]:
    return [one.row for one in few_of(models_of(results, Accuracy))]


def test_seeds_of_a_row_are_one_model(results: list[Result]) -> None:
    models = models_of(results[::-1], Accuracy)
    assert [one.row for one in models] == ["off-the-shelf", "triplet", "triplet+huber"]
    assert [one.seed for one in models[1].results] == [0, 1]
    each = [one.positive[0] for one in models[1].each(Accuracy)]
    assert models[1].accuracies == each
    assert models[1].accuracy == np.mean(each)
    curves = [one.percent for one in models[1].each(Curves)]
    np.testing.assert_allclose(models[1].mean(Curves, lambda one: one.percent), np.mean(curves, axis=0))


def test_a_figure_shows_three_models(made: Make) -> None:
    shelf, combined = {"off-the-shelf": 10.0}, {"triplet+huber": 80.0, "lazy-quadruplet+huber": 90.0}
    pure = {"triplet": 70.0, "quadruplet": 99.0}
    assert rows(made(**shelf, **combined, **pure)) == ["off-the-shelf", "quadruplet", "lazy-quadruplet+huber"]
    assert rows(made(**shelf, **combined, **pure, **{"lazy-quadruplet": 5.0}))[1] == "lazy-quadruplet"
    assert rows(made(**pure)) == ["triplet", "quadruplet"]
    assert rows(made(mine=1.0, yours=np.nan, **shelf)) == ["off-the-shelf", "mine", "yours"]
    assert rows(made(mine=1.0)) == ["mine"]


def test_the_models_of_the_papers_figures_are_also_shown(made: Make) -> None:
    every = made(**{row: float(number) for number, row in enumerate(ROWS)})
    models = models_of(every, Accuracy)
    assert [one.row for one in few_of(models, paper.FIGURE_1)] == [
        *("off-the-shelf", "lazy-quadruplet", "lazy-quadruplet+distance", "lazy-quadruplet+huber-ours")
    ]
    assert [one.row for one in few_of(models, paper.FIGURE_2)] == [
        *("off-the-shelf", "triplet", "lazy-quadruplet", "triplet+huber", "lazy-quadruplet+huber-ours")
    ]
    assert few_of(models[:2], paper.FIGURE_1) == models[:2], "those that were trained"


def test_the_best_model_is_trained_and_combines_losses_if_possible(made: Make) -> None:
    models = models_of(made(**{"off-the-shelf": 99.0, "triplet": 90.0, "triplet+huber": 80.0, "mine": 95.0}), Accuracy)
    assert best_of(models).row == "triplet+huber"


def test_nothing_to_draw(results: list[Result], setup: Setup) -> None:
    with pytest.raises(NothingToDrawError, match="Curves"):
        View([replace(results[0], scored={})], setup).drawn(Curves)
