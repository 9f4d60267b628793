"""Align recovered points with true ones, and measure the error."""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError


@dataclass(frozen=True)
class Alignment:
    """`points @ rotation.T * scale + shift`; a rotation of determinant -1 mirrors."""

    rotation: Floats  # (k, k)
    scale: float
    shift: Floats  # (k,)

    def __call__(self, points: Floats) -> Floats:
        moved: Floats = self.scale * points @ self.rotation.T + self.shift
        return moved


def align(points: Floats, truth: Floats, *, scale: bool = True) -> Alignment:
    """The motion that brings `points` (n, k) nearest to `truth` (n, k): a similarity or, without `scale`, rigid.

    It may mirror them.
    """
    points, truth = _checked(points, truth)
    from_centre, to_centre = points.mean(0), truth.mean(0)
    centred, wanted = points - from_centre, truth - to_centre
    left, strengths, right = np.linalg.svd(wanted.T @ centred)
    rotation: Floats = left @ right
    spread = float(np.square(centred).sum())
    factor = float(strengths.sum() / spread) if scale and spread > 0 else 1.0
    return Alignment(rotation, factor, to_centre - factor * rotation @ from_centre)


@dataclass(frozen=True)
class Score:
    """How far recovered points are from the true ones."""

    rmse: float  # root of the mean squared distance, in metres
    of_length: float  # the same as a percentage of the length of the true path
    of_gyration: float  # and of its radius of gyration: 100 % is what a single point gets

    def __str__(self) -> str:
        return (
            f"{self.rmse:.2f} m, {self.of_length:.2f} % of the path, {self.of_gyration:.1f} % of its radius of gyration"
        )


def score(points: Floats, truth: Floats) -> Score:
    """The score of points that are where they shall be: in the truth's coordinates, in the order of the path."""
    points, truth = _checked(points, truth)
    rmse = float(np.sqrt(np.square(points - truth).sum(1).mean()))
    length = float(np.linalg.norm(np.diff(truth, axis=0), axis=1).sum())
    gyration = float(np.sqrt(np.square(truth - truth.mean(0)).sum(1).mean()))
    if length == 0:
        raise BadInputError("the true path has no length, so that nothing can be said relative to it")
    return Score(rmse, 100 * rmse / length, 100 * rmse / gyration)


def aligned_score(points: Floats, truth: Floats, *, scale: bool = True) -> Score:
    """The score after the best alignment."""
    return score(align(points, truth, scale=scale)(np.asarray(points, dtype=np.float64)), truth)


def _checked(points: Floats, truth: Floats) -> tuple[Floats, Floats]:
    points, truth = np.asarray(points, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if points.ndim != 2 or points.shape != truth.shape or not len(points):
        raise BadInputError(
            f"points are {points.shape}, but the true ones {truth.shape}: both should be (n, 2) or (n, 3)"
        )
    if not (np.isfinite(points).all() and np.isfinite(truth).all()):
        raise BadInputError("a coordinate is not a number")
    return points, truth
