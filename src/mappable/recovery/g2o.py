"""Pose graphs as `.g2o` files, by GTSAM's own reader and writer: poses and relative motions, but no ranges."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.files import reading
from mappable.recovery.graph import load_gtsam, pose_of
from mappable.recovery.hints import Motions
from mappable.recovery.result import Recovered

# GTSAM has the rotation first in 3-D; the exchange is its own inverse.
ORDER = {2: [0, 1, 2], 3: [3, 4, 5, 0, 1, 2]}


@dataclass(frozen=True, eq=False)
class PoseGraph:
    """The motions of a file; points are numbered from 0 in the order of their `names` in the file."""

    names: Ints  # (n,)
    motions: Motions


def read_g2o(file: Path) -> PoseGraph:
    """Read the motions of a pose graph in 2-D or 3-D."""
    with reading(file):
        text = file.read_text("utf-8-sig")
    _check_whole(file, text)
    k = 3 if "SE3" in text else 2
    gtsam = load_gtsam()
    try:
        graph, values = gtsam.readG2o(str(file), k == 3)
    except RuntimeError as error:
        raise BadInputError(f"{file}: not a pose graph ({error})") from None
    names = np.array(sorted(values.keys()), dtype=np.int64)
    factors = [graph.at(row) for row in range(graph.size())]
    factors = [factor for factor in factors if len(factor.keys()) == 2]
    if not factors:
        raise BadInputError(f"{file}: there is no motion between two poses; the file may be cut")
    ends = np.array([factor.keys() for factor in factors])
    points = np.searchsorted(names, ends)
    moves = [factor.measured() for factor in factors]
    metres = np.array([move.translation() for move in moves])
    turns = np.array([move.rotation().matrix() for move in moves])
    noise = np.array([factor.noiseModel().covariance() for factor in factors])[:, ORDER[k]][
        :, :, ORDER[k]
    ]
    try:
        return PoseGraph(names, Motions(points[:, 0], points[:, 1], metres, turns, noise))
    except BadInputError as error:
        raise BadInputError(f"{file}: {error}") from None


def _check_whole(file: Path, text: str) -> None:
    """Raise for records that GTSAM would skip or misread in silence."""
    for row, line in enumerate(text.splitlines(), 1):
        words = line.split()
        wanted = {"VERTEX_SE2": 5, "EDGE_SE2": 12, "VERTEX_SE3:QUAT": 9, "EDGE_SE3:QUAT": 31}.get(
            words[0] if words else ""
        )
        if wanted is None:
            if words and not words[0].startswith(("#", "FIX")):
                raise BadInputError(
                    f"{file}, row {row}: unknown record {words[0][:40]!r}, expected poses and"
                    " motions"
                )
            continue
        if len(words) != wanted:
            raise BadInputError(
                f"{file}, row {row}: {len(words)} values, expected {wanted}; the file may be cut"
            )
        try:
            finite = all(np.isfinite(float(word)) for word in words[1:])
        except ValueError:
            finite = False
        if not finite:
            raise BadInputError(f"{file}, row {row}: a value is not a number")


def write_g2o(file: Path, recovered: Recovered, motions: Motions) -> None:
    """Write recovered poses, and the motions as they were given."""
    gtsam, k = load_gtsam(), recovered.positions.shape[1]
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    frames: Floats = np.zeros((0, k, k)) if recovered.frames is None else recovered.frames
    for point, frame in enumerate(frames):
        if np.isfinite(recovered.positions[point]).all():
            values.insert(point, pose_of(gtsam, recovered.positions[point], frame))
    between: Any = getattr(gtsam, f"BetweenFactorPose{k}")
    noise = motions.covariance[:, ORDER[k]][:, :, ORDER[k]]
    for row, (i, j) in enumerate(zip(motions.i.tolist(), motions.j.tolist(), strict=True)):
        if values.exists(i) and values.exists(j):
            move = pose_of(gtsam, motions.metres[row], motions.rotations[row])
            graph.add(between(i, j, move, gtsam.noiseModel.Gaussian.Covariance(noise[row])))
    gtsam.writeG2o(graph, values, str(file))
