"""Recovery without known positions: remove false ranges, embed shortest paths, fit the ranges."""

from dataclasses import replace

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from mappable.recovery.unanchored.closures import closure_filter
from mappable.recovery.unanchored.filtering import common_neighbor_filter
from mappable.recovery.unanchored.folds import LEAST_SPREAD, Unfolded, can_search, is_precise, spread, unfold
from mappable.recovery.unanchored.keyframes import keyframes, place_others, usual_spacing
from mappable.recovery.unanchored.mds import landmark_geodesic_mds
from mappable.recovery.unanchored.polish import polish
from mappable.recovery.unanchored.smacof import sparse_smacof
from mappable.recovery.unanchored.undetermined import expected_error, sentences

FAR_OFF = 4.0  # a range is far off if its residual exceeds this many spreads
HARMLESS, TOO_MANY = 1e-3, 2e-2  # share of far-off ranges: below, they do no harm; above, the map itself is wrong
REFITS, REFIT_POINTS = (
    2,
    20_000,
)  # refits without far-off ranges, and points up to which: a refit takes as long as a fit
FIRM = 0.25  # expected error, in longest ranges, above which polishing does not help
POLISHES = 4  # each uses the ranges that fit the previous result


def recover(ranges: Ranges, dimensions: int = 2, *, seed: int = 0, keyframe_spacing: float | None = None) -> Recovered:
    """Recover the positions of all points from ranges alone.

    Ranges do not determine everything: always read `undetermined` of the result. Without known positions, the turns of
    an open route stay unknown, and a single loop is recovered hardly better than as a circle.

    Steps: the common-neighbor filter removes single false ranges, and the closure filter removes bundles of false
    ranges between stretches that only look alike. Landmark MDS embeds the points by their shortest paths, and weighted
    SMACOF fits them to the ranges. If some ranges are then far off, the fit is repeated without them.

    If a sequence is denser than `keyframe_spacing` metres, only keyframes take part in these steps, and the other
    points are placed between them. The default spacing is a share of the ranges' reach, or depends on their noise if
    that is larger. Parts that no range connects are recovered separately, each centered at the origin.

    If the ranges are precise or determine the shape firmly, folds are searched for and all points are polished to
    convergence. This is done for at most 600 points and 50,000 ranges. With precise ranges, all points are keyframes.
    """
    if dimensions not in (2, 3):
        raise BadInputError(f"points are recovered in 2 or 3 dimensions, got {dimensions}")
    if ranges.count < 3:
        raise BadInputError(f"a map needs at least 3 points, got {ranges.count}")
    if not len(ranges):
        raise BadInputError(f"there are no ranges between the {ranges.count:,} points")
    key = _key_points(ranges, keyframe_spacing)
    some = ranges if len(key) == ranges.count else ranges.among(key)
    positions, kept = _fitted(some, dimensions, seed)
    parts = some.where(kept).parts
    noise = noise_level(some.where(kept), positions, parts)
    unfolded = _settle(some, key, kept, positions, parts, noise, seed)
    if unfolded is not None:
        kept, noise = _polish(some, kept, positions, parts)
    examined: Ints | None = key
    if some is not ranges:
        positions, parts = place_others(ranges, key, positions, parts)
        kept = _used(ranges, key, kept, positions, parts, noise)
        if unfolded is not None and can_search(ranges):
            kept, noise = _polish(ranges, kept, positions, parts)
            examined = None
    positions = _centered(positions, parts)
    undetermined = sentences(ranges, positions, parts, noise, used=kept, key=examined, unfolded=unfolded, seed=seed)
    return Recovered(positions, parts, kept, noise, undetermined)


def _key_points(ranges: Ranges, spacing: float | None) -> Ints:
    """Choose the keyframes: all points if the ranges are precise and the map is small."""
    if spacing is None and can_search(ranges) and is_precise(ranges):
        return np.arange(ranges.count)
    return keyframes(ranges, usual_spacing(ranges) if spacing is None else spacing)


def _settle(
    ranges: Ranges, names: Ints, kept: Bools, positions: Floats, parts: Ints, noise: float, seed: int
) -> Unfolded | None:
    """Unfold, in place, each part that the ranges determine firmly; return the search in the largest part.

    The `behind` of the result is a number out of `names` (count,).
    """
    found = None
    for part in range(int(parts.max()) + 1):
        members = np.flatnonzero(parts == part)
        if len(members) <= positions.shape[1] + 1:
            break  # all later parts are as small
        inside = (parts[ranges.i] == part) & (parts[ranges.j] == part)
        own = ranges.where(inside).among(members)
        if can_search(own) and _worth_it(own.where(kept[inside]), positions[members], noise, seed):
            unfolded = unfold(own, kept[inside], positions[members])
            positions[members] = unfolded.points
            if part == 0:
                found = replace(unfolded, behind=int(names[members[unfolded.behind]]) if unfolded.behind >= 0 else -1)
    return found


