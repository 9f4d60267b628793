"""Exact search against plain sums of squared differences."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.arrays import Floats, Floats32, Ints
from mappable.errors import BadInputError
from mappable.maps import exact
from mappable.maps.exact import Exact


def unit(vectors: Floats) -> Floats32:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def walk(count: int, dimensions: int, seed: int = 0) -> Floats32:
    """Descriptors as along a route: neighbors are alike, and each has a look of its own."""
    rng = np.random.default_rng(seed)
    times = np.arange(count)[:, None] / 25 + rng.uniform(0, 100, 12)
    shared = np.sin(times) @ rng.normal(size=(12, dimensions))
    return unit(shared + 0.3 * rng.normal(size=(count, dimensions)))


def beside(vectors: Floats32, count: int, seed: int = 1) -> Floats32:
    """Queries near some of the descriptors."""
    rng = np.random.default_rng(seed)
    chosen = vectors[rng.integers(len(vectors), size=count)]
    return unit(chosen + 0.3 * rng.normal(size=chosen.shape) / np.sqrt(vectors.shape[1]))


def by_differences(vectors: Floats32, queries: Floats32, count: int) -> tuple[Ints, Floats]:
    """Float64 throughout."""
    squared = np.stack(
        [np.square(vectors.astype(float) - query).sum(axis=1) for query in queries.astype(float)]
    )
    rows = np.argsort(squared, axis=1, kind="stable")[:, :count]
    return rows, np.take_along_axis(squared, rows, axis=1)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that little data meet the ends of all blocks."""
    for name, value in {"SCORES": 300, "NUMBERS": 50}.items():
        monkeypatch.setattr(exact, name, value)


@pytest.mark.parametrize(
    ("landmarks", "dimensions"), [(1, 1), (5, 3), (100, 16), (257, 40), (60, 4096)]
)
@pytest.mark.parametrize("queries", [1, 2, 20])
@pytest.mark.parametrize("count", [1, 4, 100])
def test_it_finds_what_differences_find(
    landmarks: int, dimensions: int, queries: int, count: int
) -> None:
    vectors = walk(landmarks, dimensions)
    asked, count = beside(vectors, queries), min(count, landmarks)
    rows, squared = Exact(vectors).nearest(asked, count)
    expected_rows, expected = by_differences(vectors, asked, count)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(squared, expected, rtol=2e-5)
    assert (rows.dtype, squared.dtype) == (np.int64, np.float32)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("queries", [1, 3, 30])
@pytest.mark.parametrize("count", [1, 5, 70])
def test_blocks_make_no_difference(kind: type, queries: int, count: int) -> None:
    vectors = walk(101, 12).astype(kind)
    asked = beside(vectors.astype(np.float32), queries)
    rows, squared = Exact(vectors).nearest(asked, count)
    expected_rows, expected = by_differences(vectors.astype(np.float32), asked, count)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(squared, expected, rtol=2e-5)


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 3), st.integers(1, 5))
def test_of_equally_near_ones_the_lower_row_comes_first(
    seed: int, landmarks: int, dimensions: int, queries: int
) -> None:
    """Small whole numbers, whose distances are exact and often equal."""
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-1, 2, (landmarks, dimensions)).astype(np.float32)
    asked = rng.integers(-1, 2, (queries, dimensions)).astype(np.float32)
    count = int(rng.integers(1, landmarks + 1))
    rows, squared = Exact(vectors).nearest(asked, count)
    expected_rows, expected = by_differences(vectors, asked, count)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(squared, expected)


def test_an_answer_is_the_same_alone_and_in_a_batch_and_from_many_threads() -> None:
    vectors = walk(500, 700)
    asked, store = beside(vectors, 40), Exact(vectors)
    rows, squared = store.nearest(asked, 4)
    with ThreadPoolExecutor(4) as pool:
        alone = list(
            pool.map(
                lambda number: Exact(vectors).nearest(asked[number : number + 1], 4), range(40)
            )
        )
        shared = list(
            pool.map(lambda number: store.nearest(asked[number : number + 1], 4), range(40))
        )
    for answers in (alone, shared):
        np.testing.assert_array_equal(np.concatenate([answer[0] for answer in answers]), rows)
        np.testing.assert_allclose(
            np.concatenate([answer[1] for answer in answers]), squared, rtol=2e-5
        )


@pytest.mark.medium
def test_half_precision_ranks_as_single_precision_does() -> None:
    """But where two landmarks are nearly equally near: closer than what rounding does to a squared
    distance.
    """
    vectors = walk(1500, 4096)
    asked = beside(vectors, 200)
    rows, squared = Exact(vectors).nearest(asked, 2)
    in_half, squared_in_half = Exact(vectors.astype(np.float16)).nearest(asked, 1)
    change = np.abs(squared_in_half[:, 0] - squared[:, 0]).max()
    assert change < 1e-4
    clear = squared[:, 1] - squared[:, 0] > 2 * change
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(in_half[clear, 0], rows[clear, 0])
    assert (in_half[:, 0] == rows[:, 0]).mean() > 0.99


def test_what_cannot_be_searched_is_refused() -> None:
    vectors = walk(5, 4)
    with pytest.raises(BadInputError, match="0 x 4"):
        Exact(vectors[:0])
    with pytest.raises(BadInputError, match=r"dimensions.* 4"):
        Exact(vectors[0])
    with pytest.raises(BadInputError, match="float64"):
        Exact(vectors.astype(np.float64))  # type: ignore[arg-type]
    for bad in (np.nan, np.inf, 1e30):
        with pytest.raises(BadInputError, match="landmark 3"):
            Exact(np.where(np.arange(5)[:, None] == 3, np.float32(bad), vectors)).nearest(
                vectors, 1
            )
    for bad in (np.nan, -np.inf):
        with pytest.raises(BadInputError, match="landmark 3"):
            Exact(np.where(np.arange(5)[:, None] == 3, bad, vectors).astype(np.float16)).nearest(
                vectors, 1
            )


def test_what_cannot_be_asked_is_refused() -> None:
    vectors = walk(5, 4)
    store = Exact(vectors)
    for queries, shape in ((vectors[0], "4"), (vectors[:, :3], "5 x 3")):
        with pytest.raises(BadInputError, match=rf"n x 4.*{shape}"):
            store.nearest(queries, 1)
    with pytest.raises(BadInputError, match="query 2"):
        store.nearest(np.where(np.arange(5)[:, None] == 2, np.float32(np.nan), vectors), 1)
    for count in (0, 6):
        with pytest.raises(BadInputError, match=f"{count} nearest of 5"):
            store.nearest(vectors, count)
