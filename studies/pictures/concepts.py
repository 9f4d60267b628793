"""Draws the pictures of docs/concepts.md, from the output of `make demo` and from simulated routes.

    make demo
    python studies/pictures/concepts.py demo docs

It writes concepts-distances.png, concepts-place.png and concepts-recovery.png. The package
draws all images; the seeds are fixed. Two encoders describe 250 images each, which takes a minute
on two cores.
"""

import argparse
import io
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from PIL import Image

from mappable.arrays import Floats
from mappable.evaluation.figure import FAINT
from mappable.features.encoder import Encoder
from mappable.localization.location import Location
from mappable.localization.map import Map
from mappable.maps.landmarks import Landmarks
from mappable.places.cache import find_pack
from mappable.places.files import load_places
from mappable.places.table import Places
from mappable.plotting import BLACK, BLUE, GRAY, GREEN, ORANGE, VERMILION
from mappable.recovery.align import align
from mappable.recovery.hints import Anchors
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges

BEFORE, AFTER = "off-the-shelf-seed0", "triplet+huber-ours-seed0"
NEAR, FAR = 10.0, 25.0  # the radii of the demo
DPI, COLORS = 100, 64
FARTHEST = 40.0  # longest distance in the first picture, in metres
SPACING = 4.0  # metres between test images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("demo", type=Path, help="output folder of `make demo`")
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("--only", help="draw only this picture: distances, place or recovery")
    given = parser.parse_args()
    mpl.rcParams.update({"font.size": 9.5, "axes.spines.top": False, "axes.spines.right": False})
    drawings = {
        "distances": lambda: distances(given.demo),
        "place": lambda: place(given.demo),
        "recovery": recovery,
    }
    for name, draw in drawings.items():
        if given.only in (None, name):
            save(draw(), given.out / f"concepts-{name}.png")


def save(figure: Figure, file: Path) -> None:
    """Write a small PNG with few colors."""
    stream = io.BytesIO()
    figure.savefig(stream, dpi=DPI, facecolor="white")
    Image.open(stream).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(
        file, optimize=True
    )
    print(f"{file}: {file.stat().st_size / 1e3:.0f} kB")


def described(demo: Path, model: str, *sequences: str) -> tuple[Places, Encoder, Any]:
    encoder = Encoder.load(demo / "models" / model / "encoder.safetensors")
    places = load_places(demo / "places").where(sequence=list(sequences))
    return (
        places,
        encoder,
        encoder.embed(find_pack(demo / "places", encoder.about.size).view(places)),
    )


def distances(demo: Path) -> Figure:
    """Plot feature distance against metres between the images of two test runs, before and after
    training.
    """
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, model, title in (
        (left, BEFORE, "before: off the shelf"),
        (right, AFTER, "after: triplet + Huber"),
    ):
        places, _, made = described(demo, model, "test-overcast", "test-night")
        day, night = (
            np.flatnonzero(places.condition == condition) for condition in ("overcast", "night")
        )
        metres = np.linalg.norm(
            places.positions[day][:, None] - places.positions[night], axis=2
        ).ravel()
        apart = np.sqrt(np.maximum(2 - 2 * (made[day] @ made[night].T), 0)).ravel()
        near = metres < FARTHEST
        centers = np.arange(0, FARTHEST + 1, SPACING)
        bands = [apart[np.abs(metres - center) < SPACING / 2] for center in centers]
        low, middle, high = np.array([np.quantile(band, [0.1, 0.5, 0.9]) for band in bands]).T
        some = np.random.default_rng(0).choice(np.flatnonzero(near), 2500, replace=False)
        axes.plot(metres[some], apart[some], ",", color=GRAY, zorder=0)
        axes.fill_between(centers, low, high, color=BLUE, alpha=0.25, label="8 of 10 pairs")
        axes.plot(centers, middle, color=BLUE, linewidth=2.2, label="the middle one")
        scale = np.sqrt(squared_scale(demo))
        axes.plot(
            [0, NEAR],
            [0, scale],
            "--",
            color=VERMILION,
            linewidth=2.2,
            label="what the loss asks for",
        )
        for radius, name in ((NEAR, "r₁"), (FAR, "r₂")):
            axes.axvline(radius, color=BLACK, linewidth=0.8, linestyle=":")
            axes.text(radius + 0.4, 0.03, name, va="bottom")
        axes.set(
            xlim=(0, FARTHEST),
            ylim=(0, 1.4),
            title=title,
            xlabel="metres between an image by day and one at night",
        )
        correlation = np.corrcoef(metres[metres <= FAR], apart[metres <= FAR])[0, 1]
        print(
            f"{title}: correlation within r₂ {correlation:.2f}, distance from {middle[0]:.2f} to"
            f" {middle[-1]:.2f}"
        )
    left.set_ylabel("distance between their descriptors")
    right.legend(loc="upper left", frameon=False)
    return figure


