"""Which models a figure shows."""

from collections.abc import Sequence

import numpy as np
import pytest

from mappable.evaluation.models import few_of, models_of
from mappable.evaluation.protocols.curves import Curves
from mappable.evaluation.result import Accuracy, Result

pytestmark = pytest.mark.medium


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
    np.testing.assert_allclose(
        models[1].mean(Curves, lambda one: one.percent), np.mean(curves, axis=0)
    )
