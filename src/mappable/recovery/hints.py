"""What the user may know besides ranges: positions of some points, and relative motions such as odometry."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mappable.arrays import MAX_COORDINATE, Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.odometry import rotations as rotations_by


@dataclass(frozen=True)
class Anchors:
    """Points (m,) with known `positions` (m, k).

    `sigma` is the standard deviation of each coordinate in metres: one number or (m,).
    """

    points: Ints
    positions: Floats
    sigma: Floats

    def __init__(self, points: ArrayLike, positions: ArrayLike, sigma: ArrayLike) -> None:
        numbers, places = (
            np.atleast_1d(np.asarray(points)),
            np.atleast_2d(np.asarray(positions, dtype=np.float64)),
        )
        if (
            places.ndim != 2
            or places.shape[1] not in (2, 3)
            or len(places) != len(numbers)
            or not len(numbers)
        ):
            raise BadInputError(
                "anchors need points (m,) and positions (m, 2) or (m, 3), with m above 0, got"
                f" shapes {numbers.shape} and {places.shape}"
            )
        spread = _sigma("anchors", sigma, len(numbers))
        _refuse(
            lambda row: f"the anchor at point {numbers[row]}",
            *_bad_places(places),
            _bad_sigma(spread),
        )
        if len(np.unique(numbers)) < len(numbers):
            raise BadInputError(
                f"duplicate anchor point {_duplicate(numbers)}: give one position per point"
            )
        _set(self, points=whole_numbers("anchors", numbers), positions=places, sigma=spread)

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class Motions:
    """Relative motions from points `i` to points `j` (m,), by the camera's own account, such as
    odometry.

    `metres` (m, k) is the position of j seen from i: forward, left and, in 3-D, up. `rotations` (m,
    k, k) is the orientation of j seen from i. It may be given as angles (m,) in radians, positive
    to the left, in 2-D. `covariance` (m, d, d) has d = 3 in 2-D and d = 6 in 3-D: first the
    translation, then the rotation, seen from j. It may be given as a pair of standard deviations,
    in metres and in radians: one number each, or (m,).
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
            turned = rotations_by(np.atleast_1d(turned))
        if k not in (2, 3) or not len(begin) == len(end) == count or turned.shape != (count, k, k):
            raise BadInputError(
                "motions need i (m,), j (m,), metres (m, 2) or (m, 3) and rotations (m, k, k), got"
                f" shapes {begin.shape}, {end.shape}, {ways.shape} and {turned.shape}"
            )
        spread = _covariance(covariance, count, k)
        _refuse(
            lambda row: f"the motion from point {begin[row]} to {end[row]}",
            (begin == end, "leads from a point to itself"),
            *_bad_places(ways),
            (~np.isfinite(turned).all((1, 2)), "has a rotation that is not a number"),
            (
                ~(np.linalg.eigvalsh(np.nan_to_num(spread))[:, 0] > 0),
                "has a covariance that is not positive definite",
            ),
        )
        begin, end = whole_numbers("motions", begin), whole_numbers("motions", end)
        _set(self, i=begin, j=end, metres=ways, rotations=turned, covariance=spread)

    def __len__(self) -> int:
        return len(self.i)


def _covariance(given: ArrayLike | tuple[ArrayLike, ArrayLike], count: int, k: int) -> Floats:
    d = 3 if k == 2 else 6
    if not isinstance(given, tuple):
        return np.broadcast_to(np.asarray(given, dtype=np.float64), (count, d, d))
    spread = np.zeros((count, d, d))
    for axes, sigma in zip((range(k), range(k, d)), given, strict=True):
        for axis in axes:
            spread[:, axis, axis] = np.square(_sigma("motions", sigma, count))
    return spread


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
        raise BadInputError(
            f"{what} is at point {outside[0]}, expected a point between 0 and {count - 1:,}"
        )


def _refuse(name: Callable[[int], str], *problems: tuple[Bools | np.bool, str]) -> None:
    """Raise for the first row that has a problem; `name` says which hint that row is."""
    for wrong, problem in problems:
        if wrong.any():
            raise BadInputError(f"{name(int(np.flatnonzero(wrong)[0]))} {problem}")


def _bad_places(places: Floats) -> list[tuple[Bools | np.bool, str]]:
    """Return which rows of coordinates (m, k) cannot be, and why."""
    return [
        (~np.isfinite(places).all(axis=1), "has a coordinate that is not a number"),
        (
            (np.abs(places) > MAX_COORDINATE).any(axis=1),
            f"has a coordinate beyond {MAX_COORDINATE:g}",
        ),
    ]


def _bad_sigma(spread: Floats) -> tuple[Bools | np.bool, str]:
    return ~np.isfinite(spread) | (spread <= 0), "has a sigma that is not above 0"


def _sigma(what: str, sigma: ArrayLike, count: int) -> Floats:
    spread = np.asarray(sigma, dtype=np.float64)
    if spread.ndim and spread.shape != (count,):
        raise BadInputError(
            f"sigma has shape {spread.shape} for {count} {what}: give one number, or one per row"
        )
    return np.broadcast_to(spread, (count,))


def _duplicate(numbers: Ints) -> object:
    """Return the smallest number that occurs more than once."""
    values, counts = np.unique(numbers, return_counts=True)
    return values[counts > 1][0]


def _set(hint: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(hint, name, value)
