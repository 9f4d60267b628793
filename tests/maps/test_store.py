"""Squared distances between all pairs of descriptors, against differences in double precision."""

import numpy as np
import pytest

from mappable.arrays import Floats, Floats32
from mappable.maps.exact import Exact


def unit(count: int, dimensions: int, seed: int = 0) -> Floats:
    vectors = np.random.default_rng(seed).normal(size=(count, dimensions))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def by_differences(first: Floats32, second: Floats32) -> Floats:
    return np.square(first[:, None].astype(np.float64) - second[None].astype(np.float64)).sum(
        axis=2
    )


@pytest.mark.parametrize("dimensions", [3, 64, 4096])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_search_among_near_duplicates_has_the_order_of_double_precision(
    dimensions: int, kind: type
) -> None:
    """300 descriptors within 1e-3 of each other, with exact duplicates: products alone would order
    them at random.
    """
    centre, noise = unit(1, dimensions), unit(300, dimensions, seed=3)
    steps = np.linspace(0.0, 1e-3, 300)[:, None]
    stored = (centre + steps * noise).astype(kind)
    stored[200:220] = stored[0]
    queries = (centre + 1e-4 * noise[:4]).astype(np.float32)
    expected = by_differences(queries, stored.astype(np.float32))
    rows, squared = Exact(stored).nearest(queries, 300)
    found = np.take_along_axis(expected, rows, axis=1)
    np.testing.assert_allclose(squared, found, rtol=1e-5, atol=1e-20)
    # Sorted, but for rounding of the differences.
    assert (np.diff(found, axis=1) >= -1e-5 * found[:, 1:]).all()
    twins = np.array([*range(200, 220)])
    for own in rows:
        at = np.flatnonzero(np.isin(own, [0, *twins]))
        assert np.ptp(at) == 20 or kind is np.float16  # equal ones are together
        assert own[at].tolist() == sorted(own[at].tolist())


def test_a_search_does_not_lose_the_nearest_among_landmarks_of_very_different_lengths() -> None:
    vectors = (unit(400, 32) * np.geomspace(1e-3, 1e3, 400)[:, None]).astype(np.float32)
    queries = np.concatenate([vectors[::50] * np.float32(1.00001), vectors[::90]])
    expected = by_differences(queries, vectors)
    rows, squared = Exact(vectors).nearest(queries, 3)
    np.testing.assert_allclose(squared, np.sort(expected, axis=1)[:, :3], rtol=1e-4, atol=1e-9)
    np.testing.assert_array_equal(rows[:, 0], expected.argmin(axis=1))
