"""Recovery in map coordinates: some points are known, and ranges carry the others along."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.randomness import Purpose, generator
from mappable.recovery.align import align
from mappable.recovery.filtering import common_neighbour_filter
from mappable.recovery.mds import landmark_geodesic_mds
from mappable.recovery.ranges import Ranges
from mappable.recovery.refine import Known, Problem, Refined, fit, sample
from mappable.recovery.result import Recovered
from mappable.recovery.smacof import sparse_smacof

LOOSE = 1e4  # metres that a point may be from where it starts, where nothing else holds it
FLAT = 1e-6  # known positions lie in a line, or plane, if they leave it by less than this share of their extent
SWEEPS = 250


@dataclass(frozen=True)
class Anchors:
    """Points whose `positions` (m, k) are known, each coordinate give or take `sigma`, one number or (m,)."""

    points: Ints
    positions: Floats
    sigma: Floats

    def __init__(self, points: ArrayLike, positions: ArrayLike, sigma: ArrayLike) -> None:
        numbers = np.atleast_1d(np.asarray(points))
        places = np.atleast_2d(np.asarray(positions, dtype=np.float64))
        if places.ndim != 2 or places.shape[1] not in (2, 3) or len(places) != len(numbers) or not len(numbers):
            raise BadInputError(
                f"anchors are points (m,) and positions (m, 2) or (m, 3), not {len(numbers)}, {places.shape}"
            )
        spread = np.broadcast_to(np.asarray(sigma, dtype=np.float64), numbers.shape)
        for wrong, problem in (
            (~np.isfinite(places).all(axis=1), "has a coordinate that is not a number"),
            (~np.isfinite(spread) | (spread <= 0), "has a sigma that is not above 0"),
        ):
            if wrong.any():
                raise BadInputError(f"the anchor at point {numbers[np.flatnonzero(wrong)[0]]} {problem}")
        if len(np.unique(numbers)) < len(numbers) or not np.issubdtype(numbers.dtype, np.integer):
            raise BadInputError("the points of anchors are whole numbers, and each occurs once")
        for name, value in (("points", numbers.astype(np.int64)), ("positions", places), ("sigma", spread)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.points)


def recover_anchored(
    ranges: Ranges, anchors: Anchors, *, ordered: bool = True, seed: int = 0, sweeps: int = SWEEPS
) -> Recovered:
    """Positions in the anchors' coordinates, with covariances; nothing is aligned afterwards.

    False ranges are filtered out, and others are doubted by how badly they fit. Points that are `ordered`, as images of
    a sequence are, are taken to move as a camera does: at a steady pace, straight on or turning. The noise of the
    ranges, the pace and the turns are estimated. Points that no range connects with an anchor are left out: their
    coordinates are not numbers.
    """
    outside = anchors.points[(anchors.points < 0) | (anchors.points >= ranges.count)]
    if len(outside):
        raise BadInputError(f"an anchor is at point {outside[0]}, beyond the {ranges.count:,} there are")
    kept = common_neighbour_filter(ranges)
    parts = ranges.where(kept).parts
    held = np.isin(parts, parts[anchors.points])
    points = np.flatnonzero(held)
    number = np.full(ranges.count, -1)
    number[points] = np.arange(len(points))
    some = ranges.where(kept).among(points)
    known = Known(number[anchors.points], anchors.positions, anchors.sigma)
    refined = _best(some, known, ordered, seed)
    if sweeps and ordered and len(points) > 2:
        problem = _problem(some, known, ordered, refined.positions)
        fit(problem, refined.positions)
        refined = sample(problem, refined.positions, generator(seed, Purpose.ANCHORED), sweeps=sweeps)
    dimensions = anchors.positions.shape[1]
    positions = np.full((ranges.count, dimensions), np.nan)
    covariances = np.full((ranges.count, dimensions, dimensions), np.nan)
    positions[points], covariances[points] = refined.positions, refined.covariances
    used: Bools = kept.copy()
    among = held[ranges.i] & held[ranges.j] & kept
    used[among] = refined.true > 0.5
    undetermined = tuple(_undetermined(anchors, held))
    return Recovered(positions, np.where(held, 0, 1 + parts), used, refined.noise, undetermined, covariances)


def _problem(ranges: Ranges, known: Known, ordered: bool, start: Floats) -> Problem:
    sequences = [np.arange(ranges.count)] if ordered else []
    return Problem(ranges, known, sequences, None, start, LOOSE)


def _best(ranges: Ranges, known: Known, ordered: bool, seed: int) -> Refined:
    """From two starts the one that explains the ranges better; the truth is not asked."""
    found = []
    for start in _starts(ranges, known, ordered, seed):
        problem = _problem(ranges, known, ordered, start)
        refined = fit(problem, start)
        found.append((problem.objective(), refined))
    return min(found, key=lambda one: one[0])[1]


def _starts(ranges: Ranges, known: Known, ordered: bool, seed: int) -> list[Floats]:
    """The known positions joined by straight lines; and the map of the ranges alone, brought to them."""
    order = np.argsort(known.points)
    dimensions = known.positions.shape[1]
    starts = []
    if ordered and len(order) > 1:
        at = np.arange(ranges.count)
        lines = [np.interp(at, known.points[order], known.positions[order, axis]) for axis in range(dimensions)]
        starts.append(np.stack(lines, 1))
    if len(known.points) > dimensions or not starts:
        drawn = sparse_smacof(ranges, landmark_geodesic_mds(ranges, dimensions, seed=seed)).points
        parts = ranges.parts
        for part in np.unique(parts):
            own = np.flatnonzero(parts == part)
            of_part = np.isin(known.points, own)
            moved = align(drawn[known.points[of_part]], known.positions[of_part], scale=False)
            drawn[own] = moved(drawn[own])
        starts.append(drawn)
    return starts


def _undetermined(anchors: Anchors, held: Bools) -> list[str]:
    """What the ranges and the known positions together leave open."""
    said = []
    spread = np.linalg.svd(anchors.positions - anchors.positions.mean(0), compute_uv=False)
    dimensions = anchors.positions.shape[1]
    spanned = int((spread > FLAT * max(spread[0], 1e-12)).sum()) if spread[0] > 0 else 0
    if spanned < dimensions:
        where = {0: "one point", 1: "a line", 2: "a plane"}[spanned]
        said.append(
            f"the known positions lie in {where}: the map could as well be mirrored at it"
            + (", or turned about it" if spanned < dimensions - 1 else "")
        )
    if not held.all():
        said.append(f"{(~held).sum():,} of {len(held):,} points are connected with no known one, and left out")
    return said
