"""What distances do not determine about a recovered map, in sentences."""

import numpy as np

from mappable.arrays import Bools, Floats, Ints, evenly
from mappable.randomness import Purpose, generator
from mappable.recovery.align import aligned_score
from mappable.recovery.ranges import Ranges
from mappable.recovery.unanchored.folds import AS_GOOD, Unfolded, cut_behind, places
from mappable.recovery.unanchored.normal import Information, directions

CUTS = 64  # places along a sequence that are looked at
LOOSE = 0.1  # expected error, of the radius of gyration
ELSEWHERE = 2.0  # expected errors, by which another map must differ to be named
MISFIT = 1.3  # noise beyond the stated one
FEW, SHARE = 3, 1e-3  # ranges, and share of them, that are off by four deviations by chance
SINGULAR = 1e-11  # of the largest entry on the diagonal: keeps what moves the whole solvable, if ranges are exact
PROBES = 8
EXAMINED = 20_000  # points, beyond which looseness is not examined


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
    """All that the ranges leave open about positions (count, k) recovered from them, in parts (count,).

    Only the ranges `used` (edges,) count, if given. Turns and looseness are examined at the points `key` alone, which
    have numbers like all others; counts are of all points. `unfolded` is the search for folds in the largest part.
    """
    said = [
        "The map has no place and no direction of its own and may be its own mirror image: distances do not tell.",
        "Its scale is as good as the calibration of the ranges.",
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
        said.append(f"How firmly the ranges hold the shape was not examined{where}: it has {count:,} points.")
    else:
        error = expected_error(own, positions[largest], level, seed=seed)
        said += _looseness(error, positions[largest], where, searched=unfolded is not None)
        said += _elsewhere(unfolded, error, where)
    said += _misfit(noise)
    said += _unused(ranges, parts, used) if unfolded is not None else []
    return tuple(said)


def undecided_turns(ranges: Ranges, positions: Floats, noise: float = 1.0) -> tuple[Ints, int]:
    """Points of a connected part behind which all that follows in order could be mirrored, and how many were tried.

    The sequence is cut behind a point where all ranges across the cut lie in one place, and what follows is mirrored
    there (see `cut_behind`). If the ranges across the cut fit no worse, nothing tells which is true.
    """
    cuts = places(ranges, positions, both=True)
    cuts = cuts[evenly(len(cuts), CUTS)]
    found = [cut_behind(ranges, positions, cut) for cut in cuts.tolist()]
    undecided = [cut.behind for cut in found if cut.after - cut.before < AS_GOOD * noise**2]
    return np.array(undecided, dtype=np.int64), len(cuts)


def expected_error(ranges: Ranges, positions: Floats, noise: float = 1.0, *, seed: int = 0) -> float:
    """The error in metres (root mean square) that the noise of the ranges leaves in a connected part's shape.

    That is the Cramér-Rao bound at the positions: the trace of the inverse of the information J'J that the ranges
    have about them, without what moves or turns the whole; estimated by a few random probes. It is linear, and ends
    at about the part's radius of gyration, which means that the shape can be about anything.
    """
    count, dimensions = positions.shape
    centred = positions - positions.mean(0)
    squared_gyration = max(float(np.square(centred).sum(1).mean()), 1e-12)
    information = Information(ranges, directions(ranges, positions)[0] / noise)
    damping = max(1 / (count * squared_gyration), SINGULAR * float(information.diagonal.max(initial=0.0)))
    solve = information.factored(np.full(count * dimensions, damping))
    del information  # it is large
    probes = generator(seed, Purpose.PROBES).choice([-1.0, 1.0], (count * dimensions, PROBES))
    motions = np.linalg.qr(_rigid_motions(centred))[0]
    probes -= motions @ (motions.T @ probes)
    return float(np.sqrt((probes * solve(probes)).sum(0).mean() / count))


def _parts(parts: Ints, degrees: Ints) -> list[str]:
    said = []
    sizes = np.bincount(parts[degrees > 0], minlength=1)
    sizes = np.sort(sizes[sizes > 0])[::-1]
    alone = int((degrees == 0).sum())
    if len(sizes) > 1:
        shown = ", ".join(f"{size:,}" for size in sizes[:5]) + (", ..." if len(sizes) > 5 else "")
        said.append(
            f"The ranges leave {len(sizes):,} parts ({shown} points) that nothing connects: each has"
            " coordinates of its own."
        )
    if alone:
        first = np.argmax(degrees == 0)
        said.append(f"{_points(alone)} no range, so that nothing is known of where {_they(alone)} (first: {first}).")
    return said


def _flexible(degrees: Ints, dimensions: int) -> list[str]:
    few = (degrees > 0) & (degrees <= dimensions)
    count = int(few.sum())
    if not count:
        return []
    return [
        f"{_points(count)} fewer than {dimensions + 1} ranges and could lie elsewhere as well"
        f" (first: {np.argmax(few)})."
    ]


def _turns(ranges: Ranges, positions: Floats, noise: float, names: Ints, where: str) -> list[str]:
    undecided, tried = undecided_turns(ranges, positions, noise)
    if not len(undecided):
        return []
    first, last = names[undecided[0]], names[undecided[-1]]
    return [
        f"Whether the route turns left or right is not decided{where}: at {len(undecided)} of {tried} places looked at"
        f" (from point {first} to point {last}) all that follows could be mirrored, and the ranges fit as well."
    ]


def _looseness(error: float, positions: Floats, where: str, *, searched: bool) -> list[str]:
    gyration = float(np.sqrt(np.square(positions - positions.mean(0)).sum(1).mean()))
    if error <= LOOSE * gyration and not searched:
        return [f"Whether the map is folded wrongly somewhere was not examined{where}."]
    if error <= LOOSE * gyration:
        return [f"The ranges determine the shape{where} to about {error:.2g} m (root mean square)."]
    return [
        f"The ranges hold the shape loosely{where}: by their noise an error of {min(error, gyration):.0f} m or more is"
        f" to be expected, beside a radius of gyration of {gyration:.0f} m. What connects to what is known, but not"
        " how it bends."
    ]


def _elsewhere(unfolded: Unfolded | None, error: float, where: str) -> list[str]:
    if unfolded is None or unfolded.other is None:
        return []
    off = aligned_score(unfolded.other, unfolded.points, scale=False).rmse
    if off <= ELSEWHERE * error:
        return []
    how = f": there all behind point {unfolded.behind} is mirrored" if unfolded.behind >= 0 else ""
    return [f"Another map fits the ranges{where} about as well, {off:.2g} m from this one (root mean square){how}."]


def _unused(ranges: Ranges, parts: Ints, used: Bools) -> list[str]:
    together = parts[ranges.i] == parts[ranges.j]
    off, every = int((together & ~used).sum()), int(together.sum())
    if off <= max(FEW, SHARE * every):
        return []
    return [
        f"{off:,} of {every:,} ranges are far off and were not used: either they are false, or the map is folded"
        " wrongly there."
    ]


def _misfit(noise: float) -> list[str]:
    if np.isnan(noise):
        return ["There are hardly more ranges than coordinates, so that their noise cannot be known."]
    if noise > MISFIT:
        return [
            f"The ranges are off by {noise:.1f} times what their sigma says: either that is too small, or the map is"
            " folded wrongly somewhere, or many ranges are false."
        ]
    return []


def _rigid_motions(centred: Floats) -> Floats:
    """What moving and turning all points does to their coordinates: (count * k, k + k (k - 1) / 2)."""
    count, dimensions = centred.shape
    motions = [np.tile(axis, (count, 1)) for axis in np.eye(dimensions)]
    for one in range(dimensions):
        for two in range(one):
            turn = np.zeros_like(centred)
            turn[:, one], turn[:, two] = centred[:, two], -centred[:, one]
            motions.append(turn)
    columns: Floats = np.stack([motion.ravel() for motion in motions], 1)
    return columns


def _points(count: int) -> str:
    return f"{count:,} point{' has' if count == 1 else 's have'}"


def _they(count: int) -> str:
    return "it is" if count == 1 else "they are"