def _worth_it(ranges: Ranges, points: Floats, noise: float, seed: int) -> bool:
    """Return True if the ranges determine a part firmly, or are so precise that they would without folds."""
    if is_precise(ranges):
        return True
    error = expected_error(ranges, points, noise if noise > 0 else 1.0, seed=seed)
    return error <= FIRM * float(ranges.metres.max())


def _polish(ranges: Ranges, kept: Bools, positions: Floats, parts: Ints) -> tuple[Bools, float]:
    """Polish all points, in place, with the ranges that fit; return these ranges (edges,) and the noise.

    A range that a filter removed is used again if it fits. Ranges that hold a part together stay.
    """
    together = parts[ranges.i] == parts[ranges.j]
    for _ in range(POLISHES):
        off = np.abs(_residuals(ranges, positions))
        near = together & (off <= FAR_OFF * max(spread(off[together]), LEAST_SPREAD))
        if (ranges.where(near).parts != parts).any():
            near |= kept
        positions[:] = polish(ranges.where(near), positions).points
        kept, before = near, kept
        if (kept == before).all():
            break
    return kept, noise_level(ranges.where(kept), positions, parts)


def _fitted(ranges: Ranges, dimensions: int, seed: int) -> tuple[Floats, Bools]:
    """Fit positions (count, k), and return the ranges (edges,) that they were fitted to."""
    kept = common_neighbor_filter(ranges)
    kept[kept] = closure_filter(ranges.where(kept))
    positions = _embed(ranges.where(kept), dimensions, seed)
    for _ in range(REFITS if ranges.count <= REFIT_POINTS else 0):
        true = ranges.where(kept)
        off = np.abs(_residuals(true, positions))
        near = off <= FAR_OFF * max(spread(off), LEAST_SPREAD)
        if not HARMLESS < 1 - near.mean() < TOO_MANY or true.where(near).parts.max() > true.parts.max():
            break
        kept[kept] = near
        positions = _embed(ranges.where(kept), dimensions, seed)
    return positions, kept


def _embed(ranges: Ranges, dimensions: int, seed: int) -> Floats:
    return sparse_smacof(ranges, landmark_geodesic_mds(ranges, dimensions, seed=seed, fitted=True)).points


def _centered(positions: Floats, parts: Ints) -> Floats:
    """Center each part at the origin."""
    sums = np.stack([np.bincount(parts, column) for column in positions.T], 1)
    centered: Floats = positions - (sums / np.bincount(parts)[:, None])[parts]
    return centered


def noise_level(ranges: Ranges, positions: Floats, parts: Ints) -> float:
    """Return the spread of the residuals in units of sigma, by their median, corrected for the fitted coordinates.

    The result is NaN if there are hardly more ranges than coordinates.
    """
    sizes, dimensions = np.bincount(parts), positions.shape[1]
    fitted = np.where(
        sizes > dimensions, sizes * dimensions - dimensions * (dimensions + 1) // 2, sizes * (sizes - 1) // 2
    ).sum()
    if len(ranges) <= 1.1 * fitted:
        return float("nan")
    return spread(_residuals(ranges, positions)) * float(np.sqrt(len(ranges) / (len(ranges) - fitted)))


def _residuals(ranges: Ranges, positions: Floats) -> Floats:
    """Return the residuals (edges,) of the ranges in sigmas."""
    lengths = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    off: Floats = (lengths - ranges.metres) / ranges.sigma
    return off


def _used(ranges: Ranges, key: Ints, kept: Bools, positions: Floats, parts: Ints, noise: float) -> Bools:
    """Return the ranges (edges,) used: those kept between keyframes, and all other ranges that are not far off."""
    is_key = np.zeros(ranges.count, dtype=bool)
    is_key[key] = True
    near = np.abs(_residuals(ranges, positions)) <= FAR_OFF * (noise if noise > 1 else 1.0)
    used: Bools = near & (parts[ranges.i] == parts[ranges.j])
    used[is_key[ranges.i] & is_key[ranges.j]] = kept
    return used
