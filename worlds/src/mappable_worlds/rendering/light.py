"""Compute the light that falls on a point: sky, sun with shadows, lamps, and daylight through windows."""

from collections.abc import Sequence
from math import cos, sin, tan

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Floats, Ints
from mappable_worlds.conditions import Condition
from mappable_worlds.rendering.casting import Solids
from mappable_worlds.rendering.noise import cell, cell_noise
from mappable_worlds.rendering.paint import color
from mappable_worlds.rendering.surfaces import Points
from mappable_worlds.scene import Corner, Lamp, Opening, Shape

CELL = 0.5  # metres: side of a cell of a shadow map
NOTHING = -50.0  # metres: height of cells where nothing stands
WINDOW = 9  # cells over which the visible share of the sky is measured
REACH = 7  # doublings: shadows reach up to 2**7 cells, 64 m
# Metres from the camera up to which lamps count, outdoors and indoors.
LAMP_SIGHT, ROOM_SIGHT = 45.0, 14.0


class Shadows:
    """For each cell of the ground: the height up to which it is in shadow, and the visible share of
    the sky.
    """

    def __init__(
        self, solids: Solids, rows: Ints, low: Floats, high: Floats, condition: Condition
    ) -> None:
        self.corner = low
        columns, lines = (int(side) + 1 for side in np.ceil((high - low) / CELL))
        tops: Floats = np.full((lines, columns), NOTHING)
        for row in rows:
            self._raise(tops, solids, int(row))
        self.closed = _blurred(_blurred((tops > 0.4).astype(np.float64)).T).T
        self.height = _swept(tops, condition) if any(condition.sun) else np.full_like(tops, NOTHING)

    def _raise(self, tops: Floats, solids: Solids, row: int) -> None:
        """Enter one solid in the cells whose centers lie in its footprint."""
        middle = np.array([solids.x[row], solids.y[row]])
        first = np.maximum(
            np.floor((middle - solids.radius[row] - self.corner) / CELL).astype(int), 0
        )
        last = np.ceil((middle + solids.radius[row] - self.corner) / CELL).astype(int)
        part = tops[first[1] : max(0, last[1]), first[0] : max(0, last[0])]
        if not part.size:
            return
        east = self.corner[0] + (first[0] + np.arange(part.shape[1]) + 0.5) * CELL - middle[0]
        north = (self.corner[1] + (first[1] + np.arange(part.shape[0]) + 0.5) * CELL - middle[1])[
            :, None
        ]
        along = east * np.cos(solids.yaw[row]) + north * np.sin(solids.yaw[row])
        across = north * np.cos(solids.yaw[row]) - east * np.sin(solids.yaw[row])
        half_length, half_width = solids.length[row] / 2, solids.width[row] / 2
        if solids.shape[row] == Shape.BOX:
            inside = (np.abs(along) <= half_length) & (np.abs(across) <= half_width)
        else:
            inside = along**2 + across**2 <= half_length**2
        np.maximum(
            part, np.where(inside, solids.high[row] + solids.roof[row] / 2, NOTHING), out=part
        )

    def to(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return both maps, flattened; `cells` gives the indices."""
        height, closed = (
            torch.tensor(one, dtype=torch.float32, device=device)
            for one in (self.height, self.closed)
        )
        return height.reshape(-1), closed.reshape(-1)

    def cells(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the indices of points in the flattened maps."""
        lines, columns = self.height.shape
        column = ((x - float(self.corner[0])) / CELL).long().clamp(0, columns - 1)
        line = ((y - float(self.corner[1])) / CELL).long().clamp(0, lines - 1)
        place: Tensor = line * columns + column
        return place


def _blurred(values: Floats) -> Floats:
    """Return means over `WINDOW` cells of each row."""
    half = WINDOW // 2
    total = np.cumsum(np.pad(values, ((0, 0), (half + 1, half)), mode="edge"), axis=1)
    return (total[:, WINDOW:] - total[:, :-WINDOW]) / WINDOW


def _swept(tops: Floats, condition: Condition) -> Floats:
    """Return the upper edge of shadows: tops move away from the sun and down, over all distances,
    by doubling.
    """
    shadow = tops.copy()
    for doubling in range(REACH):
        step = 2**doubling
        right, up = (-round(step * part(condition.sun_azimuth)) for part in (cos, sin))
        moved = np.full_like(shadow, NOTHING)
        lines, columns = shadow.shape
        if abs(up) < lines and abs(right) < columns:
            target = (
                slice(max(up, 0), lines + min(up, 0)),
                slice(max(right, 0), columns + min(right, 0)),
            )
            source = (
                slice(max(-up, 0), lines + min(-up, 0)),
                slice(max(-right, 0), columns + min(-right, 0)),
            )
            moved[target] = shadow[source] - step * CELL * tan(condition.sun_elevation)
        shadow = np.maximum(shadow, moved)
    return shadow


class Light:
    """The light of one condition in one scene."""

    def __init__(
        self,
        condition: Condition,
        lamps: Sequence[Lamp],
        openings: Sequence[Opening],
        shadows: Shadows | None,
        device: torch.device,
    ) -> None:
        self.condition, self.shadows, self.is_indoors = condition, shadows, shadows is None
        self.maps = shadows.to(device) if shadows else None
        self.lamps, self.openings = lamps, openings
        self.lamp_at: Floats = np.array([(lamp.x, lamp.y) for lamp in lamps]).reshape(-1, 2)
        self.opening_at: Floats = np.array(
            [(opening.x, opening.y) for opening in openings]
        ).reshape(-1, 2)

    def on(self, points: Points, x: Floats, y: Floats) -> Tensor:
        """Return the light (3, n) that falls on points seen by cameras at (x, y), as a white wall
        would show it.
        """
        upward = points.normal[2]
        light = color(self.condition.ambient, upward) * (0.75 + 0.25 * upward)
        if self.shadows is not None and self.maps is not None:
            cells = self.shadows.cells(
                points.x + points.normal[0] * 0.7, points.y + points.normal[1] * 0.7
            )
            height, closed = self.maps
            low = (1 - (points.z - 0.2).clamp(0, 4) / 4) * closed.index_select(0, cells)
            light = light * (1 - 0.55 * low)
            if any(self.condition.sun):
                is_lit = points.z > height.index_select(0, cells) - 0.05
                light = light + color(self.condition.sun, upward) * (
                    self._toward_sun(points) * is_lit
                )
        if self.is_indoors:
            light = light + self._through_windows(points, x, y)
        if self.condition.lamps > 0:
            light = light + self._from_lamps(points, x, y)
        if self.condition.headlights > 0:
            light = light + self._from_headlights(points)
        return light

    def _sun_direction(self) -> tuple[float, float, float]:
        azimuth, elevation = self.condition.sun_azimuth, self.condition.sun_elevation
        return cos(azimuth) * cos(elevation), sin(azimuth) * cos(elevation), sin(elevation)

    def _toward_sun(self, points: Points) -> Tensor:
        east, north, up = self._sun_direction()
        return (points.normal[0] * east + points.normal[1] * north + points.normal[2] * up).clamp(
            min=0
        )

    def _from_lamps(self, points: Points, x: Floats, y: Floats) -> Tensor:
        light = torch.zeros_like(points.normal)
        height = 0.6 if self.is_indoors else 6.0
        for number, nearness in _near(
            self.lamp_at, x, y, ROOM_SIGHT if self.is_indoors else LAMP_SIGHT
        ):
            lamp = self.lamps[number]
            east, north, up = lamp.x - points.x, lamp.y - points.y, lamp.z - points.z
            squared = east * east + north * north + up * up
            facing = (
                points.normal[0] * east + points.normal[1] * north + points.normal[2] * up
            ).clamp(min=0)
            share = facing * torch.rsqrt(squared + 1e-3) * (height / (squared + height))
            light += color(lamp.color, share) * (
                share * (lamp.power * self.condition.lamps) * _each(nearness, points)
            )
        return light

    def _from_headlights(self, points: Points) -> Tensor:
        fall = self.condition.headlights * 14.0 / (points.distance * points.distance + 25.0)
        return color((1.0, 0.95, 0.82), fall) * (fall * 0.7)

    def _through_windows(self, points: Points, x: Floats, y: Floats) -> Tensor:
        """Return the light of windows: each lights its room with the sky, and with a patch of sun
        if it shines in.
        """
        light = torch.zeros_like(points.normal)
        sky = color(self.condition.sky_low, points.x) * 0.5
        east, north, up = self._sun_direction()
        toward_sun = self._toward_sun(points)
        for number, nearness in _near(self.opening_at, x, y, ROOM_SIGHT):
            opening = self.openings[number]
            out_x, out_y = cos(opening.yaw), sin(opening.yaw)
            to_x, to_y = opening.x - points.x, opening.y - points.y
            to_z = (opening.low + opening.high) / 2 - points.z
            inside = to_x * out_x + to_y * out_y  # metres from the window into the room
            squared = to_x * to_x + to_y * to_y + to_z * to_z
            inverse = torch.rsqrt(squared + 1e-3)
            facing = (
                points.normal[0] * to_x + points.normal[1] * to_y + points.normal[2] * to_z
            ).clamp(min=0)
            area = opening.width * (opening.high - opening.low)
            share = (
                (0.25 + facing * inverse) * inside.clamp(min=0) * inverse * area / (squared + 2.0)
            )
            (_, _, floor), (_, _, ceiling) = opening.room
            on_story = (points.z > floor - 0.1) & (points.z < ceiling + 0.1)
            light += sky * (share * on_story * _each(nearness, points))
            slant = east * out_x + north * out_y
            if any(self.condition.sun) and slant > 0.05:
                depth = inside / slant
                aside = (points.x + east * depth - opening.x) * out_y - (
                    points.y + north * depth - opening.y
                ) * out_x
                high = points.z + up * depth
                patch = (inside > 0.02) & (depth < 7.0) & (aside.abs() < opening.width / 2)
                patch &= (
                    (high > opening.low) & (high < opening.high) & _within(points, opening.room)
                )
                light += color(self.condition.sun, share) * (
                    patch * toward_sun * _each(nearness, points)
                )
        return light


def _within(points: Points, room: tuple[Corner, Corner]) -> Tensor:
    """Return True for points in a room or on its walls, whose faces are a little inside."""
    (left, bottom, floor), (right, top, ceiling) = room
    inside = (points.x > left) & (points.x < right) & (points.y > bottom) & (points.y < top)
    return inside & (points.z > floor - 0.1) & (points.z < ceiling + 0.1)


def is_lit(x: float, y: float, share: float, seed: int) -> bool:
    """Return True if the lamps near (x, y) are lit in a run; lamps are lit or dark in whole groups."""
    return bool(lit(torch.tensor([x]), torch.tensor([y]), share, seed))


def lit(x: Tensor, y: Tensor, share: float, seed: int) -> Tensor:
    """Return `is_lit` for many places."""
    return (
        cell_noise(
            torch.tensor(seed % 2**31, dtype=torch.int32, device=x.device),
            cell(x / 4.5),
            cell(y / 4.5),
        )
        < share
    )


def _near(positions: Floats, x: Floats, y: Floats, sight: float) -> list[tuple[int, Floats]]:
    """Return the positions within sight of any camera, and the nearness (0..1) of each to each
    camera.

    The nearness fades out with distance, so that lights do not appear and disappear suddenly.
    """
    nearness = np.clip((1 - np.hypot(positions[:, :1] - x, positions[:, 1:] - y) / sight) * 3, 0, 1)
    return [(int(number), nearness[number]) for number in np.flatnonzero(nearness.any(1))]


def _each(nearness: Floats, points: Points) -> Tensor | float:
    """Return the nearness for the camera of each point."""
    if len(nearness) == 1:
        return float(nearness[0])
    return torch.tensor(nearness, dtype=torch.float32, device=points.x.device)[points.image]
