"""Factor graphs: poses, landmarks, relative motions, ranges and known positions, as SLAM libraries exchange them."""

from dataclasses import dataclass, replace

import numpy as np

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError
from mappable.recovery.anchored.pipeline import recover_anchored
from mappable.recovery.anchored.problem import Problem
from mappable.recovery.anchored.refine import settle
from mappable.recovery.anchored.relative import Relative
from mappable.recovery.hints import Anchors, Motions
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
    seconds: Floats | None = None  # (n,)
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

    A single known pose places the whole map. Of several known poses, the positions count.
    """
    known, placed = graph.known, None
    if graph.priors is not None:
        sigma = np.sqrt(np.einsum("maa->ma", graph.priors.covariance)[:, :-1].max(1))
        if known is None and len(graph.priors) == 1 and graph.motions is not None:
            placed = graph.priors
        else:
            points, positions = graph.priors.j, graph.priors.metres
            if known is not None:
                points, sigma = np.append(points, known.points), np.append(sigma, known.sigma)
                positions = np.concatenate([positions, known.positions])
            known = Anchors(points, positions, sigma)
    if known is None and graph.motions is None:
        raise BadInputError("the graph has no motions and no known positions: give one of them")
    found = recover_anchored(graph.ranges, known, ordered=ordered, motions=graph.motions, seed=seed)
    if placed is None or found.frames is None or found.covariances is None:
        return found
    point = int(placed.j[0])
    turn = placed.rotations[0] @ found.frames[point].T
    positions = (found.positions - found.positions[point]) @ turn.T + placed.metres[0]
    covariances = turn @ found.covariances @ turn.T
    return replace(found, positions=positions, frames=turn @ found.frames, covariances=covariances)


def join_motions(some: list[Motions]) -> Motions:
    """Return all motions in one object."""
    fields = ("i", "j", "metres", "rotations", "covariance")
    return Motions(*(np.concatenate([getattr(one, name) for one in some]) for name in fields))


def graph_of(ranges: Ranges, recovered: Recovered, anchors: Anchors | None, motions: Motions | None) -> Graph:
    """Return a recovery as a factor graph: placed points, the ranges that were used, and the estimated noise."""
    placed = ~np.isnan(recovered.positions[:, 0])
    number = np.cumsum(placed) - 1
    oriented = np.zeros(ranges.count, dtype=bool)
    frames = np.tile(np.eye(recovered.positions.shape[1]), (ranges.count, 1, 1))
    if motions is not None and recovered.frames is not None and recovered.motion_noise is not None:
        oriented[motions.i] = oriented[motions.j] = True
        frames[placed] = recovered.frames[placed]
        k, d = motions.metres.shape[1], motions.covariance.shape[1]
        scales = np.repeat(recovered.motion_noise, [k, d - k])
        some = motions.where(placed[motions.i] & placed[motions.j])
        noise = some.covariance * scales[:, None] * scales
        motions = Motions(number[some.i], number[some.j], some.metres, some.rotations, noise)
    if anchors is not None:
        kept = placed[anchors.points]
        anchors = Anchors(number[anchors.points[kept]], anchors.positions[kept], anchors.sigma[kept])
    used = ranges.where(recovered.used).among(np.flatnonzero(placed))
    level = recovered.noise if np.isfinite(recovered.noise) and recovered.noise > 0 else 1.0
    names = tuple(f"{'A' if oriented[point] else 'L'}{point}" for point in np.flatnonzero(placed).tolist())
    measured = Ranges(used.count, used.i, used.j, used.metres, used.sigma * level)
    return Graph(names, recovered.positions[placed], frames[placed], oriented[placed], measured, motions, anchors)
