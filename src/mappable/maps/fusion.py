"""Fuse positions from images with odometry: the last position of a camera, and its covariance."""

import numpy as np

from mappable.arrays import Floats

SCALE_ERROR = 0.05  # systematic error of odometry: of its scale, as a share
TURN_ERROR = 0.005  # and of its turns, in radians per metre; both are usual for wheels that are not calibrated
ITERATIONS = 3  # of iteratively reweighted least squares
DEGREES_OF_FREEDOM = 4.0  # of Student's t distribution of the errors of images, which makes outliers count little
USUAL_FIT = 10.0  # weight of the stated covariances when positions fit worse, in coordinates


def fuse(
    measured: Floats, covariances: Floats, poses: Floats, drift: Floats, share: float, reach: float
) -> tuple[Floats, Floats]:
    """The last position (2,) of a camera and its covariance (2, 2), from positions (n, 2) and poses (n, 3) by odometry.

    The path by odometry is turned and shifted to fit the positions. Its scale and its turns have a systematic error,
    which is estimated too. `drift` (n,) is the variance of each pose as seen from the last one, beside that error.
    Odometry is a random walk, so two poses share the drift of the later one. Positions have `covariances` (n, 2, 2).
    Errors of images along the way are alike: their correlation is share x exp(-way / reach). Therefore, a camera that
    stands still does not become surer. If positions fit worse than their covariances say, all covariances grow.
    """
    path = poses[:, :2] - poses[-1, :2]
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    back = np.append(np.cumsum(steps[::-1])[::-1], 0.0)  # (n,) way to the last image
    alike = share * np.exp(-np.abs(back[:, None] - back) / reach)
    np.fill_diagonal(alike, 1.0)
    roots, both = np.linalg.cholesky(covariances), np.eye(2)[None, :, None]
    images = np.tensordot(roots, roots, (2, 2)) * alike[:, None, :, None]  # (n, 2, n, 2)
    walk = np.minimum.outer(drift, drift)[:, None, :, None] * both
    total = covariances + drift[:, None, None] * np.eye(2)
    precision = np.linalg.inv(total)
    larger, weight, turn = 1.0, np.ones(len(path)), _turn(path, measured, np.trace(total, axis1=1, axis2=2))
    prior = np.diag([0.0, 0.0, SCALE_ERROR**-2, np.pi**-2, TURN_ERROR**-2])
    changes = _changes(path, back)
    for _ in range(ITERATIONS):
        turned = changes @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])  # (3, n, 2)
        ways, design = turned[0], np.column_stack([np.tile(np.eye(2), (len(path), 1)), turned.reshape(3, -1).T])
        noise = (larger * images / np.sqrt(np.outer(weight, weight))[:, None, :, None] + walk).reshape(
            2 * len(path), -1
        )
        off = (measured - ways).ravel()
        solved = np.linalg.solve(noise, np.column_stack([design, off]))
        posterior = np.linalg.inv(design.T @ solved[:, :-1] + prior).astype(np.float64)
        found = posterior @ (design.T @ solved[:, -1])
        off = off - design @ found
        misfit = larger * float(off @ (solved[:, -1] - solved[:, :-1] @ found))
        larger = max(1.0, (USUAL_FIT + misfit) / (USUAL_FIT + max(len(off) - len(found), 0)))
        off = off.reshape(-1, 2)
        squared = np.einsum("ni,nij,nj->n", off, precision, off)
        weight = np.minimum(1.0, (DEGREES_OF_FREEDOM + 2) / (DEGREES_OF_FREEDOM + squared))
        turn += float(found[3])
    return found[:2], posterior[:2, :2]


def _turn(path: Floats, measured: Floats, variance: Floats) -> float:
    """The turn from the frame of odometry to that of the map, in radians."""
    share = (1 / variance) / (1 / variance).sum()
    a, b = path - share @ path, measured - share @ measured
    return float(np.arctan2(share @ (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]), share @ (a * b).sum(1)))


def _changes(path: Floats, back: Floats) -> Floats:
    """How positions (n, 2) of a path change with its scale, its turn, and its turn per metre (3, n, 2)."""
    across = np.column_stack([-path[:, 1], path[:, 0]])
    bends = np.diff(across, axis=0) * ((back[1:] + back[:-1]) / 2)[:, None]
    bent = np.concatenate([-np.cumsum(bends[::-1], axis=0)[::-1], np.zeros((1, 2))])
    return np.stack([path, across, bent])
