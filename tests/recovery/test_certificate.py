"""Certificates: bounds below the cost of all maps, and proofs."""

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.recovery.anchored.relative import rotations
from mappable.recovery.certificate import certify
from mappable.recovery.graphs import Graph, optimum
from mappable.recovery.hints import Anchors, Motions
from mappable.recovery.ranges import Ranges

COUNT = 20


def made(*, odometry: bool, known: bool, noise: float = 0.1, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    heading = np.cumsum(rng.normal(0, 0.3, COUNT))
    truth = np.cumsum(np.stack([np.cos(heading), np.sin(heading)], 1), axis=0)
    i, j = np.triu_indices(COUNT, 1)
    apart = np.linalg.norm(truth[i] - truth[j], axis=1)
    near = apart < 5
    ranges = Ranges(COUNT, i[near], j[near], np.abs(apart[near] + rng.normal(0, noise, near.sum())), max(noise, 0.01))
    motions = None
    if odometry:
        back = rotations(heading[:-1]).transpose(0, 2, 1)
        metres = np.einsum("mab,mb->ma", back, np.diff(truth, axis=0)) + rng.normal(0, 0.03, (COUNT - 1, 2))
        turns = np.diff(heading) + rng.normal(0, 0.02, COUNT - 1)
        motions = Motions(np.arange(COUNT - 1), np.arange(1, COUNT), metres, turns, (0.03, 0.02))
    anchors = Anchors([0, 9, 19], truth[[0, 9, 19]], 0.1) if known else None
    oriented = np.full(COUNT, odometry)
    return Graph(tuple(map(str, range(COUNT))), truth, rotations(heading), oriented, ranges, motions, anchors)


@pytest.mark.parametrize("known", [True, False])
def test_a_map_with_odometry_is_proven_optimal(known: bool) -> None:
    graph = made(odometry=True, known=known)
    found = optimum(graph)
    certificate = certify(Graph(**(vars(graph) | {"positions": found.positions, "frames": found.frames})))
    assert certificate.optimal
    assert certificate.rank == 2
    assert certificate.cost == pytest.approx(found.cost, rel=1e-3)  # chords are a little shorter than angles
    assert certificate.bound <= found.cost


def test_exact_ranges_have_the_bound_zero() -> None:
    certificate = certify(made(odometry=False, known=True, noise=0.0))
    assert certificate.cost == pytest.approx(0.0, abs=1e-9)
    assert certificate.bound == pytest.approx(0.0, abs=1e-9)
    assert certificate.optimal


@pytest.mark.parametrize("seed", range(2))
def test_no_map_is_below_the_bound(seed: int) -> None:
    """Ranges alone leave a gap; no start that was tried leads to a cost below the bound."""
    graph = made(odometry=False, known=True, seed=seed)
    certificate = certify(graph)
    rng = np.random.default_rng(seed)
    costs = []
    for spread in (0.0, 0.5, 2.0, 5.0):
        start = graph.positions + rng.normal(0, spread, graph.positions.shape)
        costs.append(optimum(Graph(**(vars(graph) | {"positions": start}))).cost)
    assert 0 < certificate.bound <= min(costs) * (1 + 1e-9)
    assert certificate.gap < 0.7


def test_a_worse_map_is_not_called_optimal() -> None:
    """A map that is mirrored halfway stays there, and its gap says that a better one may exist."""
    graph = made(odometry=True, known=True)
    wrong = graph.positions.copy()
    wrong[10:, 1] = 2 * wrong[10, 1] - wrong[10:, 1]
    certificate = certify(Graph(**(vars(graph) | {"positions": wrong})))
    assert certificate.bound <= optimum(graph).cost
    assert certificate.given > 2 * certificate.cost
    assert f"this map has {certificate.given:.6g}, and the least-squares fit next to it" in str(certificate)


def test_noise_that_differs_between_directions_is_refused() -> None:
    graph = made(odometry=True, known=True)
    assert graph.motions is not None
    noise = np.tile(np.diag([0.01, 0.04, 0.01]), (COUNT - 1, 1, 1))
    one = graph.motions
    uneven = Motions(one.i, one.j, one.metres, one.rotations, noise)
    with pytest.raises(BadInputError, match="same noise"):
        certify(Graph(**(vars(graph) | {"motions": uneven})))
