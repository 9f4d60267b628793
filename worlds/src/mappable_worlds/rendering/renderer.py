"""Render images: find what each pixel sees, paint and light it, and apply the camera."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import atan

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Floats, Ints
from mappable.places.images import Size
from mappable_worlds.camera import Camera
from mappable_worlds.conditions import Condition
from mappable_worlds.rendering import facades, ground, interiors, things
from mappable_worlds.rendering.casting import Caster, Hits, Solids, View
from mappable_worlds.rendering.lens import develop
from mappable_worlds.rendering.light import Light, Shadows, is_lit
from mappable_worlds.rendering.paint import Paint, mix
from mappable_worlds.rendering.sky import sky, through_air
from mappable_worlds.rendering.surfaces import Points, points_seen
from mappable_worlds.scene import Material, Road, Scene, Solid, Traversal

SAMPLES = 2  # rays per pixel and axis, averaged
MARGIN = 90.0  # metres around a route for which shadows are computed
# Standard deviations from run to run, of the logarithms of the camera's values.
TINT, BLUR, GAIN = 0.03, 0.10, 0.15
BATCH = 64  # images that a GPU renders at a time; a CPU is faster with one


class Renderer:
    """Renders the images of one traversal: the scene as it stood that day, one condition, one
    camera.

    `size` is (width, height). `seed` decides noise, rain, clouds and the exposure of this run. On a
    CPU, pixels do not depend on which images are rendered together. A GPU's pixels differ from a
    CPU's by rounding.
    """

    def __init__(
        self,
        scene: Scene,
        traversal: Traversal,
        condition: Condition,
        camera: Camera,
        *,
        size: Size,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.scene, self.traversal, self.condition = scene, traversal, condition
        self.size, self.seed, self.device = size, seed, torch.device(device)
        standing: list[Solid] = [*scene.solids, *traversal.parked]
        moving = [solid for _, solid in traversal.moving]
        frames = [-1] * len(standing) + [image for image, _ in traversal.moving]
        self.solids = Solids(standing + moving, frames)
        generator = np.random.default_rng([seed, 1])
        red, blue, blur, self.gain = np.exp(
            generator.normal(0, 1, 4) * (TINT, TINT, BLUR, GAIN)
        ).tolist()
        tint = (camera.tint[0] * red, camera.tint[1], camera.tint[2] * blue)
        self.camera = replace(camera, tint=tint, blur=camera.blur * blur)
        self.drift = float(generator.uniform(0, 8))
        shadows = None if scene.indoors else self._shadows(len(standing))
        lamps = [lamp for lamp in scene.lamps if is_lit(lamp.x, lamp.y, condition.lamps_lit, seed)]
        self.light = Light(condition, lamps, scene.openings, shadows, self.device)

    def _shadows(self, standing: int) -> Shadows:
        low = np.array([self.traversal.x.min(), self.traversal.y.min()]) - MARGIN
        high = np.array([self.traversal.x.max(), self.traversal.y.max()]) + MARGIN
        solids = self.solids
        near = (
            (solids.x > low[0]) & (solids.x < high[0]) & (solids.y > low[1]) & (solids.y < high[1])
        )
        near[standing:] = False
        return Shadows(solids, np.flatnonzero(near), low, high, self.condition)

    def render(self, images: Sequence[int]) -> Tensor:
        """Render some images of the traversal: pixels (n, height, width, 3), uint8 on the
        renderer's device.
        """
        batch = BATCH if self.device.type != "cpu" else 1
        groups = [np.array(images[start : start + batch]) for start in range(0, len(images), batch)]
        with torch.inference_mode():
            return torch.cat([self._render(group) for group in groups])

    def _render(self, images: Ints) -> Tensor:
        traversal, (width, height) = self.traversal, self.size
        x, y, yaw = traversal.x[images], traversal.y[images], traversal.yaw[images]
        view = self._view(images)
        half_view = atan(width / 2 / self.camera.focal_length(width)) + 0.02
        rows, seen_by = self.solids.in_sight(x, y, yaw, half_view, images)
        caster = Caster(view, self.solids, rows, seen_by, list(self.scene.decks))
        roads = ground.roads_near(list(self.scene.roads), x, y)
        seed, kind = (
            values[rows].astype(np.int32) for values in (self.solids.seed, self.solids.kind)
        )
        styles = facades.styles(
            torch.tensor(seed, device=self.device), torch.tensor(kind, device=self.device)
        )
        painter = _Painter(caster, rows, styles, roads, self)
        hits = caster.cast(view.eye, view.slope)
        seen = points_seen(caster, hits, view.slope, self.solids, rows, view.eye)
        light = painter.sky(view.slope, hits)
        light[:, seen.pixel] = painter.lit(seen, x, y)
        if self.condition.wet > 0:
            painter.reflect(light, seen, x, y)
        picture = _averaged(
            light.reshape(3, len(images), height, SAMPLES, width, SAMPLES)
        ).transpose(0, 1)
        seeds = torch.tensor(
            [(self.seed * 92821 + int(image) * 68917) % 2**31 for image in images],
            dtype=torch.int32,
        )
        return develop(
            picture, self.condition, self.camera, gain=self.gain, seeds=seeds.to(self.device)
        )

    def _view(self, images: Ints) -> View:
        traversal, (width, height) = self.traversal, self.size
        focal = self.camera.focal_length(width)

        def column(values: Floats) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=self.device).reshape(-1, 1, 1)

        origin = np.array([traversal.x[images[0]], traversal.y[images[0]]])
        yaw = traversal.yaw[images]
        cosine, sine = column(np.cos(yaw)), column(np.sin(yaw))
        aside = (torch.arange(width * SAMPLES, device=self.device) + 0.5) / SAMPLES - width / 2
        aside = (aside / focal).reshape(1, 1, -1)
        rise = height / 2 - (torch.arange(height * SAMPLES, device=self.device) + 0.5) / SAMPLES
        slope = (rise / focal).reshape(1, -1, 1) + column(np.tan(traversal.pitch[images]))
        return View(
            origin=origin,
            x=column(traversal.x[images] - origin[0]),
            y=column(traversal.y[images] - origin[1]),
            eye=column(traversal.z[images] + self.camera.height),
            east=cosine + sine * aside,
            north=sine - cosine * aside,
            slope=slope,
        )


def _averaged(light: Tensor) -> Tensor:
    """Average rays (3, b, h, SAMPLES, w, SAMPLES) to pixels (3, b, h, w); `mean` over two axes is
    many times slower.
    """
    across = reduce(torch.add, light.unbind(5))
    return reduce(torch.add, across.unbind(3)) / SAMPLES**2


class _Painter:
    """Paints and lights the surfaces that a batch of images sees."""

    def __init__(
        self, caster: Caster, rows: Ints, styles: Tensor, roads: list[Road], renderer: Renderer
    ) -> None:
        self.caster, self.rows, self.styles, self.roads, self.renderer = (
            caster,
            rows,
            styles,
            roads,
            renderer,
        )
        self.condition = renderer.condition

    def sky(self, slope: Tensor, hits: Hits) -> Tensor:
        """Return light (3, all pixels): the sky where a pixel sees no surface; indoors it is dark."""
        shape, view = hits.depth.shape, self.caster.view
        light = torch.zeros(3, hits.depth.numel(), device=self.renderer.device)
        free = torch.nonzero(((hits.solid < 0) & (hits.deck < 0)).reshape(-1))[:, 0]
        if len(free):
            east, north, up = (
                values.expand(shape).reshape(-1)[free] for values in (view.east, view.north, slope)
            )
            light[:, free] = sky(east, north, up, self.condition, self.renderer.drift)
        return light

    def lit(self, points: Points, x: Floats, y: Floats) -> Tensor:
        """Return the light (3, n) that comes from the points to the camera."""
        paint = self._paint(points)
        light = paint.albedo * self.renderer.light.on(points, x, y) + paint.glow
        return through_air(light, points.distance, self.condition)

    def reflect(self, light: Tensor, seen: Points, x: Floats, y: Floats) -> None:
        """Add reflections to wet ground; rays continue from there as from a camera below the
        ground.
        """
        view, decks = self.caster.view, self.caster.decks
        if len(decks) != 1 or any(decks[0].slope):
            return  # not on hills, where each slope would reflect something else
        level = decks[0].z
        wet = seen.take(torch.nonzero(seen.material == Material.ASPHALT)[:, 0])
        grazing = 1 - (view.eye.max() - level) / wet.distance.clamp(min=1.0)
        share = torch.zeros(light.shape[1], device=light.device)
        share[wet.pixel] = (
            (0.05 + 0.75 * grazing.clamp(0, 1) ** 4) * ground.puddles(wet) * self.condition.wet
        )
        below = int((view.slope >= 0).all(0).sum())  # first image row that may see the ground
        share = share.reshape(len(x), -1, view.east.shape[2])[:, below:].reshape(-1)
        eye, slope = 2 * level - view.eye, -view.slope[:, below:]
        hits = self.caster.cast(
            eye, slope, beyond=torch.where(slope > 1e-3, (level - eye) / slope, 1e9)
        )
        mirrored = self.sky(slope, hits)
        is_mirrored = (share > 0).reshape(hits.solid.shape)
        hits = Hits(
            hits.depth, torch.where(is_mirrored, hits.solid, -1), torch.full_like(hits.deck, -1)
        )
        again = points_seen(self.caster, hits, slope, self.renderer.solids, self.rows, eye)
        mirrored[:, again.pixel] = self.lit(again, x, y)
        lower = light.reshape(3, len(x), -1, view.east.shape[2])[:, :, below:]
        lower += (mirrored.reshape(lower.shape) - lower) * share.reshape(lower.shape[1:])

    def _paint(self, points: Points) -> Paint:
        nothing = Paint(points.color[:, :0], points.color[:, :0])
        paints = [
            self._paint_one(Material(kind), points.take(some)) for kind, some in points.groups()
        ] or [nothing]
        albedo = torch.cat([paint.albedo for paint in paints], 1)
        glow = torch.cat([paint.glow for paint in paints], 1)
        if self.condition.snow > 0 and not self.renderer.scene.indoors:
            lying = (points.level > 0) & (points.solid >= 0)
            albedo = mix(albedo, torch.full_like(albedo, 0.87), lying * self.condition.snow)
        return Paint(albedo, glow)

    def _paint_one(self, material: Material, points: Points) -> Paint:
        condition = self.condition
        if material == Material.FACADE:
            # A deck has no style of its own.
            style = self.styles.index_select(1, points.solid.clamp(min=0))
            return facades.front(points, style, condition, self.renderer.seed)
        if material == Material.ASPHALT:
            return ground.street(points, self.roads, condition)
        if material == Material.CEILING:
            return ground.ceiling(points, condition, self.renderer.seed)
        if material == Material.LAMP:
            return things.lamp(points, condition, self.renderer.seed)
        if material in _WITH_CONDITION:
            return _WITH_CONDITION[material](points, condition)
        return _ALONE[material](points)


_WITH_CONDITION = {
    Material.VEHICLE: things.vehicle,
    Material.FOLIAGE: things.foliage,
    Material.WINDOW: interiors.window,
    Material.SCREEN: interiors.screen,
}
_ALONE = {
    Material.PLAIN: things.plain,
    Material.SIGN: facades.board,
    Material.WALL: interiors.wall,
    Material.DOOR: interiors.door,
    Material.PICTURE: interiors.picture,
    Material.SHELF: interiors.shelf,
    Material.WOOD: things.wood,
    Material.FABRIC: things.fabric,
    Material.BOARD: interiors.notice_board,
    Material.PERSON: things.person,
    Material.TILES: ground.tiles,
    Material.CARPET: ground.carpet,
    Material.PARQUET: ground.parquet,
    Material.FENCE: facades.fence,
    Material.BRICK: facades.brick_wall,
}
