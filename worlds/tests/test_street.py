"""The street world: its routes, what stands beside them, the facades that look alike, and drives through it."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.spatial import cKDTree

from mappable.arrays import Floats, path_length
from mappable.errors import BadInputError
from mappable.places.angles import wrap
from mappable_worlds.scene import Material, Shape, Solid, Traversal, World
from mappable_worlds.street.roads import Network, headings
from mappable_worlds.street.town import build
from mappable_worlds.street.traffic import traverse

pytestmark = pytest.mark.medium

SEEDS = (0, 7)
OVERHEAD = 2.0  # metres: what begins higher may hang over the road


@cache
def town(seed: int = 0, hills: bool = False) -> World:
    return build(seed, hills=hills)


@cache
def drive(seed: int, hills: bool = False) -> Traversal:
    return traverse(town(hills=hills), "main", spacing=1.0, seed=seed)


def outline(solid: Solid) -> Floats:
    """Points around a footprint, less than half a metre apart for all but houses."""
    share = np.linspace(-0.5, 0.5, 12)
    if solid.shape is not Shape.BOX:
        return (solid.x, solid.y) + solid.length * np.stack(
            [np.cos(7 * share), np.sin(7 * share)], axis=1
        ) / 2
    half = np.full(12, 0.5)
    along = np.concatenate([share, share, half, -half]) * solid.length
    across = np.concatenate([half, -half, share, share]) * solid.width
    cosine, sine = math.cos(solid.yaw), math.sin(solid.yaw)
    return np.stack(
        [solid.x + along * cosine - across * sine, solid.y + along * sine + across * cosine], axis=1
    )


def distance(points: Floats, *lines: Floats) -> Floats:
    metres: Floats = cKDTree(np.concatenate(lines)).query(points)[0]
    return metres


@pytest.mark.parametrize("seed", SEEDS)
def test_the_routes_are_as_long_and_winding_as_promised(seed: int) -> None:
    world = town(seed)
    assert set(world.routes) == {"main", "wing", "region-b", "leaving"}
    for name, least in (("main", 1250), ("wing", 150), ("region-b", 400)):
        assert path_length(world.routes[name].points)[-1] >= least
    heading = headings(world.routes["main"].points)
    far = heading[20:] - heading[:-20]  # the turn within 10 m
    starts = np.flatnonzero(np.diff((np.abs(far) > math.radians(40)).astype(int)) == 1)
    assert len(starts) >= 8


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_stands_on_a_carriageway(seed: int) -> None:
    world = town(seed)
    network = Network(world.scene.roads)
    for solid in world.scene.solids:
        if solid.low < OVERHEAD:
            room = network.front if solid.material is Material.FACADE else network.half
            assert (network.distance(outline(solid)) > room - 0.02).all(), solid


def test_one_seed_makes_one_world() -> None:
    again = build(0)
    assert again.scene == town().scene
    assert list(again.aliases) == list(town().aliases)
    assert all(
        np.array_equal(again.routes[name].points, town().routes[name].points)
        for name in again.routes
    )
    assert town(7).scene.solids != town().scene.solids


@pytest.mark.parametrize("route", ["main", "wing", "region-b", "leaving"])
def test_a_drive_has_an_image_every_metre_near_the_route(route: str) -> None:
    line = town().routes[route]
    run = traverse(town(), route, spacing=1.0, seed=2)
    assert len(run) == int(path_length(line.points)[-1]) + 1
    points = np.stack([run.x, run.y], axis=1)
    assert distance(points, line.points).max() < 1.5
    assert np.abs(wrap(run.yaw - headings(line.points)[: 2 * len(run) : 2])).max() < math.radians(8)
    assert np.abs(run.pitch).max() < math.radians(1.5)
    assert (np.diff(run.time) > 0).all()
    speed = np.linalg.norm(np.diff(points, axis=0), axis=1) / np.diff(run.time) * 1e9
    assert 5 < speed.mean() < 10


def test_drives_differ_by_seed_and_repeat_by_seed() -> None:
    one, two, again = drive(1), drive(2), traverse(town(), "main", spacing=1.0, seed=1)
    assert np.array_equal(one.x, again.x)
    assert np.array_equal(one.time, again.time)
    assert one.parked == again.parked
    assert one.moving == again.moving
    assert np.hypot(one.x - two.x, one.y - two.y).mean() > 0.05
    assert abs(int(one.time[0]) - int(two.time[0])) > 86_400e9 / 2
    assert one.parked != two.parked


def test_wrong_wishes_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"route.*'moon'"):
        traverse(town(), "moon", spacing=1.0, seed=0)
    with pytest.raises(BadInputError, match=r"above 0 metres, got 0"):
        traverse(town(), "main", spacing=0.0, seed=0)
