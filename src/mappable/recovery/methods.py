"""All ways to recover positions from ranges alone, by their names: the default, and those to compare it with."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError
from mappable.recovery.matrices.completion import Completed, s_stress
from mappable.recovery.matrices.sdp import LIMIT, sdp_frobenius, sdp_trace
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from mappable.recovery.unanchored.mds import landmark_geodesic_mds
from mappable.recovery.unanchored.pipeline import noise_level, recover
from mappable.recovery.unanchored.smacof import sparse_smacof
from mappable.recovery.unanchored.undetermined import sentences

FEW = 300  # points that a dense comparison takes


@dataclass(frozen=True)
class Method:
    """A way to recover positions, and how many points it is made for."""

    summary: str
    run: Callable[[Ranges, int, int], Recovered]  # ranges, dimensions, seed
    most: float = np.inf


def method(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise BadInputError(f"there is no method {name!r}; there are {', '.join(METHODS)}")
    return METHODS[name]


def _geodesic(ranges: Ranges, dimensions: int, seed: int) -> Recovered:
    return _result(ranges, landmark_geodesic_mds(ranges, dimensions, seed=seed), seed)


def _smacof(ranges: Ranges, dimensions: int, seed: int) -> Recovered:
    start = landmark_geodesic_mds(ranges, dimensions, seed=seed)
    return _result(ranges, sparse_smacof(ranges, start).points, seed)


def _dense(summary: str, complete: Callable[[Floats, Bools, int], Completed], most: int) -> Method:
    """A method that completes a masked matrix of squared distances, of so many points at most."""

    def run(ranges: Ranges, dimensions: int, seed: int) -> Recovered:
        if ranges.count > most:
            raise BadInputError(
                f"{summary} is for at most {most} points, not {ranges.count:,}: "
                "use mappable.recover, the default method, which takes any number, or fewer of the points"
            )
        squared = np.square(ranges.graph.toarray())
        mask = np.eye(ranges.count, dtype=bool)
        mask[ranges.i, ranges.j] = mask[ranges.j, ranges.i] = True
        return _result(ranges, complete(squared, mask, dimensions).positions, seed)

    return Method(summary, run, most)


def _result(ranges: Ranges, positions: Floats, seed: int) -> Recovered:
    parts = ranges.parts
    noise = noise_level(ranges, positions, parts)
    said = sentences(ranges, positions, parts, noise, seed=seed)
    return Recovered(positions, parts, np.ones(len(ranges), dtype=bool), noise, said)


METHODS = {
    "default": Method(
        "false ranges out, landmark geodesic MDS, sparse weighted SMACOF",
        lambda ranges, dimensions, seed: recover(ranges, dimensions, seed=seed),
    ),
    "geodesic": Method("MDS of shortest paths, with all ranges", _geodesic),
    "smacof": Method("sparse weighted SMACOF from there, with all ranges", _smacof),
    "sdp": _dense("the paper's semidefinite program, in its tighter trace form,", sdp_trace, LIMIT),
    "sdp-frobenius": _dense("the paper's semidefinite program, in its plain form,", sdp_frobenius, LIMIT),
    "s-stress": _dense("s-stress", s_stress, FEW),
}
