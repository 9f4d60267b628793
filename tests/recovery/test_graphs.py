"""Factor graphs: the optimum and the files against GTSAM."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.recovery.anchored.relative import rotations
from mappable.recovery.graph_files import read_graph, write_graph
from mappable.recovery.graphs import Graph, optimum, recover_graph
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.ranges import Ranges

COUNT, LANDMARKS = 25, 3


def made(k: int, *, ranges: bool = True, seed: int = 0) -> tuple[Graph, Floats]:
    """A path of poses, with landmarks if there are ranges; noisy measurements with full covariances. And the truth."""
    rng = np.random.default_rng(seed)
    d = 3 if k == 2 else 6
    turn = rng.normal(0, 0.2, (COUNT, d - k))
    frames, positions = [np.eye(k)], [np.zeros(k)]
    for step in turn[1:]:
        positions.append(positions[-1] + frames[-1] @ np.eye(k)[0])
        frames.append(frames[-1] @ (rotations(step)[0] if k == 2 else Rotation.from_rotvec(step).as_matrix()))
    landmarks = rng.uniform(-8, 8, (LANDMARKS if ranges else 0, k)) + np.mean(positions, 0)
    truth, n = np.concatenate([positions, landmarks]), COUNT + len(landmarks)
    orientation = np.concatenate([frames, np.tile(np.eye(k), (len(landmarks), 1, 1))])
    i, j = np.append(np.arange(COUNT - 1), [0, 3]), np.append(np.arange(1, COUNT), [12, 20])
    square = rng.normal(size=(len(i), d, d))
    noise = 0.0004 * (square @ square.transpose(0, 2, 1) / d + np.eye(d))
    error = np.einsum("mab,mb->ma", np.linalg.cholesky(noise), rng.normal(size=(len(i), d)))
    back = orientation[i].transpose(0, 2, 1)
    metres = np.einsum("mab,mb->ma", back, truth[j] - truth[i]) + error[:, :k]
    turned = rotations(error[:, 2]) if k == 2 else Rotation.from_rotvec(error[:, 3:]).as_matrix()
    motions = Motions(i, j, metres, back @ orientation[j] @ turned, noise)
    a, b = np.meshgrid(np.arange(0, COUNT, 2), np.arange(COUNT, n))
    apart = np.linalg.norm(truth[a.ravel()] - truth[b.ravel()], axis=1) + rng.normal(0, 0.1, a.size)
    measured = Ranges(n, a.ravel(), b.ravel(), np.abs(apart), 0.1)
    known = Anchors([COUNT - 1], truth[[COUNT - 1]] + 0.2, 0.3) if ranges else None
    prior = Motions([n], [0], np.zeros((1, k)), np.eye(k)[None], 1e-4 * np.eye(d)) if ranges else None
    oriented = np.arange(n) < COUNT
    names = tuple(f"A{one}" if one < COUNT else f"L{one}" for one in range(n))
    start = truth + rng.normal(0, 0.2, truth.shape)
    return Graph(names, start, orientation, oriented, measured, motions, known, prior), truth


def solved_by_gtsam(gtsam: Any, graph: Any, values: Any) -> Any:
    parameters = gtsam.LevenbergMarquardtParams()
    parameters.setRelativeErrorTol(1e-15)
    parameters.setAbsoluteErrorTol(1e-15)
    parameters.setMaxIterations(200)
    return gtsam.LevenbergMarquardtOptimizer(graph, values, parameters).optimize()


def parsed_for_gtsam(gtsam: Any, file: Path) -> tuple[Any, Any, dict[str, int]]:
    """A small parser of .pyfg, which builds GTSAM's factors. GTSAM has rotations first in 3-D."""
    graph, values, keys = gtsam.NonlinearFactorGraph(), gtsam.Values(), dict[str, int]()
    poses, plane = set[int](), False

    def pose(numbers: list[float]) -> Any:
        if len(numbers) == 3:
            return gtsam.Pose2(*numbers)
        x, y, z, *q = numbers
        return gtsam.Pose3(gtsam.Rot3(Rotation.from_quat(q).as_matrix()), np.array([x, y, z]))

    def model(numbers: list[float], *, swap: bool = True) -> Any:
        size = int(np.sqrt(2 * len(numbers)))
        matrix = np.zeros((size, size))
        matrix[np.triu_indices(size)] = numbers
        matrix += np.triu(matrix, 1).T
        order = [3, 4, 5, 0, 1, 2] if size == 6 and swap else list(range(size))
        return gtsam.noiseModel.Gaussian.Covariance(matrix[np.ix_(order, order)])

    for line in file.read_text().splitlines():
        tag, *words = line.split()
        plane = plane or tag == "VERTEX_SE2"
        kind, k, size = ("2", 2, 3) if plane else ("3", 3, 7)
        if tag in ("VERTEX_SE2", "VERTEX_SE3:QUAT"):
            keys[words[1]] = len(keys)
            poses.add(keys[words[1]])
            values.insert(keys[words[1]], pose([float(one) for one in words[2:]]))
        elif tag in ("VERTEX_XY", "VERTEX_XYZ"):
            keys[words[0]] = len(keys)
            values.insert(keys[words[0]], np.array([float(one) for one in words[1:]]))
        elif tag.endswith("PRIOR"):
            numbers, key = [float(one) for one in words[2:]], keys[words[1]]
            if "SE" in tag:
                factor = getattr(gtsam, f"PriorFactorPose{kind}")
                graph.add(factor(key, pose(numbers[:size]), model(numbers[size:])))
            else:
                factor = getattr(gtsam, f"PoseTranslationPrior{kind}D")
                graph.add(factor(key, np.array(numbers[:k]), model(numbers[k:], swap=False)))
        elif tag in ("EDGE_SE2", "EDGE_SE3:QUAT"):
            numbers, (i, j) = [float(one) for one in words[3:]], (keys[one] for one in words[1:3])
            factor = getattr(gtsam, f"BetweenFactorPose{kind}")
            graph.add(factor(i, j, pose(numbers[:size]), model(numbers[size:])))
        else:
            (i, j), (metres, variance) = (keys[one] for one in words[1:3]), (float(one) for one in words[3:])
            noise = gtsam.noiseModel.Isotropic.Sigma(1, variance**0.5)
            both = i in poses and j in poses
            name = f"RangeFactor{'Pose' if both else ''}{kind}{'' if both else 'D'}"
            graph.add(getattr(gtsam, name)(i, j, metres, noise))
    return graph, values, keys


