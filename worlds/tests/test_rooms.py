"""The indoor world: its layout, what looks alike in it, and runs through it."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from mappable.arrays import Floats
from mappable.errors import BadInputError
from mappable_worlds import rooms
from mappable_worlds.rooms.floorplan import Building
from mappable_worlds.scene import Shape, Solid, Traversal

pytestmark = pytest.mark.medium

SEEDS = (0, 1)


@pytest.fixture(scope="module", params=SEEDS)
def world(request: pytest.FixtureRequest) -> Building:
    return rooms.build(request.param)


@pytest.fixture(scope="module")
def runs(world: Building) -> list[Traversal]:
    return [rooms.traverse(world, "main", spacing=0.35, seed=seed) for seed in range(6)]


def gap(solid: Solid, x: Floats, y: Floats) -> Floats:
    """Metres from points to the outline of a solid."""
    there = np.exp(-1j * solid.yaw) * (x - solid.x + 1j * (y - solid.y))
    if solid.shape == Shape.BOX:
        outside = (
            np.maximum(np.abs(there.real) - solid.length / 2, 0),
            np.maximum(np.abs(there.imag) - solid.width / 2, 0),
        )
        return np.hypot(*outside)
    return np.maximum(np.abs(there) - max(solid.length, solid.width) / 2, 0)


def nearest(solids: list[Solid], run: Traversal, *, robot: float = 1.2) -> float:
    """The least gap between the robot's middle and what it could touch."""
    found = math.inf
    for solid in solids:
        beside = (solid.low < run.z + robot) & (solid.high > run.z + 0.05)
        if beside.any():
            found = min(found, float(gap(solid, run.x[beside], run.y[beside]).min()))
    return found


def densely(world: Building, route: str) -> Floats:
    """A point every 10 cm of a route: x, y, z."""
    line = np.column_stack([world.routes[route].points, world.routes[route].z])
    along = np.append(0, np.cumsum(np.linalg.norm(np.diff(line[:, :2], axis=0), axis=1)))
    return np.column_stack(
        [np.interp(np.arange(0, along[-1], 0.1), along, column) for column in line.T]
    )


def test_a_seed_gives_one_world_and_another_seed_another(world: Building) -> None:
    assert [rooms.build(seed).scene == world.scene for seed in SEEDS].count(True) == 1
    one, same = (rooms.traverse(world, "wing", spacing=0.35, seed=3) for _ in range(2))
    assert all(
        np.array_equal(getattr(one, each.name), getattr(same, each.name))
        for each in fields(one)[:6]
    )
    assert list(one.parked) == list(same.parked)
    assert list(one.moving) == list(same.moving)


def test_runs_have_as_many_images_as_wanted_at_the_robots_pace(runs: list[Traversal]) -> None:
    for run in runs:
        assert 900 <= len(run) <= 1250
        seconds = np.diff(run.time) / 1e9
        assert seconds.min() >= 0
        step = np.hypot(np.diff(run.x), np.diff(run.y))
        assert step.max() < 0.5
        assert (step / np.maximum(seconds, 1e-3)).max() < 1.2
        assert np.abs(run.pitch).max() < math.radians(2)


@pytest.mark.parametrize("route", ["main", "wing", "leaving", "region-b"])
def test_nothing_stands_in_the_way(world: Building, route: str) -> None:
    line = densely(world, route)
    run = rooms.traverse(world, route, spacing=0.35, seed=4)
    walked = replace(run, x=line[:, 0], y=line[:, 1], z=line[:, 2])
    for way in (run, walked):
        assert nearest([*world.scene.solids, *run.parked], way) > 0.3
    assert run.parked


def test_what_cannot_be_walked_is_refused(world: Building) -> None:
    with pytest.raises(BadInputError, match=r"route.*'attic'"):
        rooms.traverse(world, "attic", spacing=0.35, seed=0)
    with pytest.raises(BadInputError, match=r"above 0 metres, got 0"):
        rooms.traverse(world, "main", spacing=0.0, seed=0)
