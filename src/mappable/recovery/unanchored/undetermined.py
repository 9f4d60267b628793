"""What distances do not determine about a recovered map, in sentences."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import splu

from mappable.arrays import Floats, Ints, evenly
from mappable.randomness import Purpose, generator
from mappable.recovery.ranges import Ranges

CUTS = 64  # places along a sequence that are looked at
FREE = 3  # points on each side of a cut that no range leads across it from
AS_GOOD = 25.0  # rise of the sum of squared residuals, in sigmas, that still counts as no worse
LOOSE = 0.1  # expected error, of the radius of gyration
MISFIT = 1.3  # noise beyond the stated one
PROBES = 8
EXAMINED = 20_000  # points, beyond which looseness is not examined


def sentences(
    ranges: Ranges, positions: Floats, parts: Ints, noise: float, *, names: Ints, seed: int = 0
) -> tuple[str, ...]:
    """All that the ranges leave open about positions (count, k) recovered from them, in parts (count,).

    The points are called by their `names` (count,), numbers that the user knows them by.
    """
    said = [
        "The map has no place and no direction of its own and may be its own mirror image: distances do not tell.",
        "Its scale is as good as the calibration of the ranges.",
    ]
    dimensions = positions.shape[1]
    degrees = np.bincount(np.concatenate([ranges.i, ranges.j]), minlength=ranges.count)
    said += _parts(parts, degrees, names)
    said += _flexible(degrees, dimensions, names)
    largest = np.flatnonzero(parts == 0)
    own = ranges if len(largest) == ranges.count else ranges.among(largest)
    where = " in the largest part (the others were not examined)" if (np.bincount(parts) > 1).sum() > 1 else ""
    level = noise if noise > 0 else 1.0
    said += _turns(own, positions[largest], level, names[largest], where)
    said += _looseness(own, positions[largest], level, seed, where)
    said += _misfit(noise)
    return tuple(said)


def undecided_turns(ranges: Ranges, positions: Floats, noise: float = 1.0) -> tuple[Ints, int]:
    """Points of a connected part behind which all that follows in order could be mirrored, and how many were tried.

    The sequence is cut behind a point where all ranges across the cut lie in one place. What follows is mirrored at
    the line (in three dimensions the plane) that runs through that place: a point h1 beside the line and one h2 beside
    it were d apart and are √(d² + 4 h1 h2) now. If the ranges across the cut fit no worse, nothing tells which is true.
    """
    cuts = _in_one_place(ranges, positions)
    cuts = cuts[evenly(len(cuts), CUTS)]
    undecided = [cut for cut in cuts.tolist() if _mirrors(ranges, positions, noise, cut)]
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
    jacobian = _jacobian(ranges, positions, noise)
    information = (jacobian.T @ jacobian).tocsc()
    del jacobian  # these are large, and what follows is larger
    information.setdiag(information.diagonal() + 1 / (count * squared_gyration))
    factor = splu(information, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    del information
    probes = generator(seed, Purpose.PROBES).choice([-1.0, 1.0], (count * dimensions, PROBES))
    motions = np.linalg.qr(_rigid_motions(centred))[0]
    probes -= motions @ (motions.T @ probes)
    return float(np.sqrt((probes * factor.solve(probes)).sum(0).mean() / count))


def _parts(parts: Ints, degrees: Ints, names: Ints) -> list[str]:
    said = []
    sizes = np.bincount(parts)
    alone = int((degrees == 0).sum())
    if len(sizes) - alone > 1:
        shown = ", ".join(f"{size:,}" for size in sizes[sizes > 1][:5]) + (", ..." if (sizes > 1).sum() > 5 else "")
        said.append(
            f"The ranges leave {len(sizes) - alone:,} parts ({shown} points) that nothing connects: each has"
            " coordinates of its own."
        )
    if alone:
        first = names[np.argmax(degrees == 0)]
        said.append(f"{_points(alone)} no range, so that nothing is known of where {_they(alone)} (first: {first}).")
    return said


def _flexible(degrees: Ints, dimensions: int, names: Ints) -> list[str]:
    few = (degrees > 0) & (degrees <= dimensions)
    count = int(few.sum())
    if not count:
        return []
    return [
        f"{_points(count)} fewer than {dimensions + 1} ranges and could lie elsewhere as well"
        f" (first: {names[np.argmax(few)]})."
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


def _looseness(ranges: Ranges, positions: Floats, noise: float, seed: int, where: str) -> list[str]:
    if ranges.count > EXAMINED:
        return [f"How firmly the ranges hold the shape was not examined{where}: it has {ranges.count:,} points."]
    gyration = float(np.sqrt(np.square(positions - positions.mean(0)).sum(1).mean()))
    error = min(expected_error(ranges, positions, noise, seed=seed), gyration)
    if error <= LOOSE * gyration:
        return []
    return [
        f"The ranges hold the shape loosely{where}: by their noise an error of {error:.0f} m or more is to be expected,"
        f" beside a radius of gyration of {gyration:.0f} m. What connects to what is known, but not how it bends."
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


def _in_one_place(ranges: Ranges, positions: Floats) -> Ints:
    """The points behind which a cut leaves all ranges across it within the longest range of each other."""
    middles = (positions[ranges.i] + positions[ranges.j]) / 2 - positions.mean(0)
    columns = np.column_stack([np.ones(len(ranges)), middles, np.square(middles).sum(1)])
    across = np.stack(
        [
            (np.bincount(ranges.i, column, ranges.count) - np.bincount(ranges.j, column, ranges.count)).cumsum()
            for column in columns.T
        ],
        1,
    )[:-1]
    number = np.maximum(across[:, 0], 1.0)
    squared_spread = across[:, -1] / number - np.square(across[:, 1:-1] / number[:, None]).sum(1)
    return np.flatnonzero((across[:, 0] > 0.5) & (squared_spread <= np.square(ranges.metres.max(initial=0.0))))


def _mirrors(ranges: Ranges, positions: Floats, noise: float, cut: int) -> bool:
    across = (ranges.i <= cut) & (ranges.j > cut)
    i, j, metres, sigma = ranges.i[across], ranges.j[across], ranges.metres[across], ranges.sigma[across]
    before, behind = cut + 1 - len(np.unique(i)), ranges.count - cut - 1 - len(np.unique(j))
    if min(before, behind) < FREE:
        return False
    one, two = positions[i], positions[j]
    centre = (one.mean(0) + two.mean(0)) / 2
    place = np.concatenate([one, two]) - centre
    normal = np.linalg.eigh(place.T @ place)[1][:, 0]  # across which the place is thinnest
    squared = np.square(one - two).sum(1)
    mirrored = np.sqrt(np.maximum(squared + 4 * ((one - centre) @ normal) * ((two - centre) @ normal), 0.0))
    misfits = [float(np.square((lengths - metres) / sigma).sum()) for lengths in (np.sqrt(squared), mirrored)]
    return misfits[1] - misfits[0] < AS_GOOD * noise**2


def _jacobian(ranges: Ranges, positions: Floats, noise: float) -> csr_array:
    """How each range changes (edges, count * k) with the coordinates, in units of its deviation."""
    dimensions = positions.shape[1]
    apart = positions[ranges.i] - positions[ranges.j]
    lengths = np.maximum(np.linalg.norm(apart, axis=1), 1e-9)
    slopes = apart / (lengths * ranges.sigma * noise)[:, None]
    axes = np.arange(dimensions)
    columns = np.concatenate([ranges.i[:, None] * dimensions + axes, ranges.j[:, None] * dimensions + axes], 1)
    begins = np.arange(0, 2 * dimensions * len(ranges) + 1, 2 * dimensions)
    shape = (len(ranges), ranges.count * dimensions)
    return csr_array((np.concatenate([slopes, -slopes], 1).ravel(), columns.ravel(), begins), shape=shape)


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
