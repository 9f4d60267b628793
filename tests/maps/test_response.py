"""How feature distances grow with distances in the world."""

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.maps.response import Response


def test_floor_plateau_and_reach_of_a_known_curve() -> None:
    random = np.random.default_rng(0)
    metres = random.uniform(0, 100, 50_000)
    squared = 0.2 + 0.5 * np.minimum(metres / 20, 1.0) + 0.02 * random.normal(size=len(metres))
    found = Response.fit(squared, metres)
    assert found.floor == pytest.approx(0.2, abs=0.01)
    assert found.plateau == pytest.approx(0.7, abs=0.01)
    assert found.reach == pytest.approx(18.0, abs=2.0)  # nine tenths of the way up
    assert (np.diff(found.squared) >= 0).all()
    assert (np.diff(found.metres) > 0).all()


def test_pairs_in_any_order_give_the_same() -> None:
    random = np.random.default_rng(0)
    metres, order = random.uniform(0, 50, 3000), random.permutation(3000)
    squared = metres / 50 + 0.1 * random.random(3000)
    assert Response.fit(squared, metres) == Response.fit(squared[order], metres[order])


def test_too_few_pairs_and_distances_that_tell_nothing() -> None:
    with pytest.raises(BadInputError, match=r"99 pairs"):
        Response.fit(np.ones(99), np.ones(99))
    with pytest.raises(BadInputError, match="grow"):
        Response.fit(np.ones(2000), np.arange(2000.0))
