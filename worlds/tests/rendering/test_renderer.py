"""What images show, on a small street that is quick to draw."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mappable.arrays import Pixels
from mappable_worlds.camera import CAR, Camera
from mappable_worlds.conditions import STREET, Condition
from mappable_worlds.rendering.renderer import Renderer
from mappable_worlds.scene import Deck, Lamp, Material, Road, Scene, Shape, Solid, Traversal

pytestmark = pytest.mark.medium

GROUND = Deck(0, 0, 2000, 2000, 0.0, Material.ASPHALT)
ROAD = Road((-200, 0), (200, 0), 8.0, 3.0)
SIZE = (64, 48)


def house(x: float, side: int, seed: int, **changes: float) -> Solid:
    fields = {"length": 10.0, "width": 8.0, "low": 0.0, "high": 9.0, "roof": 2.0} | changes
    return Solid(
        Shape.BOX,
        x,
        side * 12,
        **fields,
        material=Material.FACADE,
        color=(0.5, 0.3, 0.2),
        seed=seed,
        yaw=0.0,
    )


STREET_SCENE = Scene(
    solids=[house(x, side, 10 * x + side) for x in range(-30, 90, 10) for side in (-1, 1)],
    decks=[GROUND],
    roads=[ROAD],
    lamps=[Lamp(20, 4, 5.5, (1.0, 0.8, 0.5))],
)


def drive(
    *x: float,
    y: float = -1.5,
    parked: tuple[Solid, ...] = (),
    moving: tuple[tuple[int, Solid], ...] = (),
) -> Traversal:
    count = len(x)
    zeros = np.zeros(count)
    time = np.arange(count, dtype=np.int64)
    return Traversal(np.array(x, dtype=float), zeros + y, zeros, zeros, zeros, time, parked, moving)


def images(
    traversal: Traversal,
    condition: Condition,
    scene: Scene = STREET_SCENE,
    camera: Camera = CAR,
    seed: int = 3,
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
    """Far houses come into sight between the cameras of the batch, faces coincide, lamps and roads
    are at the edge.
    """
    far = [house(x, side, 31 * x + side) for x in range(130, 240, 10) for side in (-1, 1)]
    twin = [replace(STREET_SCENE.solids[4], seed=99)]
    lamps = [Lamp(x, 4, 5.5, (1.0, 0.8, 0.5)) for x in range(0, 120, 9)]
    roads = [ROAD, *(Road((x, -60), (x, 60), 7.0, 2.0) for x in (60, 95, 130))]
    scene = replace(
        STREET_SCENE, solids=[*STREET_SCENE.solids, *far, *twin], lamps=lamps, roads=roads
    )
    cars = [
        Solid(Shape.BOX, 15 + 9 * image, 1.5, 4, 1.8, 0, 1.5, Material.VEHICLE)
        for image in range(4)
    ]
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


def test_moving_things_are_seen_in_their_image_alone_and_parked_ones_in_all() -> None:
    car = Solid(Shape.BOX, 12, -1.5, 4, 1.8, 0.2, 1.5, Material.VEHICLE, (0.8, 0.1, 0.1), 1)
    empty = images(drive(0.0, 0.0), STREET["overcast"])
    moving = images(drive(0.0, 0.0, moving=((1, car),)), STREET["overcast"])
    parked = images(drive(0.0, 0.0, parked=(car,)), STREET["overcast"])
    changed = [
        (np.abs(pixels.astype(float) - empty) > 40).any(3).mean(axis=(1, 2))
        for pixels in (moving, parked)
    ]
    assert (changed[0] > 0.005).tolist() == [False, True]
    assert (changed[1] > 0.005).all()
