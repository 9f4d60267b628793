"""The relaxed problem behind a certificate: range-aided SLAM with complex positions, in any number of dimensions.

In 2-D, positions are complex numbers, and an orientation is a complex number of length 1. That length is a further
"range" to the origin, with a very large weight. Rotations count by the chord between directions, which is never longer
than the angle. So a bound on this problem also holds for angles. Motions need the same noise in all directions.
"""

import numpy as np
from numpy.typing import NDArray

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.recovery.anchored.dissection import Dissection, plan_elimination
from mappable.recovery.anchored.elimination import Elimination, SingularError
from mappable.recovery.graphs import Graph
from mappable.recovery.hints import Motions

Complexes = NDArray[np.complex128]
STIFF = 1e4  # weight of the length of an orientation, relative to the largest weight of its rotations
STEPS, DECREASE = 200, 1e-11  # Newton steps per rank, at most, and relative decrease at which they stop


def check_noise(motions: Motions | None) -> None:
    """Raise if steps have different noise in different directions, or noise that depends on the turn."""
    if motions is None or motions.covariance.shape[1] != 3:
        return
    noise = motions.covariance
    isotropic = np.zeros_like(noise)
    isotropic[:, 0, 0] = isotropic[:, 1, 1] = (noise[:, 0, 0] + noise[:, 1, 1]) / 2
    isotropic[:, 2, 2] = noise[:, 2, 2]
    if np.abs(noise - isotropic).max() > 1e-6 * noise.max():
        raise BadInputError("a certificate needs motions with the same noise in all directions")


class Quadratic:
    """The problem over complex nodes: positions, then orientations of poses; the last ones are at most n.

    `links` are pairs with weights and lengths: ranges, and orientations with the origin (node -1).
    """

    def __init__(self, graph: Graph) -> None:
        n = len(graph.positions)
        turning = np.flatnonzero(graph.oriented) if graph.motions is not None else np.arange(0)
        self.node = np.full(n + 1, -1)
        self.node[turning] = n + np.arange(len(turning))
        self.count, self.points = n + len(turning), n
        self.terms: list[tuple[Ints, Complexes, Floats]] = []  # w |a y_i + b y_j + c y_k|²: nodes, factors, weights
        self.constant = 0.0
        self.pull = np.zeros(self.count, dtype=complex)  # right side b
        self.own = np.zeros(self.count)  # diagonal of the known positions
        self._add_known(graph, turning)
        weights = self._add_motions(graph) if graph.motions is not None else np.zeros(0)
        stiff = STIFF * (weights.max() if len(weights) else 1.0)
        first = np.concatenate([graph.ranges.i, self.node[turning]])
        second = np.concatenate([graph.ranges.j, np.full(len(turning), -1)])
        self.first, self.second = first, second
        self.weight = np.concatenate([graph.ranges.sigma**-2.0, np.full(len(turning), stiff)])
        self.length = np.concatenate([graph.ranges.metres, np.ones(len(turning))])

    def _add_known(self, graph: Graph, turning: Ints) -> None:
        if graph.known is None:
            # Every map can be moved and turned so that these terms are 0: they change no bound.
            pinned = [0] if not len(turning) else [0, int(self.node[turning[0]])]
            frame = graph.frames[turning[0], :, 0] if len(turning) else np.zeros(2)
            at = np.array([graph.positions[0], frame])[: len(pinned)] @ np.array([1, 1j])
            weight = float(np.median(graph.ranges.sigma**-2.0)) if len(graph.ranges) else 1.0
            self.own[pinned], self.pull[pinned] = weight, weight * at
            self.constant = weight * float(np.square(np.abs(at)).sum())
            return
        at, weights = graph.known.positions @ np.array([1, 1j]), graph.known.sigma**-2.0
        self.own[graph.known.points], self.pull[graph.known.points] = weights, weights * at
        self.constant = float(weights @ np.square(np.abs(at)))

    def _add_motions(self, graph: Graph) -> Floats:
        motions = graph.motions
        if motions is None:
            return np.zeros(0)
        check_noise(motions)
        noise = motions.covariance
        i, j = motions.i, motions.j
        way, turn = motions.metres @ np.array([1, 1j]), motions.rotations[:, 0, 0] + 1j * motions.rotations[:, 1, 0]
        step, angle = 1 / noise[:, 0, 0], 1 / noise[:, 2, 2]
        here, there = self.node[i], self.node[j]
        one = np.ones(len(i))
        self.terms = [
            (np.stack([j, i, here]), np.stack([one + 0j, -one + 0j, -way]), step),
            (np.stack([there, here]), np.stack([one + 0j, -turn]), angle),
        ]
        return angle

    def entries(self) -> tuple[Ints, Ints, Complexes]:
        """Return the Hermitian matrix Q of everything except ranges, as rows, columns and complex values."""
        rows, columns, values = [np.arange(self.count)], [np.arange(self.count)], [self.own + 0j]
        for nodes, factors, weight in self.terms:
            for a in range(len(nodes)):
                for b in range(len(nodes)):
                    rows.append(nodes[a])
                    columns.append(nodes[b])
                    values.append(weight * factors[a].conj() * factors[b])
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)


