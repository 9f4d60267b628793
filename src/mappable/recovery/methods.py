"""All methods that recover positions from ranges alone, by name: the default, and others for comparison."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError
from mappable.recovery.matrices.sdp import LIMIT, Completed, sdp_frobenius, sdp_trace
from mappable.recovery.mds import landmark_geodesic_mds
from mappable.recovery.ranges import Ranges
from mappable.recovery.result import Recovered
from mappable.recovery.shape import recover_shape, shape_of
from mappable.recovery.smacof import sparse_smacof

DEFAULT = "default"


@dataclass(frozen=True)
class Method:
    """A method to recover positions."""

    summary: str
    run: Callable[[Ranges, int, int], Recovered]  # arguments: ranges, dimensions, seed


def find_method(name: str) -> Method:
    """Find a method by name."""
    if name not in METHODS:
        raise BadInputError(f"unknown method {name!r}: use one of {', '.join(METHODS)}")
    return METHODS[name]


def _default(ranges: Ranges, dimensions: int, seed: int) -> Recovered:
    return recover_shape(ranges, dimensions, seed=seed)


def _geodesic(ranges: Ranges, dimensions: int, seed: int) -> Recovered:
    return _result(ranges, landmark_geodesic_mds(ranges, dimensions, seed=seed), seed)


def _smacof(ranges: Ranges, dimensions: int, seed: int) -> Recovered:
    start = landmark_geodesic_mds(ranges, dimensions, seed=seed)
    return _result(ranges, sparse_smacof(ranges, start).points, seed)


def _dense(summary: str, complete: Callable[[Floats, Bools, int], Completed]) -> Method:
    """Return a method that completes a masked matrix of squared distances of at most `LIMIT`
    points.
    """

    def run(ranges: Ranges, dimensions: int, seed: int) -> Recovered:
        if ranges.count > LIMIT:
            raise BadInputError(
                f"{summary} takes at most {LIMIT} points, got {ranges.count:,}: use fewer points,"
                " or mappable.recover, the default method, which takes any number"
            )
        squared = np.square(ranges.graph.toarray())
        mask = np.eye(ranges.count, dtype=bool)
        mask[ranges.i, ranges.j] = mask[ranges.j, ranges.i] = True
        return _result(ranges, complete(squared, mask, dimensions).positions, seed)

    return Method(summary, run)


def _result(ranges: Ranges, positions: Floats, seed: int) -> Recovered:
    return shape_of(ranges, [(0.0, positions)], np.ones(len(ranges), dtype=bool), seed=seed)


METHODS = {
    DEFAULT: Method("remove false ranges, landmark geodesic MDS, sparse weighted SMACOF", _default),
    "geodesic": Method("MDS of shortest paths, with all ranges", _geodesic),
    "smacof": Method("sparse weighted SMACOF, started from geodesic, with all ranges", _smacof),
    "sdp": _dense("the paper's semidefinite program, in its tighter trace form,", sdp_trace),
    "sdp-frobenius": _dense("the paper's semidefinite program, in its plain form,", sdp_frobenius),
}
