"""Multidimensional scaling: points from all distances, or from shortest paths along sparse ranges."""

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.randomness import Purpose, generator
from mappable.recovery.ranges import Ranges, check_square

LANDMARKS = 40


def classical_mds(squared_distances: Floats, dimensions: int) -> Floats:
    """Find points (n, k), centered at the origin, whose squared distances approximate the given
    ones (n, n).

    The points are the k strongest eigenvectors of the Gram matrix G = -J D J / 2, where J subtracts
    the mean. Negative eigenvalues count as 0. Use it for small n, because the matrix is dense.
    """
    squared = np.asarray(squared_distances, dtype=np.float64)
    check_square(squared, "matrix of distances")
    if not np.isfinite(squared).all():
        raise BadInputError("a squared distance is not a finite number")
    if not np.allclose(squared, squared.T, rtol=1e-6, atol=1e-9):
        raise BadInputError("the matrix of squared distances is not symmetric")
    if not 1 <= dimensions <= len(squared):
        raise BadInputError(
            f"cannot recover {len(squared)} points in {dimensions} dimensions: use fewer dimensions"
        )
    values, vectors = _strongest(squared, dimensions)
    points: Floats = vectors * np.sqrt(values)
    return points


def landmark_geodesic_mds(
    ranges: Ranges, dimensions: int, *, landmarks: int = LANDMARKS, seed: int = 0
) -> Floats:
    """Find points (count, k) whose distances approximate the lengths of shortest paths along the
    ranges.

    Paths start at a few landmarks only, each the farthest point from the landmarks before it.
    Classical MDS places the landmarks, and every other point is triangulated from its paths to them
    (landmark MDS). This takes landmarks x edges steps, and memory for landmarks x points. Parts
    that no path connects are embedded separately, each centered at the origin.
    """
    if landmarks <= dimensions:
        raise BadInputError(
            f"{landmarks} landmarks are too few for {dimensions} dimensions: use more landmarks"
        )
    rng = generator(seed, Purpose.LANDMARKS)
    points = np.zeros((ranges.count, dimensions))
    parts = ranges.parts
    sizes = np.bincount(parts)
    by_part = np.split(np.argsort(parts, kind="stable"), sizes.cumsum()[:-1])
    for members in by_part[: int((sizes > 1).sum())]:  # the largest comes first
        graph = ranges.graph if len(members) == ranges.count else ranges.graph[members][:, members]
        points[members] = _landmark_mds(graph, dimensions, landmarks, rng)
    return points


def _landmark_mds(
    graph: csr_array, dimensions: int, landmarks: int, rng: np.random.Generator
) -> Floats:
    """Embed one connected part by landmark MDS: classical MDS of the landmarks, then triangulation
    of all points.
    """
    chosen, squared_paths = _farthest_points(
        graph, min(landmarks, graph.shape[0]), int(rng.integers(graph.shape[0]))
    )
    among = squared_paths[:, chosen]
    rank = min(dimensions, len(chosen))
    values, vectors = _strongest((among + among.T) / 2, rank)
    # Fewer than k if the points lie on a line or in a plane.
    solid = values > 1e-12 * max(values[0], 1e-300)
    points = np.zeros((graph.shape[0], dimensions))
    to_points = vectors[:, solid] / np.sqrt(values[solid])
    points[:, :rank][:, solid] = -0.5 * (squared_paths - among.mean(1, keepdims=True)).T @ to_points
    centered: Floats = points - points.mean(0)
    return centered


def _farthest_points(graph: csr_array, count: int, first: int) -> tuple[Ints, Floats]:
    """Choose points, each the farthest from those before it, and return them with their squared
    paths (count, n).
    """
    paths = np.empty((count, graph.shape[0]))
    chosen = np.empty(count, dtype=np.int64)
    chosen[0] = int(np.argmax(dijkstra(graph, indices=first)))
    nearest = np.full(graph.shape[0], np.inf)
    for number in range(count):
        paths[number] = dijkstra(graph, indices=chosen[number])
        np.minimum(nearest, paths[number], out=nearest)
        if number + 1 < count:
            chosen[number + 1] = int(np.argmax(nearest))
    return chosen, np.square(paths)


def _strongest(squared: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues of the Gram matrix, at least 0 and descending, and their
    vectors (n, count).
    """
    gram = squared - squared.mean(0)
    gram = -0.5 * (gram - gram.mean(1, keepdims=True))
    last = len(gram) - 1
    values, vectors = eigh((gram + gram.T) / 2, subset_by_index=(last - count + 1, last))
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]
