"""What the user may know besides ranges: positions, displacements, relative motions and turns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from mappable.arrays import MAX_COORDINATE, Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.recovery.ranges import Ranges


@dataclass(frozen=True)
class Anchors:
    """Points (m,) with known `positions` (m, k).

    `sigma` is the standard deviation of each coordinate in metres: one number or (m,).
    """

    points: Ints
    positions: Floats
    sigma: Floats

    def __init__(self, points: ArrayLike, positions: ArrayLike, sigma: ArrayLike) -> None:
        numbers, places = np.atleast_1d(np.asarray(points)), np.atleast_2d(np.asarray(positions, dtype=np.float64))
        if places.ndim != 2 or places.shape[1] not in (2, 3) or len(places) != len(numbers) or not len(numbers):
            raise BadInputError(
                "anchors need points (m,) and positions (m, 2) or (m, 3), with m above 0, got shapes"
                f" {numbers.shape} and {places.shape}"
            )
        spread = _sigma("anchors", sigma, len(numbers))
        _refuse(lambda row: f"the anchor at point {numbers[row]}", *_bad_places(places), _bad_sigma(spread))
        if len(np.unique(numbers)) < len(numbers):
            raise BadInputError(f"duplicate anchor point {_duplicate(numbers)}: give one position per point")
        _set(self, points=whole_numbers("anchors", numbers), positions=places, sigma=spread)

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class Odometry:
    """Displacements `metres` (m, k) from points `i` to points `j` (m,), with standard deviations `sigma` in metres.

    The axes are those of the known positions. So odometry of a vehicle must be rotated by its heading first.
    """

    i: Ints
    j: Ints
    metres: Floats
    sigma: Floats

    def __init__(self, i: ArrayLike, j: ArrayLike, metres: ArrayLike, sigma: ArrayLike) -> None:
        begin, end = np.atleast_1d(np.asarray(i)), np.atleast_1d(np.asarray(j))
        ways = np.atleast_2d(np.asarray(metres, dtype=np.float64))
        if ways.ndim != 2 or ways.shape[1] not in (2, 3) or not len(begin) == len(end) == len(ways):
            raise BadInputError(
                "odometry needs i (m,), j (m,) and metres (m, 2) or (m, 3), got shapes"
                f" {begin.shape}, {end.shape} and {ways.shape}"
            )
        spread = _sigma("odometry", sigma, len(begin))
        _refuse(
            lambda row: f"the odometry from point {begin[row]} to {end[row]}",
            (begin == end, "leads from a point to itself"),
            *_bad_places(ways),
            _bad_sigma(spread),
        )
        begin, end = whole_numbers("odometry", begin), whole_numbers("odometry", end)
        _set(self, i=begin, j=end, metres=ways, sigma=spread)

    def __len__(self) -> int:
        return len(self.i)


@dataclass(frozen=True)
class Motions:
    """Relative motions from points `i` to points `j` (m,), by the camera's own account, such as odometry.

    `metres` (m, k) is the position of j seen from i: forward, left and, in 3-D, up. `rotations` (m, k, k) is the
    orientation of j seen from i. It may be given as angles (m,) in radians, positive to the left, in 2-D. `covariance`
    (m, d, d) has d = 3 in 2-D and d = 6 in 3-D: first the translation, then the rotation, seen from j. It may be given
    as a pair of standard deviations, in metres and in radians: one number each, or (m,).
    """

    i: Ints
    j: Ints
    metres: Floats
    rotations: Floats
    covariance: Floats

    def __init__(
        self,
        i: ArrayLike,
        j: ArrayLike,
        metres: ArrayLike,
        rotations: ArrayLike,
        covariance: ArrayLike | tuple[ArrayLike, ArrayLike],
    ) -> None:
        begin, end = np.atleast_1d(np.asarray(i)), np.atleast_1d(np.asarray(j))
        ways = np.atleast_2d(np.asarray(metres, dtype=np.float64))
        turned = np.asarray(rotations, dtype=np.float64)
        count, k = ways.shape
        if turned.ndim <= 1 and k == 2:
            turned = np.atleast_1d(turned)
            cos, sin = np.cos(turned), np.sin(turned)
            turned = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)
        if k not in (2, 3) or not len(begin) == len(end) == count or turned.shape != (count, k, k):
            raise BadInputError(
                "motions need i (m,), j (m,), metres (m, 2) or (m, 3) and rotations (m, k, k), got shapes"
                f" {begin.shape}, {end.shape}, {ways.shape} and {turned.shape}"
            )
        spread = _covariance(covariance, count, k)
        _refuse(
            lambda row: f"the motion from point {begin[row]} to {end[row]}",
            (begin == end, "leads from a point to itself"),
            *_bad_places(ways),
            (~np.isfinite(turned).all((1, 2)), "has a rotation that is not a number"),
            (~(np.linalg.eigvalsh(np.nan_to_num(spread))[:, 0] > 0), "has a covariance that is not positive definite"),
        )
        begin, end = whole_numbers("motions", begin), whole_numbers("motions", end)
        _set(self, i=begin, j=end, metres=ways, rotations=turned, covariance=spread)

    def __len__(self) -> int:
        return len(self.i)

    def where(self, keep: Bools | Ints) -> "Motions":
        """Keep some of the motions (m,)."""
        return Motions(self.i[keep], self.j[keep], self.metres[keep], self.rotations[keep], self.covariance[keep])


def _covariance(given: ArrayLike | tuple[ArrayLike, ArrayLike], count: int, k: int) -> Floats:
    d = 3 if k == 2 else 6
    if not isinstance(given, tuple):
        return np.broadcast_to(np.asarray(given, dtype=np.float64), (count, d, d))
    spread = np.zeros((count, d, d))
    for axes, sigma in zip((range(k), range(k, d)), given, strict=True):
        for axis in axes:
            spread[:, axis, axis] = np.square(_sigma("motions", sigma, count))
    return spread


@dataclass(frozen=True)
class Turns:
    """Changes of the direction of travel at `points` (m,): `radians`, with standard deviations `sigma` in radians.

    A turn is the angle from the step before the point to the step after it, positive to the left. Only for 2-D maps.
    """

    points: Ints
    radians: Floats
    sigma: Floats

    def __init__(self, points: ArrayLike, radians: ArrayLike, sigma: ArrayLike) -> None:
        numbers, angles = np.atleast_1d(np.asarray(points)), np.atleast_1d(np.asarray(radians, dtype=np.float64))
        if numbers.ndim != 1 or numbers.shape != angles.shape:
            raise BadInputError(
                f"turns need points (m,) and radians (m,), got shapes {numbers.shape} and {angles.shape}"
            )
        spread = _sigma("turns", sigma, len(numbers))
        _refuse(
            lambda row: f"the turn at point {numbers[row]} ({angles[row]:g} radians)",
            (~(np.abs(angles) <= np.pi), "is not between -pi and pi"),
            _bad_sigma(spread),
        )
        if len(np.unique(numbers)) < len(numbers):
            raise BadInputError(f"duplicate turn at point {_duplicate(numbers)}: give one turn per point")
        _set(self, points=whole_numbers("turns", numbers), radians=angles, sigma=spread)

    def __len__(self) -> int:
        return len(self.points)


Hint = TypeVar("Hint", Anchors, Odometry, Motions, Turns)


def whole_numbers(what: str, points: ArrayLike) -> Ints:
    """Return point numbers (m,) as integers; raise if they are not integers."""
    numbers = np.asarray(points).ravel()
    if len(numbers) and not np.issubdtype(numbers.dtype, np.integer):
        raise BadInputError(f"the points of {what} must be integers, got {numbers[0]}")
    return numbers.astype(np.int64)


def check_points(what: str, points: Ints, count: int) -> None:
    """Raise if a point number is out of range."""
    outside = points[(points < 0) | (points >= count)]
    if len(outside):
        raise BadInputError(f"{what} is at point {outside[0]}, expected a point between 0 and {count - 1:,}")


def among(hint: Hint | None, held: Bools) -> Hint | None:
    """Keep the hints about the points that are `held` (n,), and renumber them from 0; None if there are none."""
    if hint is None:
        return None
    ends = ("points",) if hasattr(hint, "points") else ("i", "j")
    kept = np.logical_and.reduce([held[getattr(hint, name)] for name in ends])
    some = {one.name: getattr(hint, one.name)[kept] for one in fields(hint)}
    number = np.cumsum(held) - 1  # (n,): new number of each held point
    return type(hint)(**some | {name: number[some[name]] for name in ends}) if kept.any() else None


def _refuse(name: Callable[[int], str], *problems: tuple[Bools | np.bool, str]) -> None:
    """Raise for the first row that has a problem; `name` says which hint that row is."""
    for wrong, problem in problems:
        if wrong.any():
            raise BadInputError(f"{name(int(np.flatnonzero(wrong)[0]))} {problem}")


def _bad_places(places: Floats) -> list[tuple[Bools | np.bool, str]]:
    """Return which rows of coordinates (m, k) cannot be, and why."""
    return [
        (~np.isfinite(places).all(axis=1), "has a coordinate that is not a number"),
        ((np.abs(places) > MAX_COORDINATE).any(axis=1), f"has a coordinate beyond {MAX_COORDINATE:g}"),
    ]


def _bad_sigma(spread: Floats) -> tuple[Bools | np.bool, str]:
    return ~np.isfinite(spread) | (spread <= 0), "has a sigma that is not above 0"


def _sigma(what: str, sigma: ArrayLike, count: int) -> Floats:
    spread = np.asarray(sigma, dtype=np.float64)
    if spread.ndim and spread.shape != (count,):
        raise BadInputError(f"sigma has shape {spread.shape} for {count} {what}: give one number, or one per row")
    return np.broadcast_to(spread, (count,))


def _duplicate(numbers: Ints) -> object:
    """Return the smallest number that occurs more than once."""
    values, counts = np.unique(numbers, return_counts=True)
    return values[counts > 1][0]


def _set(hint: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(hint, name, value)


def connected_parts(ranges: Ranges, *others: Odometry | Motions | None) -> Ints:
    """Return the connected part (n,) of each point; ranges, odometry and motions connect points."""
    given = [one for one in others if one is not None]
    if not given:
        return ranges.parts
    i, j = np.concatenate([ranges.i, *(one.i for one in given)]), np.concatenate([ranges.j, *(one.j for one in given)])
    links = csr_array((np.ones(len(i)), (i, j)), shape=(ranges.count, ranges.count))
    labels: Ints = connected_components(links, directed=False)[1].astype(np.int64)
    return labels


def check_hints(
    ranges: Ranges,
    anchors: Anchors,
    ordered: bool | Sequence[ArrayLike],
    odometry: Odometry | None,
    turns: Turns | None,
    motions: Motions | None,
) -> list[Ints]:
    """Check all input against the ranges, and return the drives."""
    check_points("an anchor", anchors.points, ranges.count)
    dimensions = anchors.positions.shape[1]
    for hint in (odometry, motions):
        if hint is not None:
            check_points("odometry", np.concatenate([hint.i, hint.j]), ranges.count)
            if hint.metres.shape[1] != dimensions:
                raise BadInputError(
                    f"odometry has {hint.metres.shape[1]} dimensions, but known positions have {dimensions}"
                )
    if turns is not None:
        check_points("a turn", turns.points, ranges.count)
        if dimensions != 2:
            raise BadInputError(f"turns need a 2-D map, but known positions have {dimensions} dimensions")
    if ordered is True:
        drives = [np.arange(ranges.count)]
    else:
        drives = [] if ordered is False else [whole_numbers("a drive", drive) for drive in ordered]
    every = np.concatenate(drives) if drives else np.arange(0)
    check_points("a drive", every, ranges.count)
    if len(np.unique(every)) < len(every):
        twice = np.flatnonzero(np.bincount(every) > 1)[0]
        raise BadInputError(f"point {twice} occurs more than once in the drives: give each point once")
    if turns is not None:
        lost = np.setdiff1d(turns.points, np.concatenate([np.arange(0), *(drive[1:-1] for drive in drives)]))
        if len(lost):
            raise BadInputError(f"the turn at point {lost[0]} needs a step before it and a step after it in a drive")
    return drives


def unbroken(drives: list[Ints], held: Bools) -> list[Ints]:
    """Split drives at points that are not held, and leave these points out."""
    found = []
    for drive in drives:
        breaks = np.flatnonzero(~held[drive])
        found += [piece[held[piece]] for piece in np.split(drive, breaks)]
    return [piece for piece in found if len(piece)]
