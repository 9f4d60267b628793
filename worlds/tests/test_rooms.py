"""The indoor world: its layout, what looks alike in it, and runs through it."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from mappable.arrays import Bools, Floats
from mappable.errors import BadInputError
from mappable_worlds import rooms
from mappable_worlds.rooms.floorplan import Building, Room
from mappable_worlds.scene import Material, Shape, Solid, Traversal

pytestmark = pytest.mark.medium

SEEDS = (0, 1)


@pytest.fixture(scope="module", params=SEEDS)
def world(request: pytest.FixtureRequest) -> Building:
    return rooms.build(request.param)


@pytest.fixture(scope="module")
def house() -> Building:
    return rooms.build(0, stories=True)


@pytest.fixture(scope="module")
def runs(world: Building) -> list[Traversal]:
    return [rooms.traverse(world, "main", spacing=0.35, seed=seed) for seed in range(6)]


def proper(world: Building, area: str) -> list[Room]:
    return [room for room in world.rooms if room.area == area and room.kind not in ("corridor", "ramp")]


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
    return np.column_stack([np.interp(np.arange(0, along[-1], 0.1), along, column) for column in line.T])


def inside(room: Room, points: Floats) -> Bools:
    level = np.abs(points[:, 2] - room.z) < 0.1 if points.shape[1] == 3 else np.ones(len(points), dtype=bool)
    across = (room.left < points[:, 0]) & (points[:, 0] < room.right)
    return across & (room.bottom < points[:, 1]) & (points[:, 1] < room.top) & level


def test_the_main_part_has_enough_rooms_of_many_kinds(world: Building) -> None:
    main = proper(world, "main")
    assert len(main) >= 9
    assert len({room.kind for room in main}) >= 7
    assert len(proper(world, "wing")) >= 2
    assert len(proper(world, "region-b")) >= 4
    assert sum(alias.group.startswith("room") for alias in world.aliases) == 2
    assert world.scene.indoors


def test_there_are_500_square_metres_of_free_floor(world: Building) -> None:
    """Counted on a grid of 5 cm."""
    cell, main = 0.05, [room for room in world.rooms if room.area == "main"]
    left, bottom = min(room.left for room in main), min(room.bottom for room in main)
    right, top = max(room.right for room in main), max(room.top for room in main)
    x, y = np.meshgrid(np.arange(left, right, cell) + cell / 2, np.arange(bottom, top, cell) + cell / 2)
    points = np.column_stack([x.ravel(), y.ravel()])
    free = np.any([inside(room, points) for room in main], axis=0).reshape(x.shape)
    for solid in world.scene.solids:
        if solid.low < 1.5:
            reach = math.hypot(solid.length, solid.width) / 2 + cell
            columns = slice(*(max(0, int((solid.x + side * reach - left) / cell)) for side in (-1, 1)))
            lines = slice(*(max(0, int((solid.y + side * reach - bottom) / cell)) for side in (-1, 1)))
            free[lines, columns] &= gap(solid, x[lines, columns], y[lines, columns]) > 0
    assert float(free.sum()) * cell**2 >= 500


def test_main_enters_every_room_and_no_other_area(world: Building) -> None:
    main = densely(world, "main")
    for room in world.rooms:
        assert inside(room, main).any() == (room.area == "main"), room.kind


@pytest.mark.parametrize(("route", "away"), [("wing", 3.0), ("region-b", 60.0)])
def test_the_other_parts_are_far_from_main_and_enter_all_their_rooms(world: Building, route: str, away: float) -> None:
    line, main = densely(world, route), densely(world, "main")
    assert min(np.hypot(*(main[:, :2] - point[:2]).T).min() for point in line) > away
    assert all(inside(room, line).any() == (room.area == route) for room in world.rooms)


def test_leaving_starts_on_main_and_ends_where_no_other_route_goes(world: Building) -> None:
    line, main = densely(world, "leaving"), densely(world, "main")
    away = np.array([np.hypot(*(main[:, :2] - point[:2]).T).min() for point in line])
    assert away[0] < 0.2
    assert (away > 4).mean() > 0.5
    outside = [room for room in world.rooms if room.area == "leaving"]
    assert len(outside) >= 3
    assert all(inside(room, line).any() for room in outside)
    for other in ("main", "wing", "region-b"):
        assert not any(inside(room, densely(world, other)).any() for room in outside)


def test_two_rooms_look_exactly_alike(world: Building) -> None:
    first, second = [alias for alias in world.aliases if alias.group == "room-1"]
    middles = {room.middle: room for room in proper(world, "main")}
    one, other = middles[first.x, first.y], middles[second.x, second.y]
    shift = np.subtract(other.middle, one.middle)
    assert np.hypot(*shift) > 8

    def content(room: Room) -> dict[str, list[tuple[object, ...]]]:
        found = {}
        for name in ("solids", "decks", "lamps", "openings"):
            things = [
                thing
                for thing in getattr(world.scene, name)
                if room.left < thing.x < room.right and room.bottom < thing.y < room.top
            ]
            moved = [replace(thing, x=thing.x - room.left, y=thing.y - room.bottom) for thing in things]
            names = [each.name for each in fields(things[0]) if each.name != "room"]  # which lies elsewhere
            rows = [tuple(getattr(thing, each) for each in names) for thing in moved]
            found[name] = sorted(tuple(np.round(v, 6) if isinstance(v, float) else v for v in row) for row in rows)
        return found

    here, there = content(one), content(other)
    assert here == there
    assert len(here["solids"]) > 40
    assert here["openings"]


def test_pictures_look_alike_and_hang_where_the_table_says(world: Building) -> None:
    pictures = [solid for solid in world.scene.solids if solid.material == Material.PICTURE]
    groups: dict[str, list[Solid]] = {}
    for alias in world.aliases:
        if alias.group.startswith("picture"):
            nearby = min(pictures, key=lambda one: math.hypot(one.x - alias.x, one.y - alias.y))
            assert math.hypot(nearby.x - alias.x, nearby.y - alias.y) < 0.05
            assert abs(math.sin(nearby.yaw + math.pi / 2 - alias.yaw)) < 1e-9
            groups.setdefault(alias.group, []).append(nearby)
    assert len(groups) >= 3
    for same in groups.values():
        assert len(same) >= 2
        assert len({(one.seed, one.color, one.length, round(one.high - one.low, 9)) for one in same}) == 1


def test_a_seed_gives_one_world_and_another_seed_another(world: Building) -> None:
    assert [rooms.build(seed).scene == world.scene for seed in SEEDS].count(True) == 1
    one, same = (rooms.traverse(world, "wing", spacing=0.35, seed=3) for _ in range(2))
    assert all(np.array_equal(getattr(one, each.name), getattr(same, each.name)) for each in fields(one)[:6])
    assert list(one.parked) == list(same.parked)
    assert list(one.moving) == list(same.moving)


def test_runs_differ_in_offset_date_and_what_stands_about(runs: list[Traversal]) -> None:
    assert len({run.time[0] for run in runs}) == len(runs)
    assert len({len(run.parked) for run in runs}) > 1
    assert set(runs[0].parked) != set(runs[1].parked)
    starts = np.array([(run.x[0], run.y[0]) for run in runs])
    assert 0.03 < starts[:, 1].std() < 0.25


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


def test_people_walk_about_and_keep_their_distance(runs: list[Traversal]) -> None:
    for run in runs[:3]:
        assert len({image for image, _ in run.moving}) > 0.2 * len(run)
        for image, solid in run.moving:
            assert math.hypot(solid.x - run.x[image], solid.y - run.y[image]) >= 0.7
            assert solid.material == Material.PERSON


def test_the_robot_turns_on_the_spot(runs: list[Traversal]) -> None:
    for run in runs[:3]:
        here = np.hypot(run.x[:, None] - run.x, run.y[:, None] - run.y) < 0.2
        turned = np.abs(np.angle(np.exp(1j * (run.yaw[:, None] - run.yaw)))) > math.pi / 2
        assert (here & turned).any(axis=1).mean() > 0.3
        still = np.hypot(np.diff(run.x), np.diff(run.y)) < 1e-9
        assert np.abs(np.angle(np.exp(1j * np.diff(run.yaw))))[still].max() < math.radians(22)


def test_100_landmarks_cover_all_runs(runs: list[Traversal]) -> None:
    points = np.concatenate([np.column_stack([run.x, run.y]) for run in runs])
    away = np.hypot(*(points - points[0]).T)
    for _ in range(99):
        away = np.minimum(away, np.hypot(*(points - points[away.argmax()]).T))
    assert (away <= 1).mean() >= 0.98


def test_windows_look_outside(world: Building) -> None:
    assert len(world.scene.openings) > 20
    for opening in world.scene.openings:
        x, y = opening.x + 0.5 * math.cos(opening.yaw), opening.y + 0.5 * math.sin(opening.yaw)
        assert not any(room.holds(x, y, 1.0) for room in world.rooms)
        back = opening.x - 0.5 * math.cos(opening.yaw), opening.y - 0.5 * math.sin(opening.yaw)
        assert [room.corners for room in world.rooms if room.holds(*back, 1.0)] == [opening.room]


def test_what_cannot_be_walked_is_refused(world: Building) -> None:
    with pytest.raises(BadInputError, match=r"route.*'attic'"):
        rooms.traverse(world, "attic", spacing=0.35, seed=0)
    with pytest.raises(BadInputError, match=r"above 0 metres, got 0"):
        rooms.traverse(world, "main", spacing=0.0, seed=0)


def test_two_stories_are_joined_by_a_ramp(house: Building) -> None:
    assert list(house.routes) == ["main"]
    run = rooms.traverse(house, "main", spacing=0.35, seed=1)
    assert run.z.min() == 0.0
    assert run.z.max() == pytest.approx(3.4)
    step = np.hypot(np.diff(run.x), np.diff(run.y))
    assert (np.abs(np.diff(run.z)) <= 0.16 * step + 0.02).all()
    assert ((run.z > 0.5) & (run.z < 3.0)).sum() > 40
    line = densely(house, "main")
    for z in (0.0, 3.4):
        visited = [room for room in proper(house, "main") if room.z == z and inside(room, line).any()]
        assert len(visited) >= 3
    assert nearest([*house.scene.solids, *run.parked], run) > 0.3


def test_the_robot_stands_on_a_floor_or_the_ramp(house: Building) -> None:
    run = rooms.traverse(house, "main", spacing=0.35, seed=1)
    for x, y, z in zip(run.x, run.y, run.z, strict=True):
        heights = [
            deck.z + deck.slope[0] * (x - deck.x)
            for deck in house.scene.decks
            if abs(x - deck.x) <= deck.length / 2 and abs(y - deck.y) <= deck.width / 2
        ]
        assert min(abs(height - z) for height in heights) < 1e-9


def test_one_room_is_above_its_like(house: Building) -> None:
    low, high = [alias for alias in house.aliases if alias.group == "room-1"]
    assert (low.x, low.y) == (high.x, high.y)
    assert high.z - low.z == pytest.approx(3.4)
