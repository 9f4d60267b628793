"""The street world: its routes, what stands beside them, the facades that look alike, and drives through it."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.spatial import cKDTree

from mappable.arrays import Floats, path_length
from mappable.errors import BadInputError
from mappable.places.angles import wrap
from mappable_worlds.scene import Alias, Material, Shape, Solid, Traversal, World
from mappable_worlds.street.roads import Network, ground_height, headings
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


def vehicles(run: Traversal) -> list[Solid]:
    return [solid for solid in run.parked if solid.material is Material.VEHICLE]


def hoardings(run: Traversal) -> list[Solid]:
    return [solid for solid in run.parked if solid.material in (Material.FENCE, Material.SIGN)]


def outline(solid: Solid) -> Floats:
    """Points around a footprint, less than half a metre apart for all but houses."""
    share = np.linspace(-0.5, 0.5, 12)
    if solid.shape is not Shape.BOX:
        return (solid.x, solid.y) + solid.length * np.stack([np.cos(7 * share), np.sin(7 * share)], axis=1) / 2
    half = np.full(12, 0.5)
    along = np.concatenate([share, share, half, -half]) * solid.length
    across = np.concatenate([half, -half, share, share]) * solid.width
    cosine, sine = math.cos(solid.yaw), math.sin(solid.yaw)
    return np.stack([solid.x + along * cosine - across * sine, solid.y + along * sine + across * cosine], axis=1)


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
def test_routes_are_dense_and_turn_smoothly(seed: int) -> None:
    for route in town(seed).routes.values():
        assert np.linalg.norm(np.diff(route.points, axis=0), axis=1).max() <= 0.5 + 1e-9
        assert np.abs(np.diff(headings(route.points))).max() < 0.5 / 3.9  # no arc is tighter than 4 m


@pytest.mark.parametrize("seed", SEEDS)
def test_the_re_driven_stretch_is_one_piece(seed: int) -> None:
    points = town(seed).routes["main"].points
    heading = headings(points)
    again = [
        row
        for row in range(len(points))
        if any(
            math.cos(heading[row] - heading[other]) > 0.9
            for other in np.flatnonzero(np.linalg.norm(points[: max(0, row - 100)] - points[row], axis=1) < 1.0)
        )
    ]
    assert len(again) * 0.5 >= 100
    assert again == list(range(again[0], again[-1] + 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_other_routes_keep_away_from_main(seed: int) -> None:
    main, wing, other, leaving = (town(seed).routes[name].points for name in ("main", "wing", "region-b", "leaving"))
    assert distance(wing, main).min() >= 30
    assert distance(other, main, wing, leaving).min() >= 300
    shared = distance(leaving, main) < 0.5
    assert shared[:180].all()  # the first 90 m and more lie on main
    assert 90 <= shared.sum() * 0.5 <= 110
    off_map = distance(leaving, main, wing) > 40
    assert off_map.sum() * 0.5 >= 250
    assert (np.diff(off_map.astype(int)) != 0).sum() == 1  # once off, it never comes back


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_stands_on_a_carriageway(seed: int) -> None:
    world = town(seed)
    network = Network(world.scene.roads)
    for solid in world.scene.solids:
        if solid.low < OVERHEAD:
            room = network.front if solid.material is Material.FACADE else network.half
            assert (network.distance(outline(solid)) > room - 0.02).all(), solid


@pytest.mark.long
def test_driven_lines_are_free_of_standing_and_parked_things() -> None:
    world = town()
    lines = [route.points for route in world.routes.values()]
    low = [solid for solid in (*world.scene.solids, *drive(1).parked) if solid.low < OVERHEAD]
    assert distance(np.concatenate([outline(solid) for solid in low]), *lines).min() > 1.2


def test_parked_vehicles_stand_in_nothing_else() -> None:
    thin = [solid for solid in town().scene.solids if solid.low < 1.5 and solid.length < 1.0]
    posts = np.array([(solid.x, solid.y) for solid in thin])
    for solid in vehicles(drive(1)):
        offset = posts - (solid.x, solid.y)
        along = np.abs(offset @ (math.cos(solid.yaw), math.sin(solid.yaw)))
        across = np.abs(offset @ (-math.sin(solid.yaw), math.cos(solid.yaw)))
        assert not ((along < solid.length / 2) & (across < solid.width / 2)).any()


def test_hoardings_stand_before_houses_and_change_from_run_to_run() -> None:
    network = Network(town().scene.roads)
    for solid in hoardings(drive(1)):
        assert (network.distance(outline(solid)) > network.half + 1).all()  # which leaves the curb free
    assert 20 < len(hoardings(drive(1))) < 80
    assert not set(hoardings(drive(1))) & set(hoardings(drive(2)))


def test_houses_do_not_overlap() -> None:
    houses = [solid for solid in town().scene.solids if solid.material is Material.FACADE]
    tree = cKDTree([(house.x, house.y) for house in houses])
    for one, two in tree.query_pairs(20):
        for inner, outer in ((one, two), (two, one)):
            offset, house = outline(houses[inner]) - (houses[outer].x, houses[outer].y), houses[outer]
            along = np.abs(offset @ (math.cos(house.yaw), math.sin(house.yaw)))
            across = np.abs(offset @ (-math.sin(house.yaw), math.cos(house.yaw)))
            assert not ((along < house.length / 2 - 0.05) & (across < house.width / 2 - 0.05)).any()


def test_roads_and_houses_vary_within_bounds() -> None:
    scene = town().scene
    assert all(7 <= road.width <= 11 and 2 <= road.pavement <= 3.5 for road in scene.roads)
    assert np.ptp([road.width for road in scene.roads]) > 2
    houses = [solid for solid in scene.solids if solid.material is Material.FACADE]
    assert len(houses) > 500
    for house in houses:
        assert 6 <= house.length <= 16
        assert 8 <= house.width <= 12
        assert house.low == 0
        assert 6 <= house.high <= 20
        assert house.roof == 0 or 1.5 <= house.roof <= 4
    assert {Material.BRICK, Material.FENCE, Material.FOLIAGE, Material.WOOD, Material.SIGN, Material.LAMP} <= {
        solid.material for solid in scene.solids
    }
    assert all(5 <= lamp.z <= 6 for lamp in scene.lamps)


@pytest.mark.parametrize(("seed", "hills"), [(0, False), (7, False), (0, True), (7, True)])
def test_the_pool_is_fifteen_per_cent_and_its_houses_are_exactly_alike(seed: int, hills: bool) -> None:
    world = town(seed, hills)
    houses = [solid for solid in world.scene.solids if solid.material is Material.FACADE]
    assert 0.13 <= len(world.aliases) / len(houses) <= 0.17
    looks: dict[str, set[object]] = {}
    for alias in world.aliases:
        house = of_alias(alias, houses)
        look = (house.length, house.width, round(house.high - house.low, 9), house.roof, house.color, house.seed)
        looks.setdefault(alias.group, set()).add(look)
    assert sorted(looks) == [f"facade-{number}" for number in range(1, 6)]
    assert all(len(alike) == 1 for alike in looks.values())
    seeds = [house.seed for house in houses]
    assert len(set(seeds)) == len(houses) - len(world.aliases) + 5  # no others are alike


def of_alias(alias: Alias, houses: list[Solid]) -> Solid:
    """The house whose front is there: to the right of its yaw, facing the road."""
    (found,) = (
        house
        for house in houses
        if math.hypot(
            house.x + house.width / 2 * math.sin(house.yaw) - alias.x,
            house.y - house.width / 2 * math.cos(house.yaw) - alias.y,
        )
        < 1e-6
        and abs(wrap(house.yaw - math.pi / 2 - alias.yaw)) < 1e-6
    )
    return found


def test_alias_facades_face_a_road() -> None:
    world = town()
    network = Network(world.scene.roads)
    fronts = np.array([(alias.x, alias.y) for alias in world.aliases])
    steps = fronts + 6 * np.array([(math.cos(alias.yaw), math.sin(alias.yaw)) for alias in world.aliases])
    assert (network.distance(steps).min(axis=1) < network.distance(fronts).min(axis=1)).all()


def test_one_seed_makes_one_world() -> None:
    again = build(0)
    assert again.scene == town().scene
    assert list(again.aliases) == list(town().aliases)
    assert all(np.array_equal(again.routes[name].points, town().routes[name].points) for name in again.routes)
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


def test_others_do_not_depend_on_the_spacing() -> None:
    coarse = traverse(town(), "main", spacing=2.0, seed=1)
    assert np.allclose(coarse.x, drive(1).x[::2])
    assert set(coarse.parked) <= set(drive(1).parked)
    fine = [(round(solid.x, 6), round(solid.y, 6)) for image, solid in drive(1).moving if image == 100]
    assert sorted((round(s.x, 6), round(s.y, 6)) for image, s in coarse.moving if image == 50) == sorted(fine)


def test_moving_ones_are_near_and_never_in_the_camera() -> None:
    run = drive(1)
    kinds = {solid.material for _, solid in run.moving}
    assert kinds == {Material.VEHICLE, Material.PERSON}
    for image, solid in run.moving:
        x, y = run.x[image] - solid.x, run.y[image] - solid.y
        assert math.hypot(x, y) < 85
        along = abs(x * math.cos(solid.yaw) + y * math.sin(solid.yaw))
        across = abs(y * math.cos(solid.yaw) - x * math.sin(solid.yaw))
        assert along > solid.length / 2 + 0.05 or across > solid.width / 2 + 0.05


def test_a_share_of_the_run_follows_another_vehicle() -> None:
    run = drive(1)
    followed = set()
    for image, solid in run.moving:
        x, y = solid.x - run.x[image], solid.y - run.y[image]
        same = math.cos(solid.yaw - run.yaw[image]) > 0.5
        if solid.material is Material.VEHICLE and same and math.hypot(x, y) < 32:
            followed.add(image)
    assert 0.2 < len(followed) / len(run) < 0.45


def test_the_hill_town_climbs_without_a_step() -> None:
    for seed in SEEDS:
        world = town(seed, True)
        main = world.routes["main"]
        assert path_length(main.points)[-1] >= 300
        assert np.ptp(main.z) >= 8
        assert np.abs(np.diff(main.z)).max() < 0.5 * 0.09 + 1e-9
        for west, east in zip(world.scene.decks, world.scene.decks[1:], strict=False):
            joint = west.x + west.length / 2
            assert joint == pytest.approx(east.x - east.length / 2)
            heights = [deck.z + deck.slope[0] * (joint - deck.x) for deck in (west, east)]
            assert heights[0] == pytest.approx(heights[1], abs=1e-9)
        assert 0.06 <= world.scene.decks[1].slope[0] <= 0.09


def test_everything_stands_on_the_ground_of_the_hill_town() -> None:
    world, run = town(hills=True), drive(1, True)
    decks = world.scene.decks
    assert np.allclose(run.z, ground_height(decks, np.stack([run.x, run.y], axis=1)))
    for solid in world.scene.solids:
        if solid.material is Material.FACADE:
            assert ground_height(decks, outline(solid)).min() >= solid.low
    long = [solid for solid in vehicles(run) if solid.length > 3]
    heights = ground_height(decks, np.array([(solid.x, solid.y) for solid in long]))
    assert np.abs(heights - [solid.low for solid in long]).max() < 0.15
    assert hoardings(run)
    for solid in hoardings(run):
        assert ground_height(decks, outline(solid)).min() > solid.low - 0.1


def test_wrong_wishes_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"route.*'moon'"):
        traverse(town(), "moon", spacing=1.0, seed=0)
    with pytest.raises(BadInputError, match=r"above 0 metres, got 0"):
        traverse(town(), "main", spacing=0.0, seed=0)
