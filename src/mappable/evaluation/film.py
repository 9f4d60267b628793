"""Animations: draw a figure step by step and write a GIF."""

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from mappable.arrays import evenly
from mappable.files import write_atomically
from mappable.plotting import BLACK, BLUE, GREEN, ORANGE, VERMILLION

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

FRAMES = 40  # at most, of an animation
PAUSE = 180  # milliseconds a frame
MOST = 1_500_000  # bytes of a file
TRIES = ((1, 128), (1, 64), (2, 64), (2, 32), (4, 32))  # every so many-th frame in so many colours, until it fits
FIXED = ("#ffffff", BLUE, VERMILLION, GREEN, ORANGE, BLACK)
NEARLY_WHITE = 248

Update = Callable[[int], None]  # brings what moves to a step


def record(figure: "Figure", moving: "Sequence[Artist]", go_to: Update, count: int) -> list[Image.Image]:
    """A picture a step. All that does not move is drawn once."""
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
    """All frames with the same colours; fewer of both where the file would be too large."""
    sample = Image.fromarray(
        np.concatenate([np.asarray(frames[at])[::2, ::2] for at in evenly(len(frames), 6, nearest=True)])
    )
    for step, colours in TRIES:
        palette = _palette(sample, colours)
        first, *others = (one.quantize(palette=palette, dither=Image.Dither.NONE) for one in frames[::step])
        stream = BytesIO()
        first.save(stream, "GIF", save_all=True, append_images=others, duration=step * PAUSE, loop=0)
        if stream.tell() <= MOST:
            break
    write_atomically(file, lambda target: target.write(stream.getvalue()))


def _palette(sample: Image.Image, colours: int) -> Image.Image:
    """Colours that suit a picture, with those of the figures among them."""
    fixed = [int(colour[at : at + 2], 16) for colour in FIXED for at in (1, 3, 5)]
    found = np.array(sample.quantize(colours - len(FIXED)).getpalette()).reshape(-1, 3)
    found = found[found.min(axis=1) < NEARLY_WHITE]  # else the ground would be off-white
    palette = Image.new("P", (1, 1))
    palette.putpalette([*fixed, *found.ravel().tolist()])
    return palette