def squared_scale(demo: Path) -> float:
    """F² of the trained encoder."""
    about = Encoder.load(demo / "models" / AFTER / "encoder.safetensors").about
    return float(about.feature_scale_squared or np.nan)


def located(demo: Path, *sequences: str) -> tuple[Places, Landmarks, list[Location]]:
    places, _, made = described(demo, AFTER, *sequences)
    opened = Landmarks.open(demo / "map")
    return places, opened, Map(opened).locate_all(made)


def place(demo: Path) -> Figure:
    """Show one image at night, its nearest landmark, and both on the map."""
    places, opened, found = located(demo, "test-night")
    rows = {str(name): row for row, name in enumerate(opened.places.place_id)}
    landmarks = opened.places.positions
    off = np.array(
        [
            np.linalg.norm(truth - one.coordinates)
            for truth, one in zip(places.positions, found, strict=True)
        ]
    )
    moved = [np.linalg.norm(one.coordinates - landmarks[rows[one.landmark]]) for one in found]
    good = [
        n
        for n, one in enumerate(found)
        if one.confident and moved[n] > 1 and one.low is not None and one.low > 0.5
    ]
    # A typical image: its error is close to the median.
    n = min(good, key=lambda n: abs(off[n] - np.median(off)))
    print(f"{places.path[n]}: error {off[n]:.2f} m, median of the run {np.median(off):.2f} m")
    one, truth, nearest = found[n], places.positions[n], landmarks[rows[found[n].landmark]]
    figure = Figure(figsize=(8, 3.9), layout="constrained")
    grid = figure.subplot_mosaic([["image", "map"], ["landmark", "map"]], width_ratios=[1, 2.3])
    pictures = {"image": places.files[n], "landmark": opened.places.files[rows[one.landmark]]}
    titles = {"image": "the image", "landmark": "the landmark nearest in features"}
    for name, file in pictures.items():
        grid[name].imshow(Image.open(demo / "places" / "images" / Path(*file.parts[-2:])))
        grid[name].set_title(titles[name], fontsize=9.5)
        grid[name].axis("off")
    axes = grid["map"]
    axes.plot(*landmarks.T, "o", color=GRAY, markersize=5, label="landmarks")
    low, high = float(one.low or 0), float(one.high or 0)
    for radius in (low, high):
        axes.add_patch(
            Circle(nearest, radius, fill=False, color=ORANGE, linewidth=1.8, linestyle="-")
        )
    axes.plot([], [], color=ORANGE, linewidth=1.8, label=f"90 %: {low:.1f} to {high:.1f} m from it")
    axes.plot(*nearest, "o", color=ORANGE, markersize=9, label="the one nearest in features")
    axes.plot(*one.coordinates, "D", color=BLUE, markersize=8, label="where the map says it is")
    axes.plot(*truth, "*", color=BLACK, markersize=13, label="where it is")
    width = 22.0
    axes.set(
        xlim=(nearest[0] - width, nearest[0] + width),
        ylim=(nearest[1] - 13, nearest[1] + 19),
        aspect="equal",
    )
    axes.set(xlabel="metres", ylabel="metres")
    axes.legend(loc="upper left", fontsize=8.5, framealpha=0.95)
    return figure


