"""Recovery without known positions: drop false ranges, lay out shortest paths, fit the ranges."""

from dataclasses import replace

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from mappable.recovery.unanchored.closures import closure_filter
from mappable.recovery.unanchored.filtering import common_neighbour_filter
from mappable.recovery.unanchored.folds import LEAST_SPREAD, Unfolded, can_search, is_precise, spread, unfold
from mappable.recovery.unanchored.keyframes import keyframes, place_others, usual_spacing
from mappable.recovery.unanchored.mds import landmark_geodesic_mds
from mappable.recovery.unanchored.polish import polish
from mappable.recovery.unanchored.smacof import sparse_smacof
from mappable.recovery.unanchored.undetermined import expected_error, sentences

FAR_OFF = 4.0  # times the spread of the residuals
FEW, MANY = 1e-3, 2e-2  # of the ranges: fewer do no harm, and more are off because the map is
MORE_LOOKS, LOOKED_AGAIN = 2, 20_000  # times; points at most, because each look takes as long as the first
FIRM = 0.25  # expected error, of the longest range: with more, a polish changes nothing that the ranges know
POLISHES = 4  # each with the ranges that fit the one before


def recover(ranges: Ranges, dimensions: int = 2, *, seed: int = 0, keyframe_spacing: float | None = None) -> Recovered:
    """Positions of all points from the ranges alone.

    False ranges are found one by one by the common-neighbour filter, and those of stretches that only look alike by the
    closure filter; landmark MDS lays the points out by the shortest paths, and weighted SMACOF fits them to the ranges.
    If some of these are far off then, it is done again without them. Of a sequence denser than `keyframe_spacing`
    metres (by default a share of the ranges' reach, or their noise if that is more) only keyframes take part in this,
    and the others are laid between them. Parts that no range connects are recovered apart, each about the origin.

    Up to 600 points and 50,000 ranges, folds are searched for and all points are polished to convergence, where the
    ranges are precise or hold the shape firmly. Of precise ranges all points take part.

    What comes out is never more than the ranges know: see `undetermined`. Without known positions an open route
    can be told only up to its turns, and a single loop hardly better than as a circle.
    """
    if dimensions not in (2, 3):
        raise BadInputError(f"points are recovered in 2 or 3 dimensions, not in {dimensions}")
    if ranges.count < 3:
        raise BadInputError(f"there are {ranges.count} points, but a map needs at least 3")
    if not len(ranges):
        raise BadInputError(f"there is no range between any of the {ranges.count:,} points")
    key = _chosen(ranges, keyframe_spacing)
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
    positions = _centred(positions, parts)
    undetermined = sentences(ranges, positions, parts, noise, used=kept, key=examined, unfolded=unfolded, seed=seed)
    return Recovered(positions, parts, kept, noise, undetermined)


def _chosen(ranges: Ranges, spacing: float | None) -> Ints:
    """The keyframes; all points, where precise ranges tell them all apart and there is time for it."""
    if spacing is None and can_search(ranges) and is_precise(ranges):
        return np.arange(ranges.count)
    return keyframes(ranges, usual_spacing(ranges) if spacing is None else spacing)


def _settle(
    ranges: Ranges, names: Ints, kept: Bools, positions: Floats, parts: Ints, noise: float, seed: int
) -> Unfolded | None:
    """Unfold, in place, each part that the ranges hold firmly; what was found of the largest part.

    Its point is called by its name, of `names` (count,).
    """
    found = None
    for part in range(int(parts.max()) + 1):
        members = np.flatnonzero(parts == part)
        if len(members) <= positions.shape[1] + 1:
            break  # all later ones are as small
        inside = (parts[ranges.i] == part) & (parts[ranges.j] == part)
        own = ranges.where(inside).among(members)
        if can_search(own) and _worth_it(own.where(kept[inside]), positions[members], noise, seed):
            unfolded = unfold(own, kept[inside], positions[members])
            positions[members] = unfolded.points
            if part == 0:
                found = replace(unfolded, behind=int(names[members[unfolded.behind]]) if unfolded.behind >= 0 else -1)
    return found


def _worth_it(ranges: Ranges, points: Floats, noise: float, seed: int) -> bool:
    """True if the ranges hold a part firmly, or are so precise that they would if it were not folded."""
    if is_precise(ranges):
        return True
    error = expected_error(ranges, points, noise if noise > 0 else 1.0, seed=seed)
    return error <= FIRM * float(ranges.metres.max())


def _polish(ranges: Ranges, kept: Bools, positions: Floats, parts: Ints) -> tuple[Bools, float]:
    """Polish all points, in place, with the ranges that fit; which these are, and the noise.

    A range that a filter threw out is used again where it fits. Ranges that hold a part together stay.
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
    """Positions (count, k), and the ranges that they were fitted to."""
    kept = common_neighbour_filter(ranges)
    kept[kept] = closure_filter(ranges.where(kept))
    positions = _laid_out(ranges.where(kept), dimensions, seed)
    for _ in range(MORE_LOOKS if ranges.count <= LOOKED_AGAIN else 0):
        true = ranges.where(kept)
        off = np.abs(_residuals(true, positions))
        near = off <= FAR_OFF * max(spread(off), LEAST_SPREAD)
        if not FEW < 1 - near.mean() < MANY or true.where(near).parts.max() > true.parts.max():
            break
        kept[kept] = near
        positions = _laid_out(ranges.where(kept), dimensions, seed)
    return positions, kept


def _laid_out(ranges: Ranges, dimensions: int, seed: int) -> Floats:
    return sparse_smacof(ranges, landmark_geodesic_mds(ranges, dimensions, seed=seed, fitted=True)).points


def _centred(positions: Floats, parts: Ints) -> Floats:
    """Each part about the origin."""
    sums = np.stack([np.bincount(parts, column) for column in positions.T], 1)
    centred: Floats = positions - (sums / np.bincount(parts)[:, None])[parts]
    return centred


def noise_level(ranges: Ranges, positions: Floats, parts: Ints) -> float:
    """The spread of the residuals in units of sigma, by their median, made up for the coordinates fitted to them.

    Not a number where there are hardly more ranges than coordinates.
    """
    sizes, dimensions = np.bincount(parts), positions.shape[1]
    fitted = np.where(
        sizes > dimensions, sizes * dimensions - dimensions * (dimensions + 1) // 2, sizes * (sizes - 1) // 2
    ).sum()
    if len(ranges) <= 1.1 * fitted:
        return float("nan")
    return spread(_residuals(ranges, positions)) * float(np.sqrt(len(ranges) / (len(ranges) - fitted)))


def _residuals(ranges: Ranges, positions: Floats) -> Floats:
    """How far (edges,) ranges are off, in sigmas."""
    lengths = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    off: Floats = (lengths - ranges.metres) / ranges.sigma
    return off


def _used(ranges: Ranges, key: Ints, kept: Bools, positions: Floats, parts: Ints, noise: float) -> Bools:
    """What was kept among keyframes; of the others those ranges that are not far off in the end."""
    is_key = np.zeros(ranges.count, dtype=bool)
    is_key[key] = True
    near = np.abs(_residuals(ranges, positions)) <= FAR_OFF * (noise if noise > 1 else 1.0)
    used: Bools = near & (parts[ranges.i] == parts[ranges.j])
    used[is_key[ranges.i] & is_key[ranges.j]] = kept
    return used
