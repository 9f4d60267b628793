"""Halves and doubles each number of the place model, on real drives.

    python studies/place/sensitivity.py descriptors/walks:5:5 --out sensitivity.json

Each row is the mean share of found images and the confident and wrong ones, in drives of every 4th
image: of a visit, and of strangers, which are the part of a visit that is not on the map.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from compare import reduced
from mappable.features.descriptors import Described, read_descriptors
from mappable.localization.answers import Answers
from mappable.localization.numbers import NUMBERS, PlaceNumbers
from mappable.localization.place_model import PlaceModel
from mappable.maps.exact import Exact

STRIDE = 4
# Share of a visit that is the map of the strangers, and their distance from it.
ON_MAP, APART = 0.4, 20.0


def located(
    described: Described, numbers: PlaceNumbers, found: float, radius: float
) -> Iterator[list[float]]:
    """Images, found, confident and wrong ones, strangers, and confident strangers, per pair of
    visits.
    """
    places, seen = described.places, described.descriptors
    at, visits = places.positions, list(places.sequences().values())
    for own in visits:
        for other in visits:
            if other is own:
                continue
            model = PlaceModel(
                Exact(seen[own[::2]]), at[own[::2]], [np.arange(len(own[::2]))], numbers
            )
            rows = other[::STRIDE]
            posterior = model.drive(seen[rows])
            drive = Answers(model, posterior, radius)
            off = np.linalg.norm(drive.positions - at[rows], axis=1)
            sure = (drive.mass >= numbers.sure) & (posterior.evidence >= 0)
            known = own[: int(ON_MAP * len(own))]
            away = np.linalg.norm(at[other][:, None] - at[known], axis=2).min(1) > APART
            part = PlaceModel(Exact(seen[known]), at[known], [np.arange(len(known))], numbers)
            found_there = part.drive(seen[other[away][::STRIDE]])
            strangers = Answers(part, found_there, radius).mass >= numbers.sure
            yield [
                len(rows),
                (off <= found).sum(),
                sure.sum(),
                (sure & (off > radius)).sum(),
                len(strangers),
                strangers.sum() * (found_there.evidence >= 0),
            ]


def variants() -> Iterator[tuple[str, PlaceNumbers]]:
    """The numbers as they are, and with each one halved and doubled."""
    yield "as they are", NUMBERS
    for one in fields(NUMBERS):
        value = getattr(NUMBERS, one.name)
        for factor in (0.5, 2.0):
            changed: Any = min(value * factor, 0.99) if one.name == "sure" else value * factor
            changed = max(round(changed), 1) if isinstance(value, int) else changed
            yield f"{one.name} x {factor:g}", replace(NUMBERS, **{one.name: changed})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="+", metavar="FOLDER:FOUND:RADIUS")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = []
    described = []
    for text in given.sets:
        folder, found, radius = text.split(":")
        whole = read_descriptors(Path(folder))
        described.append(
            (replace(whole, descriptors=reduced(whole.descriptors)), float(found), float(radius))
        )
    for name, numbers in variants():
        cells = np.array(
            [
                cell
                for one, found, radius in described
                for cell in located(one, numbers, found, radius)
            ]
        )
        images, _, sure, wrong, strangers, fooled = cells.sum(0)
        rows.append(
            {
                "number": name,
                "found, %": 100 * float(np.mean(cells[:, 1] / cells[:, 0])),
                "confident, %": 100 * float(sure / images),
                "wrong of confident, %": 100 * float(wrong / max(sure, 1)),
                "confident strangers, %": 100 * float(fooled / max(strangers, 1)),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
        if given.out:
            given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
