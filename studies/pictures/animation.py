"""Draws the animation of the README: a camera that is followed live on the map of `make demo`.

    make demo
    python studies/pictures/animation.py demo docs/follow.webp

The camera starts somewhere on a test drive, and is carried elsewhere on the way. Each frame shows
its image, the places where it may be, and its pose with the 95 % ellipse as soon as the pose is
trusted. Writes an animated WebP and prints how often the ellipse holds the true position.
Describing the images takes a minute on two cores.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mappable.arrays import Floats, Ints
from mappable.localization.localizer import Estimate, Localizer
from mappable.localization.map import open_map
from mappable.places.files import load_places
from mappable.places.table import Places
from mappable.plotting import BLACK, BLUE, GREEN, PINK, new_figure

DRIVE = "test-overcast"
# 126ths of the drive: where it starts, and where it is carried to; chosen by looking.
STRETCHES = ((28, 48), (70, 92))
WIDTH, HEIGHT, DPI = 7.4, 3.5, 100  # inches, and pixels per inch
MILLISECONDS, PAUSE = 260, 2200  # per frame, and of the last frame
QUALITY = 55  # of the WebP file
HELD = 5.991  # squared deviations within which 95 % of a normal distribution in two dimensions lie
# Of a place with probability 1, in squares of a point; small ones stay visible.
AREA, POWER = 650.0, 0.65
NAMES = {
    "lost": "lost",
    "several places": "one of several places",
    "tracking": "found",
    "off the map": "off the map",
}


def main() -> None:
    """Follow the drive, and draw a frame per image."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("demo", type=Path, help="output folder of `make demo`")
    parser.add_argument("out", type=Path, help="animation to write (.webp)")
    parser.add_argument("--drive", default=DRIVE, help=f"drive of the demo (default: {DRIVE})")
    given = parser.parse_args()
    places = load_places(given.demo / "places")
    own = np.flatnonzero(places.sequence == given.drive)
    rows = np.concatenate([own[np.arange(*stretch) * len(own) // 126] for stretch in STRETCHES])
    rows = rows[np.concatenate([[True], np.diff(rows) != 0])]
    localizer = Localizer(open_map(given.demo / "map"))
    estimates, clouds = [], []
    for n, row in enumerate(rows):
        estimates.append(localizer.update(places.files[row], float(n)))
        clouds.append(np.array(localizer.cloud()))
    frames = draw(places, rows, localizer.map.places.positions, estimates, clouds)
    times = [*[MILLISECONDS] * (len(frames) - 1), PAUSE]
    options: dict[str, Any] = {
        "save_all": True,
        "append_images": frames[1:],
        "duration": times,
        "loop": 0,
    }
    frames[0].save(given.out, "WEBP", quality=QUALITY, method=6, **options)
    trusted = [n for n, one in enumerate(estimates) if one.trusted]
    held = sum(holds(estimates[n], places.positions[rows[n], :2]) for n in trusted)
    print(f"{given.out}: {given.out.stat().st_size / 1000:.0f} kB, {len(frames)} frames")
    print(
        f"trusted {len(trusted)} of {len(frames)} poses; {held} of {len(trusted)} ellipses hold the"
        " true position"
    )


def holds(one: Estimate, truth: Floats) -> bool:
    """Whether the 95 % ellipse holds the true position (2,)."""
    off = truth - np.array(one.position[:2])
    covariance = np.array(one.covariance)[:2, :2]
    return float(off @ np.linalg.solve(covariance, off)) <= HELD


def draw(
    places: Places, rows: Ints, landmarks: Floats, estimates: list[Estimate], clouds: list[Floats]
) -> list[Image.Image]:
    """A frame per image: the image and the state on the left, the map on the right."""
    figure = new_figure(WIDTH, HEIGHT, DPI)
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.5), height_ratios=(2.6, 1))
    photo, words, chart = (
        figure.add_subplot(grid[at]) for at in ((0, 0), (1, 0), (slice(None), 1))
    )
    photo.axis("off")
    words.axis("off")
    chart.set_aspect("equal")
    chart.set(xlabel="x (m)", ylabel="y (m)")
    chart.spines[["top", "right"]].set_visible(False)
    chart.tick_params(labelsize=8)
    chart.scatter(*landmarks[:, :2].T, 9, "#c9cdd2", marker="s", label="landmark")
    shown = photo.imshow(np.asarray(Image.open(places.files[rows[0]]).convert("RGB")))
    cloud = chart.scatter([], [], [], PINK, alpha=0.6, linewidths=0, zorder=3)
    chart.plot([], [], "o", color=PINK, alpha=0.6, label="may be here")
    (truth,) = chart.plot(
        [], [], "o", mfc="none", mec=BLACK, ms=11, label="true position", zorder=5
    )
    (path,) = chart.plot([], [], "-", color=BLUE, lw=2, label="trusted path", zorder=4)
    (ellipse,) = chart.plot([], [], "-", color=GREEN, lw=1.8, label="pose, 95 %", zorder=6)
    (pose,) = chart.plot([], [], "o", color=GREEN, ms=5, zorder=7)
    chart.legend(loc="upper left", fontsize=7.5, frameon=False, ncols=1)
    low, high = landmarks[:, :2].min(0) - 12, landmarks[:, :2].max(0) + 12
    chart.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    state = words.text(0, 0.98, "", fontsize=15, weight="bold", va="top")
    detail = words.text(0, 0.5, "", fontsize=9.5, va="top", color="#555555", linespacing=1.5)
    trail: list[tuple[float, float]] = []

    def go_to(step: int) -> None:
        one = estimates[step]
        shown.set_data(np.asarray(Image.open(places.files[rows[step]]).convert("RGB")))
        cloud.set_offsets(clouds[step][:, :2])
        cloud.set_sizes(AREA * clouds[step][:, 2] ** POWER)
        truth.set_data(*places.positions[rows[step], :2, None])
        if step == 0:
            trail.clear()
        trail.append(one.position[:2] if one.trusted else (np.nan, np.nan))  # type: ignore[arg-type]
        path.set_data(*np.array(trail).T)
        pose.set_data(*([one.position[0]], [one.position[1]]) if one.trusted else ([], []))
        ellipse.set_data(*(round_of(one) if one.trusted else ([], [])))
        state.set_text(NAMES[one.state])
        state.set_color(GREEN if one.trusted else "#8a5a00")
        detail.set_text(said(one, step, places.positions[rows[step], :2]))

    canvas: Any = figure.canvas
    frames = []
    for step in range(len(rows)):
        go_to(step)
        canvas.draw()
        frames.append(Image.fromarray(np.array(canvas.buffer_rgba())[:, :, :3]))
    return frames


def round_of(one: Estimate) -> Floats:
    """The 95 % ellipse of a pose (2, n)."""
    angles = np.linspace(0, 2 * np.pi, 61)
    factor = np.linalg.cholesky(np.array(one.covariance)[:2, :2])
    return np.array(one.position[:2])[:, None] + np.sqrt(HELD) * factor @ np.stack(
        [np.cos(angles), np.sin(angles)]
    )


def said(one: Estimate, step: int, truth: Floats) -> str:
    """Image and error, if the pose is trusted; else the probability of the likeliest place."""
    if not one.trusted:
        likely = max((place.probability for place in one.places), default=0.0)
        return f"image {step + 1}, not trusted\nlikeliest place: {100 * likely:.0f} %"
    off = float(np.linalg.norm(truth - np.array(one.position[:2])))
    wide = float(np.sqrt(HELD * np.linalg.eigvalsh(np.array(one.covariance)[:2, :2])[-1]))
    return f"image {step + 1}, trusted\n{off:.1f} m off, 95 % within {wide:.1f} m"


if __name__ == "__main__":
    main()
