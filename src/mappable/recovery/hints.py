"""What the user may know besides ranges: positions, odometry and turns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mappable.arrays import MAX_COORDINATE, Bools, Floats, Ints
from mappable.errors import BadInputError


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
        for wrong, problem in (
            (~np.isfinite(places).all(axis=1), "has a coordinate that is not a number"),
            ((np.abs(places) > MAX_COORDINATE).any(axis=1), f"has a coordinate beyond {MAX_COORDINATE:g}"),
            (~np.isfinite(spread) | (spread <= 0), "has a sigma that is not above 0"),
        ):
            if wrong.any():
                raise BadInputError(f"the anchor at point {numbers[np.flatnonzero(wrong)[0]]} {problem}")
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
        for wrong, problem in (
            (begin == end, "leads from a point to itself"),
            (~np.isfinite(ways).all(axis=1), "has a coordinate that is not a number"),
            ((np.abs(ways) > MAX_COORDINATE).any(axis=1), f"has a coordinate beyond {MAX_COORDINATE:g}"),
            (~np.isfinite(spread) | (spread <= 0), "has a sigma that is not above 0"),
        ):
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                raise BadInputError(f"the odometry from point {begin[row]} to {end[row]} {problem}")
        begin, end = whole_numbers("odometry", begin), whole_numbers("odometry", end)
        _set(self, i=begin, j=end, metres=ways, sigma=spread)

    def __len__(self) -> int:
        return len(self.i)


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
        for wrong, problem in (
            (~(np.abs(angles) <= np.pi), "is not between -pi and pi"),
            (~np.isfinite(spread) | (spread <= 0), "has a sigma that is not above 0"),
        ):
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                raise BadInputError(f"the turn at point {numbers[row]} ({angles[row]:g} radians) {problem}")
        if len(np.unique(numbers)) < len(numbers):
            raise BadInputError(f"duplicate turn at point {_duplicate(numbers)}: give one turn per point")
        _set(self, points=whole_numbers("turns", numbers), radians=angles, sigma=spread)

    def __len__(self) -> int:
        return len(self.points)


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


def among(hint: Odometry | Turns | None, held: Bools) -> Odometry | Turns | None:
    """Keep the hints about the points that are `held` (n,), and renumber them from 0."""
    if hint is None:
        return None
    number = np.cumsum(held) - 1  # (n,): new number of each held point
    if isinstance(hint, Turns):
        kept = held[hint.points]
        return Turns(number[hint.points[kept]], hint.radians[kept], hint.sigma[kept]) if kept.any() else None
    kept = held[hint.i] & held[hint.j]
    if not kept.any():
        return None
    return Odometry(number[hint.i[kept]], number[hint.j[kept]], hint.metres[kept], hint.sigma[kept])


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