class Lifted:
    """The problem in `rank` complex dimensions: cost, gradient and Hessian, in blocks of real coordinates."""

    def __init__(self, quadratic: Quadratic) -> None:
        self.given = quadratic
        rows, columns, values = quadratic.entries()
        self.q = rows, columns, values
        linked = quadratic.second >= 0
        pairs = np.concatenate(
            [np.stack([rows, columns], 1), np.stack([quadratic.first[linked], quadratic.second[linked]], 1)]
        )
        pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
        self.keys = np.unique(pairs[:, 0] * quadratic.count + pairs[:, 1])
        self.i, self.j = self.keys // quadratic.count, self.keys % quadratic.count
        self.plans: dict[int, Elimination | Dissection] = {}

    def plan(self, size: int) -> Elimination | Dissection:
        """Return the plan for blocks of `size` real coordinates."""
        if size not in self.plans:
            self.plans[size] = plan_elimination(self.given.count, size, self.i, self.j)
        return self.plans[size]

    def apart(self, y: Complexes) -> tuple[Complexes, Floats]:
        """Return differences (m, rank) along the links of y (nodes, rank), and their lengths (m,)."""
        one = self.given
        apart = y[one.first] - np.where(one.second[:, None] >= 0, y[one.second], 0.0)
        return apart, np.maximum(np.linalg.norm(apart, axis=1), 1e-9)

    def cost(self, y: Complexes) -> float:
        """Return half the cost."""
        one = self.given
        distance = self.apart(y)[1]
        rows, columns, values = self.q
        square = float(np.einsum("er,e,er->", y[rows].conj(), values, y[columns]).real)
        linear = float((one.pull.conj() @ y[:, 0]).real)
        fit = float(one.weight @ np.square(distance - one.length))
        return 0.5 * (square - 2 * linear + one.constant + fit)

    def system(self, y: Complexes, *, stress: Floats | None = None) -> tuple[Floats, Floats, Floats]:
        """Return diagonal and coupling blocks of the Hessian, and the descent direction, at y (nodes, rank).

        With `stress` (m,), the blocks are those of S alone: the links have these weights in all directions.
        """
        one, rank = self.given, y.shape[1]
        apart, distance = self.apart(y)
        flat = as_real(apart)
        size = 2 * rank if stress is None else 2
        weight = one.weight * (1 - one.length / distance) if stress is None else stress
        blocks = weight[:, None, None] * np.eye(size)
        if stress is None:
            along = flat / distance[:, None]
            blocks = (
                blocks + (one.weight * one.length / distance)[:, None, None] * along[:, :, None] * along[:, None, :]
            )
        diagonal, coupling = np.zeros((one.count, size, size)), np.zeros((len(self.keys), size, size))
        linked = one.second >= 0
        np.add.at(diagonal, one.first, blocks)
        np.add.at(diagonal, one.second[linked], blocks[linked])
        np.add.at(coupling, self._slot(one.first[linked], one.second[linked]), -blocks[linked])
        rows, columns, values = self.q
        q = np.kron(np.eye(size // 2), np.ones((2, 2))) * _blocks(values, size // 2)
        same, upper = rows == columns, rows < columns
        np.add.at(diagonal, rows[same], q[same])
        np.add.at(coupling, self._slot(rows[upper], columns[upper]), q[upper])
        slope = np.zeros_like(y)
        np.add.at(slope, rows, values[:, None] * y[columns])
        pull = (one.weight * (1 - one.length / distance))[:, None] * apart
        np.add.at(slope, one.first, pull)
        np.add.at(slope, one.second[linked], -pull[linked])
        slope[:, 0] -= one.pull
        return diagonal, coupling, -as_real(slope)

    def _slot(self, first: Ints, second: Ints) -> Ints:
        slot: Ints = np.searchsorted(
            self.keys, np.minimum(first, second) * self.given.count + np.maximum(first, second)
        )
        return slot

    def descend(self, y: Complexes) -> Complexes:
        """Minimize by damped Newton steps."""
        value, damping, size = self.cost(y), 1e-6, 2 * y.shape[1]
        scale = float(np.median(self.given.weight))
        for _ in range(STEPS):
            diagonal, coupling, down = self.system(y)
            for _ in range(30):
                try:
                    factor = self.plan(size).factor(diagonal + damping * scale * np.eye(size), coupling)
                except SingularError:
                    damping *= 10
                    continue
                trial = y + as_complex(factor.solve(down))
                found = self.cost(trial)
                if found <= value:
                    break
                damping *= 10
            else:
                return y
            gained, y, value, damping = value - found, trial, found, max(damping / 10, 1e-12)
            if gained <= DECREASE * max(value, 1.0):
                break
        return y


def as_real(values: Complexes) -> Floats:
    """Return complex (n, rank) as real (n, 2 * rank): real and imaginary parts side by side."""
    flat: Floats = np.stack([values.real, values.imag], -1).reshape(len(values), -1)
    return flat


def as_complex(values: Floats) -> Complexes:
    pairs = values.reshape(len(values), -1, 2)
    joined: Complexes = pairs[..., 0] + 1j * pairs[..., 1]
    return joined


def _blocks(values: Complexes, rank: int) -> Floats:
    """Return complex values (m,) as real matrices (m, 2 * rank, 2 * rank): one 2 x 2 block repeated."""
    block = np.stack([np.stack([values.real, -values.imag], -1), np.stack([values.imag, values.real], -1)], -2)
    return np.tile(block, (1, rank, rank))
