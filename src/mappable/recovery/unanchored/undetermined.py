"""Sentences about what distances do not determine about a recovered map."""

from collections.abc import Callable

import numpy as np

from mappable.arrays import Bools, Floats, Ints, evenly
from mappable.randomness import Purpose, generator
from mappable.recovery.align import aligned_score
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.folds import AS_GOOD, Unfolded, cut_behind, places
from mappable.recovery.unanchored.normal import Information, directions

CUTS = 64  # number of places along a sequence that are tested
LOOSE = 0.1  # a shape is loose if its expected error exceeds this share of the radius of gyration
ELSEWHERE = 2.0  # another map is reported if it differs by more than this many expected errors
MISFIT = 1.3  # noise is reported if it exceeds this many times the stated sigma
BY_CHANCE, SHARE_BY_CHANCE = 3, 1e-3  # number and share of ranges that are off by four deviations by chance
SINGULAR = 1e-11  # damping, of the largest diagonal entry: keeps rigid motions solvable if ranges are exact
PROBES = 8  # random vectors that estimate the trace
EXAMINED = 20_000  # with more points, looseness is not examined


def sentences(
    ranges: Ranges,
    positions: Floats,
    parts: Ints,
    noise: float,
    *,
    used: Bools | None = None,
    key: Ints | None = None,
    unfolded: Unfolded | None = None,
    seed: int = 0,
) -> tuple[str, ...]:
    """Describe everything that the ranges leave undetermined about positions (count, k) in parts (count,).

    Only the ranges `used` (edges,) count, if given. Turns and looseness are examined at the points `key` only. Point
    numbers and counts in the sentences refer to all points. `unfolded` is the search for folds in the largest part.
    """
    said = [
        "Distances do not determine where the map lies, its orientation, or whether it is a mirror image.",
        "The scale of the map is as good as the calibration of the ranges.",
    ]
    used = np.ones(len(ranges), dtype=bool) if used is None else used
    ends = np.concatenate([ranges.i[used], ranges.j[used]])
    degrees = np.bincount(ends, minlength=ranges.count)
    said += _parts(parts, degrees)
    said += _flexible(degrees, positions.shape[1])
    key = np.arange(ranges.count) if key is None else key
    largest = key[parts[key] == 0]
    member = np.zeros(ranges.count, dtype=bool)
    member[largest] = True
    own = ranges.where(used & member[ranges.i] & member[ranges.j]).among(largest)
    where = " in the largest part (the others were not examined)" if (np.bincount(parts) > 1).sum() > 1 else ""
    level = noise if noise > 0 else 1.0
    said += _turns(own, positions[largest], level, largest, where)
    if len(largest) > EXAMINED:
        count = int((parts == 0).sum())
        said.append(
            f"How precisely the ranges determine the shape was not examined{where}, because it has {count:,} points."
        )
    else:
        error = expected_error(own, positions[largest], level, seed=seed)
        said += _looseness(error, positions[largest], where, searched=unfolded is not None)
        said += _elsewhere(unfolded, error, where)
    said += _misfit(noise)
    said += _unused(ranges, parts, used) if unfolded is not None else []
    return tuple(said)


def undecided_turns(ranges: Ranges, positions: Floats, noise: float = 1.0) -> tuple[Ints, int]:
    """Find points of a connected part after which the rest of the sequence could be mirrored; also count the tests.

    The sequence is cut after a point where all ranges across the cut lie in one place, and the rest is mirrored there
    (see `cut_behind`). If the ranges across the cut then fit as well, they do not decide between the two maps.
    """
    cuts = places(ranges, positions, both=True)
    cuts = cuts[evenly(len(cuts), CUTS)]
    found = [cut_behind(ranges, positions, cut) for cut in cuts.tolist()]
    undecided = [cut.behind for cut in found if cut.after - cut.before < AS_GOOD * noise**2]
    return np.array(undecided, dtype=np.int64), len(cuts)


def expected_error(ranges: Ranges, positions: Floats, noise: float = 1.0, *, seed: int = 0) -> float:
    """Estimate the error in metres (root mean square) that range noise leaves in the shape of a connected part.

    This is the Cramér-Rao bound at the positions: the trace of the inverse of the information matrix J'J of the ranges.
    Rigid motions of the whole part do not count. The bound is a linear approximation. It is limited to about the radius
    of gyration of the part; then the shape is nearly arbitrary.
    """
    count, dimensions = positions.shape
    centered = positions - positions.mean(0)
    squared_gyration = max(float(np.square(centered).sum(1).mean()), 1e-12)
    information = Information(ranges, directions(ranges, positions)[0] / noise)
    damping = max(1 / (count * squared_gyration), SINGULAR * float(information.diagonal.max(initial=0.0)))
    solve = information.factored(np.full(count * dimensions, damping))
    del information  # it is large
    return aligned_error(positions, solve, seed)


