"""A figure of how reliable a calibration is, on images of known position."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Strings, evenly
from mappable.errors import BadInputError
from mappable.maps.locate import Locator
from mappable.maps.location import Location
from mappable.maps.map import Map
from mappable.plotting import BLUE, COLORS, GRAY, SKY, VERMILION, check_suffix, new_figure, plain, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
MARKS = "osD^vP"


def observed_coverage(locations: list[list[Location]], truly: Floats) -> Floats:
    """The share of images whose interval holds the true distance (n,) to the landmark, for each list of locations."""
    ends = np.array([[(one.low, one.high) for one in same] for same in locations], dtype=np.float64)
    shares: Floats = ((ends[:, :, 0] <= truly) & (truly <= ends[:, :, 1])).mean(axis=1)
    return shares


def draw_reliability(
    file: Path | str,
    landmarks: Map,
    descriptors: Floats32,
    positions: Floats,
    *,
    encoder: str,
    conditions: Strings | None = None,
    elsewhere: Floats32 | None = None,
) -> None:
    """Write a picture (PNG, SVG or PDF by suffix) of what the map says of images (n, D) at true positions (n, k).

    Left: how often intervals of a stated coverage hold the truth, for images that the map is confident of, by
    condition. Middle: stated against true metres to the nearest landmark. Right: squared feature distances to the map,
    beside those of images from `elsewhere` (e, D), if there are any.
    """
    check_suffix(file)
    locator = Locator(landmarks)
    calibration = locator.calibration
    rows, squared = landmarks.nearest(descriptors, calibration.neighbours, encoder=encoder)
    seen = locator.look(rows, squared)
    truly = np.linalg.norm(locator.positions[seen.evidence.landmark] - positions, axis=1)
    sure = seen.confident(calibration)
    if not sure.any():
        raise BadInputError("the map is confident of none of these images: there is nothing to draw")
    said = [locator.judge(rows, squared, seen, level) for level in LEVELS]
    figure = new_figure(15.0, 4.8)
    left, middle, right = figure.subplots(1, 3)
    named = np.full(len(truly), "all images", dtype=object) if conditions is None else conditions
    _coverage(left, said, truly, sure, named)
    usual = [one for one, kept in zip(said[list(LEVELS).index(0.9)], sure, strict=True) if kept]
    low, distance, high = (np.array([getattr(one, name) for one in usual]) for name in ("low", "distance", "high"))
    draw_distances(middle, (low, distance, high), truly[sure], landmarks.unit)
    absent = None
    if elsewhere is not None:
        absent = locator.look(*landmarks.nearest(elsewhere, calibration.neighbours, encoder=encoder)).matched
    _rejection(right, seen.matched, absent, calibration.threshold)
    figure.suptitle(
        f"{len(landmarks):,} landmarks, {len(truly):,} images, of {sure.mean():.0%} of which it is confident"
    )
    write_figure(figure, file)


def _coverage(axes: "Axes", said: list[list[Location]], truly: Floats, sure: Bools, named: Strings) -> None:
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=1, label="as stated")
    for number, name in enumerate(sorted(set(named))):
        which = np.flatnonzero(sure & (named == name))
        if not len(which):
            continue
        shares = observed_coverage([[same[row] for row in which] for same in said], truly[which])
        mark, colour = MARKS[number % len(MARKS)], COLORS[number % len(MARKS)]
        axes.plot(LEVELS, shares, marker=mark, color=colour, label=plain(f"{name} ({len(which):,})"))
    axes.set(
        xlabel="stated coverage", ylabel="share of true distances inside", xlim=(0, 1), ylim=(0, 1), aspect="equal"
    )
    axes.legend(frameon=False, loc="upper left")
    axes.set_title("Intervals, where confident")


def draw_distances(
    axes: "Axes", said: tuple[Floats, Floats, Floats], truly: Floats, unit: str, coverage: float = 0.9
) -> None:
    """What is said of images: the low end, middle and high end (n,) of an interval, beside the true distances (n,)."""
    which = evenly(len(truly), 150)
    which = which[np.argsort(said[1][which], kind="stable")]
    low, metres, high = (one[which] for one in said)
    number = np.arange(len(which))
    axes.fill_between(number, low, high, color=SKY, alpha=0.5, linewidth=0, label=f"{100 * coverage:g} % interval")
    axes.plot(number, metres, color=BLUE, label="stated")
    top = 1.3 * np.quantile(high, 0.98)
    beyond = np.count_nonzero(truly[which] > top)
    label = f"true ({beyond} beyond the top)" if beyond else "true"
    axes.plot(number, np.minimum(truly[which], top), ".", color=VERMILION, markersize=5, label=label)
    axes.set(xlabel="images, by stated distance", ylabel=f"to the nearest landmark, {unit}", ylim=(0, top))
    axes.legend(frameon=False, loc="upper left")
    axes.set_title("Distances")


def _rejection(axes: "Axes", here: Floats, absent: Floats | None, threshold: float) -> None:
    both = here if absent is None else np.concatenate([here, absent])
    low, high = np.quantile(both, [0.002, 0.998])
    bins = np.linspace(low, max(high, low + 1e-6), 50).tolist()
    axes.hist(np.clip(here, low, high), bins, density=True, color=BLUE, alpha=0.6, label="on the map")
    if absent is not None:
        axes.hist(np.clip(absent, low, high), bins, density=True, color=VERMILION, alpha=0.6, label="from elsewhere")
    axes.axvline(threshold, color="black", linestyle="--", linewidth=1, label="threshold")
    axes.set(xlabel="squared feature distance to the map", yticks=[], ylim=(0, 1.3 * axes.get_ylim()[1]))
    axes.legend(frameon=False, loc="upper right")
    axes.set_title("Rejection")
