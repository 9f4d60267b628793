"""The runs of a preset: plan their routes, make the table of their images, and draw them."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Bools, Floats, Ints, Pixels
from mappable.places.frames import Frame
from mappable.places.images import Size
from mappable.places.routes import steps
from mappable.places.table import Places
from mappable.progress import progress_bar
from mappable.threads import cores, in_order
from mappable_worlds import conditions, rooms, street
from mappable_worlds.presets import Preset, Run
from mappable_worlds.scene import Traversal, World

if TYPE_CHECKING:
    from mappable_worlds.rendering.renderer import Renderer

CHUNK = 8  # images that a thread draws at a time
CHUNK_ON_GPU = 64  # images that a GPU draws at a time
# Receives a row number and its image; called from several threads.
Keep = Callable[[int, Pixels], None]


@dataclass(frozen=True)
class Drive:
    """A planned run: its `images` (numbers within the traversal) are the rows of the table from
    `first` on.

    `poses` is the traversal without parked and moving bodies, because these need much memory.
    """

    run: Run
    poses: Traversal
    images: Ints
    first: int

    @property
    def rows(self) -> Ints:
        return self.first + np.arange(len(self.images))


def plan(
    preset: Preset, parts: Sequence[str] | None = None, every: int = 1
) -> tuple[World, list[Drive]]:
    """Build the world of a preset and plan its runs; nothing is drawn yet."""
    runs = preset.select(parts)
    in_three = preset.dimensions == 3
    is_street = preset.world == "street"
    build = (
        partial(street.build, hills=in_three)
        if is_street
        else partial(rooms.build, stories=in_three)
    )
    world: World = build(preset.seed)
    drives, first = [], 0
    for run in runs:
        poses = traverse(world, run, alone=True)
        along = np.append(0.0, np.cumsum(steps(np.column_stack([poses.x, poses.y]))))
        images = np.flatnonzero(along <= (np.inf if run.length is None else run.length))[
            :: run.every * every
        ]
        drives.append(Drive(run, poses, images, first))
        first += len(images)
    return world, drives


def traverse(world: World, run: Run, *, alone: bool = False) -> Traversal:
    """Traverse the whole route, even if only a part is kept, so that its images are the same in
    every preset.

    With `alone`, the poses are the same, but there are no parked and moving bodies, which take most
    of the time.
    """
    if isinstance(world, rooms.Building):
        return rooms.traverse(world, run.route, spacing=run.spacing, seed=run.seed, alone=alone)
    return street.traverse(world, run.route, spacing=run.spacing, seed=run.seed, alone=alone)


def table(preset: Preset, drives: Sequence[Drive], root: Path | str = ".") -> Places:
    """Make the table of all drives; an image is named by its sequence and its number within the
    run.
    """

    def column(name: str) -> Floats:
        return np.concatenate([getattr(drive.poses, name)[drive.images] for drive in drives])

    def texts(name: str) -> list[str]:
        return list(
            chain.from_iterable([getattr(drive.run, name)] * len(drive.images) for drive in drives)
        )

    ids = [f"{drive.run.name}/{image:05d}" for drive in drives for image in drive.images]
    return Places(
        path=[f"{place_id}.png" for place_id in ids],
        place_id=ids,
        root=root,
        frames=Frame(preset.frame),
        x=column("x"),
        y=column("y"),
        z=column("z"),
        yaw=column("yaw"),
        time=np.concatenate(
            [drive.poses.time[drive.images] + _later(preset, drive.run) for drive in drives]
        ),
        sequence=texts("name"),
        condition=texts("condition"),
        split=texts("split"),
        role=texts("role"),
        dimensions=preset.dimensions,
    )


def _later(preset: Preset, run: Run) -> int:
    """Return the start of a run in nanoseconds after runs by day, which depends on its condition."""
    return round(_conditions(preset)[run.condition].hours_later * 3600e9)


def _conditions(preset: Preset) -> Mapping[str, conditions.Condition]:
    return conditions.STREET if preset.world == "street" else conditions.ROOMS


def draw(
    preset: Preset,
    world: World,
    drives: Sequence[Drive],
    wanted: Bools,
    keep: Keep,
    *,
    size: Size,
    device: str,
) -> None:
    """Draw the wanted rows, on all cores or on a GPU, and pass each image to `keep` as soon as it
    is drawn.
    """
    if not wanted.any():
        return
    import torch  # here, because it is slow to load

    from mappable_worlds.rendering.renderer import Renderer

    known = _conditions(preset)
    workers, chunk = (cores(), CHUNK) if device == "cpu" else (1, CHUNK_ON_GPU)
    before = torch.get_num_threads()
    try:
        with (
            ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool,
            progress_bar("drawing images", int(wanted.sum())) as advance,
        ):
            for drive in drives:
                rows = drive.rows[wanted[drive.rows]]
                if len(rows):
                    run, traversal = drive.run, traverse(world, drive.run)
                    light, eye = known[run.condition], run.camera
                    renderer = Renderer(
                        world.scene, traversal, light, eye, size=size, seed=run.seed, device=device
                    )
                    tasks = [rows[start : start + chunk] for start in range(0, len(rows), chunk)]
                    for count in in_order(
                        pool, partial(_draw_some, renderer, drive, keep), tasks, ahead=2 * workers
                    ):
                        advance(count)
    finally:
        torch.set_num_threads(before)  # later threads would inherit the number that was set last


def _draw_some(renderer: "Renderer", drive: Drive, keep: Keep, rows: Ints) -> int:
    images = renderer.render(drive.images[rows - drive.first].tolist()).cpu().numpy()
    for row, image in zip(rows.tolist(), images, strict=True):
        keep(row, image)
    return len(rows)
