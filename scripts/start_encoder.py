"""An encoder to start from: trained on drawn towns and buildings alone, and scored on real images.

    python scripts/start_encoder.py work --study home-and-away-work --seed 0 --device cuda

Draws towns and buildings that no preset has. Each run through them has its own camera (field of view, height, noise,
color) and its own weather. All of them train one encoder per recipe, with settings that keep what ImageNet's weights
know. `--study` is a folder of `scripts/home_and_away.py prepare`: its away places score the encoder, next to the same
network before training with clusters from the same images. `--railway` also trains on Nordland, which is then not
scored. The result is `work/start-encoder.json`.
"""

import argparse
import json
import math
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from home_and_away import DEFAULT, RADII, RESNET_MORE, STRONGER
from PIL import Image

from mappable.arrays import Pixels
from mappable.evaluation.away import away_place
from mappable.evaluation.protocols.home_and_away import PlaceAccuracy, gains_of, located_places
from mappable.learning.settings import Settings, load_settings
from mappable.learning.trainer import train
from mappable.places.files import load_places
from mappable.places.joining import concatenate
from mappable.places.table import Places
from mappable.worlds.camera import Camera
from mappable.worlds.drives import draw, plan, table
from mappable.worlds.presets import MAIN, Preset, Run

WEATHERS = {
    "street": ("sun", "snow", "overcast", "night-rain", "night", "rain"),
    "rooms": ("cloudy", "sunny", "night"),
}
SPACING = {"street": 2.0, "rooms": 0.5}  # metres
LENGTH = {"street": 500.0, "rooms": 100.0}
RUNS = 4  # through each town or building
SCALE = 10  # positions of rooms times this, so that one radius of 10 fits both
SIZE = (160, 120)
RECIPES: dict[str, dict[str, Any]] = {
    "vgg16": {"feature_scale_squared": 2, "distillation": 50},
    "resnet50": dict(RESNET_MORE),
    "resnet50-half-way": {**RESNET_MORE, "toward_start": 0.5},
    "resnet50-last": {**DEFAULT, **STRONGER},
    "resnet50-last-half-way": {**DEFAULT, **STRONGER, "toward_start": 0.5},
}
RAILWAY, RAILWAY_SCALE = "nordland", 2  # its radius of 5 frames times this is 10


def world(kind: str, number: int, seed: int) -> Preset:
    """A town or a building with a number of its own, and runs with random cameras and weathers."""
    random = np.random.default_rng([seed, number, kind == "street"])
    weathers = random.permutation(WEATHERS[kind])
    runs = []
    for one in range(RUNS):
        camera = Camera(
            math.radians(random.uniform(50, 100)),
            random.uniform(0.8, 3.0) if kind == "street" else random.uniform(0.4, 1.6),
            noise=random.uniform(0.005, 0.02),
            blur=random.uniform(1.5, 5.0),
            gain=random.uniform(0.7, 1.3),
            tint=tuple(random.uniform(0.9, 1.1, 3)),
        )
        weather = str(weathers[one % len(weathers)])
        name = f"{kind}-{number}-{one}"
        own = int(random.integers(2**31))
        runs.append(Run(name, MAIN, "train", "", weather, MAIN, camera, SPACING[kind], own, LENGTH[kind]))
    frame = f"{kind}-{number}"
    kinds: Any = kind
    return Preset(frame, "", frame, kinds, 1000 * (seed + 1) + number, tuple(runs), 100, 10.0, 25.0)


def drawn(job: tuple[str, int], seed: int, device: str, every: int) -> tuple[Places, Pixels]:
    """The table and the images of one world."""
    preset = world(*job, seed)
    scene, drives = plan(preset, every=every)
    places = table(preset, drives)
    pixels = np.empty((len(places), SIZE[1], SIZE[0], 3), dtype=np.uint8)

    def keep(row: int, image: Pixels) -> None:
        pixels[row] = image

    draw(preset, scene, drives, np.ones(len(places), dtype=bool), keep, size=SIZE, device=device)
    if job[0] == "rooms":
        places = places.replace(x=SCALE * places.x, y=SCALE * places.y)
    return places, pixels


def railway(study: Path) -> tuple[Places, Pixels]:
    """The table and the images of Nordland's training stretch, both seasons."""
    places = load_places(study / RAILWAY)
    places = places[places.training()]
    pixels = np.stack([np.asarray(Image.open(file).convert("RGB").resize(SIZE)) for file in places.files])
    scaled = places.replace(x=RAILWAY_SCALE * places.x, y=RAILWAY_SCALE * places.y, unit="metres")
    return scaled, pixels


def settings_of(changes: dict[str, Any], seed: int, iterations: int) -> Settings:
    values = {"yaw_limit": 0.5236, **changes, "seed": seed, "iterations": iterations, "monitor_queries": 0}
    return load_settings("street", overrides=[f"{name}={value}" for name, value in values.items()])


def main() -> None:
    """Draw, train and score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--study", type=Path, required=True)
    parser.add_argument("--part", default="choose", choices=["choose", "test"], help="away places to score on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--towns", type=int, default=10)
    parser.add_argument("--buildings", type=int, default=5)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=1200)
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--railway", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    jobs = [("street", number) for number in range(given.towns)]
    jobs += [("rooms", number) for number in range(given.buildings)]
    one = partial(drawn, seed=given.seed, device=given.device, every=given.every)
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(one, jobs))
    if given.railway:
        parts.append(railway(given.study))
    places, pixels = concatenate([table for table, _ in parts]), np.concatenate([images for _, images in parts])
    seconds = {"drawing": round(time.monotonic() - began, 1)}
    print(f"{len(places)} images in {seconds['drawing']} s", flush=True)
    away = [
        replace(away_place(f"{given.study / 'away' / given.part / name}{radius}"), name=name)
        for name, radius in RADII.items()
        if not (given.railway and name == RAILWAY)
    ]
    found: list[dict[str, Any]] = []
    for recipe in given.recipes:
        began = time.monotonic()
        scores: list[dict[str, PlaceAccuracy]] = []
        for iterations in (0, given.iterations):
            settings = settings_of(RECIPES[recipe], given.seed, iterations)
            encoder = train(places, pixels, settings, out=given.work / f"{recipe}-{iterations}", device=given.device)
            scores.append(located_places(encoder, away))
        seconds[recipe] = round(time.monotonic() - began, 1)
        found.append(row(recipe, scores))
        print(json.dumps(found[-1]), flush=True)
    about = {"images": len(places), "seed": given.seed, "iterations": given.iterations, "seconds": seconds}
    about |= {"railway": given.railway}
    given.work.mkdir(parents=True, exist_ok=True)
    text = json.dumps(about | {"networks": found}, indent=1)
    (given.work / "start-encoder.json").write_text(text + "\n", "utf-8")


def row(recipe: str, scores: Sequence[dict[str, PlaceAccuracy]]) -> dict[str, Any]:
    """Percent found before and after training, and the gain with its 95 % interval."""
    before, after = scores
    gains = {
        name: [round(value, 1) for value in (one.mean, one.low, one.high)]
        for name, one in gains_of([(after, before)]).items()
    }
    percent = {name: [round(before[name].percent, 1), round(after[name].percent, 1)] for name in before}
    return {"recipe": recipe, "found": percent, "gain": gains}


if __name__ == "__main__":
    main()
