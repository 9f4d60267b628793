"""Recovery of this tree beside another commit's, on the same simulated drives.

    PYTHONPATH=benchmarks python studies/recovery/compare.py --base /path/to/other/src --seeds 5

Each version runs in a process of its own, on one thread, with the same problems. The table has
medians over the seeds: error (RMSE in metres; after rigid alignment if no position is known), NEES
per coordinate (1 if covariances are honest), and CPU seconds. "line" is the error of straight lines
between known positions. Results go to compare.json.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

# Before numpy starts its threads.
os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})

import numpy as np

FIRST = 9_600  # first seed; settings were chosen on seeds below 9,000
KNOWN_SIGMA = 0.5  # metres
HERE = Path(__file__)
RESULTS = HERE.with_name("compare.json")


@dataclass
class Problem:
    truth: Any
    ranges: Any
    anchors: Any = None  # points, positions, sigma
    motions: Any = None  # i, j, metres, turns, (sigma of metres, sigma of turns)
    ordered: bool = True


def simulate(
    kind: str,
    count: int,
    length: float,
    noise: str,
    known: int,
    odometry: str,
    seed: int,
    *,
    false: float = 0.01,
    aliased: float = 0.0,
) -> Problem:
    """A drive with ranges up to 10 m, some known positions, and odometry if it is not `none`."""
    from learned_noise import learned_profile, measure_learned
    from simulated_ranges import NOISES, measure, route
    from simulated_ranges import odometry as drive

    truth = route(kind, count, seed=seed, length=length)
    if noise == "learned":
        ranges = measure_learned(truth, learned_profile(), seed=seed, missing=0.1)
    else:
        ranges = measure(
            truth, NOISES[noise], seed=seed, missing=0.1, outliers=false, aliased=aliased
        )
    rng = np.random.default_rng([seed, known])
    last = 0.4 * count if odometry == "paused after the known positions" else count - 1
    points = np.linspace(0, last, known).round().astype(np.int64)
    positions = truth[points] + rng.normal(0, KNOWN_SIGMA, (known, 2))
    anchors = (points, positions, np.full(known, KNOWN_SIGMA)) if known else None
    motions = None if odometry == "none" else drive(truth, rng, drifting=odometry == "drifting")
    if motions is not None and odometry.startswith("paused"):
        kept = (motions[0] < 0.48 * count) | (motions[0] >= 0.55 * count)
        motions = (*(column[kept] for column in motions[:4]), motions[4])
    return Problem(truth, ranges, anchors, motions)


def erratic(kind: str, dimensions: int, known: int, seed: int, *, ordered: bool = True) -> Problem:
    """A short path with steps of 1 m in random directions, or with turns of about 1 radian; ranges
    up to 8 m.
    """
    from mappable.recovery.ranges import Ranges

    count, sigma = 80, 0.05
    rng = np.random.default_rng([seed, dimensions, len(kind)])
    steps = rng.standard_normal((count - 1, dimensions))
    if kind == "turns":
        for number in range(1, count - 1):
            steps[number] = steps[number - 1] + 0.8 * steps[number] / np.sqrt(dimensions - 1)
            steps[number] /= np.linalg.norm(steps[number])
    steps /= np.linalg.norm(steps, axis=1)[:, None]
    truth = np.concatenate([np.zeros((1, dimensions)), steps.cumsum(axis=0)])
    i, j = np.triu_indices(count, 1)
    apart = np.linalg.norm(truth[i] - truth[j], axis=1)
    near = apart <= 8.0
    metres = np.abs(apart[near] + sigma * rng.standard_normal(int(near.sum())))
    points = np.linspace(0, count - 1, known).round().astype(np.int64)
    anchors = (
        points,
        truth[points] + sigma * rng.standard_normal((known, dimensions)),
        np.full(known, sigma),
    )
    return Problem(
        truth,
        Ranges(count, i[near], j[near], metres, sigma),
        anchors if known else None,
        ordered=ordered,
    )


Draw = Callable[[int], Problem]


def _short(noise: str, odometry: str, known: int, false: float) -> Draw:
    kind = "loop" if known == 0 else "open"
    return lambda seed: simulate(kind, 150, 252.0, noise, known, odometry, seed, false=false)


def _long(kind: str, noise: str, known: int) -> Draw:
    return lambda seed: simulate(kind, 400, 672.0, noise, known, "none", seed)


def _cases() -> dict[str, tuple[int, Draw]]:
    """Each case by name: its largest number of seeds, and a function from a seed to a problem."""
    cases: dict[str, tuple[int, Draw]] = {}
    for odometry in ("noisy", "drifting", "none"):
        for known in (0, 3, 10):
            for noise, false in (("mid", 0.1), ("learned", 0.0)):
                name = f"drive of 150, {noise}, odometry {odometry}, {known} known"
                cases[name] = (9, _short(noise, odometry, known, false))
    for odometry, known in (("paused", 4), ("paused after the known positions", 3)):
        name = f"drive of 150, mid, odometry {odometry}, {known} known"
        cases[name] = (9, _short("mid", odometry, known, 0.1))
    for kind, noise, known in (
        ("open", "mid", 5),
        ("open", "mid", 10),
        ("open", "learned", 10),
        ("loop", "mid", 3),
        ("loop", "mid", 10),
        ("loop", "learned", 10),
    ):
        cases[f"{kind} of 400, {noise}, no odometry, {known} known"] = (
            5,
            _long(kind, noise, known),
        )
    for kind in ("wandering", "snaking"):
        cases[f"{kind} of 200, mid, no odometry, 5 known"] = (
            5,
            lambda seed, kind=kind: simulate(kind, 200, 400.0, "mid", 5, "none", seed),
        )
    for kind in ("random", "turns"):
        for k in (2, 3):
            for known in (0, 8):
                name = f"erratic {kind} of 80 in {k}-D, {known} known"
                cases[name] = (9, partial(erratic, kind, k, known))
    for kind, count, noise in (
        ("loop", 200, "mid"),
        ("loop", 200, "learned"),
        ("open", 200, "mid"),
    ):
        cases[f"{kind} of {count}, {noise}, nothing known"] = (
            9,
            lambda seed, kind=kind, count=count, noise=noise: simulate(
                kind, count, 672.0, noise, 0, "none", seed
            ),
        )
    cases["loop of 400, 5 % aliased, nothing known"] = (
        9,
        lambda seed: simulate("loop", 400, 672.0, "mid", 0, "none", seed, false=0.0, aliased=0.05),
    )
    for count, known, odometry, false in (
        (1_500, 0, "none", 0.01),
        (10_000, 0, "none", 0.01),
        (1_500, 30, "none", 0.01),
        (1_500, 10, "drifting", 0.02),
        (5_000, 100, "noisy", 0.01),
        (5_000, 0, "noisy", 0.02),
        (20_000, 400, "noisy", 0.01),
    ):
        cases[f"city of {count:,}, odometry {odometry}, {known} known"] = (
            1,
            lambda seed, count=count, known=known, odometry=odometry, false=false: simulate(
                "city", count, float(count), "mid", known, odometry, seed, false=false
            ),
        )
    return cases


CASES = _cases()


def solve_all(folder: Path) -> None:
    """Solve each problem in a folder with the version that PYTHONPATH gives; this runs in a child
    process.
    """
    from mappable.recovery import Anchors, Motions, Ranges, recover

    try:
        from mappable.recovery import recover_anchored  # type: ignore[attr-defined]
    except (AttributeError, ImportError):
        recover_anchored = None
    for file in sorted(folder.glob("*.problem.npz")):
        given = dict(np.load(file))
        ranges = Ranges(
            int(given["count"]), given["i"], given["j"], given["metres"], given["sigma"]
        )
        hints: dict[str, Any] = {}
        if "points" in given:
            hints["anchors"] = Anchors(given["points"], given["positions"], given["known_sigma"])
        if "from" in given:
            noise = (float(given["noise"][0]), float(given["noise"][1]))
            hints["motions"] = Motions(
                given["from"], given["to"], given["ways"], given["turns"], noise
            )
        begun = time.process_time()
        if not hints:
            found = recover(ranges, int(given["dimensions"]))
        elif recover_anchored is not None:
            found = recover_anchored(
                ranges, hints.pop("anchors", None), ordered=bool(given["ordered"]), **hints
            )
        else:
            found = recover(
                ranges, int(given["dimensions"]), ordered=bool(given["ordered"]), **hints
            )
        seconds = time.process_time() - begun
        covariances = np.zeros(0) if found.covariances is None else found.covariances
        sentences = np.array([*found.undetermined], dtype=str)
        out = file.with_name(file.name.replace("problem", "solved"))
        np.savez(
            out,
            positions=found.positions,
            covariances=covariances,
            seconds=seconds,
            undetermined=sentences,
        )
        print(f"{file.name}: {seconds:.1f} s", file=sys.stderr, flush=True)


def save(problem: Problem, file: Path) -> None:
    ranges = problem.ranges
    given = {
        "count": ranges.count,
        "i": ranges.i,
        "j": ranges.j,
        "metres": ranges.metres,
        "sigma": ranges.sigma,
    }
    given |= {"ordered": problem.ordered, "dimensions": problem.truth.shape[1]}
    if problem.anchors is not None:
        given |= dict(zip(("points", "positions", "known_sigma"), problem.anchors, strict=True))
    if problem.motions is not None:
        given |= dict(zip(("from", "to", "ways", "turns", "noise"), problem.motions, strict=True))
    np.savez(file, **given)


def score(problem: Problem, solved: Any) -> dict[str, Any]:
    from mappable.recovery.align import align

    positions, covariances = solved["positions"], solved["covariances"]
    nees = None
    if problem.anchors is None:
        positions = align(positions, problem.truth, scale=False)(positions)
    off = positions - problem.truth
    if problem.anchors is not None and len(covariances):
        nees = (
            float(np.einsum("na,nab,nb->n", off, np.linalg.inv(covariances), off).mean())
            / off.shape[1]
        )
    error = float(np.sqrt(np.square(off).sum(1).mean()))
    said = any("not determined" in sentence for sentence in solved["undetermined"].tolist())
    return {"error": error, "nees": nees, "seconds": float(solved["seconds"]), "said": said}


def interpolate(problem: Problem) -> float | None:
    if problem.anchors is None or len(problem.anchors[0]) < 2:
        return None
    points, positions, _ = problem.anchors
    numbers = np.arange(len(problem.truth))
    between = np.stack([np.interp(numbers, points, axis) for axis in positions.T], 1)
    return float(np.sqrt(np.square(between - problem.truth).sum(1).mean()))


def run(sources: dict[str, Path], name: str, seeds: int, first: int) -> dict[str, Any]:
    """Solve a case with all versions, and print its row."""
    most, draw = CASES[name]
    problems = {seed: draw(seed) for seed in range(first, first + min(seeds, most))}
    row: dict[str, Any] = {"case": name, "seeds": [*problems]}
    row["line"] = [interpolate(problem) for problem in problems.values()]
    with tempfile.TemporaryDirectory() as folder:
        for seed, problem in problems.items():
            save(problem, Path(folder) / f"{seed}.problem.npz")
        for version, source in sources.items():
            command = [sys.executable, "-W", "ignore", str(HERE), "--solve", folder]
            subprocess.run(command, env=os.environ | {"PYTHONPATH": str(source)}, check=True)
            row[version] = []
            for seed, problem in problems.items():
                with np.load(Path(folder) / f"{seed}.solved.npz") as solved:
                    row[version].append(score(problem, solved))
    print(describe(row, [*sources]), flush=True)
    return row


def describe(row: dict[str, Any], versions: list[str]) -> str:
    """A row of the table."""
    cells = [row["case"], str(len(row["seeds"]))]
    for version in versions:
        results = row[version]
        errors = [result["error"] for result in results]
        nees = [result["nees"] for result in results if result["nees"] is not None]
        said = sum(result["said"] for result in results)
        cells += [
            f"{np.median(errors):.2f}",
            f"{max(errors):.2f}",
            f"{np.median(nees):.2f}" if nees else "",
        ]
        cells += [str(said), f"{np.median([result['seconds'] for result in results]):.2f}"]
    line = [value for value in row["line"] if value is not None]
    return f"| {' | '.join([*cells, f'{np.median(line):.2f}' if line else ''])} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", type=Path, help="src of another checkout, to compare with")
    parser.add_argument("--seeds", type=int, default=5, help="seeds per case, at most")
    parser.add_argument("--first", type=int, default=FIRST, help="first seed")
    parser.add_argument("--only", default="", help="regular expression: run only these cases")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--hardware", default="one core, shared with other work")
    parser.add_argument("--solve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.solve is not None:
        solve_all(given.solve)
        return
    sources = {"base": given.base} if given.base else {}
    sources["new"] = HERE.parents[2] / "src"
    names = [name for name in CASES if re.search(given.only, name)]
    head = [
        f"{version} {column}"
        for version in sources
        for column in ("m", "worst m", "NEES", "said", "CPU s")
    ]
    print(f"| case | seeds | {' | '.join(head)} | line m |\n{'|---' * (3 + len(head))}|")
    command = "python studies/recovery/compare.py --base SRC_OF_0.2.0"
    origin = {"command": command, "date": date.today().isoformat(), "hardware": given.hardware}
    rows: list[dict[str, Any]] = []
    for name in names:
        rows.append(run(sources, name, given.seeds, given.first))
        given.out.write_text(
            json.dumps({"origin": origin, "first seed": given.first, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
