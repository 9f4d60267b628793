"""Animations: draw a figure step by step and write a GIF."""

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from mappable.arrays import evenly
from mappable.files import write_atomically
from mappable.plotting import BLACK, BLUE, GREEN, ORANGE, VERMILION

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

FRAMES = 40  # per animation, at most
FRAME_MILLISECONDS = 180
MOST_BYTES = 1_500_000  # per file
TRIES = ((1, 128), (1, 64), (2, 64), (2, 32), (4, 32))  # (keep every n-th frame, colors), tried until the file fits
FIXED_COLORS = ("#ffffff", BLUE, VERMILION, GREEN, ORANGE, BLACK)
NEARLY_WHITE = 248  # the palette drops colors whose channels are all at least this; pure white replaces them

Update = Callable[[int], None]  # moves the artists to a step


def record(figure: "Figure", moving: "Sequence[Artist]", go_to: Update, count: int) -> list[Image.Image]:
    """One image per step. Artists that do not move are drawn once."""
    canvas: Any = figure.canvas
    go_to(0)
    for artist in moving:
        artist.set_animated(True)
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)
    frames = []
    for step in range(count):
        go_to(step)
        canvas.restore_region(still)
        for artist in moving:
            artist.draw(canvas.get_renderer())
        frames.append(Image.fromarray(np.array(canvas.buffer_rgba())[:, :, :3]))
    return frames


def write_gif(file: Path, frames: list[Image.Image]) -> None:
    """Write frames with one palette; use fewer frames and colors if the file would be too large."""
    sample = Image.fromarray(
        np.concatenate([np.asarray(frames[at])[::2, ::2] for at in evenly(len(frames), 6, nearest=True)])
    )
    for step, colors in TRIES:
        palette = _palette(sample, colors)
        first, *others = (one.quantize(palette=palette, dither=Image.Dither.NONE) for one in frames[::step])
        stream = BytesIO()
        first.save(stream, "GIF", save_all=True, append_images=others, duration=step * FRAME_MILLISECONDS, loop=0)
        if stream.tell() <= MOST_BYTES:
            break
    write_atomically(file, lambda target: target.write(stream.getvalue()))


def _palette(sample: Image.Image, colors: int) -> Image.Image:
    """A palette that fits an image and contains the colors of the figures."""
    fixed = [int(color[at : at + 2], 16) for color in FIXED_COLORS for at in (1, 3, 5)]
    found = np.array(sample.quantize(colors - len(FIXED_COLORS)).getpalette()).reshape(-1, 3)
    found = found[found.min(axis=1) < NEARLY_WHITE]  # else the background would be off-white
    palette = Image.new("P", (1, 1))
    palette.putpalette([*fixed, *found.ravel().tolist()])
    return palette
