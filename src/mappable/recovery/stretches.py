"""Search for the course of stretches between known positions, where short ranges hardly tell left from right.

Each stretch of a drive between two known positions is tried with other bends. All stretches are
fitted at once, and each keeps the course that fits it best. Courses that fit nearly as well show
how uncertain positions are.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.recovery.folds import OtherMaps
from mappable.recovery.graph import Builder, Fit, Problem
from mappable.recovery.settings import SETTINGS


@dataclass(frozen=True, eq=False)
class Stretch:
    """Points of a drive from one known position to the next; an open stretch begins at its known
    position.
    """

    points: Ints  # with the known ends
    closed: bool
    wide: bool  # so long that ranges do not determine its course

    @property
    def inner(self) -> Ints:
        return self.points[1:-1] if self.closed else self.points[1:]


def find_stretches(problem: Problem, step: float) -> list[Stretch]:
    """Return all stretches of more than three points."""
    anchors = problem.anchors
    if anchors is None or not len(problem.pace):
        return []
    pieces = []
    for drive in problem.drives:
        known = np.flatnonzero(np.isin(drive, anchors.points))
        if len(known):
            pieces += [(drive[a : b + 1], True) for a, b in pairwise(known.tolist())]
            pieces += [(drive[known[0] :: -1], False), (drive[known[-1] :], False)]
    longest = SETTINGS.wide * problem.reach / step
    return [
        Stretch(points, closed, len(points) - 1 > (longest if closed else longest / 2))
        for points, closed in pieces
        if len(points) > 3
    ]


def bent(stretch: Stretch, start: Floats, step: float, rng: np.random.Generator) -> Floats:
    """Return positions (m, k) of a stretch with a random bend, whose length is about that of the
    drive.
    """
    first, last = start[stretch.points[0]], start[stretch.points[-1]]
    share = np.linspace(0, 1, len(stretch.points))[:, None]
    length = (len(stretch.points) - 1) * step
    chord = last - first
    if not stretch.closed:
        way = rng.standard_normal(len(chord))
        chord = length * way / np.linalg.norm(way)
    straight = max(float(np.linalg.norm(chord)), 1e-6 * length)
    side = rng.standard_normal(len(chord))
    side -= (side @ chord) / straight**2 * chord
    side /= max(float(np.linalg.norm(side)), 1e-9)
    excess = max(length - straight, 0.0)
    # A half sine of this height has about the length of the drive.
    height = max(2 / np.pi * np.sqrt(straight * excess), excess / 4, 0.02 * straight)
    skewed = share ** np.exp(rng.uniform(-0.7, 0.7))
    two_bends = rng.random() < SETTINGS.two_bends
    profile = 0.6 * np.sin(2 * np.pi * skewed) if two_bends else np.sin(np.pi * skewed)
    bend: Floats = first + share * chord + rng.uniform(0.5, 1.2) * height * profile * side
    return bend


def mirrored(stretch: Stretch, start: Floats) -> Floats:
    """Return positions (m, k) of a stretch on the other side of its chord; in 3-D, it turns half
    around the chord.
    """
    course = start[stretch.points]
    chord = course[-1] - course[0]
    chord = chord / max(float(np.linalg.norm(chord)), 1e-9)
    off = course - course[0]
    other: Floats = course[0] + 2 * (off @ chord)[:, None] * chord - off
    return other


@dataclass(frozen=True, eq=False)
class Courses:
    """Several fits of the same graph, with the misfit of each stretch; the first fit is the best."""

    stretches: list[Stretch]
    positions: Floats  # (fits, n, k)
    misfits: Floats  # (fits, stretches)

    def mean(self) -> OtherMaps:
        """Return the spread of all courses.

        The estimate of a wide stretch is the mean of all courses; elsewhere it is the best course.
        """
        off = self.positions - self.positions[0]
        weights = np.zeros(self.positions.shape[:2])
        weights[0] = 1.0
        shift = np.zeros_like(off[0])
        wide = np.zeros(len(shift), dtype=bool)
        for number, stretch in enumerate(self.stretches):
            worse = self.misfits[:, number] - self.misfits[:, number].min()
            odds = np.exp(-worse / (SETTINGS.wide_temper if stretch.wide else SETTINGS.temper))
            odds /= odds.sum()
            weights[:, stretch.inner] = odds[:, None]
            if stretch.wide:
                shift[stretch.inner] = np.einsum("f,fnk->nk", odds, off[:, stretch.inner])
            wide[stretch.inner] |= stretch.wide
        off = off - shift
        return OtherMaps(shift, np.einsum("fn,fna,fnb->nab", weights, off, off), wide)


def search(
    problem: Problem, builder: Builder, best: Fit, rng: np.random.Generator
) -> tuple[Fit, Courses]:
    """Try other courses of all stretches; return the best fit, and all courses."""
    step = builder.model.step
    stretches = find_stretches(problem, step)
    large = problem.ranges.count > SETTINGS.largest_search
    courses: list[Fit] = []
    misfits: list[Floats] = []
    start = best.positions
    for search_round in range(1 if large else SETTINGS.search_rounds):
        for number in range(2 if large else SETTINGS.members):
            before, start = start, best.positions.copy()
            for stretch in stretches:
                draw = rng.random()
                # Each course once on either side, so that their mean is fair.
                if stretch.wide and number % 2:
                    start[stretch.points] = mirrored(stretch, before)
                elif stretch.wide or search_round == 0 or draw < SETTINGS.changed / 2:
                    start[stretch.points] = bent(stretch, best.positions, step, rng)
                elif draw < SETTINGS.changed:
                    start[stretch.points] = mirrored(stretch, best.positions)
            courses.append(builder.fit(start))
            misfits.append(_misfits(courses[-1], stretches, problem.ranges.count))
        start = _combined(stretches, courses, np.array(misfits), best)
        best = min([best, *courses, builder.fit(start)], key=lambda fit: fit.cost)
    positions = np.stack([best.positions, *(course.positions for course in courses)])
    return best, Courses(
        stretches, positions, np.array([_misfits(best, stretches, problem.ranges.count), *misfits])
    )


def _combined(stretches: list[Stretch], courses: list[Fit], misfits: Floats, best: Fit) -> Floats:
    """Return positions (n, k) in which every stretch has the course that fits best, with half of
    its neighbors.
    """
    start = best.positions.copy()
    beside = misfits.copy()
    beside[:, 1:] += misfits[:, :-1] / 2
    beside[:, :-1] += misfits[:, 1:] / 2
    for number, stretch in enumerate(stretches):
        start[stretch.inner] = courses[int(np.argmin(beside[:, number]))].positions[stretch.inner]
    return start


def _misfits(fit: Fit, stretches: list[Stretch], count: int) -> Floats:
    """Return the misfit (stretches,) of all factors; one that joins two stretches counts half for
    each.
    """
    stretch_of = np.full(count, len(stretches))
    for number, stretch in enumerate(stretches):
        stretch_of[stretch.points[:-1] if stretch.closed else stretch.points] = number
    misfits = np.zeros(len(stretches) + 1)
    # The last factors only keep the graph from being singular.
    for row in range(fit.graph.size() - count):
        factor = fit.graph.at(row)
        points = factor.keys()
        misfits[stretch_of[points]] += factor.error(fit.values) / len(points)
    return misfits[:-1]
