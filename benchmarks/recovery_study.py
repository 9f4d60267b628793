"""How well positions can be recovered from ranges: all methods on simulated routes, next to shapes without ranges.

    python benchmarks/recovery_study.py                       # default method, 400 images, ten routes each
    python benchmarks/recovery_study.py --kind city --noise mid --methods default --anchors 0

`learned` is the noise of a trained encoder; low, mid and high are less severe. A method that does not beat the straight
line or the circle has not recovered a shape. Each repetition uses a different route. With --same-route, as in the
paper, it uses different images of one route. Errors are percentages of the path length.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from learned_noise import learned_profile, measure_learned
from mappable.arrays import Floats, evenly, path_length
from mappable.errors import BadInputError, MappableError
from mappable.places.sampling import farthest_points
from mappable.progress import progress_bar
from mappable.randomness import Purpose, generator
from mappable.recovery.align import Score, aligned_score, score
from mappable.recovery.anchored.pipeline import recover_anchored
from mappable.recovery.baselines import trivial_rows
from mappable.recovery.hints import Anchors
from mappable.recovery.methods import METHODS, method
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from simulated_ranges import KINDS, NOISES, Kind, measure, route

LEARNED = "learned"
NOISE_NAMES = (*NOISES, LEARNED)
DENSER = 3  # images of a shared route, per image that a seed draws from it
LENGTH = 672.0  # metres
RADIUS = 10.0  # longest range, in metres
LEAST_STEPS = 3.4  # smallest reach of the ranges in steps, because shorter ranges form a bare chain
ANCHOR_SIGMA = 0.5  # metres
MISSING, OUTLIERS = 0.1, 0.01  # fractions of the ranges; the profile `learned` adds its own false ranges
TRIVIAL = ("point", "straight line", "circle", "interpolated anchors")
ANCHORED = "anchored"


@dataclass(frozen=True)
class Case:
    """The problem of one repetition."""

    kind: Kind
    noise: str  # low, mid, high or learned
    count: int  # images
    seed: int
    length: float  # metres
    anchors: int = 0  # known positions
    same_route: bool = False  # use the route of seed 0; `seed` draws its images


@dataclass(frozen=True)
class Row:
    """The errors of one method in one case."""

    case: Case
    method: str
    similarity: Score  # after alignment with scale; with known positions: without alignment
    rigid: Score  # after alignment without scale
    points: int  # points that were scored: the largest part
    seconds: float  # of the processor


@dataclass(frozen=True)
class Summary:
    """Errors of one method: medians over repetitions, in percent of the path length and of the radius of gyration."""

    kind: str
    noise: str
    anchors: int
    method: str
    repetitions: int
    similarity: float
    lowest: float
    highest: float
    rigid: float
    of_gyration: float
    seconds: float
    mean: float  # mean and standard deviation, as in the paper
    deviation: float


def cases(
    kinds: Sequence[Kind],
    noises: Sequence[str],
    *,
    count: int = 400,
    seeds: int = 10,
    anchors: Sequence[int] = (),
    length: float | None = None,
    same_route: bool = False,
) -> list[Case]:
    """All combinations of routes, noises, and numbers of known positions (none, and each of `anchors`).

    Routes are 672 m long unless `length` gives the metres. Those of a city have as many metres as images.
    """
    if not kinds or not noises:
        raise BadInputError("nothing to study: name at least one route and one noise")
    for noise in noises:
        if noise not in (*NOISES, LEARNED):
            raise BadInputError(f"there is no noise {noise!r}; there are {', '.join(NOISES)} and {LEARNED}")
    for known in anchors:
        if not 1 <= known <= count:
            raise BadInputError(f"{known} of {count} positions cannot be known")
    for kind in kinds:
        if kind not in KINDS:
            raise BadInputError(f"there is no route {kind!r}; there are {', '.join(KINDS)}")
    if seeds < 1:
        raise BadInputError(f"there are {seeds} repetitions, but must be at least 1")
    return [
        Case(kind, noise, count, seed, _length(kind, count) if length is None else length, known, same_route)
        for kind in kinds
        for noise in noises
        for known in (0, *anchors)
        for seed in range(seeds)
    ]


def _length(kind: Kind, count: int) -> float:
    return float(count) if kind == "city" else LENGTH


def run_study(wanted: Sequence[Case], methods: Sequence[str] = ("default", "geodesic", "smacof")) -> list[Row]:
    """All rows of all cases, without the methods whose limit of points is exceeded."""
    usable = {name: method(name) for name in methods}
    rows: list[Row] = []
    with progress_bar("studying", len(wanted)) as advance:
        for case in wanted:
            rows += _rows(case, [name for name, one in usable.items() if case.count <= one.most])
            advance(1, f"{case.kind}, {case.noise}, {case.anchors} known positions, seed {case.seed}")
    return rows


def draw(case: Case) -> tuple[Floats, Ranges, Anchors | None]:
    """The true positions, the ranges and the known positions of a case."""
    if case.same_route:
        dense = route(case.kind, DENSER * case.count, seed=0, length=case.length)
        random = generator(case.seed, Purpose.SUBSAMPLES)
        truth = dense[np.sort(farthest_points(path_length(dense)[:, None], case.count, random))]
    else:
        truth = route(case.kind, case.count, seed=case.seed, length=case.length)
    if case.noise == LEARNED:
        ranges = measure_learned(truth, learned_profile(), seed=case.seed, missing=MISSING)
    else:
        radius = max(RADIUS, LEAST_STEPS * case.length / (case.count - 1))
        noise = NOISES[case.noise]
        ranges = measure(truth, noise, seed=case.seed, radius=radius, missing=MISSING, outliers=OUTLIERS)
    if not case.anchors:
        return truth, ranges, None
    points = evenly(case.count, case.anchors, nearest=True)
    errors = generator(case.seed, Purpose.KNOWN_POSITIONS).normal(0, ANCHOR_SIGMA, (case.anchors, truth.shape[1]))
    return truth, ranges, Anchors(points, truth[points] + errors, np.full(case.anchors, ANCHOR_SIGMA))


def summarize(rows: Sequence[Row]) -> list[Summary]:
    """Medians over repetitions, in the order of the rows."""
    groups: dict[tuple[str, str, int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.case.kind, row.case.noise, row.case.anchors, row.method), []).append(row)
    found = []
    for key, own in groups.items():
        shares = np.array([row.similarity.of_length for row in own])
        middle = [
            float(np.median(values))
            for values in (
                [row.rigid.of_length for row in own],
                [row.similarity.of_gyration for row in own],
                [row.seconds for row in own],
            )
        ]
        middle += [float(shares.mean()), float(shares.std())]
        spread = float(np.median(shares)), float(shares.min()), float(shares.max())
        found.append(Summary(*key, len(own), *spread, *middle))
    return found


def study_to_json(rows: Sequence[Row]) -> dict[str, Any]:
    """Every row, and the medians."""
    return {"medians": [asdict(one) for one in summarize(rows)], "rows": [asdict(row) for row in rows]}


def _rows(case: Case, methods: Sequence[str]) -> Iterator[Row]:
    truth, ranges, anchors = draw(case)
    similar, rigid = (trivial_rows(truth, anchors, scale=scale) for scale in (True, False))
    for name in TRIVIAL:
        if name in similar and (name == TRIVIAL[-1]) == (anchors is not None):
            yield Row(case, name, similar[name], rigid[name], len(truth), 0.0)
    if anchors is not None:
        yield _timed(case, ANCHORED, truth, lambda: recover_anchored(ranges, anchors, seed=case.seed))
        return
    for name in methods:
        run = method(name).run
        yield _timed(case, name, truth, lambda run=run: run(ranges, truth.shape[1], case.seed))


def _timed(case: Case, name: str, truth: Floats, run: Any) -> Row:
    begun = time.process_time()
    recovered: Recovered = run()
    seconds = time.process_time() - begun
    scored = (recovered.parts == 0) & np.isfinite(recovered.positions).all(1)
    found, true = recovered.positions[scored], truth[scored]
    if name == ANCHORED:
        similar = rigid = score(found, true)
    else:
        similar, rigid = (aligned_score(found, true, scale=scale) for scale in (True, False))
    return Row(case, name, similar, rigid, int(scored.sum()), seconds)


def print_study(rows: list[Summary], what: str) -> None:
    """Print medians per route, noise and number of known positions."""
    console = Console(width=200, highlight=False, markup=False, emoji=False)
    numbers = ("median %", "from", "to", "mean ± std", "rigid %", "of gyration %", "CPU s")
    title = f"{what}: error as a percentage of the path, medians of {max(row.repetitions for row in rows)}"
    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    for heading in ("route", "noise", "known", "method"):
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    before: tuple[str, str, int] | None = None
    for row in rows:
        group = (row.kind, row.noise, row.anchors)
        if before not in (None, group):
            table.add_section()
        shown = ["", "", ""] if group == before else [row.kind, row.noise, str(row.anchors or "")]
        before = group
        values = (row.similarity, row.lowest, row.highest)
        table.add_row(
            *shown, row.method, *(f"{value:.2f}" for value in values), f"{row.mean:.2f} ± {row.deviation:.2f}",
            f"{row.rigid:.2f}", f"{row.of_gyration:.1f}", f"{row.seconds:.2f}" if row.seconds else "",
        )  # fmt: skip
    console.print(table)
    console.print("rows with known positions are not aligned; the others are aligned with scale and mirror")


def words(text: str) -> list[str]:
    """The words of a list with commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="open,loop", help=f"kinds of routes: {', '.join(KINDS)}")
    parser.add_argument("--noise", default="mid,learned", help=f"noise of the ranges: {', '.join(NOISE_NAMES)}")
    parser.add_argument("--count", type=int, default=400, help="images per route")
    parser.add_argument("--length", type=float, help="metres per route (default: 672, or one per image in a city)")
    parser.add_argument("--seeds", type=int, default=10, help="repetitions per case")
    parser.add_argument("--anchors", default="10,20", help="also try with this many known positions")
    parser.add_argument("--methods", default="default,geodesic,smacof", help=f"methods: {', '.join(METHODS)}")
    parser.add_argument("--same-route", action="store_true", help="repeat with other images of one route")
    parser.add_argument("--json", action="store_true", help="print every row as JSON")
    given = parser.parse_args()
    try:
        wanted = cases(
            words(given.kind),  # type: ignore[arg-type]
            words(given.noise),
            count=given.count,
            seeds=given.seeds,
            anchors=[int(word) for word in words(given.anchors)],
            length=given.length,
            same_route=given.same_route,
        )
        rows = run_study(wanted, words(given.methods))
    except (MappableError, ValueError) as error:
        parser.error(str(error))
    if given.json:
        print(json.dumps(study_to_json(rows), indent=2))
        return
    print_study(summarize(rows), f"{given.count:,} images per route")
    for name in words(given.methods):
        if given.count > method(name).most:
            print(f"{name} takes at most {method(name).most} images and was left out")


if __name__ == "__main__":
    main()
