"""Recovery from ranges alone: remove false ranges, embed shortest paths, fit the ranges."""

from functools import partial
from importlib.util import find_spec

import numpy as np
from scipy.sparse import csc_array, csr_array, eye_array
from scipy.sparse.linalg import splu

from mappable.arrays import Bools, Floats, Ints
from mappable.randomness import Purpose, generator
from mappable.recovery.closures import closure_filter
from mappable.recovery.estimate import first_model, spread
from mappable.recovery.filtering import common_neighbor_filter
from mappable.recovery.folds import Maps, distinct, mirrored_runs, other_maps, unfold
from mappable.recovery.graph import Builder, Problem
from mappable.recovery.mds import landmark_geodesic_mds
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from mappable.recovery.smacof import sparse_smacof
from mappable.recovery.undetermined import list_stretches, unconnected

FAR_OFF = 4.0  # residual in spreads of all residuals beyond which a range is far off
# Share of far-off ranges: below, they do no harm; above, the map itself is wrong.
HARMLESS, TOO_MANY = 1e-3, 2e-2
# Fits without far-off ranges, and points up to which: each takes as long as the first.
REFITS, REFIT_POINTS = 2, 20_000
PRECISE_STEPS, PRECISE_TOLERANCE = 3_000, 1e-7
EXAMINED = 5_000  # points up to which the error is estimated
PROBES = 8  # random vectors that estimate the trace of an inverse
GAUGE = (
    "Distances do not determine where the map lies, its orientation, or whether it is a mirror"
    " image. Its scale is that of the ranges."
)


def recover_shape(ranges: Ranges, dimensions: int, *, seed: int = 0) -> Recovered:
    """Recover each connected part in coordinates of its own, centered at the origin."""
    kept = common_neighbor_filter(ranges)
    kept[kept] = closure_filter(ranges.where(kept))
    maps = embedded(ranges.where(kept), dimensions, seed)
    for _ in range(REFITS if ranges.count <= REFIT_POINTS else 0):
        true = ranges.where(kept)
        off = np.abs(residuals(true, maps[0][1]))
        near = off <= FAR_OFF * spread(off)
        if (
            not HARMLESS < 1 - near.mean() < TOO_MANY
            or true.where(near).parts.max() > true.parts.max()
        ):
            break
        kept[kept] = near
        maps = embedded(ranges.where(kept), dimensions, seed)
    return shape_of(ranges, maps, kept, seed=seed)


def shape_of(ranges: Ranges, maps: Maps, used: Bools, *, seed: int = 0) -> Recovered:
    """Return the result of a method for the first of its maps, which were fitted to the ranges
    `used` (edges,).
    """
    true, positions = ranges.where(used), maps[0][1]
    parts = true.parts
    noise = noise_level(true, positions, parts)
    sentences = [GAUGE]
    largest = np.flatnonzero(parts == 0)
    reach = float(np.quantile(true.metres, 0.98)) if len(true) else 1.0
    others = other_maps(maps, reach)
    squared = np.trace(others.covariances, axis1=1, axis2=2)
    if 3 <= len(largest) <= EXAMINED and len(true):
        squared[largest] += (
            expected_error(
                true.among(largest), positions[largest], noise if noise > 0 else 1.0, seed=seed
            )
            ** 2
        )
    elif len(largest) > EXAMINED:
        sentences.append(
            f"How far the shape is determined was not examined beyond {EXAMINED:,} images."
        )
    sentences += list_stretches(others.loose | (squared > reach**2), np.sqrt(squared))
    return Recovered(
        _centered(positions, parts), parts, used, noise, (*sentences, *unconnected(parts))
    )


