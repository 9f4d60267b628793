"""Factor graphs: the optimum and the files against GTSAM."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable.recovery.anchored.relative import rotations
from mappable.recovery.graph_files import read_graph, write_graph
from mappable.recovery.graphs import Graph, graph_of, known_positions, optimum, recover_graph
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.ranges import Ranges
from mappable.recovery.report import report
from mappable.recovery.task import Measured, Task, recover_to_folder

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
def test_gtsam_reads_all_motions_next_to_records_that_it_does_not_know(k: int, tmp_path: Path) -> None:
    gtsam = pytest.importorskip("gtsam", reason="gtsam has no wheel for this platform")
    graph, _ = made(k)
    write_graph(tmp_path / "one.g2o", replace(graph, fixed=(0,)))
    factors, values = gtsam.readG2o(str(tmp_path / "one.g2o"), k == 3)
    assert graph.motions is not None
    assert factors.size() == len(graph.motions)
    assert values.size() == len(graph.names)


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


def replace_noise(motions: Motions | None, noise: Floats) -> Motions:
    assert motions is not None
    every = np.tile(noise, (len(motions), 1, 1))
    return Motions(motions.i, motions.j, motions.metres, motions.rotations, every)


def test_a_map_with_one_known_pose_has_no_other_uncertainty_there() -> None:
    graph, _ = made(2)
    alone = replace(graph, known=None, priors=None)
    prior = Motions([len(graph.names)], [7], [[10.0, 20.0]], [0.5], 1e-4 * np.eye(3))
    found = recover_graph(replace(alone, priors=prior))
    assert found.covariances is not None
    np.testing.assert_allclose(found.positions[7], [10.0, 20.0], atol=1e-6)
    assert np.trace(found.covariances[7]) < 1e-9 < np.trace(found.covariances[0])
    assert found.undetermined[0].startswith("Only the pose of point 7 is known")
    for fixed, point in (((), 0), ((3,), 3)):
        found = recover_graph(replace(alone, fixed=fixed))
        np.testing.assert_allclose(found.positions[point], graph.positions[point], atol=1e-6)
        assert f"point {point} stays where the graph has it" in found.undetermined[0]


def test_known_positions_of_one_point_are_averaged_by_their_noise() -> None:
    graph, truth = made(2)
    prior = Motions([len(truth)] * 2, [0, 4], [[1.0, 0.0], [4.0, 1.0]], [0.0, 0.0], np.diag([0.04, 0.01, 1.0]))
    known = known_positions(replace(graph, known=Anchors([4], [[5.0, 0.0]], 0.1), priors=prior))
    assert known is not None
    np.testing.assert_allclose(known.positions, [[1.0, 0.0], [4.8, 0.2]])
    np.testing.assert_allclose(known.sigma, [0.2, 125**-0.5])


@pytest.mark.parametrize("suffix", ["g2o", "pyfg"])
def test_a_recovered_graph_keeps_names_times_and_known_poses(suffix: str, tmp_path: Path) -> None:
    graph, truth = made(2)
    noise = np.diag([0.0004, 0.0004, 0.0001])
    motions = replace_noise(graph.motions, noise)
    given = replace(graph, motions=motions, seconds=np.where(graph.oriented, 100.0 + np.arange(len(truth)), np.nan))
    write_graph(tmp_path / "one.pyfg", given)
    task = Task(graph_suffix=f".{suffix}")
    read = read_graph(tmp_path / "one.pyfg")
    reported = recover_to_folder(task, lambda: Measured(read.ranges, "one", {}, read.seconds, read), tmp_path)
    assert reported.known == 2
    again = read_graph(tmp_path / f"graph.{suffix}")
    assert again.priors is not None
    assert again.known is not None
    assert again.priors.j.tolist() == [0]
    assert again.known.points.tolist() == [COUNT - 1]
    np.testing.assert_array_equal(again.oriented, graph.oriented)
    np.testing.assert_allclose(again.positions, truth, atol=0.6)
    lines = (tmp_path / "trajectory.txt").read_text().splitlines()
    assert len(lines) == COUNT
    if suffix == "pyfg":
        assert again.names == graph.names
        np.testing.assert_array_equal(again.seconds, given.seconds)
        assert lines[0].startswith("100.000000 ")


def test_another_solver_finds_our_solution_in_our_graph() -> None:
    """Odometry drifts and slips: the graph that is written has neither, so its plain optimum is near ours."""
    graph, truth = made(2)
    one = graph.motions
    assert one is not None
    metres = 1.1 * one.metres
    metres[10] *= 3.0
    drifting = Motions(one.i, one.j, metres, one.rotations, one.covariance)
    known = Anchors(np.arange(0, COUNT, 4), truth[:COUNT:4], 0.1)
    found = recover_graph(replace(graph, motions=drifting, known=known, priors=None))
    written = graph_of(graph.ranges, found, known)
    assert np.abs(found.positions - truth).max() < 0.5
    assert np.abs(optimum(written).positions - found.positions).max() < 0.1
    assert np.abs(optimum(replace(written, motions=drifting)).positions - found.positions).max() > 0.3


@pytest.mark.medium
def test_poses_that_no_motion_reaches_are_reported(tmp_path: Path) -> None:
    graph, _ = made(2)
    assert graph.motions is not None
    cut = replace(graph, motions=graph.motions.where(graph.motions.j < 20))
    found = recover_graph(cut)
    assert any(f"{COUNT - 20} of {COUNT} poses have no motion (first: point 20)" in one for one in found.undetermined)
    assert not any("no motion" in one for one in recover_graph(graph).undetermined)
    lone = Measured(graph.ranges, "one.g2o", {}, graph=replace(graph, motions=None, known=None, priors=None))
    with pytest.raises(BadInputError, match=r"one\.g2o: the graph has no motions and no known positions"):
        recover_to_folder(Task(), lambda: lone, tmp_path / "out")


def test_a_graph_without_ranges_is_scored(tmp_path: Path) -> None:
    graph, truth = made(2, ranges=False)
    found = recover_graph(graph)
    assert report(graph.ranges, found, truth=truth).scores


def test_options_that_do_not_go_with_a_graph_are_refused(tmp_path: Path) -> None:
    graph, _ = made(2)
    with pytest.raises(BadInputError, match="leave out --method"):
        recover_to_folder(Task(method="smacof"), lambda: Measured(graph.ranges, "one", {}, graph=graph), tmp_path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("VERTEX_SE2 0 1.0", "row 3: VERTEX_SE2 has 2 values, expected 4"),
        ("EDGE_BEARING 0 1 2", "row 3: unknown record 'EDGE_BEARING'"),
        ("VERTEX_SE2 7 1.0 x 0.0", "row 3: 'x', expected a number"),
        ("VERTEX_SE2 0 1.0 2.0 0.0", "row 3: the point '0' occurs"),
        ("EDGE_RANGE 0 9 2.0 1.0", "row 3: there is no point '9'"),
        ("EDGE_SE2 0 1 1 0 0 1 0 0 -1 0 1", "row 3: .* positive definite"),
        ("VERTEX_SE2 7 1e30 2.0 0.0", "row 3: a coordinate is beyond 1e[+]09"),
        ("VERTEX_TRACKXYZ 5 1 2 3", "row 3: VERTEX_TRACKXYZ has 3 dimensions"),
    ],
)
def test_a_row_that_cannot_be_is_named(line: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.g2o"
    file.write_text(f"VERTEX_SE2 0 0 0 0\nVERTEX_SE2 1 1 0 0\n{line}\n")
    with pytest.raises(BadInputError, match=words):
        read_graph(file)


@pytest.mark.parametrize("suffix", ["g2o", "pyfg"])
def test_a_file_that_is_cut_does_not_read_as_complete(suffix: str, tmp_path: Path) -> None:
    graph, _ = made(2)
    write_graph(tmp_path / f"one.{suffix}", graph)
    lines = (tmp_path / f"one.{suffix}").read_text().splitlines(keepends=True)
    assert lines[0].startswith("VERTEX_SE2") is (suffix == "pyfg")  # readers of pyfg take the dimensions from row 1
    cut, row = tmp_path / f"cut.{suffix}", 1 + max(at for at, line in enumerate(lines) if "RANGE" in line)
    cut.write_text("".join(lines[: row - 1]) + lines[row - 1].rstrip()[:-1])
    with pytest.raises(BadInputError, match=f"row {row}: the last line has no line break, so the file may be cut"):
        read_graph(cut)
    cut.write_text("".join(lines[: row - 1]) + lines[row - 1].rsplit(" ", 1)[0] + "\n")
    with pytest.raises(BadInputError, match=rf"row {row}: EDGE_RANGE has {3 + (suffix == 'pyfg')} values, expected"):
        read_graph(cut)
    cut.write_text("".join(lines[: row - 9]))
    with pytest.raises(
        BadInputError, match=r"other records up to here, but row 1 states|no motions and no known .* may be cut"
    ):
        recover_graph(read_graph(cut))


def test_a_file_of_others_is_read_without_a_number_of_records(tmp_path: Path) -> None:
    text = "VERTEX_SE2 0 0 0 0\nVERTEX_SE2 1 1 0 0\n# a comment\nEDGE_RANGE 0 1 1.0 4.0\n"
    (tmp_path / "one.g2o").write_text(text)
    assert read_graph(tmp_path / "one.g2o").ranges.sigma.tolist() == [0.5]
    (tmp_path / "one.g2o").write_text(f"# 2 2 points and other records (mappable)\n{text}")
    with pytest.raises(BadInputError, match="row 5: 2 points and 1 other records up to here, but row 1 states 2 and 2"):
        read_graph(tmp_path / "one.g2o")
