"""Measures maps of real drives: how well they locate other drives, alone and as sequences, and how sure they are.

    mappable convert manifest images places
    mappable train places model --preset nordland --set iterations=0
    mappable embed model places out

    python studies/drives/drives.py out:5:2 tracks:10:25 --foreign out=foreign.npy --out real.json
    python studies/drives/drives.py --table real.json

Each argument is a folder of `mappable embed`, and one or two distances within which an image counts
as found. Each sequence becomes a map of its own, built as `mappable map build` does. The images of
each other sequence are queries: all of them, or every 2nd, 4th, 8th or 16th. They run forwards,
backwards, with stretches cut out, and with images from elsewhere mixed in. Images from elsewhere
are descriptors by the same encoder, as .npy. Calibration knows nothing of the query sequences. With
`--keep N`, a map is calibrated on N images of a third sequence instead of its own. Folders
`NAME-seed0`, `NAME-seed1` and so on, of encoders that differ in the seed, become one row of the
table.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly
from mappable.evaluation.acceptance import SEQUENCE, sureness
from mappable.evaluation.bootstrap import block_bootstrap
from mappable.evaluation.metrics import average_precision
from mappable.features.descriptors import Described, read_descriptors
from mappable.localization.build import build_map_of
from mappable.localization.location import Location
from mappable.localization.map import Map

STRIDES = (1, 2, 4, 8, 16)  # every n-th image of a drive
CUT, STRETCHES = 0.15, 2  # share of a drive per stretch that is cut out, and number of stretches
FOREIGN = 0.2  # share of images from elsewhere in a mixed drive
BLOCK_IMAGES = 10  # images per block of the bootstrap
FEWEST_JUDGED = 30  # smallest number of images of a cell that counts in the summary
COVERAGE = 0.9  # of the intervals
WAYS = ("single", "sequence")
SEED = re.compile(r"-seed\d+$")  # results of folders that differ only in this are added up

Cell = dict[str, Any]


def drives(rows: Ints, seed: int) -> Iterator[tuple[str, int, Ints]]:
    """Drives made from one drive: name, stride and rows in order; -1 is an image from elsewhere."""
    for stride in STRIDES:
        thinned = rows[::stride]
        random = np.random.default_rng(seed + stride)
        yield "forwards", stride, thinned
        yield "backwards", stride, thinned[::-1]
        kept = np.ones(len(thinned), dtype=bool)
        for start in random.integers(0, max(1, int(len(thinned) * (1 - CUT))), STRETCHES):
            kept[start : start + int(len(thinned) * CUT)] = False
        yield "cut", stride, thinned[kept]
        count = round(len(thinned) * FOREIGN / (1 - FOREIGN))
        yield (
            "foreign",
            stride,
            np.insert(thinned, np.sort(random.integers(0, len(thinned) + 1, count)), -1),
        )


def ask(
    opened: Map,
    described: Described,
    foreign: Floats32,
    drive: Ints,
    within: Sequence[float],
    seed: int,
) -> Cell:
    """Locate one drive: count images found, confident images, and intervals that contain the truth."""
    here = drive >= 0
    seen = described.descriptors[np.maximum(drive, 0)].copy()
    if not here.all():
        count, random = np.count_nonzero(~here), np.random.default_rng(seed)
        seen[~here] = foreign[random.choice(len(foreign), count, replace=count > len(foreign))]
    truth = described.places.positions[drive[here]]
    at = opened.landmarks.places.positions
    number = {name: row for row, name in enumerate(opened.landmarks.places.place_id)}
    ways = {
        "single": opened.locate_all(seen, coverage=COVERAGE),
        "sequence": opened.locate_drive(seen, coverage=COVERAGE),
    }
    ceiling = np.linalg.norm(truth[:, None] - at, axis=2).min(1)
    nearest = at[[number[one.candidates[0].landmark] for one in ways["single"]]][here]
    cell: Cell = {
        "images": int(here.sum()),
        "ceiling": [int((ceiling <= limit).sum()) for limit in within],
        "nearest": [
            int((np.linalg.norm(nearest - truth, axis=1) <= limit).sum()) for limit in within
        ],
        "nearest median": float(np.median(np.linalg.norm(nearest - truth, axis=1))),
        "together": ways["sequence"][0].together,
    }
    off = {}
    for name, all_found in ways.items():
        found = [one for one, on in zip(all_found, here, strict=True) if on]
        foreign_found = [one for one, on in zip(all_found, here, strict=True) if not on]
        off[name] = np.linalg.norm(np.array([one.coordinates for one in found]) - truth, axis=1)
        landmark = at[[number[one.landmark] for one in found]]
        cell[name] = _counts(found, off[name], np.linalg.norm(landmark - truth, axis=1), within)
        cell[name]["foreign"], cell[name]["foreign confident"] = (
            len(foreign_found),
            sum(one.confident for one in foreign_found),
        )
    if here.all():
        cell["rules"] = rules(opened, seen, ways, off, max(within))
    gain = (off["sequence"] <= within[0]).astype(float) - (off["single"] <= within[0])
    blocks = np.arange(len(gain)) // BLOCK_IMAGES
    bounds = block_bootstrap(gain[None], blocks, seed=seed) if len(np.unique(blocks)) > 1 else None
    cell["gain"] = [float(gain.mean())] + (
        [] if bounds is None else [float(bounds.low), float(bounds.high)]
    )
    return cell


def rules(
    opened: Map,
    seen: Floats32,
    ways: dict[str, list[Location]],
    off: dict[str, Floats],
    limit: float,
) -> dict[str, list[tuple[float, bool]]]:
    """How sure each rule is of each image, and whether the image is right; our rules, and rules a
    user would write.
    """
    right = {way: (errors <= limit).tolist() for way, errors in off.items()}
    return {
        name: list(
            zip(values.tolist(), right["sequence" if name == SEQUENCE else "single"], strict=True)
        )
        for name, values in sureness(opened, seen).items()
    }


def precision_of(sure: Sequence[tuple[float, bool]]) -> float:
    """Area under the curve of precision by recall; recall is the share of right images that are
    accepted.
    """
    score, right = np.array([one for one, _ in sure]), np.array([one for _, one in sure])
    return average_precision(score, right)


def _counts(
    found: Sequence[Location], off: Floats, distance: Floats, within: Sequence[float]
) -> Cell:
    sure: Bools = np.array([one.confident for one in found])
    has: Bools = np.array([one.low is not None for one in found])
    low, high = (np.array([getattr(one, end) or 0.0 for one in found]) for end in ("low", "high"))
    held = has & (low <= distance) & (distance <= high)
    return {
        "found": [int((off <= limit).sum()) for limit in within],
        "median": float(np.median(off)),
        "confident": int(sure.sum()),
        "confident right": [int((sure & (off <= limit)).sum()) for limit in within],
        "intervals": int(has.sum()),
        "held": int(held.sum()),
        "width": float(np.median((high - low)[has])) if has.any() else None,
    }


def maps_of(described: Described, given: argparse.Namespace) -> Iterator[tuple[str, str, Map]]:
    """Yield name, calibrating sequence and map; with `--keep`, one map per pair of sequences."""
    sequences = described.places.sequences()
    for name, rows in sequences.items():
        for other, kept in sequences.items():
            if (other == name) == bool(given.keep):
                continue
            own = (
                rows
                if not given.keep
                else np.concatenate([rows, kept[evenly(len(kept), given.keep)]])
            )
            split = (
                np.where(np.isin(own, rows), "train", "calibration").astype(object)
                if given.keep
                else ""
            )
            places = described.places[own].replace(split=split, role="")
            part = replace(described, places=places, descriptors=described.descriptors[own])
            yield (
                name,
                other,
                build_map_of(part, "real", landmarks=given.landmarks, every=given.every),
            )


def run(given: argparse.Namespace) -> list[Cell]:
    """Compute the cells of all sets; a cell is one drive located in one map."""
    foreign = dict(one.split("=") for one in given.foreign)
    cells = []
    for text in given.sets:
        folder, *limits = text.split(":")
        within = [float(one) for one in limits]
        described = replace(read_descriptors(Path(folder)), encoder=None)
        absent = (
            np.load(foreign[folder]).astype(np.float32)
            if folder in foreign
            else np.empty((0, 0), np.float32)
        )
        for name, other, opened in maps_of(described, given):
            for asked, rows in described.places.sequences().items():
                for way, stride, drive in drives(rows, given.seed):
                    if (
                        asked in (name, other)
                        or (way == "foreign" and not len(absent))
                        or len(drive) < 2
                    ):
                        continue
                    cell = ask(opened, described, absent, drive, within, given.seed)
                    facts = {
                        "set": Path(folder).name,
                        "map": name,
                        "asked": asked,
                        "way": way,
                        "stride": stride,
                    }
                    facts |= {"calibrated on": other, "landmarks": len(opened), "within": within}
                    cells.append(facts | cell)
                    print(_line(cells[-1]), flush=True)
    return cells


def _line(cell: Cell) -> str:
    n, single, sequence = cell["images"], cell["single"], cell["sequence"]
    return (
        f"{cell['set']}: {cell['map']} -> {cell['asked']}, {cell['way']}, stride {cell['stride']},"
        f" {n} images. Found, %: ceiling {100 * cell['ceiling'][0] / n:.0f}, nearest"
        f" {100 * cell['nearest'][0] / n:.0f}, single {100 * single['found'][0] / n:.0f}, sequence"
        f" {100 * sequence['found'][0] / n:.0f}. Right of confident: single"
        f" {single['confident right'][0]}/{single['confident']}, sequence"
        f" {sequence['confident right'][0]}/{sequence['confident']}, foreign confident"
        f" {sequence['foreign confident']}/{sequence['foreign']}. Intervals that hold:"
        f" {single['held']}/{single['intervals']}, {sequence['held']}/{sequence['intervals']}."
        f" Width: {single['width'] or 0:.1f},"
        f" {sequence['width'] or 0:.1f}{'' if cell['together'] else '; alone'}"
    )


def table(cells: Sequence[Cell]) -> None:
    """Print sums over strides and kinds of drive, and the cells in which a sequence is worse."""
    cells = [cell | {"set": SEED.sub("", cell["set"])} for cell in cells]
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell["set"], cell["map"], cell["asked"]), []).append(cell)
    heads: tuple[str, ...] = ("map, query", "images", "ceiling", "nearest", "single", "sequence")
    heads += tuple(
        f"{way}: {what}"
        for way in WAYS
        for what in ("confident and right", "intervals that hold", "width")
    )
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for (name, first, second), own in groups.items():
        n = sum(cell["images"] for cell in own)
        counts = [sum(cell[way][0] for cell in own) for way in ("ceiling", "nearest")]
        counts += [sum(cell[way]["found"][0] for cell in own) for way in WAYS]
        row = [
            f"{name}: {first}, {second}",
            f"{n:,}",
            *(f"{100 * count / n:.1f} %" for count in counts),
        ]
        print(
            "| "
            + " | ".join(
                row + [text for way in WAYS for text in _sure([cell[way] for cell in own])]
            )
            + " |"
        )
    print(
        "\n| rule | "
        + " | ".join(sets := list(dict.fromkeys(cell["set"] for cell in cells)))
        + " |"
    )
    print("|---|" + "---|" * len(sets))
    for rule in next(cell["rules"] for cell in cells if "rules" in cell):
        own = [
            [
                one
                for cell in cells
                if cell["set"] == name
                for one in cell.get("rules", {}).get(rule, [])
            ]
            for name in sets
        ]
        print(f"| {rule} | " + " | ".join(f"{precision_of(one):.3f}" for one in own) + " |")
    print(
        "\n| set | located as | confident | wrong among confident | confident among found | foreign"
        " confident |"
    )
    print("|---|---|---|---|---|---|")
    for name in sets:
        for way in WAYS:
            print(
                f"| {name} | {way} | "
                + " | ".join(_accepted([cell for cell in cells if cell["set"] == name], way))
                + " |"
            )
    judged = [cell for cell in cells if cell["images"] >= FEWEST_JUDGED]
    worse = [cell for cell in judged if len(cell["gain"]) == 3 and cell["gain"][2] < 0]
    print(
        f"\n{len(judged)} cells have {FEWEST_JUDGED} images or more; in {len(worse)} a sequence is"
        " significantly worse:"
    )
    for cell in worse:
        print("  " + _line(cell))
    hard = [
        cell
        for cell in judged
        if cell["single"]["found"][0] >= 0.6 * cell["ceiling"][0] and cell["stride"] <= 2
    ]
    good = [cell for cell in hard if cell["sequence"]["found"][0] >= 0.95 * cell["ceiling"][0]]
    print(
        f"stride 1 or 2, single images at 60 % of the ceiling: sequences reach 95 % in {len(good)}"
        f" of {len(hard)} cells"
    )


def _accepted(cells: Sequence[Cell], way: str) -> list[str]:
    """Confident images, share of wrong ones, share of found images that are confident, and foreign
    confident ones.
    """
    confident, foreign, stranger = (
        sum(cell[way][key] for cell in cells)
        for key in ("confident", "foreign", "foreign confident")
    )
    right, found = (
        sum(max(cell[way][key]) for cell in cells) for key in ("confident right", "found")
    )
    wrong, accepted = 100 * (confident - right) / max(1, confident), 100 * right / max(1, found)
    return [f"{confident:,}", f"{wrong:.1f} %", f"{accepted:.0f} %", f"{stranger:,} of {foreign:,}"]


def _sure(cells: Sequence[Cell]) -> list[str]:
    """Right images among the confident ones, intervals that contain the truth, and their median
    width.
    """
    total = {key: sum(cell[key] for cell in cells) for key in ("confident", "held", "intervals")}
    right = sum(max(cell["confident right"]) for cell in cells)
    widths = [cell["width"] for cell in cells if cell["width"] is not None]
    held = (
        f"{total['held']:,} of {total['intervals']:,}"
        f" ({100 * total['held'] / max(1, total['intervals']):.1f} %)"
    )
    return [
        f"{right:,} of {total['confident']:,}",
        held,
        f"{np.median(widths):.1f}" if widths else "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", metavar="FOLDER:DISTANCE[:DISTANCE]")
    parser.add_argument("--foreign", action="append", default=[], metavar="FOLDER=FILE.npy")
    parser.add_argument(
        "--landmarks",
        type=int,
        help="number of landmarks per map (default: as `mappable map build`)",
    )
    parser.add_argument(
        "--keep", type=int, metavar="N", help="calibrate on N images of a third sequence"
    )
    parser.add_argument(
        "--every", action="store_true", help="make every image of a sequence a landmark"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file to write all cells to")
    parser.add_argument("--table", type=Path, help="only print the tables of this JSON file")
    given = parser.parse_args()
    cells = json.loads(given.table.read_text())["cells"] if given.table else run(given)
    if given.out:
        given.out.write_text(json.dumps({"seed": given.seed, "cells": cells}, indent=1) + "\n")
    table(cells)


if __name__ == "__main__":
    main()