def expected_error(ranges: Ranges, positions: Floats, noise: float, *, seed: int = 0) -> float:
    """Return the error in metres (root mean square) that noise leaves in the shape of a connected
    part.

    This is the Cramér-Rao bound after rigid alignment, at most about the radius of gyration. A few
    random vectors estimate the trace of the inverse of the information matrix.
    """
    count, k = positions.shape
    centered = positions - positions.mean(0)
    apart = positions[ranges.i] - positions[ranges.j]
    slopes = (
        apart
        / np.maximum(np.linalg.norm(apart, axis=1), 1e-9)[:, None]
        / (noise * ranges.sigma)[:, None]
    )
    axes = np.arange(k)
    columns = np.concatenate(
        [ranges.i[:, None] * k + axes, ranges.j[:, None] * k + axes], 1
    ).ravel()
    rows = np.repeat(np.arange(len(ranges)), 2 * k)
    jacobian = csr_array(
        (np.concatenate([slopes, -slopes], 1).ravel(), (rows, columns)), (len(ranges), count * k)
    )
    squared_gyration = max(float(np.square(centered).sum(1).mean()), 1e-12)
    information = jacobian.T @ jacobian
    damping = max(1 / (count * squared_gyration), 1e-11 * float(information.diagonal().max()))
    factor = splu(
        csc_array(information + damping * eye_array(count * k)), permc_spec="MMD_AT_PLUS_A"
    )
    motions = np.linalg.qr(_rigid_motions(centered))[0]
    probes = generator(seed, Purpose.PROBES).choice([-1.0, 1.0], (count * k, PROBES))
    probes -= motions @ (motions.T @ probes)
    variance = float((probes * factor.solve(probes)).sum(0).mean()) / count
    return float(np.sqrt(min(max(variance, 0.0), squared_gyration)))


def noise_level(ranges: Ranges, positions: Floats, parts: Ints) -> float:
    """Return the spread of residuals in units of sigma, corrected for the fitted coordinates.

    The result is NaN if there are hardly more ranges than coordinates.
    """
    sizes, k = np.bincount(parts), positions.shape[1]
    fitted = np.where(sizes > k, sizes * k - k * (k + 1) // 2, sizes * (sizes - 1) // 2).sum()
    if len(ranges) <= 1.1 * fitted:
        return float("nan")
    return spread(residuals(ranges, positions)) * float(
        np.sqrt(len(ranges) / (len(ranges) - fitted))
    )


def residuals(ranges: Ranges, positions: Floats) -> Floats:
    """Return the residuals (edges,) of the ranges in sigmas."""
    lengths = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    off: Floats = (lengths - ranges.metres) / ranges.sigma
    return off


def embedded(ranges: Ranges, dimensions: int, seed: int) -> Maps:
    """Return misfits and positions (n, k) of maps, the best first.

    There is one map, from shortest paths. A few precise ranges are fitted to the end, and other
    maps are searched for.
    """
    start = sparse_smacof(ranges, landmark_geodesic_mds(ranges, dimensions, seed=seed)).points
    problem = Problem(ranges, dimensions)
    if not problem.foldable:
        return [(0.0, start)]
    if find_spec("gtsam") is None:
        return [
            (
                0.0,
                sparse_smacof(
                    ranges, start, steps=PRECISE_STEPS, tolerance=PRECISE_TOLERANCE
                ).points,
            )
        ]
    builder = Builder(problem, first_model(problem), robust=False)
    best, fits = unfold(builder, builder.fit(start), partial(mirrored_runs, problem))
    return distinct(best, fits, problem.reach, placed=False)


def _centered(positions: Floats, parts: Ints) -> Floats:
    sums = np.stack([np.bincount(parts, column) for column in positions.T], 1)
    centered: Floats = positions - (sums / np.bincount(parts)[:, None])[parts]
    return centered


def _rigid_motions(centered: Floats) -> Floats:
    """Return the changes of all coordinates by translations and rotations: (count * k, k + k (k -
    1) / 2).
    """
    count, k = centered.shape
    motions = [np.tile(axis, (count, 1)) for axis in np.eye(k)]
    for a in range(k):
        for b in range(a):
            turn = np.zeros_like(centered)
            turn[:, a], turn[:, b] = centered[:, b], -centered[:, a]
            motions.append(turn)
    columns: Floats = np.stack([motion.ravel() for motion in motions], 1)
    return columns