def recovery() -> Figure:
    """Show what distances up to 10 m cannot determine, and what a few known positions add."""
    sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
    from simulated_ranges import NOISES, measure, route

    # Rotated, because a page is wider than high.
    truth = route("open", 400, seed=3)[:, ::-1] * [-1, 1]
    ranges = measure(truth, NOISES["mid"], seed=3)
    figure = Figure(figsize=(8, 5.8), layout="constrained")
    (one, two), (three, four) = figure.subplots(2, 2)
    corner = straightest(truth)
    swung = mirrored_beyond(truth, corner)
    one.plot(*truth.T, color=BLACK, linewidth=2, label="the route")
    one.plot(*swung[corner:].T, "--", color=VERMILION, linewidth=2, label="its end, swung over")
    one.plot(*truth[corner], "o", color=VERMILION)
    exact = np.linalg.norm(truth[ranges.i] - truth[ranges.j], axis=1)
    other = np.linalg.norm(swung[ranges.i] - swung[ranges.j], axis=1)
    print(
        f"swung: {(np.abs(other - exact) < 0.2).mean():.1%} of {len(ranges)} ranges stay within"
        " 0.2 m"
    )
    one.set_title("same distances, another shape", fontsize=10)
    alone = recover(ranges, seed=0)
    fitted = align(alone.positions, truth)(alone.positions)
    two.plot(*truth.T, color=FAINT, linewidth=4)
    two.plot(*fitted.T, color=BLUE, linewidth=2, label="recovered, laid over it")
    two.set_title("from distances alone: the order and the length", fontsize=10)
    broken = without(ranges, 130, 260)
    parts = recover(broken, seed=0)
    for number, color in zip(np.unique(parts.parts), (BLUE, ORANGE, GREEN), strict=False):
        points = parts.positions[parts.parts == number]
        three.plot(
            *(points - np.array([0, 60 * number])).T,
            color=color,
            linewidth=2,
            label=f"part {number + 1}",
        )
    three.set_title("two gaps in the chain: three maps, which nothing joins", fontsize=10)
    known = np.arange(0, 400, 40)
    anchored = recover(ranges, anchors=Anchors(known, truth[known], sigma=0.5))
    four.plot(*truth.T, color=FAINT, linewidth=4)
    four.plot(*anchored.positions.T, color=BLUE, linewidth=2, label="recovered, not moved at all")
    four.plot(*truth[known].T, "o", color=BLACK, markersize=5, label="known positions")
    four.set_title("with ten known positions", fontsize=10)
    for axes in (one, two, three, four):
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.08)
        axes.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False, fontsize=9
        )
        axes.tick_params(labelsize=8)
    for sentence in (*alone.undetermined, "", *parts.undetermined):
        print(sentence)
    print(
        "RMS errors", [round(rms(points, truth), 1) for points in (fitted, anchored.positions)], "m"
    )
    return figure


def straightest(points: Floats) -> int:
    """A point on a straight stretch near the middle of the route; there, ranges cannot tell left
    from right.
    """
    ahead = np.arctan2(*np.diff(points, axis=0).T[::-1])
    turn = np.abs(np.angle(np.exp(1j * (ahead[12:] - ahead[:-12]))))
    middle = np.arange(len(turn))
    return int(np.argmin(turn + np.abs(middle - len(turn) / 2) / len(turn))) + 6


def mirrored_beyond(points: Floats, at: int) -> Floats:
    """The same points up to `at`; after it, their mirror image across the direction of travel at
    that point.
    """
    along = points[at + 3] - points[at - 3]
    along /= np.linalg.norm(along)
    rest = points[at:] - points[at]
    turned = 2 * np.outer(rest @ along, along) - rest
    return np.concatenate([points[:at], points[at] + turned])


def without(ranges: Ranges, *gaps: int) -> Ranges:
    """Drop the ranges that cross one of the points `gaps`."""
    kept = np.ones(len(ranges), dtype=bool)
    for gap in gaps:
        kept &= (np.minimum(ranges.i, ranges.j) >= gap) | (np.maximum(ranges.i, ranges.j) < gap)
    return ranges.where(kept)


def rms(points: Floats, truth: Floats) -> float:
    return float(np.sqrt(np.square(points - truth).sum(axis=1).mean()))


if __name__ == "__main__":
    main()
