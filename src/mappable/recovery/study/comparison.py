"""A study of recovery that anyone can rerun: made-up routes, ranges of a known quality, all methods, trivial rows.

Repetitions are of different routes; or, as in the paper, of different images of the same one.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mappable.arrays import Floats, Ints, evenly, path_length
from mappable.errors import BadInputError
from mappable.formats import Format
from mappable.progress import progress_bar
from mappable.randomness import Purpose, generator
from mappable.recovery.align import Score, aligned_score, score
from mappable.recovery.anchored.pipeline import recover_anchored
from mappable.recovery.baselines import trivial_rows
from mappable.recovery.hints import Anchors
from mappable.recovery.methods import method
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from mappable.recovery.study.learned_noise import learned_profile, measure_learned
from mappable.recovery.study.simulator import NOISES, Kind, measure, route

FORMAT = Format("mappable recovery study", 1, "run `mappable recover study` again")
LEARNED = "learned"
NOISE_NAMES = (*NOISES, LEARNED)
DENSER = 3  # times as many images as are drawn from them
LENGTH = 672.0  # metres
RADIUS = 10.0  # metres up to which there are ranges
LEAST_STEPS = 3.4  # from image to image, that these reach over at least: else a route is a bare chain
ANCHOR_SIGMA = 0.5  # metres
MISSING, OUTLIERS = 0.1, 0.01  # shares of the ranges; the profile `learned` has false ones of its own
TRIVIAL = ("point", "straight line", "circle", "interpolated anchors")
ANCHORED = "anchored"


@dataclass(frozen=True)
class Case:
    """What one repetition is of."""

    kind: Kind
    noise: str  # low, mid, high or learned
    count: int  # images
    seed: int
    length: float  # metres
    anchors: int = 0  # known positions
    same_route: bool = False  # that of seed 0, from which the seed draws the images


@dataclass(frozen=True)
class Row:
    """How one method did in one case."""

    case: Case
    method: str
    similarity: Score  # after alignment with scale; of known positions: without any
    rigid: Score  # after alignment without scale
    points: int  # that were scored: those of the largest part
    seconds: float  # of the processor


@dataclass(frozen=True)
class Summary:
    """How one method did over all repetitions: medians, as percentages of the path's length and of its gyration."""

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
    mean: float  # and standard deviation, as the paper has them
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
    """All combinations: each route and noise without known positions and with so many `anchors` each.

    Routes are 672 m long unless the `length` in metres is given, but in a city as many metres as there are images.
    """
    if not kinds or not noises:
        raise BadInputError("there is nothing to study: name a route and a noise at least")
    for noise in noises:
        if noise not in (*NOISES, LEARNED):
            raise BadInputError(f"there is no noise {noise!r}; there are {', '.join(NOISES)} and {LEARNED}")
    for known in anchors:
        if not 1 <= known <= count:
            raise BadInputError(f"{known} of {count} positions cannot be known")
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
    """All rows of all cases; a method that is made for fewer points is left out."""
    usable = {name: method(name) for name in methods}
    rows: list[Row] = []
    with progress_bar("studying", len(wanted)) as advance:
        for case in wanted:
            rows += _rows(case, [name for name, one in usable.items() if case.count <= one.most])
            advance(1, f"{case.kind}, {case.noise}, {case.anchors} known positions, seed {case.seed}")
    return rows


def draw(case: Case) -> tuple[Floats, Ranges, Anchors | None]:
    """The true positions, what is measured of them, and the known positions of a case."""
    if case.same_route:
        dense = route(case.kind, DENSER * case.count, seed=0, length=case.length)
        truth = dense[np.sort(spread_out(path_length(dense), case.count, case.seed))]
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


def summarise(rows: Sequence[Row]) -> list[Summary]:
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
    """Every row and the medians."""
    return FORMAT.header | {"medians": [asdict(one) for one in summarise(rows)], "rows": [asdict(row) for row in rows]}


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


def spread_out(along: Floats, count: int, seed: int) -> Ints:
    """Numbers (count,) of images that are so far `along` a route: a random one, and each next the farthest from all."""
    chosen = np.empty(count, dtype=np.int64)
    chosen[0] = generator(seed, Purpose.SUBSAMPLES).integers(len(along))
    nearest = np.full(len(along), np.inf)
    for number in range(1, count):
        nearest = np.minimum(nearest, np.abs(along - along[chosen[number - 1]]))
        chosen[number] = np.argmax(nearest)
    return chosen
