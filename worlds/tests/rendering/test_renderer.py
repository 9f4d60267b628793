"""What images show, on a small street that is quick to draw."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mappable.arrays import Pixels
from mappable_worlds.camera import CAR, Camera
from mappable_worlds.conditions import ROOMS, STREET, Condition
from mappable_worlds.rendering.renderer import Renderer
from mappable_worlds.scene import Deck, Lamp, Material, Opening, Road, Scene, Shape, Solid, Traversal

pytestmark = pytest.mark.medium

GROUND = Deck(0, 0, 2000, 2000, 0.0, Material.ASPHALT)
ROAD = Road((-200, 0), (200, 0), 8.0, 3.0)
SIZE = (64, 48)
ROOM = ((-1.0, -4.0, 0.0), (11.0, 4.0, 3.0))


def house(x: float, side: int, seed: int, **changes: float) -> Solid:
    fields = {"length": 10.0, "width": 8.0, "low": 0.0, "high": 9.0, "roof": 2.0} | changes
    return Solid(Shape.BOX, x, side * 12, **fields, material=Material.FACADE, color=(0.5, 0.3, 0.2), seed=seed, yaw=0.0)


STREET_SCENE = Scene(
    solids=[house(x, side, 10 * x + side) for x in range(-30, 90, 10) for side in (-1, 1)],
    decks=[GROUND],
    roads=[ROAD],
    lamps=[Lamp(20, 4, 5.5, (1.0, 0.8, 0.5))],
)
CLEAN = replace(CAR, noise=0.0, blur=0.0)


def drive(
    *x: float, y: float = -1.5, parked: tuple[Solid, ...] = (), moving: tuple[tuple[int, Solid], ...] = ()
) -> Traversal:
    count = len(x)
    zeros = np.zeros(count)
    time = np.arange(count, dtype=np.int64)
    return Traversal(np.array(x, dtype=float), zeros + y, zeros, zeros, zeros, time, parked, moving)


def images(
    traversal: Traversal, condition: Condition, scene: Scene = STREET_SCENE, camera: Camera = CAR, seed: int = 3
) -> Pixels:
    renderer = Renderer(scene, traversal, condition, camera, size=SIZE, seed=seed)
    pixels: Pixels = renderer.render(range(len(traversal))).numpy()
    return pixels


@pytest.mark.parametrize("name", STREET)
def test_the_same_seed_draws_the_same_image(name: str) -> None:
    traversal = drive(0.0, 3.0)
    drawn = images(traversal, STREET[name])
    assert drawn.shape == (2, 48, 64, 3)
    assert np.array_equal(drawn, images(traversal, STREET[name]))
    assert not np.array_equal(drawn, images(traversal, STREET[name], seed=4))


@pytest.mark.parametrize("name", STREET)
def test_images_drawn_at_once_as_on_a_gpu_differ_by_rounding_alone(name: str) -> None:
    """Far houses come into sight between the cameras of the batch, faces coincide, lamps and roads are at the edge."""
    far = [house(x, side, 31 * x + side) for x in range(130, 240, 10) for side in (-1, 1)]
    twin = [replace(STREET_SCENE.solids[4], seed=99)]
    lamps = [Lamp(x, 4, 5.5, (1.0, 0.8, 0.5)) for x in range(0, 120, 9)]
    roads = [ROAD, *(Road((x, -60), (x, 60), 7.0, 2.0) for x in (60, 95, 130))]
    scene = replace(STREET_SCENE, solids=[*STREET_SCENE.solids, *far, *twin], lamps=lamps, roads=roads)
    cars = [Solid(Shape.BOX, 15 + 9 * image, 1.5, 4, 1.8, 0, 1.5, Material.VEHICLE) for image in range(4)]
    traversal = drive(0.0, 12.0, 24.0, 36.0, moving=tuple(enumerate(cars)))
    renderer = Renderer(scene, traversal, STREET[name], CAR, size=SIZE, seed=3)
    with torch.inference_mode():
        together = renderer._render(np.arange(4)).int()
    alone = renderer.render(range(4)).int()
    difference = (together - alone).abs()
    assert (difference > 2).float().mean() < 1e-3
    assert difference.float().mean() < 0.02


@pytest.mark.parametrize("size", [(33, 21), (160, 120), (48, 96)])
def test_any_size_can_be_drawn(size: tuple[int, int]) -> None:
    renderer = Renderer(STREET_SCENE, drive(0.0), STREET["overcast"], CAR, size=size, seed=0)
    assert renderer.render([0]).shape == (1, size[1], size[0], 3)


def test_a_larger_image_shows_the_same_view() -> None:
    small, large = (
        Renderer(STREET_SCENE, drive(0.0), STREET["overcast"], CLEAN, size=size, seed=0).render([0])[0].float()
        for size in ((64, 48), (128, 96))
    )
    halved = large.reshape(48, 2, 64, 2, 3).mean((1, 3))
    assert (halved - small).abs().mean() < 6


def test_nights_are_darker_than_days_and_windows_are_lit() -> None:
    day, night = (images(drive(0.0), STREET[name], camera=CLEAN)[0].astype(float) for name in ("overcast", "night"))
    assert night.mean() < 0.7 * day.mean()
    dark = images(drive(0.0), replace(STREET["night"], lit=0.0), camera=CLEAN)[0].astype(float)
    assert (night - dark).max() > 40


def test_snow_whitens_the_ground_and_water_darkens_it() -> None:
    changes: tuple[dict[str, float], ...] = ({}, {"snow": 1.0}, {"wet": 1.0})
    conditions = [replace(STREET["overcast"], **change) for change in changes]
    dry, snow, wet = (images(drive(0.0), one, camera=CLEAN)[0, -6:].astype(float).mean() for one in conditions)
    assert snow > dry + 30
    assert wet < dry - 5


def test_lamps_that_are_off_neither_shine_nor_glow() -> None:
    head = Solid(Shape.BOX, 20, 4, 0.5, 1.0, 5.6, 6.0, Material.LAMP, (1.0, 0.8, 0.5))
    scene = replace(STREET_SCENE, solids=[*STREET_SCENE.solids, head])
    night = replace(STREET["night"], lit=0.0, headlights=0.0)
    changes: tuple[dict[str, float], ...] = ({"lamps_lit": 1.0}, {"lamps_lit": 0.0}, {"lamps": 1e-9})
    on, off, none = (images(drive(0.0), replace(night, **one), scene, CLEAN)[0].astype(float) for one in changes)
    assert (on - off).max() > 60
    assert np.abs(off - none).max() < 3


def test_wet_ground_mirrors_what_stands_behind_it() -> None:
    red = Solid(Shape.BOX, 25, 0, 1, 40, 0, 12, Material.LAMP, (1.0, 0.0, 0.0))
    scene = Scene([red], [GROUND], [ROAD])
    condition = replace(STREET["night"], headlights=0.0)
    dry, wet = (
        images(drive(0.0), replace(condition, wet=share), scene, CLEAN)[0, 30:].astype(float) for share in (0.0, 1.0)
    )
    redness = [(part[..., 0] - part[..., 2]).mean() for part in (dry, wet)]
    assert redness[1] > redness[0] + 10


def test_fog_hides_what_is_far() -> None:
    wall = Solid(Shape.BOX, 60, 0, 1, 200, 0, 60, Material.PLAIN, (0.02, 0.02, 0.02))
    scene = Scene([wall], [GROUND], [ROAD])
    clear, foggy = (
        images(drive(0.0), replace(STREET["overcast"], fog=fog), scene, CLEAN)[0, :20].astype(float).mean()
        for fog in (0.0, 0.05)
    )
    assert foggy > clear + 60


def test_the_sun_casts_shadows_away_from_itself() -> None:
    """A tall wall north of the road: with the sun in the north the road lies in its shadow, with the sun south not."""
    wall = Solid(Shape.BOX, 0, 8, 200, 2, 0, 10, Material.PLAIN)
    scene = Scene([wall], [GROUND], [ROAD])
    grounds = []
    for azimuth in (np.pi / 2, -np.pi / 2):
        condition = replace(STREET["sun"], sun_azimuth=azimuth, sun_elevation=np.radians(45), clouds=0.0)
        renderer = Renderer(scene, drive(0.0), condition, CLEAN, size=SIZE, seed=3)
        height = renderer.light.shadows.height  # type: ignore[union-attr]
        cells = renderer.light.shadows.cells(torch.zeros(3), torch.tensor([0.0, 4.0, -9.0]))  # type: ignore[union-attr]
        grounds.append(height.reshape(-1)[cells.numpy()])
    shaded, lit = grounds
    assert shaded[:2] == pytest.approx([3, 7], abs=0.8)  # 10 m less one metre a metre from the wall's face at y = 7
    assert shaded[2] < 0
    assert (lit < 0).all()


def test_houses_of_one_seed_kind_color_and_size_look_the_same() -> None:
    near = {"camera": CLEAN, "condition": replace(STREET["overcast"], fog=0.0, clouds=0.0)}
    plain = house(20, 1, 5)
    houses = [plain, plain, replace(plain, seed=6), *(replace(plain, kind=kind) for kind in range(1, 6))]
    views = [images(drive(5.0), scene=Scene([one]), **near)[0, :24].astype(float) for one in houses]
    elsewhere = images(drive(5.0 + 73.5), scene=Scene([house(20 + 73.5, 1, 5)]), **near)[0, :24].astype(float)
    first, again, other_seed, *other_kinds = views
    assert np.array_equal(first, again)
    moved, seeded, *kinds = (np.abs(first - view).mean() for view in (elsewhere, other_seed, *other_kinds))
    assert moved < 0.1  # rounding
    assert 1 < seeded < min(kinds)  # of one builder's houses only the details differ,
    assert np.mean(kinds) > 2 * seeded  # and another builder's are others altogether


def test_moving_things_are_seen_in_their_image_alone_and_parked_ones_in_all() -> None:
    car = Solid(Shape.BOX, 12, -1.5, 4, 1.8, 0.2, 1.5, Material.VEHICLE, (0.8, 0.1, 0.1), 1)
    empty = images(drive(0.0, 0.0), STREET["overcast"])
    moving = images(drive(0.0, 0.0, moving=((1, car),)), STREET["overcast"])
    parked = images(drive(0.0, 0.0, parked=(car,)), STREET["overcast"])
    changed = [(np.abs(pixels.astype(float) - empty) > 40).any(3).mean(axis=(1, 2)) for pixels in (moving, parked)]
    assert (changed[0] > 0.005).tolist() == [False, True]
    assert (changed[1] > 0.005).all()


@pytest.mark.parametrize("material", Material)
def test_every_material_can_be_drawn_on_every_shape_in_and_outdoors(material: Material) -> None:
    solids = [
        Solid(shape, 6 + 2 * number, y, 2.0, 2.0, 0.2, 2.5, material, (0.4, 0.5, 0.3), 7, 0.3)
        for number, (shape, y) in enumerate(zip(Shape, (-2.0, 0.0, 2.0), strict=True))
        if material != Material.ASPHALT
    ]
    below = Material.TILES if material == Material.FACADE else material  # the one that lies on no deck
    floor = Deck(0, 0, 60, 60, 0.0, below, (0.5, 0.5, 0.5), 3)
    for condition, is_indoors in ((STREET["snow"], False), (STREET["night-rain"], False), (ROOMS["sunny"], True)):
        scene = Scene(
            solids, [floor], [ROAD], [Lamp(5, 0, 2.9, (1, 1, 1))], [Opening(9, 0, 0.0, 2, 1, 2, ROOM)], is_indoors
        )
        with_it, without = (
            Renderer(one, drive(0.0, y=0.0), condition, CLEAN, size=(32, 24), seed=1).render([0]).float()
            for one in (scene, replace(scene, solids=()))
        )
        changed = ((with_it - without).abs() > 4).any(3).float().mean()
        assert changed > 0.03 or material == Material.ASPHALT
        assert without.std() > 1


def test_sun_shines_through_windows_onto_the_floor() -> None:
    floor, roof = Deck(5, 0, 12, 8, 0, Material.CARPET), Deck(5, 0, 12, 8, 3, Material.CEILING)
    walls = [
        Solid(Shape.BOX, 11, 0, 0.2, 8, 0, 3, Material.WALL),
        Solid(Shape.BOX, 5, -4, 12, 0.2, 0, 3, Material.WALL),
    ]
    opening = Opening(5, -3.9, -np.pi / 2, 2.0, 0.9, 2.3, ROOM)
    condition = replace(ROOMS["sunny"], sun_azimuth=-np.pi / 2, sun_elevation=np.radians(35))
    scene = Scene(walls, [floor, roof], (), (), [opening], True)
    plain = Scene(walls, [floor, roof], (), (), (), True)
    with_sun, without = (
        images(drive(0.0, y=0.0), condition, one, replace(CLEAN, height=1.4))[0].astype(float) for one in (scene, plain)
    )
    assert (with_sun - without)[24:].max() > 40
    elsewhere = replace(opening, room=((20.0, -4.0, 0.0), (30.0, 4.0, 3.0)))
    behind = images(drive(0.0, y=0.0), condition, replace(scene, openings=[elsewhere]), replace(CLEAN, height=1.4))[0]
    assert (with_sun - behind)[24:].max() > 40, "the sun of another room"
