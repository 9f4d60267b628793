"""Compares the place model with an earlier version, on real and drawn drives.

    mappable convert manifest images walks && mappable train walks model --set iterations=0
    mappable embed model walks descriptors/walks
    python studies/place/compare.py run descriptors/walks:5:5 descriptors/track:10:25 --out
    after.json PYTHONPATH=../earlier/src python studies/place/compare.py run ... --out before.json
    python studies/place/compare.py table before.json after.json

Each argument of `run` is a folder of `mappable embed`, the distance within which an image counts as
found, and the one within which a confident image counts as right. Each visit becomes a map, as
`mappable map build` does, and locates each other visit: every 4th image. Nothing is fitted to the
visits that are asked.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi2

from mappable.arrays import Floats, Floats32, Ints
from mappable.features.descriptors import Described, read_descriptors
from mappable.localization.build import build_map_of
from mappable.localization.localizer import Localizer
from mappable.localization.map import Map
from mappable.odometry import Odometry

STRIDES = (4,)
COVERAGE = 0.9
FEWEST = 30  # images of a drive that counts
WAYS = ("single", "live", "live with odometry", "drive")

Cell = dict[str, Any]
Answer = tuple[Floats, Floats | None, bool, float | None, float | None, str]


def reduced(descriptors: Floats32) -> Floats32:
    """The same products in at most n dimensions, which takes less time."""
    gram = np.zeros((len(descriptors), len(descriptors)))
    for start in range(0, descriptors.shape[1], 4096):
        block = descriptors[:, start : start + 4096].astype(np.float64)
        gram += block @ block.T
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-7 * values.max()
    small = (vectors[:, kept] * np.sqrt(values[kept])).astype(np.float32)
    return small / np.linalg.norm(small, axis=1, keepdims=True)


def located(opened: Map, seen: Floats32, *, together: bool) -> list[Answer]:
    """Single images, or a drive."""
    locate = opened.locate_drive if together else opened.locate_all
    return [
        (
            np.array(one.coordinates),
            np.array(one.covariance),
            one.confident,
            one.low,
            one.high,
            one.landmark,
        )
        for one in locate(seen, coverage=COVERAGE)
    ]


def followed(opened: Map, seen: Floats32, truth: Floats | None) -> list[Answer]:
    """A live camera, with odometry if the truth is given; it errs by 5 % of the way."""
    localizer, random = Localizer(opened), np.random.default_rng(0)
    answers: list[Answer] = []
    for row, descriptor in enumerate(seen):
        odometry = None
        if truth is not None and row:
            way = truth[row] - truth[row - 1]
            noisy = way + 0.05 * np.linalg.norm(way) * random.normal(size=len(way))
            odometry = Odometry(float(noisy[0]), float(noisy[1]), 0.0)
        one = localizer.update(descriptor, float(row), odometry)
        answers.append(
            (
                np.array(one.position),
                np.array(one.covariance),
                one.trusted,
                None,
                None,
                one.landmark,
            )
        )
    return answers


def counts(
    answers: Sequence[Answer], truth: Floats, at: dict[str, Floats], found: float, right: float
) -> Cell:
    """Found, confident and wrong images; intervals or ellipses that hold; normalized squared
    errors.
    """
    positions = np.array([one[0] for one in answers])
    off = np.linalg.norm(positions - truth, axis=1)
    sure = np.array([one[2] for one in answers])
    moving = np.ptp(truth, axis=0) > 0  # a route frame has one dimension
    errors = (positions - truth)[:, moving]
    covariance = np.array([one[1] for one in answers])[:, moving][:, :, moving]
    squared = np.einsum("ni,nij,nj->n", errors, np.linalg.inv(covariance), errors)
    if answers[0][3] is None:
        held = squared <= chi2.ppf(COVERAGE, moving.sum())
        stated = np.ones(len(answers), dtype=bool)
    else:
        apart = [
            np.linalg.norm(at[one[5]] - here) for one, here in zip(answers, truth, strict=True)
        ]
        ends = np.array([one[3:5] for one in answers], dtype=np.float64)  # NaN if none is stated
        held = (ends[:, 0] <= apart) & (apart <= ends[:, 1])
        stated = np.isfinite(ends).all(1)
    near = off <= right
    return {
        "found": int((off <= found).sum()),
        "confident": int(sure.sum()),
        "wrong": int((sure & ~near).sum()),
        "intervals": int(stated.sum()),
        "held": int((held & stated).sum()),
        "nees": float(np.median(squared[near]) / chi2.median(moving.sum())) if near.any() else None,
    }


def run(sets: Sequence[str]) -> list[Cell]:
    """The cells of all sets; a cell is one drive in one map, in all ways."""
    cells = []
    for text in sets:
        folder, *limits = text.split(":")
        described = read_descriptors(Path(folder))
        places = described.places.replace(split="", role="")
        kept = np.flatnonzero(places.x >= 1250) if "nordland" in folder else np.arange(len(places))
        small = reduced(described.descriptors[kept])
        described = replace(described, places=places[kept], descriptors=small, encoder=None)
        for name, asked, stride, cell in _drives(described, float(limits[0]), float(limits[1])):
            cells.append(
                {"set": Path(folder).name, "map": name, "asked": asked, "stride": stride, **cell}
            )
            print(json.dumps(cells[-1]), flush=True)
    return cells


def _drives(described: Described, found: float, right: float) -> Any:
    places, visits = described.places, described.places.sequences()
    for name, rows in visits.items():
        part = replace(described, places=places[rows], descriptors=described.descriptors[rows])
        opened = build_map_of(part, "real", landmarks=_count(part, rows))
        landmarks = opened.landmarks
        at = dict(zip(landmarks.places.place_id, landmarks.places.positions, strict=True))
        for asked, others in visits.items():
            for stride in STRIDES:
                drive = others[::stride]
                if asked == name or len(drive) < FEWEST:
                    continue
                seen, truth = described.descriptors[drive], places.positions[drive]
                answers = {
                    "single": located(opened, seen, together=False),
                    "live": followed(opened, seen, None),
                    "live with odometry": followed(opened, seen, truth),
                    "drive": located(opened, seen, together=True),
                }
                cell = {way: counts(own, truth, at, found, right) for way, own in answers.items()}
                nearest = landmarks.places.positions[landmarks.store.nearest(seen, 1)[0][:, 0]]
                near = int((np.linalg.norm(nearest - truth, axis=1) <= found).sum())
                yield name, asked, stride, {"images": len(drive), "nearest": near, **cell}


def _count(described: Described, rows: Ints) -> int:
    """The usual number of landmarks: every second image of a visit, at most 200."""
    return min(200, len(rows) // 2)


def table(files: Sequence[Path]) -> None:
    """One row per set and way: before, and after."""
    parts = [json.loads(file.read_text())["cells"] for file in files]
    heads = [
        "found, %",
        "least, %",
        "confident, %",
        "wrong of confident, %",
        "intervals that hold, %",
        "NEES",
    ]
    print(
        "| set | way | nearest, % | "
        + " | ".join(f"{head} ({file.stem})" for head in heads for file in files)
        + " |"
    )
    print("|---|---|---|" + "---|" * len(heads) * len(files))
    for name in [*dict.fromkeys(cell["set"] for cell in parts[-1]), "all"]:
        for way in WAYS:
            own = [[cell for cell in cells if name in (cell["set"], "all")] for cells in parts]
            rows = [_numbers(cells, way) for cells in own]
            nearest = 100 * np.mean([cell["nearest"] / cell["images"] for cell in own[-1]])
            both = [row[column] for column in range(len(heads)) for row in rows]
            print(f"| {name} | {way} | {nearest:.1f} | " + " | ".join(map(_text, both)) + " |")


def _numbers(cells: Sequence[Cell], way: str) -> list[float]:
    if not cells:
        return [float("nan")] * 6
    shares = [100 * cell[way]["found"] / cell["images"] for cell in cells]
    total = {
        key: sum(cell[way][key] for cell in cells)
        for key in ("confident", "wrong", "intervals", "held")
    }
    known = [cell[way]["nees"] for cell in cells if cell[way]["nees"] is not None]
    return [
        float(np.mean(shares)),
        min(shares),
        100 * total["confident"] / sum(cell["images"] for cell in cells),
        100 * total["wrong"] / max(total["confident"], 1),
        100 * total["held"] / max(total["intervals"], 1),
        float(np.mean(known)) if known else float("nan"),
    ]


def _text(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("given", nargs="+")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.what == "table":
        table([Path(file) for file in given.given])
        return
    cells = run(given.given)
    if given.out:
        given.out.write_text(json.dumps({"seed": 0, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
