"""Draws the pictures of the worlds in docs/: each condition, the parts that no training run sees, and the maps.

.venv/bin/python scripts/pictures.py
"""

from pathlib import Path

import numpy as np

from mappable.arrays import Pixels
from mappable.places.picture import draw_map
from mappable.places.worlds.contact_sheet import contact_sheet, same_places
from mappable.places.worlds.drives import draw, plan, table
from mappable.places.worlds.presets import find_preset

DOCS = Path(__file__).parent.parent / "docs"
STREET = ("train-sun", "train-snow", "train-overcast", "train-night-rain", "test-night", "test-rain")
ROOMS = ("cloudy-run1", "sunny-run1", "night-run1")
SHEETS = {
    "street.jpg": ("street-v1", {"": STREET}, 6),
    "rooms.jpg": ("rooms-v1", {"": ROOMS}, 6),
    "street-parts.jpg": (
        "street-v1",
        {
            "region B": ("region-b-reference-overcast", "region-b-query-night", "region-b-query-rain"),
            "the wing that no training run enters": ("wing-reference-overcast", "wing-query-night"),
            "another camera": ("camera-query-overcast", "camera-query-night"),
            "leaving the map": ("leaving-query-overcast", "leaving-query-night"),
        },
        6,
    ),
    "rooms-parts.jpg": (
        "rooms-v1",
        {
            "region B": ("region-b-reference-cloudy", "region-b-query-sunny", "region-b-query-night"),
            "the wing that no training run enters": ("wing-reference-cloudy", "wing-query-night"),
            "another camera": ("camera-query-cloudy",),
            "leaving the map": ("leaving-query-cloudy", "leaving-query-night"),
        },
        6,
    ),
    "street-3d.jpg": ("street-v1-3d", {"": ("train-sun", "test-overcast", "test-night")}, 6),
    "rooms-3d.jpg": ("rooms-v1-3d", {"": ("train-sunny", "test-cloudy", "test-night")}, 6),
}


def sheet(file: Path, name: str, groups: dict[str, tuple[str, ...]], columns: int) -> None:
    """A contact sheet for which nothing is drawn but what is on it."""
    preset = find_preset(name)
    world, drives = plan(preset)
    places = table(preset, drives)
    rows_of = places.sequences()
    wanted = np.zeros(len(places), dtype=bool)
    for sequences in groups.values():
        for rows in same_places(places, {one: rows_of[one] for one in sequences}, columns).values():
            wanted[rows] = True
    wanted[rows_of[next(iter(groups.values()))[0]][0]] = True  # its size is that of all
    images: dict[int, Pixels] = {}
    draw(preset, world, drives, wanted, images.__setitem__, size=preset.size, device="cpu")
    contact_sheet(places, images.__getitem__, file, groups=groups, columns=columns)


def main() -> None:
    for file, (name, groups, columns) in SHEETS.items():
        sheet(DOCS / file, name, groups, columns)
    for name in ("street-v1", "rooms-v1"):
        preset = find_preset(name)
        places = table(preset, plan(preset, ("main",))[1])
        draw_map(places.where(split="test"), DOCS / f"{name}-map.png")


if __name__ == "__main__":
    main()
