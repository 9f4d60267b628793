"""The polish: the same minimum as a general solver, by a matrix dense or sparse."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from mappable.arrays import Floats
from mappable.recovery.align import aligned_score
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.normal import Information, directions, gradient
from mappable.recovery.unanchored.polish import polish


def noisy(count: int, dimensions: int, seed: int = 0) -> tuple[Floats, Ranges]:
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 10, (count, dimensions))
    i, j = np.triu_indices(count, 1)
    kept = rng.random(len(i)) < 0.7
    i, j = i[kept], j[kept]
    sigma = rng.uniform(0.05, 0.2, len(i))
    metres = np.linalg.norm(points[i] - points[j], axis=1) + sigma * rng.standard_normal(len(i))
    return points, Ranges(count, i, j, np.abs(metres), sigma)


def jacobian(ranges: Ranges, points: Floats) -> Floats:
    """Range by range, with loops."""
    rows = np.zeros((len(ranges), *points.shape))
    for row, (i, j, sigma) in enumerate(zip(ranges.i, ranges.j, ranges.sigma, strict=True)):
        apart = points[i] - points[j]
        rows[row, i] = apart / np.sqrt((apart**2).sum()) / sigma
        rows[row, j] = -rows[row, i]
    return rows.reshape(len(ranges), -1)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("most_dense", [0, 10_000])
def test_normal_equations_by_loops(dimensions: int, most_dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mappable.recovery.unanchored.normal.DENSE", most_dense)
    monkeypatch.setattr("mappable.recovery.unanchored.normal.DENSER", most_dense)
    points, ranges = noisy(9, dimensions)
    slopes, residuals = directions(ranges, points)
    rows = jacobian(ranges, points)
    np.testing.assert_allclose(gradient(ranges, slopes, residuals).ravel(), rows.T @ residuals, atol=1e-9)
    damping = np.linspace(1, 2, 9 * dimensions)
    wanted = np.linalg.solve(rows.T @ rows + np.diag(damping), rows.T @ residuals)
    found = Information(ranges, slopes).factored(damping)(rows.T @ residuals)
    np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_minimum_is_that_of_a_general_solver(dimensions: int) -> None:
    points, ranges = noisy(15, dimensions)
    start = points + np.random.default_rng(1).normal(0, 0.3, points.shape)

    def residuals(flat: Floats) -> Floats:
        return directions(ranges, flat.reshape(points.shape))[1]

    wanted = least_squares(residuals, start.ravel(), xtol=1e-12, ftol=1e-12, gtol=1e-12)
    found = polish(ranges, start, tolerance=1e-9)
    assert found.stress == pytest.approx(2 * wanted.cost, rel=1e-6)
    assert aligned_score(found.points, wanted.x.reshape(points.shape), scale=False).rmse < 1e-4


def test_exact_ranges_and_points_without_any() -> None:
    points = np.random.default_rng(0).uniform(0, 10, (12, 2))
    i, j = np.triu_indices(10, 1)  # the last two have no range
    ranges = Ranges(12, i, j, np.linalg.norm(points[i] - points[j], axis=1), 0.1)
    start = points + 0.2
    found = polish(
        ranges, start + np.random.default_rng(1).normal(0, 0.3, points.shape) * (np.arange(12) < 10)[:, None]
    )
    assert found.stress < 1e-3
    np.testing.assert_allclose(found.points[10:], start[10:])
    assert polish(Ranges(3, [], [], [], []), np.ones((3, 2))).stress == 0
