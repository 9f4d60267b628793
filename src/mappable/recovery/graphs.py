"""Factor graphs: poses, landmarks, relative motions, ranges and known positions, as SLAM libraries exchange them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.recovery.anchored import undetermined
from mappable.recovery.anchored.pipeline import GAUGE, recover_anchored
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.refine import settle
from mappable.recovery.anchored.relative import Relative
from mappable.recovery.hints import Anchors, Motions, among
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered

STEPS, TOLERANCE = 300, 1e-10  # of the solver, in metres and radians
UNUSED = 1e9  # metres: sigma of a position that must not count


@dataclass(frozen=True, eq=False)
class Graph:
    """A factor graph of n points; a point with an orientation is a pose, any other is a landmark.

    `known` are known positions. `priors` are known poses: motions whose i is the world, which has the number n.
    """

    names: tuple[str, ...]
    positions: Floats  # (n, k)
    frames: Floats  # (n, k, k): orientations; the identity for landmarks
    oriented: Bools  # (n,)
    ranges: Ranges
    motions: Motions | None = None
    known: Anchors | None = None
    priors: Motions | None = None
    seconds: Floats | None = None  # (n,); NaN for landmarks
    fixed: tuple[int, ...] = ()  # points that keep their position and orientation


@dataclass(frozen=True, eq=False)
class Optimum:
    """The least-squares solution of a graph: a local minimum near the positions of the graph."""

    positions: Floats  # (n, k)
    frames: Floats  # (n, k, k)
    cost: float  # half the sum of the squared residuals, in sigmas
    covariances: Floats  # (n, k, k) of the positions, in square metres


def optimum(graph: Graph) -> Optimum:
    """Minimize the squared residuals as the graph states them; nothing is estimated besides poses and landmarks.

    Without known positions and poses, the first pose stays where it is.
    """
    n, k = graph.positions.shape
    given = [one for one in (graph.motions, graph.priors) if one is not None]
    fixed = list(graph.fixed)
    if graph.known is None and graph.priors is None and not fixed:
        fixed = [int(np.argmax(graph.oriented))]
    world = graph.priors is not None
    start = np.concatenate([graph.positions, np.zeros((1, k))]) if world else graph.positions
    frames = np.concatenate([graph.frames, np.eye(k)[None]]) if world else graph.frames
    fixed += [n] if world else []
    ranges = graph.ranges
    ranges = Ranges(len(start), ranges.i, ranges.j, ranges.metres, ranges.sigma)
    known = graph.known if graph.known is not None else Anchors(fixed[:1], start[fixed[:1]], UNUSED)
    relative = Relative(join_motions(given), frames) if given else None
    problem = Problem(ranges, known, [], None, None, start, np.inf, relative, plain=True)
    problem.fixed = np.array(fixed, dtype=np.int64)
    state = settle(problem, problem.state, steps=STEPS, tolerance=TOLERANCE)
    problem.look(state)
    diagonal, coupling, _ = problem.system()
    covariances = problem.plan.factor(diagonal, coupling).inverse()[0][:n, :k, :k].copy()
    covariances[[point for point in fixed if point < n]] = 0.0
    turned = graph.frames if relative is None else relative.orientations(state)[:n]
    return Optimum(state[:n, :k], turned, problem.objective(), covariances)


def recover_graph(graph: Graph, *, ordered: bool = False, seed: int = 0) -> Recovered:
    """Recover the points of a graph robustly: noise, drift and false ranges are estimated.

    A single known pose places the whole map. Of several known poses, the positions count. Without any known pose or
    position, the first pose stays where it is.
    """
    known = known_positions(graph)
    if known is None and graph.motions is None:
        raise BadInputError("the graph has no motions and no known positions: give one of them; the file may be cut")
    point = placing_pose(graph)
    anchors = known if point is None else None
    found = recover_anchored(
        graph.ranges,
        anchors,
        ordered=ordered,
        motions=graph.motions,
        seed=seed,
        gauge=point,
        start=(graph.positions, graph.frames),
    )
    found = replace(found, undetermined=(*found.undetermined, *_unmoved(graph)))
    if point is None or found.frames is None or found.covariances is None:
        return found
    position, frame = graph.positions[point], graph.frames[point]
    if known is not None:
        position = known.positions[0]
    if graph.priors is not None:
        frame = graph.priors.rotations[0]
    if known is None:
        said = f"No position is known: point {point} stays where the graph has it"
    else:
        said = f"Only the pose of point {point} is known"
    return replace(
        found,
        positions=found.positions @ frame.T + position,
        frames=frame @ found.frames,
        covariances=frame @ found.covariances @ frame.T,
        undetermined=(f"{said}, and covariances are relative to it. {undetermined.SCALE}", *found.undetermined[1:]),
    )


def _unmoved(graph: Graph) -> Iterator[str]:
    """Report poses that no motion reaches, if any motion is given."""
    if graph.motions is None:
        return
    unmoved = graph.oriented.copy()
    unmoved[graph.motions.i] = unmoved[graph.motions.j] = False
    if unmoved.any():
        yield (
            f"{unmoved.sum():,} of {graph.oriented.sum():,} poses have no motion (first: point"
            f" {int(np.argmax(unmoved))}): they rest on ranges and known positions, or the file was cut."
        )


def placing_pose(graph: Graph) -> int | None:
    """Return the point whose pose places the whole map, because nothing else does; None if known positions do."""
    known = known_positions(graph)
    if graph.motions is None or (known is not None and len(known) > 1):
        return None
    if known is None:
        return graph.fixed[0] if graph.fixed else int(min(graph.motions.i.min(), graph.motions.j.min()))
    posed = [*graph.fixed, *([] if graph.priors is None else graph.priors.j.tolist())]
    point = int(known.points[0])
    return point if point in posed and graph.oriented[point] else None


def known_positions(graph: Graph) -> Anchors | None:
    """Return all known positions, with those of known poses and of fixed points; the mean if one is known twice.

    A pose that is fixed alone only says where the map begins, so it is not known.
    """
    if graph.known is None and graph.priors is None and len(graph.fixed) == 1 and graph.oriented[graph.fixed[0]]:
        return None
    fixed = np.array(graph.fixed, dtype=np.int64)
    some = [(fixed, graph.positions[fixed], np.full(len(fixed), GAUGE))] if len(fixed) else []
    if graph.known is not None:
        some.append((graph.known.points, graph.known.positions, graph.known.sigma))
    if graph.priors is not None:
        sigma = np.sqrt(np.einsum("maa->ma", graph.priors.covariance)[:, : graph.positions.shape[1]].max(1))
        some.append((graph.priors.j, graph.priors.metres, sigma))
    if not some:
        return None
    points, positions, sigma = (np.concatenate(column) for column in zip(*some, strict=True))
    return mean_anchors(points, positions, sigma)


def mean_anchors(points: Ints, positions: Floats, sigma: Floats) -> Anchors:
    """Return known positions with the weighted mean of those of the same point."""
    own, row = np.unique(points, return_inverse=True)
    weight = np.bincount(row, sigma**-2.0)
    sums = [np.bincount(row, sigma**-2.0 * column) for column in positions.T]
    return Anchors(own, np.stack(sums, 1) / weight[:, None], weight**-0.5)


def join_motions(some: list[Motions]) -> Motions:
    """Return all motions in one object."""
    fields = ("i", "j", "metres", "rotations", "covariance")
    return Motions(*(np.concatenate([getattr(one, name) for one in some]) for name in fields))


def graph_of(ranges: Ranges, recovered: Recovered, anchors: Anchors | None) -> Graph:
    """Return a recovery as a factor graph: placed points, what was used, and the estimated noise."""
    placed = ~np.isnan(recovered.positions[:, 0])
    oriented = np.zeros(ranges.count, dtype=bool)
    frames = np.tile(np.eye(recovered.positions.shape[1]), (ranges.count, 1, 1))
    motions = recovered.motions
    if motions is not None and recovered.frames is not None:
        oriented[motions.i] = oriented[motions.j] = True
        frames[placed] = recovered.frames[placed]
    used = ranges.where(recovered.used).among(np.flatnonzero(placed))
    level = recovered.noise if np.isfinite(recovered.noise) and recovered.noise > 0 else 1.0
    names = tuple(f"{'A' if oriented[point] else 'L'}{point}" for point in np.flatnonzero(placed).tolist())
    measured = Ranges(used.count, used.i, used.j, used.metres, used.sigma * level)
    known, motions = among(anchors, placed), among(motions, placed)
    return Graph(names, recovered.positions[placed], frames[placed], oriented[placed], measured, motions, known)


def as_given(solved: Graph, given: Graph, recovered: Recovered) -> Graph:
    """Return a solved graph with the names, times and known poses of the graph that it was recovered from."""
    placed = ~np.isnan(recovered.positions[:, 0])
    number = np.cumsum(placed) - 1
    priors = given.priors
    if priors is not None:
        own = priors.where(placed[priors.j])
        world = np.full(len(own), len(solved.names))
        priors = Motions(world, number[own.j], own.metres, own.rotations, own.covariance) if len(own) else None
    return replace(
        solved,
        frames=np.where(solved.oriented[:, None, None], solved.frames, given.frames[placed]),
        oriented=given.oriented[placed],
        names=tuple(name for name, kept in zip(given.names, placed, strict=True) if kept),
        known=among(given.known, placed),
        priors=priors,
        seconds=None if given.seconds is None else given.seconds[placed],
        fixed=tuple(int(number[point]) for point in given.fixed if placed[point]),
    )
