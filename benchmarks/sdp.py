"""Time of the paper's semidefinite programs: our interior-point method compared with the solvers of cvxpy.

    python benchmarks/sdp.py

All solvers run in one process on one thread, one after the other on the same problem. They stop at
a relative gap of 1e-4 by their own measure. "off" is the relative difference of the objective from
the optimum. A solver counts as converged only if that is at most 1e-4. The benchmark needs cvxpy,
and skips SCS if `scs` is not installed.
"""

import argparse
import importlib
import importlib.util
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"})

import numpy as np
from scipy.sparse import csc_matrix
from scipy.spatial.distance import pdist, squareform

from mappable.arrays import Floats
from mappable.recovery.align import aligned_score
from mappable.recovery.matrices import interior_point
from mappable.recovery.matrices.sdp import geodesics
from mappable.recovery.mds import classical_mds
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges
from simulated_ranges import NOISES, measure, route

cvxpy: Any = importlib.import_module("cvxpy")  # has no types
ACCURACY = 1e-4
LENGTH, STEPS = 672.0, 3.4  # metres of the loop; reach of the ranges in steps
LONGEST = 100  # most points for cvxpy's Clarabel and SCS; more would take an hour


def main(arguments: list[str] | None = None) -> None:
    """Print a table for each number of points."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, nargs="+", default=[50, 100, 200, 300])
    for count in parser.parse_args(arguments).points:
        positions = route("loop", count, seed=2)
        ranges = measure(positions, NOISES["mid"], seed=2, radius=STEPS * LENGTH / count)
        print(
            f"\n{count} points, {len(ranges)} pairs{'':21}{'CPU s':>9}{'off':>10}{'error, m':>10}"
        )
        start = time.process_time()
        found = recover(ranges).positions
        row("mappable.recover", time.process_time() - start, None, found, positions)
        for form in ("Frobenius", "trace form"):
            solvers(form, Problem(ranges, form), positions)


def row(name: str, seconds: float, off: float | None, found: Floats, positions: Floats) -> None:
    """Print one row."""
    accuracy = "" if off is None else f"{off:.0e}" + ("" if off <= ACCURACY else " no")
    print(
        f"  {name:42}{seconds:9.3f}{accuracy:>10}{aligned_score(found, positions).rmse:10.2f}",
        flush=True,
    )


class Problem:
    """One form of the problem, with the largest squared distance as the unit."""

    def __init__(self, ranges: Ranges, form: str) -> None:
        self.ranges, self.trace = ranges, form == "trace form"
        self.wanted: Floats = np.square(ranges.metres) / np.square(ranges.metres).max()
        shortest = geodesics(ranges) / np.square(ranges.metres).max()
        self.scale = float(shortest.sum()) / (2.0 * ranges.count) / ranges.count
        self.kappa = (
            2.0 * self.scale * ranges.count / (np.sqrt(2.0) * float(np.linalg.norm(self.wanted)))
        )

    def value(self, gram: Floats) -> float:
        """The objective (to be maximized) at a Gram matrix."""
        i, j = self.ranges.i, self.ranges.j
        off = np.sqrt(2.0) * (np.diag(gram)[i] + np.diag(gram)[j] - 2.0 * gram[i, j] - self.wanted)
        spread = float(np.trace(gram) - gram.mean() * len(gram))
        return spread - self.kappa * float(np.linalg.norm(off)) if self.trace else -float(off @ off)

    def ours(self, tolerance: float) -> Floats:
        interior_point.TOLERANCE = tolerance
        radius = float(np.sqrt(2.0) * self.kappa) if self.trace else None
        return interior_point.solve(self.ranges, self.wanted, self.scale, radius).gram

    def dual(self) -> Floats:
        """The dual of the Frobenius form. Its matrix constraint is as sparse as the mask, so
        Clarabel splits it up.

        The first point is the origin, and its row of the Gram matrix is left out.
        """
        clarabel: Any = importlib.import_module("clarabel")
        count, pair = self.ranges.count, np.arange(len(self.ranges))
        i, j, inner = self.ranges.i - 1, self.ranges.j - 1, self.ranges.i > 0
        upper, lower = np.tril_indices(count - 1)[::-1]  # rows and columns of the packed triangle
        rows = np.concatenate(
            [j * (j + 3) // 2, (i * (i + 3) // 2)[inner], (j * (j + 1) // 2 + i)[inner]]
        )
        values = np.concatenate(
            [np.ones(len(pair) + inner.sum()), np.full(inner.sum(), -np.sqrt(2.0))]
        )
        columns = np.concatenate([pair, pair[inner], pair[inner]])
        packed = csc_matrix((-values, (rows, columns)), shape=(len(upper), len(pair)))
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = ACCURACY
        quarter = csc_matrix(np.eye(len(pair)) / 4.0)
        cone = [clarabel.PSDTriangleConeT(count - 1)]
        found = clarabel.DefaultSolver(
            quarter, self.wanted, packed, np.zeros(len(upper)), cone, settings
        ).solve()
        gram = np.zeros((count, count))
        gram[upper + 1, lower + 1] = np.array(found.z) / np.where(upper == lower, 1.0, np.sqrt(2.0))
        return gram + np.triu(gram, 1).T

    def by_cvxpy(self, **settings: Any) -> Floats:
        """The problem in its usual form."""
        count, i, j = self.ranges.count, self.ranges.i, self.ranges.j
        gram = cvxpy.Variable((count, count), PSD=True)
        diagonal, entries = cvxpy.diag(gram), cvxpy.vec(gram, order="C")
        off = np.sqrt(2.0) * (diagonal[i] - 2 * entries[i * count + j] + diagonal[j] - self.wanted)
        gain = (
            cvxpy.trace(gram) - self.kappa * cvxpy.norm(off)
            if self.trace
            else -cvxpy.sum_squares(off)
        )
        cvxpy.Problem(cvxpy.Maximize(gain), [cvxpy.sum(gram, axis=0) == 0]).solve(**settings)
        values: Floats = gram.value
        return values


def solvers(form: str, problem: Problem, positions: Floats) -> None:
    """Run each installed solver on one problem."""
    tolerance = {f"tol_{name}": ACCURACY for name in ("gap_abs", "gap_rel", "feas")}
    rough: dict[str, Any] = {"eps_abs": ACCURACY, "eps_rel": ACCURACY, "max_iters": 100_000}
    ways: dict[str, Callable[[], Floats]] = {"ours": lambda: problem.ours(ACCURACY)}
    if not problem.trace:
        ways["Clarabel on the sparse dual"] = problem.dual
    if problem.ranges.count <= LONGEST:
        ways["Clarabel (cvxpy)"] = lambda: problem.by_cvxpy(solver=cvxpy.CLARABEL, **tolerance)
        if importlib.util.find_spec("scs"):
            ways["SCS (cvxpy)"] = lambda: problem.by_cvxpy(solver=cvxpy.SCS, **rough)
    best = problem.value(problem.ours(1e-9))
    for name, solve in ways.items():
        start = time.process_time()
        gram = solve()
        seconds = time.process_time() - start
        off = abs(problem.value(gram) - best) / max(1.0, abs(best))
        squared = squareform(pdist(_points(gram), "sqeuclidean"))
        row(f"{form}: {name}", seconds, off, classical_mds(squared, 2), positions)


def _points(gram: Floats) -> Floats:
    """Points (n, n) whose Gram matrix is nearest to a matrix that is a Gram matrix up to rounding."""
    values, vectors = np.linalg.eigh((gram + gram.T) / 2.0)
    points: Floats = vectors * np.sqrt(np.maximum(values, 0.0))
    return points


if __name__ == "__main__":
    main()
