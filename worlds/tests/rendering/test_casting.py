"""The column caster against rays that are followed one by one."""

import numpy as np
import pytest
import torch

from mappable.arrays import Floats
from mappable_worlds.rendering.casting import NEAR, NO_HIT, Caster, Hits, Solids, View
from mappable_worlds.scene import Deck, Material, Shape, Solid

HEIGHT, WIDTH = 12, 16


def view_from(x: float, y: float, eye: float, yaw: float) -> View:
    aside = torch.linspace(-0.7, 0.7, WIDTH).reshape(1, 1, -1)
    slope = torch.linspace(0.5, -0.5, HEIGHT).reshape(1, -1, 1)
    cosine, sine = float(np.cos(yaw)), float(np.sin(yaw))
    return View(
        origin=np.array([x, y]),
        x=torch.zeros(1, 1, 1),
        y=torch.zeros(1, 1, 1),
        eye=torch.full((1, 1, 1), eye),
        east=cosine + sine * aside,
        north=sine - cosine * aside,
        slope=slope,
    )


def cast(solids: list[Solid], decks: list[Deck], view: View) -> Hits:
    seen = np.ones((1, len(solids)), dtype=bool)
    caster = Caster(view, Solids(solids), np.arange(len(solids)), seen, decks)
    return caster.cast(view.eye, view.slope)


def box_entry(solid: Solid, start: Floats, ray: Floats) -> float:
    """Depth at which a ray enters a box: the slab test in three dimensions, in the box's own axes."""
    turn = np.array(
        [
            [np.cos(solid.yaw), np.sin(solid.yaw), 0],
            [-np.sin(solid.yaw), np.cos(solid.yaw), 0],
            [0, 0, 1],
        ]
    )
    middle = np.array([solid.x, solid.y, (solid.low + solid.high) / 2])
    half = np.array([solid.length, solid.width, solid.high - solid.low]) / 2
    origin, direction = turn @ (start - middle), turn @ ray
    near, far = -np.inf, np.inf
    for axis in range(3):
        one, other = sorted(
            (sign * half[axis] - origin[axis]) / direction[axis] for sign in (-1, 1)
        )
        near, far = max(near, one), min(far, other)
    return near if near < far and near > NEAR else NO_HIT


def cylinder_entry(solid: Solid, start: Floats, ray: Floats) -> float:
    """The same for an upright cylinder, by stepping along the ray."""
    depth = np.arange(NEAR, 60, 0.002)
    points = start + depth[:, None] * ray
    inside = np.hypot(points[:, 0] - solid.x, points[:, 1] - solid.y) < solid.length / 2
    inside &= (points[:, 2] > solid.low) & (points[:, 2] < solid.high)
    return float(depth[np.argmax(inside)]) if inside.any() else NO_HIT


def rays(view: View) -> list[tuple[int, int, Floats]]:
    return [
        (
            row,
            column,
            np.array([view.east[0, 0, column], view.north[0, 0, column], view.slope[0, row, 0]]),
        )
        for row in range(HEIGHT)
        for column in range(WIDTH)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_boxes_are_seen_where_rays_meet_them(seed: int) -> None:
    generator = np.random.default_rng(seed)
    solids = []
    for _ in range(12):
        low = generator.uniform(-1, 3)
        x, y = generator.uniform(3, 25), generator.uniform(-12, 12)
        length, width, high = *generator.uniform(0.5, 5, 2), low + generator.uniform(0.3, 5)
        yaw = generator.uniform(-3, 3)
        solids.append(Solid(Shape.BOX, x, y, length, width, low, high, Material.PLAIN, yaw=yaw))
    start = np.array([0.0, 0.0, generator.uniform(0.5, 3.0)])
    view = view_from(*start, yaw=0.1)
    hits = cast(solids, [], view)
    for row, column, ray in rays(view):
        entries = [box_entry(solid, start, ray) for solid in solids]
        found = float(hits.depth[0, row, column])
        assert found == pytest.approx(min(entries), rel=1e-3, abs=1e-3)
        if min(entries) < NO_HIT:
            assert entries[int(hits.solid[0, row, column])] == pytest.approx(min(entries), abs=1e-3)


@pytest.mark.medium
def test_cylinders_are_seen_where_rays_meet_them() -> None:
    generator = np.random.default_rng(3)
    solids = [
        Solid(Shape.CYLINDER, x, y, size, size, low, low + tall, Material.PLAIN)
        for x, y, size, low, tall in generator.uniform(
            (4, -6, 0.5, -1, 0.5), (15, 6, 3, 2, 4), (5, 5)
        )
    ]
    start = np.array([0.0, 0.0, 1.5])
    view = view_from(*start, yaw=0.0)
    hits = cast(solids, [], view)
    for row, column, ray in rays(view):
        expected = min(cylinder_entry(solid, start, ray) for solid in solids)
        assert float(hits.depth[0, row, column]) == pytest.approx(expected, abs=0.01)