def place(values: Any, key: int, k: int, oriented: bool) -> Floats:
    if not oriented:
        return np.asarray(values.atPoint2(key) if k == 2 else values.atPoint3(key))
    return np.asarray((values.atPose2(key) if k == 2 else values.atPose3(key)).translation())


@pytest.mark.parametrize("k", [2, 3])
def test_the_optimum_with_ranges_is_gtsam_s(k: int, tmp_path: Path) -> None:
    gtsam = pytest.importorskip("gtsam", reason="gtsam has no wheel for this platform")
    graph, truth = made(k)
    write_graph(tmp_path / "one.pyfg", graph)
    found = optimum(read_graph(tmp_path / "one.pyfg"))
    factors, values, keys = parsed_for_gtsam(gtsam, tmp_path / "one.pyfg")
    solved = solved_by_gtsam(gtsam, factors, values)
    expected = np.array(
        [place(solved, keys[name], k, pose) for name, pose in zip(graph.names, graph.oriented, strict=True)]
    )
    np.testing.assert_allclose(found.positions, expected, atol=1e-6)
    assert found.cost == pytest.approx(factors.error(solved), rel=1e-6)
    marginal = gtsam.Marginals(factors, solved).marginalCovariance(keys[graph.names[-1]])
    np.testing.assert_allclose(found.covariances[-1], marginal, rtol=1e-3, atol=1e-7)
    assert np.abs(found.positions - truth).max() < 0.6


