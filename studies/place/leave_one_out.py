"""Reports each set with numbers of the place model that were chosen on the other sets.

    python studies/place/leave_one_out.py run descriptors/rn-walks:5:5 --out rn-walks.json
    python studies/place/leave_one_out.py table rn-walks.json vgg-walks.json ... --out
    leave_one_out.json

The rule, per set left out: on drives of all other sets, take the numbers that leave at most 2 % of
the confident images wrong and at most 2 % of the strangers confident. Of these, take those with
most images found and confident. Sets of one place (the same name after the first dash) are left out
together.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
from sensitivity import STRIDE, located

from compare import reduced
from mappable.features.descriptors import Described, read_descriptors
from mappable.localization.numbers import NUMBERS

GRID = {"sharpness": (1.5, 2.0, 3.0), "price": (0.4, 0.5)}
MOST = 0.02  # share of wrong and of confident strangers that the rule allows
COUNTS = ("images", "found", "confident", "wrong", "strangers", "confident strangers")

Row = dict[str, Any]


def run(text: str) -> list[Row]:
    """Counts of one set, for each choice of numbers."""
    folder, found, radius = text.split(":")
    described = read_descriptors(Path(folder))
    described = replace(described, descriptors=reduced(described.descriptors))
    rows = []
    right = nearest(described, float(found))
    for values in product(*GRID.values()):
        chosen = dict(zip(GRID, values, strict=True))
        cells = list(located(described, replace(NUMBERS, **chosen), float(found), float(radius)))
        counts = [int(sum(column)) for column in zip(*cells, strict=True)]
        rows.append(
            {
                "set": Path(folder).name,
                **chosen,
                **dict(zip(COUNTS, counts, strict=True)),
                "nearest": right,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def nearest(described: Described, found: float) -> int:
    """Images whose nearest landmark by descriptor is right, on the drives of `located`."""
    at, visits = described.places.positions, list(described.places.sequences().values())
    right = 0
    for own, other in permutations(visits, 2):
        landmarks, rows = own[::2], other[::STRIDE]
        best = (described.descriptors[rows] @ described.descriptors[landmarks].T).argmax(1)
        right += int((np.linalg.norm(at[landmarks[best]] - at[rows], axis=1) <= found).sum())
    return right


def choose(rows: Sequence[Row]) -> Row:
    """The numbers that the rule takes on these rows."""
    sums = []
    for values in product(*GRID.values()):
        chosen = dict(zip(GRID, values, strict=True))
        own = [row for row in rows if all(row[name] == value for name, value in chosen.items())]
        total = {name: sum(row[name] for row in own) for name in COUNTS}
        honest = total["wrong"] <= MOST * max(total["confident"], 1)
        honest &= total["confident strangers"] <= MOST * max(total["strangers"], 1)
        sums.append((honest, total["found"] + total["confident"], chosen))
    return max(sums, key=lambda row: row[:2])[2]


def table(rows: Sequence[Row]) -> list[Row]:
    """One row per set, with the numbers that the other sets chose."""
    places = {row["set"]: row["set"].partition("-")[2] for row in rows}
    results = []
    for name, place in places.items():
        chosen = choose([row for row in rows if places[row["set"]] != place])
        results += [
            row
            for row in rows
            if row["set"] == name and all(row[key] == value for key, value in chosen.items())
        ]
    print(
        "| set | "
        + " | ".join([*GRID, "found, %", "confident, %", "wrong", "confident strangers"])
        + " |"
    )
    print("|---|" + "---|" * (len(GRID) + 4))
    for row in results:
        shares = [f"{100 * row[name] / row['images']:.1f}" for name in ("found", "confident")]
        strangers = f"{row['confident strangers']} of {row['strangers']}"
        cells = [*(str(row[name]) for name in GRID), *shares, str(row["wrong"]), strangers]
        print(f"| {row['set']} | " + " | ".join(cells) + " |")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("sets", nargs="+", metavar="FOLDER:FOUND:RADIUS or JSON")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.what == "run":
        result: Any = [row for text in given.sets for row in run(text)]
    else:
        rows = [row for file in given.sets for row in json.loads(Path(file).read_text())]
        result = {"grid": GRID, "rows": rows, "left out": table(rows)}
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
