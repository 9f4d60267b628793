"""Align recovered points with true ones, and measure the error."""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError


@dataclass(frozen=True)
class Alignment:
    """The map `points @ rotation.T * scale + shift`; a rotation of determinant -1 mirrors."""

    rotation: Floats  # (k, k)
    scale: float
    shift: Floats  # (k,)

    def __call__(self, points: Floats) -> Floats:
        moved: Floats = self.scale * points @ self.rotation.T + self.shift
        return moved


def align(points: Floats, truth: Floats, *, scale: bool = True, mirror: bool = True) -> Alignment:
    """Find the motion that brings `points` (n, k) nearest to `truth` (n, k) in least squares.

    The motion is a similarity, or rigid without `scale`. It may mirror the points if `mirror` is
    true.
    """
    points, truth = _checked(points, truth)
    from_center, to_center = points.mean(0), truth.mean(0)
    centered, target = points - from_center, truth - to_center
    left, singular_values, right = np.linalg.svd(target.T @ centered)
    signs = np.ones(len(singular_values))
    if not mirror:
        signs[-1] = np.sign(np.linalg.det(left @ right))
    rotation: Floats = left * signs @ right
    spread = float(np.square(centered).sum())
    factor = float(singular_values @ signs / spread) if scale and spread > 0 else 1.0
    return Alignment(rotation, factor, to_center - factor * rotation @ from_center)


@dataclass(frozen=True)
class Score:
    """The error of recovered points."""

    rmse: float  # root of the mean squared distance, in metres
    of_length: float  # rmse as a percentage of the length of the true path
    # Rmse as a percentage of the path's radius of gyration: a single point gets 100 %.
    of_gyration: float

    def __str__(self) -> str:
        return (
            f"{self.rmse:.2f} m, {self.of_length:.2f} % of the path, {self.of_gyration:.1f} % of"
            " its radius of gyration"
        )


def score(points: Floats, truth: Floats) -> Score:
    """Score points that are already in the coordinates of the truth; both are in the order of the
    path.
    """
    points, truth = _checked(points, truth)
    rmse = float(np.sqrt(np.square(points - truth).sum(1).mean()))
    length = float(np.linalg.norm(np.diff(truth, axis=0), axis=1).sum())
    gyration = float(np.sqrt(np.square(truth - truth.mean(0)).sum(1).mean()))
    if length == 0:
        raise BadInputError("the true path has length 0, so relative errors are undefined")
    return Score(rmse, 100 * rmse / length, 100 * rmse / gyration)


def aligned_score(points: Floats, truth: Floats, *, scale: bool = True) -> Score:
    """Score points after the best alignment."""
    return score(align(points, truth, scale=scale)(np.asarray(points, dtype=np.float64)), truth)


def _checked(points: Floats, truth: Floats) -> tuple[Floats, Floats]:
    points, truth = np.asarray(points, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    if points.ndim != 2 or points.shape != truth.shape or not len(points):
        raise BadInputError(
            f"points have shape {points.shape} and true points {truth.shape}: both must be (n, 2)"
            " or (n, 3)"
        )
    if not (np.isfinite(points).all() and np.isfinite(truth).all()):
        raise BadInputError("a coordinate is not a finite number")
    return points, truth
