"""Both orders of elimination against dense linear algebra."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappable.arrays import Floats, Ints
from mappable.recovery.anchored.dissection import Dissection, plan_elimination
from mappable.recovery.anchored.elimination import Elimination, SingularError


def system(count: int, k: int, reach: int, seed: int) -> tuple[Ints, Ints, Floats, Floats, Floats]:
    """A positive definite matrix over shuffled points of a route, as blocks and dense."""
    rng = np.random.default_rng(seed)
    name = rng.permutation(count)
    near = [(a, b) for a in range(count) for b in range(a + 1, min(a + reach + 1, count)) if rng.random() < 0.8]
    if count > 4:
        near.append((0, count - 1))
    pairs = np.array(sorted(set(near)), dtype=np.int64).reshape(-1, 2)
    i, j = name[pairs[:, 0]], name[pairs[:, 1]]
    dense = np.zeros((count * k, count * k))
    coupling = rng.normal(size=(len(pairs), k, k))
    for (a, b), block in zip(zip(i, j, strict=True), coupling, strict=True):
        dense[a * k : a * k + k, b * k : b * k + k] = block
        dense[b * k : b * k + k, a * k : a * k + k] = block.T
    dense += np.eye(count * k) * (np.abs(dense).sum(1).max() + 1)
    turned = rng.normal(size=(count, k, k))
    turned = turned @ turned.transpose(0, 2, 1)
    for a in range(count):
        dense[a * k : a * k + k, a * k : a * k + k] += turned[a]
    diagonal = np.stack([dense[a * k : a * k + k, a * k : a * k + k] for a in range(count)])
    return i, j, diagonal, coupling, dense


@pytest.mark.medium
@given(st.integers(1, 90), st.integers(1, 4), st.integers(1, 6), st.integers(0, 1000), st.booleans())
def test_it_solves_and_inverts_as_dense_algebra_does(count: int, k: int, reach: int, seed: int, nested: bool) -> None:
    i, j, diagonal, coupling, dense = system(count, k, reach, seed)
    hub = seed % count if seed % 3 == 0 else None
    plan = Dissection(count, k, i, j, hub) if nested else Elimination(count, k, i, j)
    factor = plan.factor(diagonal, coupling)
    assert factor.log_determinant() == pytest.approx(np.linalg.slogdet(dense)[1])
    right = np.random.default_rng(seed).normal(size=(count, k))
    np.testing.assert_allclose(factor.solve(right).ravel(), np.linalg.solve(dense, right.ravel()), atol=1e-10)
    inverse = np.linalg.inv(dense).reshape(count, k, count, k).transpose(0, 2, 1, 3)
    own, between = factor.inverse()
    np.testing.assert_allclose(own, inverse[np.arange(count), np.arange(count)], atol=1e-10)
    np.testing.assert_allclose(between, inverse[i, j], atol=1e-10)


@pytest.mark.parametrize("order", [Elimination, Dissection])
def test_draws_have_the_covariance_of_the_inverse(order: type[Elimination] | type[Dissection]) -> None:
    i, j, diagonal, coupling, dense = system(4, 2, 2, seed=1)
    factor = order(4, 2, i, j).factor(diagonal, coupling)
    rng = np.random.default_rng(0)
    draws = np.stack([factor.draw(rng).ravel() for _ in range(20_000)])
    np.testing.assert_allclose(np.cov(draws.T), np.linalg.inv(dense), atol=0.05 * np.linalg.inv(dense).max())


def test_a_grid_is_dissected_and_a_route_is_not() -> None:
    side = 45
    number = np.arange(side**2).reshape(side, side)
    i = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    j = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    plan = plan_elimination(side**2, 6, i, j)
    assert isinstance(plan, Dissection)
    assert sorted(np.concatenate([front.own for front in plan.fronts]).tolist()) == list(range(side**2))
    assert isinstance(plan_elimination(400, 3, np.arange(399), np.arange(1, 400)), Elimination)


@pytest.mark.parametrize("order", [Elimination, Dissection])
def test_a_system_without_a_solution_is_refused(order: type[Elimination] | type[Dissection]) -> None:
    plan = order(2, 1, np.array([0]), np.array([1]))
    with pytest.raises(SingularError, match="points"):
        plan.factor(np.ones((2, 1, 1)), np.ones((1, 1, 1)) * 2)
