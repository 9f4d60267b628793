"""Contact sheets: one row per sequence, one column per place."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mappable.arrays import Ints, Pixels
from mappable.files import write_atomically
from mappable.places.table import Places

COLUMNS = 8
# pixels: between images, height of labels, height of the title of a group.
GAP, TEXT, TITLE = 4, 15, 34
TURNED = 10.0  # metres by which an image counts as farther away if it is turned by a quarter turn


def contact_sheet(
    places: Places,
    load: Callable[[int], Pixels],
    file: Path | str,
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    columns: int = COLUMNS,
) -> None:
    """Write a sheet (PNG or JPEG by suffix) of images that `load` returns by row number.

    `groups` has the sequences on the same route, by title; each group has its own columns. Without
    `groups`, all sequences are one group.
    """
    file, rows_of = Path(file), places.sequences()
    chosen: list[tuple[str, dict[str, Ints]]] = []
    for title, sequences in (groups or {"": list(rows_of)}).items():
        known = {name: rows_of[name] for name in sequences if name in rows_of}
        if known:
            chosen.append((title, same_places(places, known, columns)))
    lines = [name for _, group in chosen for name in group]
    font, large = ImageFont.load_default(TEXT), ImageFont.load_default(TEXT + 5)
    left = max(int(font.getlength(name)) for name in lines) + 3 * GAP
    height, width = load(int(rows_of[lines[0]][0])).shape[:2]
    titled = sum(bool(title) for title, _ in chosen)
    size = left + columns * (width + GAP), GAP + len(lines) * (height + GAP) + titled * TITLE
    sheet = Image.new("RGB", size, "white")
    pen, top = ImageDraw.Draw(sheet), GAP
    for title, group in chosen:
        if title:
            pen.text((GAP, top + TITLE / 2), title, "black", large, anchor="lm")
            top += TITLE
        for name, rows in group.items():
            pen.text((GAP, top + height / 2), name, "black", font, anchor="lm")
            for column, row in enumerate(rows):
                sheet.paste(Image.fromarray(load(int(row))), (left + column * (width + GAP), top))
            top += height + GAP
    kind = "PNG" if file.suffix.lower() == ".png" else "JPEG"
    write_atomically(file, lambda stream: sheet.save(stream, kind, quality=90))


def same_places(places: Places, sequences: Mapping[str, Ints], columns: int) -> dict[str, Ints]:
    """Find, per sequence, the rows of images that show the same places, which lie evenly along the
    first sequence.
    """
    first = next(iter(sequences.values()))
    wanted = first[((np.arange(columns) + 0.5) * len(first) / columns).astype(np.int64)]
    found = {}
    for name, rows in sequences.items():
        apart = np.linalg.norm(
            places.positions[rows][None] - places.positions[wanted][:, None], axis=2
        )
        turned = TURNED * (1 - np.cos(places.yaw[rows][None] - places.yaw[wanted][:, None]))
        found[name] = rows[np.argmin(apart + turned, axis=1)]
    return found
