"""Rendering speed per core: images of the simulated worlds at 160x120, and their ray caster compared with a plain one.

    python benchmarks/rendering.py [--images 16]

The first table has milliseconds per image on one core, by condition. It also has images per second on all cores, as
`simulate` draws them. The second table times only the step that finds what each ray hits. It is compared with a plain
vectorized caster, which tests every ray against every solid in sight.

Both casters get the same rays, boxes and decks, on one thread, interleaved, and their results are compared. The boxes
have no gables, because the plain caster knows no other shape.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import atan

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Bools, Ints, Pixels
from mappable.worlds import conditions, rooms, street
from mappable.worlds.drives import draw, plan, traverse
from mappable.worlds.presets import PRESETS, Preset, Run
from mappable.worlds.rendering.casting import NEAR, NO_HIT, Caster, Solids, View
from mappable.worlds.rendering.renderer import Renderer
from mappable.worlds.scene import Deck, Shape, World

NAMES = ("street-v1", "rooms-v1")
COMPARED = {"street-v1": "overcast", "rooms-v1": "cloudy"}  # conditions for all cores and for casting
TOGETHER = 160  # images that all cores draw
CHUNK = 8  # solids that the plain caster tests at a time; 4 to 16 are fastest
AGREEMENT = 0.99


@dataclass(frozen=True)
class Case:
    """The first run of a preset in one condition, prepared for drawing, and some images along it."""

    preset: Preset
    world: World
    run: Run
    renderer: Renderer
    images: list[int]


def prepare(name: str, count: int) -> list[Case]:
    preset = PRESETS[name]
    is_street = preset.world == "street"
    world: World = street.build(preset.seed) if is_street else rooms.build(preset.seed)
    known = conditions.STREET if is_street else conditions.ROOMS
    cases = []
    for condition, light in known.items():
        run = next(run for run in preset.runs if run.condition == condition)
        traversal = traverse(world, run)
        renderer = Renderer(world.scene, traversal, light, run.camera, size=preset.size, seed=run.seed)
        images = np.linspace(0, len(traversal.x) - 1, count + 2).astype(int)[1:-1].tolist()
        cases.append(Case(preset, world, run, renderer, images))
    return cases


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def time_images(cases: Sequence[Case]) -> None:
    """Median milliseconds per image on one thread; conditions take turns."""
    seconds: list[list[float]] = [[] for _ in cases]
    for case in cases:
        case.renderer.render(case.images[:2])
    for number in range(len(cases[0].images)):
        for case, times in zip(cases, seconds, strict=True):
            times.append(timed(lambda case=case: case.renderer.render([case.images[number]])))  # type: ignore[misc]  # noqa: B023
    for case, times in zip(cases, seconds, strict=True):
        print(f"{case.preset.name:12}{case.run.condition:14}{1000 * statistics.median(times):8.1f}")


def images_a_second(case: Case) -> float:
    """Images per second of `simulate` on all cores, including about half a second to prepare the run."""
    preset = replace(case.preset, runs=(case.run,))
    world, drives = plan(preset)
    wanted = np.zeros(len(drives[0].images), dtype=bool)
    wanted[np.linspace(0, len(wanted) - 1, TOGETHER).astype(int)] = True

    def keep(row: int, image: Pixels) -> None:
        pass

    return TOGETHER / timed(lambda: draw(preset, world, drives, wanted, keep, size=preset.size, device="cpu"))


def plain_cast(view: View, solids: Solids, rows: Ints, decks: Sequence[Deck]) -> Tensor:
    """Test each ray of one image against everything. The result is like that of `seen_by_caster`. Decks are level."""
    height, width = view.slope.shape[1], view.east.shape[2]
    east, north, up = (ray.expand(1, height, width).reshape(-1) for ray in (view.east, view.north, view.slope))
    eye = float(view.eye)
    depth, seen = torch.full_like(east, NO_HIT), torch.full_like(east, -1, dtype=torch.int64)
    for number, deck in enumerate(decks):
        at = (deck.z - eye) / up
        x, y = float(view.origin[0]) + east * at, float(view.origin[1]) + north * at
        near = (at > NEAR) & (at < depth)
        if len(decks) > 1:  # the only deck of a world is its endless ground
            near &= ((x - deck.x).abs() <= deck.length / 2) & ((y - deck.y).abs() <= deck.width / 2)
        depth, seen = torch.where(near, at, depth), torch.where(near, -2 - number, seen)
    middle = np.column_stack([solids.x - view.origin[0], solids.y - view.origin[1], (solids.low + solids.high) / 2])
    half = np.column_stack([solids.length, solids.width, solids.high - solids.low]) / 2
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        x, y, z = torch.tensor(middle[some].T[..., None], dtype=torch.float32)
        length, width_, tall = torch.tensor(half[some].T[..., None], dtype=torch.float32)
        cosine = torch.tensor(np.cos(solids.yaw[some])[:, None], dtype=torch.float32)
        sine = torch.tensor(np.sin(solids.yaw[some])[:, None], dtype=torch.float32)
        enter, leave = slab(x * cosine + y * sine, length, east * cosine + north * sine)
        for to, reach, ray in ((y * cosine - x * sine, width_, north * cosine - east * sine), (z - eye, tall, up)):
            first, last = slab(to, reach, ray)
            enter, leave = torch.maximum(enter, first), torch.minimum(leave, last)
        nearest = torch.where((enter < leave) & (enter > NEAR), enter, NO_HIT).min(0)
        near = nearest.values < depth
        depth, seen = torch.where(near, nearest.values, depth), torch.where(near, nearest.indices + start, seen)
    return seen


def slab(to: Tensor, reach: Tensor, ray: Tensor) -> tuple[Tensor, Tensor]:
    """Depths between which rays are within `reach` of a plane that lies `to` ahead."""
    middle, half = to / ray, reach / ray.abs()
    return middle - half, middle + half


def seen_by_caster(view: View, solids: Solids, rows: Ints, may_see: Bools, decks: Sequence[Deck]) -> Tensor:
    """What each ray sees: the row of a solid, -2 - the number of a deck, or -1 for nothing."""
    hits = Caster(view, solids, rows, may_see, list(decks)).cast(view.eye, view.slope)
    return torch.where(hits.deck >= 0, -2 - hits.deck, hits.solid).reshape(-1)


def compare_casting(case: Case) -> float:
    """Print median milliseconds per image of both casters, and return the fraction of rays that see the same."""
    renderer, decks = case.renderer, case.world.scene.decks
    traversal = renderer.traversal
    standing = [(-1, solid) for solid in (*case.world.scene.solids, *traversal.parked)]
    boxes = [(image, solid) for image, solid in (*standing, *traversal.moving) if solid.shape == Shape.BOX]
    solids = Solids([replace(solid, roof=0.0) for _, solid in boxes], [image for image, _ in boxes])
    half_view = atan(case.preset.size[0] / 2 / renderer.camera.focal_length(case.preset.size[0])) + 0.02
    ours, plain, same, in_sight = [], [], [], []
    for image in [case.images[0], *case.images]:
        one = np.array([image])
        rows, may_see = solids.in_sight(traversal.x[one], traversal.y[one], traversal.yaw[one], half_view, one)
        view = renderer._view(one)
        seen: list[Tensor] = []
        with torch.inference_mode():
            ours.append(timed(lambda: seen.append(seen_by_caster(view, solids, rows, may_see, decks))))  # noqa: B023
            plain.append(timed(lambda: seen.append(plain_cast(view, solids, rows, decks))))  # noqa: B023
        same.append(float((seen[0] == seen[1]).double().mean()))
        in_sight.append(len(rows))
    mine, others = (1000 * statistics.median(times[1:]) for times in (ours, plain))  # the first one warms up
    share = statistics.mean(same[1:])
    boxes_in_sight = statistics.median(in_sight[1:])
    print(f"{case.preset.name:12}{boxes_in_sight:>8.0f}{others:>10.1f}{mine:>10.1f}{others / mine:>8.1f}{share:>10.2%}")
    return share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=16)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cases = [case for name in NAMES for case in prepare(name, arguments.images)]
    chosen = [case for case in cases if COMPARED[case.preset.name] == case.run.condition]
    print(f"ms per image of 160x120 on one core, medians of {arguments.images}; torch {torch.__version__}")
    time_images(cases)
    print(f"images per second on all {len(os.sched_getaffinity(0))} cores")
    for case in chosen:
        print(f"{case.preset.name:12}{case.run.condition:14}{images_a_second(case):8.1f}")
    print(f"casting alone, ms per image on one core, medians of {arguments.images}")
    print(f"{'':12}{'boxes':>8}{'plain':>10}{'Caster':>10}{'ratio':>8}{'the same':>10}")
    shares = [compare_casting(case) for case in chosen]
    print(f"both see the same at {AGREEMENT:.0%} of the rays or more: {'yes' if min(shares) >= AGREEMENT else 'NO'}")


if __name__ == "__main__":
    main()
