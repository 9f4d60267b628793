"""Draws the pictures of worlds/README.md, and fills in its table of statistics.

.venv/bin/python worlds/page.py
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from mappable.arrays import Pixels
from mappable_worlds.contact_sheet import contact_sheet, same_places
from mappable_worlds.drives import draw, plan, table
from mappable_worlds.presets import PRESETS, find_preset
from mappable_worlds.statistics import Statistics, statistics

HERE = Path(__file__).parent
STREET = (
    "train-sun",
    "train-snow",
    "train-overcast",
    "train-night-rain",
    "test-night",
    "test-rain",
)
ROOMS = ("cloudy-run1", "sunny-run1", "night-run1")
SHEETS = {
    "../docs/street.jpg": ("street-v1", {"": STREET}, 6),
    "pictures/rooms.jpg": ("rooms-v1", {"": ROOMS}, 6),
    "pictures/street-parts.jpg": (
        "street-v1",
        {
            "region B": (
                "region-b-reference-overcast",
                "region-b-query-night",
                "region-b-query-rain",
            ),
            "the wing that no training run enters": ("wing-reference-overcast", "wing-query-night"),
            "another camera": ("camera-query-overcast", "camera-query-night"),
            "leaving the map": ("leaving-query-overcast", "leaving-query-night"),
        },
        6,
    ),
    "pictures/rooms-parts.jpg": (
        "rooms-v1",
        {
            "region B": (
                "region-b-reference-cloudy",
                "region-b-query-sunny",
                "region-b-query-night",
            ),
            "the wing that no training run enters": ("wing-reference-cloudy", "wing-query-night"),
            "another camera": ("camera-query-cloudy",),
            "leaving the map": ("leaving-query-cloudy", "leaving-query-night"),
        },
        6,
    ),
    "pictures/street-3d.jpg": (
        "street-v1-3d",
        {"": ("train-sun", "test-overcast", "test-night")},
        6,
    ),
    "pictures/rooms-3d.jpg": ("rooms-v1-3d", {"": ("train-sunny", "test-cloudy", "test-night")}, 6),
}


def sheet(file: Path, name: str, groups: dict[str, tuple[str, ...]], columns: int) -> None:
    """Draw a contact sheet; render only the images that it shows."""
    preset = find_preset(name)
    world, drives = plan(preset)
    places = table(preset, drives)
    rows_of = places.sequences()
    wanted = np.zeros(len(places), dtype=bool)
    for sequences in groups.values():
        for rows in same_places(places, {one: rows_of[one] for one in sequences}, columns).values():
            wanted[rows] = True
    wanted[rows_of[next(iter(groups.values()))[0]][0]] = True  # all images have its size
    images: dict[int, Pixels] = {}
    draw(preset, world, drives, wanted, images.__setitem__, size=preset.size, device="cpu")
    contact_sheet(places, images.__getitem__, file, groups=groups, columns=columns)


def counts(*names: str) -> Callable[[Statistics], str]:
    return lambda one: " / ".join(
        f"{one.images.get(name, 0):,}" for name in names if name in one.images
    )


ROWS: dict[str, Callable[[Statistics], str]] = {
    "images: train / calibration / test": counts("train", "calibration", "test"),
    "region-b / wing / camera / leaving": counts("region-b", "wing", "camera", "leaving"),
    "route, m": lambda one: f"{one.length:,.0f}",
    "images on the spot, per run": lambda one: f"{one.on_the_spot}",
    "heights, m": lambda one: f"{one.height:.1f}",
    "look alike: places, groups": lambda one: (
        f"{sum(one.look_alikes.values())}, {len(one.look_alikes)}"
    ),
    "landmarks; farthest training image, m": lambda one: (
        f"{one.landmarks}; {one.covering_radius:.2f}"
    ),
    "upper bound, both radii": lambda one: f"{one.positive_bound:.1%}, {one.negative_bound:.1%}",
}


def fill_in(page: Path) -> None:
    """Replace the table of statistics on the page."""
    found = []
    for preset in PRESETS.values():
        world, drives = plan(preset)
        found.append(statistics(table(preset, drives), preset, world))
    lines = [
        "| | " + " | ".join(f"`{name}`" for name in PRESETS) + " |",
        "|---" * (len(PRESETS) + 1) + "|",
    ]
    lines += [
        f"| {label} | " + " | ".join(map(write, found)) + " |" for label, write in ROWS.items()
    ]
    before, rest = page.read_text().split("## Statistics\n", 1)
    after = rest[rest.rindex("|\n", 0, rest.index("\n## ")) + 2 :]  # the text after the old table
    page.write_text(before + "## Statistics\n\n" + "\n".join(lines) + "\n" + after)


def main() -> None:
    fill_in(HERE / "README.md")
    for file, (name, groups, columns) in SHEETS.items():
        sheet(HERE / file, name, groups, columns)


if __name__ == "__main__":
    main()