@pytest.mark.parametrize("k", [2, 3])
def test_gtsam_reads_our_pose_graphs_and_finds_the_same_optimum(k: int, tmp_path: Path) -> None:
    gtsam = pytest.importorskip("gtsam", reason="gtsam has no wheel for this platform")
    graph, _ = made(k, ranges=False)
    write_graph(tmp_path / "one.g2o", graph)
    factors, values = gtsam.readG2o(str(tmp_path / "one.g2o"), k == 3)
    first = values.atPose3(0) if k == 3 else values.atPose2(0)
    tight = gtsam.noiseModel.Isotropic.Sigma(6 if k == 3 else 3, 1e-7)
    factors.add((gtsam.PriorFactorPose3 if k == 3 else gtsam.PriorFactorPose2)(0, first, tight))
    solved = solved_by_gtsam(gtsam, factors, values)
    found = optimum(read_graph(tmp_path / "one.g2o"))
    expected = np.array([place(solved, number, k, True) for number in range(COUNT)])
    np.testing.assert_allclose(found.positions, expected, atol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("suffix", [".g2o", ".pyfg"])
def test_a_graph_is_read_as_it_was_written(k: int, suffix: str, tmp_path: Path) -> None:
    graph, _ = made(k)
    write_graph(tmp_path / f"one{suffix}", graph)
    again = read_graph(tmp_path / f"one{suffix}")
    np.testing.assert_array_equal(again.positions, graph.positions)
    np.testing.assert_array_equal(again.oriented, graph.oriented)
    np.testing.assert_allclose(again.frames, graph.frames, atol=1e-12)
    np.testing.assert_allclose(again.ranges.sigma, graph.ranges.sigma)
    np.testing.assert_allclose(again.ranges.metres, graph.ranges.metres)
    for one, two in ((again.motions, graph.motions), (again.priors, graph.priors)):
        assert one is not None
        assert two is not None
        np.testing.assert_array_equal(one.i, two.i)
        np.testing.assert_allclose(one.covariance, two.covariance, atol=1e-12)
        np.testing.assert_allclose(one.rotations, two.rotations, atol=1e-12)
    assert again.known is not None
    np.testing.assert_allclose(again.known.sigma, 0.3)


def test_a_graph_is_recovered_in_the_coordinates_of_its_known_pose() -> None:
    graph, truth = made(2)
    turned = rotations(np.array([0.5]))[0]
    prior = Motions([len(truth)], [0], [[10.0, 20.0]], [0.5], 1e-4 * np.eye(3))
    found = recover_graph(Graph(**(vars(graph) | {"known": None, "priors": prior})))
    np.testing.assert_allclose(found.positions, truth @ turned.T + [10.0, 20.0], atol=0.6)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("VERTEX_SE2 0 1.0", "row 3: VERTEX_SE2 has 2 values, expected 4"),
        ("EDGE_BEARING 0 1 2", "row 3: unknown record 'EDGE_BEARING'"),
        ("VERTEX_SE2 7 1.0 x 0.0", "row 3: 'x', expected a number"),
        ("VERTEX_SE2 0 1.0 2.0 0.0", "row 3: the point '0' occurs"),
        ("EDGE_RANGE 0 9 2.0 1.0", "row 3: there is no point '9'"),
        ("EDGE_SE2 0 1 1 0 0 1 0 0 -1 0 1", "row 3: .* positive definite"),
        ("VERTEX_TRACKXYZ 5 1 2 3", "row 3: VERTEX_TRACKXYZ has 3 dimensions"),
    ],
)
def test_a_row_that_cannot_be_is_named(line: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.g2o"
    file.write_text(f"VERTEX_SE2 0 0 0 0\nVERTEX_SE2 1 1 0 0\n{line}\n")
    with pytest.raises(BadInputError, match=words):
        read_graph(file)
