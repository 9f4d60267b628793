"""Factor graphs as text: `.g2o`, which GTSAM and g2o read, and `.pyfg` of PyFactorGraph.

Both have a record per line. A pose is x y theta, or x y z and a quaternion. Edges of g2o have information matrices,
those of pyfg covariances: the upper triangle by rows, translations first. Records of pyfg have times, and names instead
of numbers. The record EDGE_RANGE of g2o is not in its standard: `EDGE_RANGE i j metres information`.

A cut file must not read as complete. So the first line that we write to g2o is a comment with the numbers of points and
other records. GTSAM reads two numbers after the first word of each line; where it finds none, it drops all later edges.
Readers of pyfg refuse comments. There, motions follow ranges, and known poses and positions come last: a file that is
cut before its motions and known positions has neither, and such a graph cannot be recovered.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from mappable.arrays import MAX_COORDINATE, Floats
from mappable.errors import BadInputError, shown
from mappable.files import reading, write_text
from mappable.recovery.anchored.relative import rotations
from mappable.recovery.graphs import Graph, mean_anchors
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.ranges import Ranges

SUFFIXES = (".g2o", ".pyfg")
POSE, LANDMARK, MOTION, RANGE, POSE_PRIOR, POINT_PRIOR, FIX = range(7)
RECORDS = {  # what a record is, and its dimensions
    "VERTEX_SE2": (POSE, 2),
    "VERTEX_SE3:QUAT": (POSE, 3),
    "VERTEX_XY": (LANDMARK, 2),
    "VERTEX_XYZ": (LANDMARK, 3),
    "VERTEX_TRACKXYZ": (LANDMARK, 3),
    "EDGE_SE2": (MOTION, 2),
    "EDGE_SE3:QUAT": (MOTION, 3),
    "EDGE_RANGE": (RANGE, 0),
    "VERTEX_SE2:PRIOR": (POSE_PRIOR, 2),
    "EDGE_PRIOR_SE2": (POSE_PRIOR, 2),
    "VERTEX_SE3:QUAT:PRIOR": (POSE_PRIOR, 3),
    "VERTEX_XY:PRIOR": (POINT_PRIOR, 2),
    "EDGE_PRIOR_SE2_XY": (POINT_PRIOR, 2),
    "EDGE_PRIOR_XY": (POINT_PRIOR, 2),
    "VERTEX_XYZ:PRIOR": (POINT_PRIOR, 3),
    "EDGE_PRIOR_XYZ": (POINT_PRIOR, 3),
    "FIX": (FIX, 0),
}
NAMES = {POSE: 1, LANDMARK: 1, MOTION: 2, RANGE: 2, POSE_PRIOR: 1, POINT_PRIOR: 1, FIX: 1}  # points of a record
COUNTED = re.compile(r"# (\d+) (\d+) points and other records \(mappable\)")  # the first line of our files
ROUND = 1e-3  # variances of a known position may differ by this share between axes


@dataclass
class _Read:
    """Records of a file, by what they are: the row, the names of points, and the numbers."""

    file: Path
    dimensions: int = 0
    records: dict[int, list[tuple[int, list[str], Floats]]] = field(
        default_factory=lambda: {kind: [] for kind in NAMES}
    )
    seconds: dict[str, float] = field(default_factory=dict)


def read_graph(file: Path | str) -> Graph:
    """Read a factor graph in 2-D or 3-D from a .g2o or .pyfg file."""
    path = _checked(file)
    read = _records(path)
    vertices = sorted([*read.records[POSE], *read.records[LANDMARK]], key=lambda one: one[0])
    if not vertices:
        raise BadInputError(f"{path}: no pose and no landmark; the file may be cut")
    k, number = read.dimensions, dict[str, int]()
    for row, (name,), _ in vertices:
        if name in number:
            raise BadInputError(f"{path}, row {row}: the point {shown(name)} occurs in an earlier row")
        number[name] = len(number)
    size = 3 if k == 2 else 7
    positions = np.array([values[:k] for _, _, values in vertices])
    oriented = np.array([len(values) == size for _, _, values in vertices])
    frames = np.tile(np.eye(k), (len(vertices), 1, 1))
    if oriented.any():
        frames[oriented] = _frames(np.array([values[k:] for _, _, values in vertices if len(values) == size]))

    def points(kind: int) -> list[list[int]]:
        for row, names, _ in read.records[kind]:
            for name in names:
                if name not in number:
                    raise BadInputError(f"{path}, row {row}: there is no point {shown(name)}")
        return [[number[name] for name in names] for _, names, _ in read.records[kind]]

    motions = _motions(read, MOTION, points(MOTION), k)
    priors = _motions(read, POSE_PRIOR, [[len(number), *one] for one in points(POSE_PRIOR)], k)
    known = _known(read, [one for (one,) in points(POINT_PRIOR)], k)
    seconds = np.array([read.seconds.get(name, np.nan) for name in number]) if read.seconds else None
    fixed = tuple(one for (one,) in points(FIX))
    ranges = _ranges(read, points(RANGE), len(number))
    return Graph(tuple(number), positions, frames, oriented, ranges, motions, known, priors, seconds, fixed)


def _checked(file: Path | str) -> Path:
    path = Path(file)
    if path.suffix not in SUFFIXES:
        raise BadInputError(f"{path}: the suffix is {path.suffix!r}, expected one of: {', '.join(SUFFIXES)}")
    return path


def _records(path: Path) -> _Read:
    timed, read = path.suffix == ".pyfg", _Read(path)
    with reading(path):
        text = path.read_text("utf-8-sig")
    lines = text.splitlines()
    for row, words in zip(count(1), map(str.split, lines), strict=False):
        if not words or words[0].startswith("#"):
            continue
        kind, k = RECORDS.get(words[0], (-1, 0))
        if kind < 0:
            raise BadInputError(f"{path}, row {row}: unknown record {shown(words[0])}, expected {', '.join(RECORDS)}")
        if k and read.dimensions not in (0, k):
            raise BadInputError(f"{path}, row {row}: {words[0]} has {k} dimensions, but the rows above have others")
        read.dimensions = k or read.dimensions
        with_time = timed and kind != LANDMARK
        head = 1 + with_time
        names, numbers = words[head : head + NAMES[kind]], words[head + NAMES[kind] :]
        wanted = _count(kind, k)
        if len(names) < NAMES[kind] or (len(numbers) != wanted if kind != FIX else False):
            problem = f"{words[0]} has {len(words) - 1} values, expected {head - 1 + NAMES[kind] + wanted}"
            raise BadInputError(f"{path}, row {row}: {problem}; the file may be cut")
        values = np.array([_number(path, row, text) for text in numbers])
        if (np.abs(values[:k]) > MAX_COORDINATE).any():
            raise BadInputError(f"{path}, row {row}: a coordinate is beyond {MAX_COORDINATE:g}")
        if kind in (POSE, MOTION, POSE_PRIOR) and k == 3 and abs(np.linalg.norm(values[3:7]) - 1) > 0.05:
            raise BadInputError(f"{path}, row {row}: the quaternion {' '.join(numbers[3:7])} is not a rotation")
        if kind == POSE and with_time:
            read.seconds[names[0]] = _number(path, row, words[1])
        read.records[kind].append((row, names, values))
    _check_whole(read, text, lines)
    return read


def _check_whole(read: _Read, text: str, lines: list[str]) -> None:
    """Raise if the last line has no end, or if the numbers of records are not those of the first line."""
    place = f"{read.file}, row {len(lines)}"
    if lines and lines[-1].strip() and text[-1] not in "\r\n":
        problem = "the last line has no line break, so the file may be cut; add a line break if it is complete"
        raise BadInputError(f"{place}: {problem}")
    stated = COUNTED.match(lines[0]) if lines else None
    found = {kind: len(records) for kind, records in read.records.items()}
    points = found[POSE] + found[LANDMARK]
    if stated is not None and stated.groups() != (str(points), str(sum(found.values()) - points)):
        problem = f"{points} points and {sum(found.values()) - points} other records up to here, but row 1 states"
        remedy = "the file is cut; remove row 1 if you changed the file"
        raise BadInputError(f"{place}: {problem} {stated[1]} and {stated[2]}: {remedy}")


def _count(kind: int, k: int) -> int:
    """Return the number of values of a record after its names."""
    pose, d = (3, 3) if k == 2 else (7, 6)
    counts = {POSE: pose, LANDMARK: k, RANGE: 2, POINT_PRIOR: k + k * (k + 1) // 2, FIX: 0}
    return counts.get(kind, pose + d * (d + 1) // 2)


def _number(path: Path, row: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise BadInputError(f"{path}, row {row}: {shown(text)}, expected a number")
    return value


def _frames(values: Floats) -> Floats:
    """Return rotation matrices of angles (m, 1), or of quaternions (m, 4)."""
    if values.shape[1] == 1:
        return rotations(values[:, 0])
    turned: Floats = Rotation.from_quat(values).as_matrix()
    return turned


def _matrix(read: _Read, row: int, values: Floats) -> Floats:
    """Return the covariance of an upper triangle, which is an information matrix in g2o."""
    size = int(np.sqrt(2 * len(values)))
    whole = np.zeros((size, size))
    whole[np.triu_indices(size)] = values
    whole += np.triu(whole, 1).T
    if not (np.linalg.eigvalsh(whole) > 0).all():
        raise BadInputError(f"{read.file}, row {row}: the matrix of the noise is not positive definite")
    return whole if read.file.suffix == ".pyfg" else _inverse(whole)


def _motions(read: _Read, kind: int, pairs: list[list[int]], k: int) -> Motions | None:
    records, size = read.records[kind], 3 if k == 2 else 7
    if not records:
        return None
    values = np.array([one[:size] for _, _, one in records])
    noise = np.array([_matrix(read, row, one[size:]) for row, _, one in records])
    i, j = np.array(pairs).T
    try:
        return Motions(i, j, values[:, :k], _frames(values[:, k:]), noise)
    except BadInputError as error:
        raise BadInputError(f"{read.file}: {error}") from None


def _known(read: _Read, points: list[int], k: int) -> Anchors | None:
    records = read.records[POINT_PRIOR]
    if not records:
        return None
    variances = []
    for row, _, values in records:
        noise = _matrix(read, row, values[k:])
        variances.append(float(np.trace(noise)) / k)
        if np.abs(noise - variances[-1] * np.eye(k)).max() > ROUND * variances[-1]:
            raise BadInputError(f"{read.file}, row {row}: the noise differs between axes, expected the same for all")
    return mean_anchors(np.array(points), np.array([values[:k] for _, _, values in records]), np.sqrt(variances))


def _ranges(read: _Read, pairs: list[list[int]], count: int) -> Ranges:
    """Return ranges; several ranges of a pair become their weighted mean, which has the same optimum."""
    weights: dict[tuple[int, int], list[float]] = {}
    for (row, _, (metres, noise)), (a, b) in zip(read.records[RANGE], pairs, strict=True):
        if a == b or not 0 <= metres <= MAX_COORDINATE or noise <= 0:
            raise BadInputError(f"{read.file}, row {row}: expected two points, a range of 0 or more, and noise above 0")
        weight = 1 / noise if read.file.suffix == ".pyfg" else noise
        total = weights.setdefault((min(a, b), max(a, b)), [0.0, 0.0])
        total[0] += weight
        total[1] += weight * metres
    ends = np.array(list(weights), dtype=np.int64).reshape(-1, 2)
    sums = np.array(list(weights.values())).reshape(-1, 2)
    return Ranges(count, ends[:, 0], ends[:, 1], sums[:, 1] / sums[:, 0], sums[:, 0] ** -0.5)


def write_graph(file: Path | str, graph: Graph) -> None:
    """Write a factor graph as .g2o or .pyfg; numbers are exact."""
    path = _checked(file)
    lines, points = [*_lines(graph, path.suffix == ".pyfg")], len(graph.names)
    head = [f"# {points} {len(lines) - points} points and other records (mappable)"] if path.suffix == ".g2o" else []
    write_text(path, "\n".join([*head, *lines]) + "\n")


def _lines(graph: Graph, timed: bool) -> Iterator[str]:
    k = graph.positions.shape[1]
    seconds = np.arange(len(graph.names), dtype=np.float64) if graph.seconds is None else graph.seconds
    names = [*graph.names] if timed else [str(one) for one in range(len(graph.names))]
    pose, point = ("SE2", "XY") if k == 2 else ("SE3:QUAT", "XYZ")

    def record(tag: str, at: int, points: list[int], *numbers: Floats) -> str:
        head = [repr(float(seconds[at]))] if timed and tag != f"VERTEX_{point}" else []
        return " ".join([tag, *head, *(names[one] for one in points), *map(repr, np.concatenate(numbers).tolist())])

    def noise(covariance: Floats) -> Floats:
        matrix = covariance if timed else _inverse(covariance)
        return matrix[np.triu_indices(len(matrix))]

    turned = _angles(graph.frames)
    for number, is_pose in enumerate(graph.oriented.tolist()):
        more = [turned[number]] if is_pose else []
        tag = f"VERTEX_{pose if is_pose else point if timed or k == 2 else 'TRACKXYZ'}"
        yield record(tag, number, [number], graph.positions[number], *more)
    measured = graph.ranges
    columns = measured.i, measured.j, measured.metres, measured.sigma
    for i, j, metres, sigma in zip(*(column.tolist() for column in columns), strict=True):
        at = i if np.isnan(seconds[j]) else j  # landmarks have no times
        yield record("EDGE_RANGE", at, [i, j], np.array([metres, sigma**2 if timed else sigma**-2]))
    if graph.motions is not None:
        one, turned = graph.motions, _angles(graph.motions.rotations)
        for row, (i, j) in enumerate(zip(one.i.tolist(), one.j.tolist(), strict=True)):
            yield record(f"EDGE_{pose}", j, [i, j], one.metres[row], turned[row], noise(one.covariance[row]))
    if graph.priors is not None:
        one, turned = graph.priors, _angles(graph.priors.rotations)
        tag = f"VERTEX_{pose}:PRIOR" if timed or k == 3 else f"EDGE_PRIOR_{pose}"
        for row, number in enumerate(one.j.tolist()):
            yield record(tag, number, [number], one.metres[row], turned[row], noise(one.covariance[row]))
    if graph.known is not None:
        for number, at, sigma in zip(
            graph.known.points.tolist(), graph.known.positions, graph.known.sigma, strict=True
        ):
            form = f"EDGE_PRIOR_{'SE2_XY' if k == 2 and graph.oriented[number] else point}"
            yield record(f"VERTEX_{point}:PRIOR" if timed else form, number, [number], at, noise(sigma**2 * np.eye(k)))
    for number in graph.fixed:
        yield record("FIX", number, [number], np.zeros(0))


def _angles(frames: Floats) -> Floats:
    """Return angles (m, 1), or quaternions (m, 4)."""
    if frames.shape[1] == 2:
        return np.arctan2(frames[:, 1, 0], frames[:, 0, 0])[:, None]
    turned: Floats = Rotation.from_matrix(frames).as_quat()
    return turned


def _inverse(matrix: Floats) -> Floats:
    return np.linalg.inv(matrix).astype(np.float64)
