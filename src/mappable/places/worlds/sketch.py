"""A small town of coloured boxes, walked round by day and at dusk: geo-tagged photos for the first run."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from mappable.arrays import Floats
from mappable.places.geodesy import unproject, utm_crs
from mappable.progress import track

SIZE = (640, 480)
FOCAL = 420.0  # pixels
EYE = 1.7  # metres above the ground
CRS, CORNER = utm_crs(51.752, -1.2577), (620_200.0, 5_734_900.0)  # the town lies in Oxford, where the paper's car drove
WALK, STEP = (120.0, 80.0), 4.0  # sides of the walk and metres between photos
CONDITIONS = {"day": ((135, 190, 235), (120, 120, 118), 1.0), "dusk": ((70, 60, 105), (55, 52, 60), 0.55)}


def draw_photos(folder: Path, seed: int = 0) -> int:
    """Draw the photos of both walks into `folder/day` and `folder/dusk` unless they are there; returns their count."""
    generator = np.random.default_rng(seed)
    houses = _houses(generator)
    walks = {condition: _walk(generator) for condition in CONDITIONS}
    shots = [(condition, number, *pose) for condition, walk in walks.items() for number, pose in enumerate(walk)]
    for condition, number, x, y, yaw in track(shots, "drawing photos", len(shots)):
        file = folder / condition / f"{number:04d}.jpg"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            moment = datetime(2026, 5, 1, 12 if condition == "day" else 21, tzinfo=UTC) + timedelta(seconds=3 * number)
            unfinished = file.with_suffix(".part")
            image = _view(houses, x, y, yaw, condition)
            image.save(unfinished, "JPEG", quality=88, exif=_geotag(x, y, yaw, moment))
            unfinished.replace(file)
    return len(shots)


def _houses(generator: np.random.Generator) -> Floats:
    """Rows of x, y, half width, height, red, green, blue: houses outside the walk and a few inside."""
    rows = []
    for _ in range(400):
        x, y = generator.uniform(-60, WALK[0] + 60), generator.uniform(-60, WALK[1] + 60)
        beside = max(-x, x - WALK[0], -y, y - WALK[1])  # metres outside the walk, negative inside
        if beside > 9 or beside < -14:
            rows.append([x, y, generator.uniform(3, 6), generator.uniform(4, 14), *generator.uniform(70, 240, 3)])
    return np.array(rows)


def _walk(generator: np.random.Generator) -> list[tuple[float, float, float]]:
    """Positions and viewing directions once round the rectangle, counter-clockwise, a little to one side of it."""
    width, height = WALK
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height), (0, 0)], dtype=np.float64)
    side = generator.normal(0, 1.5, 2)
    poses = []
    for start, end in pairwise(corners):
        length = float(np.linalg.norm(end - start))
        for along in np.arange(0, length, STEP):
            x, y = start + (end - start) * along / length + side + generator.normal(0, 0.2, 2)
            yaw = float(np.arctan2(*(end - start)[::-1])) + generator.normal(0, 0.06)
            poses.append((float(x), float(y), yaw))
    return poses


def _view(houses: Floats, x: float, y: float, yaw: float, condition: str) -> Image.Image:
    """What a camera at (x, y) sees: sky, ground, and the houses as upright rectangles, the farthest first."""
    sky, ground, light = CONDITIONS[condition]
    width, height = SIZE
    image = Image.new("RGB", SIZE, sky)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, height / 2, width, height), fill=ground)
    ahead = (houses[:, 0] - x) * np.cos(yaw) + (houses[:, 1] - y) * np.sin(yaw)
    left = (houses[:, 1] - y) * np.cos(yaw) - (houses[:, 0] - x) * np.sin(yaw)
    for house in np.argsort(-ahead):
        depth = ahead[house]
        if depth < 3:
            continue
        half, tall = houses[house, 2:4]
        centre = width / 2 - FOCAL * left[house] / depth
        beside, above, below = FOCAL * half / depth, FOCAL * (tall - EYE) / depth, FOCAL * EYE / depth
        box = (centre - beside, height / 2 - above, centre + beside, height / 2 + below)
        haze = float(np.clip(depth / 160, 0, 0.8))
        wall = (houses[house, 4:] * light * (1 - haze) + np.array(sky) * haze).astype(int)
        draw.rectangle(box, fill=tuple(wall), outline=tuple(wall // 2))
        _windows(draw, box, tall, wall, lit=condition == "dusk")
    return image


def _windows(
    draw: ImageDraw.ImageDraw, box: tuple[float, float, float, float], tall: float, wall: Floats, lit: bool
) -> None:
    left, top, right, bottom = box
    storeys = int(tall // 3)
    wide, high = (right - left) / 7, (bottom - top) / max(1, storeys) / 2.5
    pane = (250, 215, 120) if lit else tuple((wall * 0.45).astype(int))
    for storey in range(storeys):
        y = top + (storey + 0.3) * (bottom - top) / storeys
        for column in (1, 3, 5):
            x = left + column * wide
            draw.rectangle((x, y, x + wide, y + high), fill=pane)


def _geotag(x: float, y: float, yaw: float, moment: datetime) -> Image.Exif:
    """Position, viewing direction and time as a phone writes them."""
    latitude, longitude = (float(v[0]) for v in unproject(np.array([CORNER[0] + x]), np.array([CORNER[1] + y]), CRS))
    exif = Image.Exif()
    gps = exif.get_ifd(0x8825)
    gps[1], gps[2] = "N" if latitude >= 0 else "S", _degrees(abs(latitude))
    gps[3], gps[4] = "E" if longitude >= 0 else "W", _degrees(abs(longitude))
    gps[16], gps[17] = "T", float(np.rad2deg(np.pi / 2 - yaw) % 360)
    details = exif.get_ifd(0x8769)
    details[0x9003], details[0x9011] = moment.strftime("%Y:%m:%d %H:%M:%S"), "+00:00"
    return exif


def _degrees(value: float) -> tuple[float, float, float]:
    minutes = value % 1 * 60
    return float(int(value)), float(int(minutes)), round(minutes % 1 * 60, 6)
