"""Slow reference code for `self_check`: the same equations in plain loops over Python floats.

It calls neither the code that it checks, nor NumPy, nor PyTorch. Vectors are sequences of floats.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from mappable.learning.losses.loss import Loss

JACOBI_SWEEPS = 50

Vector = Sequence[float]
Vectors = Sequence[Vector]
Edges = Sequence[tuple[int, int, float, float]]  # i, j, metres, sigma


def squared_distance(first: Vector, second: Vector) -> float:
    return math.fsum((a - b) ** 2 for a, b in zip(first, second, strict=True))


def loss_terms(loss: Loss, images: Vectors, squared_metres: Vector) -> dict[str, float]:
    """The `Terms` of one anchor, by name. Only the options of `loss` are used.

    `images` holds the descriptors of the anchor, the positives, the negatives and, for quadruplets, the other
    negative. `squared_metres` holds squared distances from the anchor to its positives and, if all pairs count, then
    between the positives.
    """
    anchor, positives, rest = images[0], images[1 : 1 + loss.positives], images[1 + loss.positives :]
    has_quadruplets, is_lazy = "quadruplet" in loss.name, "lazy" in loss.name
    negatives = rest[:-1] if has_quadruplets else rest
    near = [squared_distance(anchor, one) for one in positives]
    far = [squared_distance(anchor, one) for one in negatives]
    compared = list(near)
    if loss.geometric_pairs == "all" and ("distance" in loss.name or "huber" in loss.name):
        compared += [squared_distance(a, b) for row, a in enumerate(positives) for b in positives[row + 1 :]]
    scale, radius, delta = loss.feature_scale_squared, loss.positive_radius, loss.huber_delta
    sizes, costs = [], []
    for feature, geometric in zip(compared, squared_metres, strict=True):
        residual = feature / scale - geometric / radius**2
        if not loss.normalized:
            residual = geometric - radius**2 / scale * feature
        size = abs(residual)
        bent = residual**2 / 2 if size <= delta else delta * (size - delta / 2)
        sizes.append(size)
        costs.append(bent if "huber" in loss.name else residual**2)
    first, second = [max(0.0, loss.margin + min(near) - one) for one in far], []
    for one in negatives if has_quadruplets else []:
        apart = squared_distance(one, rest[-1])
        if loss.second_hinge == "residuals":
            second.append(max(0.0, loss.second_margin + min(costs[: loss.positives]) - apart / scale))
        else:
            second.append(max(0.0, loss.second_margin + min(near) - apart))
    visual = geometric_term = 0.0
    if far:
        visual = max(first) if is_lazy else sum(first)
        visual += max(second, default=0.0) if is_lazy or loss.second_hinge == "residuals" else sum(second)
    if "distance" in loss.name or "huber" in loss.name:
        geometric_term = sum(costs) / (len(costs) if loss.normalized else 1)
    hinges = first + second
    return {
        "total": visual + (loss.geometric_weight if far else 1) * geometric_term,
        "visual": visual,
        "geometric": geometric_term,
        "active": sum(hinge > 0 for hinge in hinges) / max(1, len(hinges)),
        "best": min(near),
        "negative": sum(far) / max(1, len(far)),
        "residual": sum(sizes) / len(sizes),
    }


def numerical_gradient(function: Callable[[list[list[float]]], float], at: Vectors, step: float) -> list[list[float]]:
    """Central differences of a function of vectors, one component at a time."""
    gradient = [[0.0] * len(vector) for vector in at]
    for row, vector in enumerate(at):
        for column, value in enumerate(vector):
            moved = [list(one) for one in at]
            moved[row][column] = value + step
            above = function(moved)
            moved[row][column] = value - step
            gradient[row][column] = (above - function(moved)) / (2 * step)
    return gradient


def nearest(
    query: Vector, vectors: Vectors | Mapping[int, Vector], rows: Iterable[int], count: int
) -> list[tuple[float, int]]:
    """Squared distances and rows of the `count` vectors among `rows` that are nearest to the query, nearest first."""
    return sorted((squared_distance(query, vectors[row]), row) for row in rows)[:count]


def eigenvalues_and_vectors(matrix: Vectors) -> list[tuple[float, list[float]]]:
    """Eigenvalues and eigenvectors of a symmetric matrix, largest eigenvalue first, by Jacobi rotations."""
    size = len(matrix)
    turned = [list(row) for row in matrix]
    basis = [[float(row == column) for column in range(size)] for row in range(size)]
    for _ in range(JACOBI_SWEEPS):
        off = math.fsum(turned[i][j] ** 2 for i in range(size) for j in range(i))
        if off <= 1e-30 * math.fsum(turned[i][i] ** 2 for i in range(size)):
            break
        for i in range(size):
            for j in range(i):
                _rotate(turned, basis, i, j)
    pairs = [(turned[k][k], [row[k] for row in basis]) for k in range(size)]
    return sorted(pairs, key=lambda pair: -pair[0])


def _rotate(turned: list[list[float]], basis: list[list[float]], i: int, j: int) -> None:
    """Make entry (i, j) zero by a rotation in the plane of axes i and j."""
    if turned[i][j] == 0:
        return
    angle = 0.5 * math.atan2(2 * turned[i][j], turned[j][j] - turned[i][i])
    cosine, sine = math.cos(angle), math.sin(angle)
    for rows in (turned, basis):
        for row in rows:
            row[i], row[j] = cosine * row[i] - sine * row[j], sine * row[i] + cosine * row[j]
    for k in range(len(turned)):
        a, b = turned[i][k], turned[j][k]
        turned[i][k], turned[j][k] = cosine * a - sine * b, sine * a + cosine * b


def classical_mds(squared: Vectors, dimensions: int) -> list[list[float]]:
    """Points whose inner products are nearest to the centered matrix -D / 2, where D holds squared distances."""
    count = len(squared)
    means = [math.fsum(row) / count for row in squared]
    mean = math.fsum(means) / count
    gram = [[-0.5 * (squared[i][j] - means[i] - means[j] + mean) for j in range(count)] for i in range(count)]
    strongest = eigenvalues_and_vectors(gram)[:dimensions]
    return [[math.sqrt(max(0.0, value)) * vector[i] for value, vector in strongest] for i in range(count)]


def stress(edges: Edges, points: Vectors) -> float:
    """The sum of ((|x_i - x_j| - metres) / sigma)²."""
    return math.fsum(((math.dist(points[i], points[j]) - metres) / sigma) ** 2 for i, j, metres, sigma in edges)


def least_stress(edges: Edges, start: Vectors, sweeps: int) -> list[list[float]]:
    """Points near the start with the least stress.

    Each point in turn moves to the weighted mean of the positions that its neighbors suggest. No sweep raises the
    stress.
    """
    points = [list(point) for point in start]
    neighbors: dict[int, list[tuple[int, float, float]]] = {}
    for i, j, metres, sigma in edges:
        neighbors.setdefault(i, []).append((j, metres, sigma**-2))
        neighbors.setdefault(j, []).append((i, metres, sigma**-2))
    for _ in range(sweeps):
        for i, known in neighbors.items():
            total, wanted = 0.0, [0.0] * len(points[i])
            for j, metres, weight in known:
                length = math.dist(points[i], points[j]) or 1.0
                total += weight
                for axis, (own, other) in enumerate(zip(points[i], points[j], strict=True)):
                    wanted[axis] += weight * (other + metres * (own - other) / length)
            points[i] = [value / total for value in wanted]
    return points


def aligned(points: Vectors, truth: Vectors, *, scale: bool) -> list[list[float]]:
    """Points (n, 3) translated, rotated, possibly mirrored and scaled to lie nearest to the truth (n, 3).

    The method uses unit quaternions (Horn 1987): the best rotation is an eigenvector of a 4 x 4 matrix of sums of
    products.
    """
    centers = [[math.fsum(column) / len(rows) for column in zip(*rows, strict=True)] for rows in (points, truth)]
    wanted = [[value - middle for value, middle in zip(row, centers[1], strict=True)] for row in truth]
    best: tuple[float, list[list[float]]] = (-math.inf, [])
    for mirror in (1.0, -1.0):
        own = [[mirror * (value - middle) for value, middle in zip(row, centers[0], strict=True)] for row in points]
        strength, turn = _best_turn(own, wanted)
        factor = strength / math.fsum(value**2 for row in own for value in row) if scale else 1.0
        turned = [[factor * math.fsum(t * v for t, v in zip(axis, row, strict=True)) for axis in turn] for row in own]
        if strength > best[0]:
            best = strength, [[v + middle for v, middle in zip(row, centers[1], strict=True)] for row in turned]
    return best[1]


def _best_turn(own: Vectors, wanted: Vectors) -> tuple[float, list[list[float]]]:
    """The rotation (3 x 3) that brings centered points nearest to others, and the sum of inner products after it."""
    sums = [[math.fsum(p[i] * t[j] for p, t in zip(own, wanted, strict=True)) for j in range(3)] for i in range(3)]
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = sums
    matrix = [
        [xx + yy + zz, yz - zy, zx - xz, xy - yx],
        [yz - zy, xx - yy - zz, xy + yx, zx + xz],
        [zx - xz, xy + yx, yy - xx - zz, yz + zy],
        [xy - yx, zx + xz, yz + zy, zz - xx - yy],
    ]
    strength, (w, x, y, z) = eigenvalues_and_vectors(matrix)[0]
    turn = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
    return strength, turn