def aligned_error(positions: Floats, solve: Callable[[Floats], Floats], seed: int = 0) -> float:
    """Return the root mean square error in metres after rigid alignment, from the inverse of an information matrix.

    `solve` multiplies vectors (count * k, m) by the inverse. A few random probes estimate its trace.
    """
    probes = generator(seed, Purpose.PROBES).choice([-1.0, 1.0], (positions.size, PROBES))
    motions = np.linalg.qr(_rigid_motions(positions - positions.mean(0)))[0]
    probes -= motions @ (motions.T @ probes)
    return float(np.sqrt((probes * solve(probes)).sum(0).mean() / len(positions)))


def _parts(parts: Ints, degrees: Ints) -> list[str]:
    said = []
    sizes = np.bincount(parts[degrees > 0], minlength=1)
    sizes = np.sort(sizes[sizes > 0])[::-1]
    alone = int((degrees == 0).sum())
    if len(sizes) > 1:
        shown = ", ".join(f"{size:,}" for size in sizes[:5]) + (", ..." if len(sizes) > 5 else "")
        said.append(
            f"The map has {len(sizes):,} parts ({shown} points) that no range connects: each part has coordinates of"
            " its own."
        )
    if alone:
        first = np.argmax(degrees == 0)
        said.append(f"{_points(alone)} no range, so {_their(alone)} unknown (first: {first}).")
    return said


def _flexible(degrees: Ints, dimensions: int) -> list[str]:
    few = (degrees > 0) & (degrees <= dimensions)
    count = int(few.sum())
    if not count:
        return []
    return [
        f"{_points(count)} fewer than {dimensions + 1} ranges and could as well lie elsewhere"
        f" (first: {np.argmax(few)})."
    ]


def _turns(ranges: Ranges, positions: Floats, noise: float, names: Ints, where: str) -> list[str]:
    undecided, tried = undecided_turns(ranges, positions, noise)
    if not len(undecided):
        return []
    first, last = names[undecided[0]], names[undecided[-1]]
    return [
        f"The ranges do not decide whether the route turns left or right{where}. At {len(undecided)} of {tried} tested"
        f" places (from point {first} to point {last}), the rest of the route could be mirrored and fit as well."
    ]


def _looseness(error: float, positions: Floats, where: str, *, searched: bool) -> list[str]:
    gyration = float(np.sqrt(np.square(positions - positions.mean(0)).sum(1).mean()))
    if error <= LOOSE * gyration and not searched:
        return [f"Wrong folds of the map were not searched for{where}."]
    if error <= LOOSE * gyration:
        return [f"The ranges determine the shape{where} to about {error:.2g} m (root mean square)."]
    return [
        f"The ranges determine the shape only loosely{where}: because of their noise, expect an error of"
        f" {min(error, gyration):.0f} m or more (radius of gyration: {gyration:.0f} m). Which points are connected is"
        " known, but not how the route bends."
    ]


def _elsewhere(unfolded: Unfolded | None, error: float, where: str) -> list[str]:
    if unfolded is None or unfolded.other is None:
        return []
    off = aligned_score(unfolded.other, unfolded.points, scale=False).rmse
    if off <= ELSEWHERE * error:
        return []
    how = f": it mirrors all points after point {unfolded.behind}" if unfolded.behind >= 0 else ""
    return [f"Another map fits the ranges{where} about as well, {off:.2g} m from this map (root mean square){how}."]


def _unused(ranges: Ranges, parts: Ints, used: Bools) -> list[str]:
    together = parts[ranges.i] == parts[ranges.j]
    off, every = int((together & ~used).sum()), int(together.sum())
    if off <= max(BY_CHANCE, SHARE_BY_CHANCE * every):
        return []
    return [
        f"{off:,} of {every:,} ranges are far off and were not used: either these ranges are false, or the map is"
        " folded wrongly there."
    ]


def _misfit(noise: float) -> list[str]:
    if np.isnan(noise):
        return ["The noise of the ranges is unknown, because there are hardly more ranges than coordinates."]
    if noise > MISFIT:
        return [
            f"The errors of the ranges are {noise:.1f} times their sigma. Either sigma is too small, or the map is"
            " folded wrongly somewhere, or many ranges are false."
        ]
    return []


def _rigid_motions(centered: Floats) -> Floats:
    """Return the changes of all coordinates by translations and rotations: (count * k, k + k (k - 1) / 2)."""
    count, dimensions = centered.shape
    motions = [np.tile(axis, (count, 1)) for axis in np.eye(dimensions)]
    for one in range(dimensions):
        for two in range(one):
            turn = np.zeros_like(centered)
            turn[:, one], turn[:, two] = centered[:, two], -centered[:, one]
            motions.append(turn)
    columns: Floats = np.stack([motion.ravel() for motion in motions], 1)
    return columns


def _points(count: int) -> str:
    return f"{count:,} point{' has' if count == 1 else 's have'}"


def _their(count: int) -> str:
    return "its position is" if count == 1 else "their positions are"
