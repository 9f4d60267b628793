"""Measures the localizer: cameras that are followed, carried off every 100 images, with and without odometry.

    mappable embed model places out
    python scripts/following.py out:10:25 --landmarks 200 --out following.json

Each argument is a folder of `mappable embed`, the distance within which an image counts as found, and the distance
beyond which a trusted pose is wrong. The folder may also hold just descriptors.npy and places.parquet. Landmarks come
from the split `train`, or from the first sequence if there are no splits. The images of the split `test`, or of the
other sequences, are followed: as they are, and cut into pieces of `--kidnap` images in random order. Odometry is
simulated from the true poses, with 5 % noise; drifting odometry also has a wrong scale and a constant turn. It does not
notice that the camera was carried off. With `--split calibration`, the map is calibrated on the same images that are
followed: covariances then look better than they are.

For comparison: single images, whole drives (`mappable locate --sequence`, which knows later images), matching of short
sequences (as SeqSLAM does), and a Kalman filter on the nearest landmark.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly
from mappable.features.descriptors import Described, read_descriptors
from mappable.maps.build import build_map_of
from mappable.maps.localizer import Localizer, Odometry
from mappable.maps.locate import Locator
from mappable.maps.opened import OpenMap
from mappable.maps.sequence import locate_sequence
from mappable.maps.store import squared_between
from mappable.places.files import load_places

NOISE = 0.05  # error of odometry, as a share of the way
DRIFT_SCALE, DRIFT_TURN = 0.03, 0.002  # deviations of the scale, and of the turn in radians per metre
ELLIPSE = 5.991  # 95 % quantile of chi squared with two degrees of freedom
SOON = 10  # images within which a camera should be found again
MATCHED = 10  # images that are matched together, as SeqSLAM does
SPEEDS = (0.5, 0.75, 1.0, 1.33, 2.0)  # of the query relative to the map, that are tried
WAYS = (
    *(f"localizer, odometry {kind}" for kind in ("none", "noisy", "drifting")),
    "single images",
    "whole drive",
    "matched sequences",
    "Kalman filter",
)
Found = dict[str, Any]


def odometry_of(described: Described, rows: Ints, kind: str, random: np.random.Generator) -> list[Odometry | None]:
    """Motion between images; the first one has none. Without headings, the robot's frame never turns."""
    if kind == "none":
        return [None] * len(rows)
    at, yaw = described.places.positions[rows][:, :2], described.places.yaw[rows]
    yaw = np.where(np.isfinite(yaw), yaw, 0.0)
    scale = 1 + (DRIFT_SCALE * random.standard_normal() if kind == "drifting" else 0.0)
    bias = DRIFT_TURN * random.standard_normal() if kind == "drifting" else 0.0
    moved: list[Odometry | None] = [Odometry(0.0, 0.0, 0.0)]
    for a, b in zip(range(len(rows) - 1), range(1, len(rows)), strict=True):
        off, cos, sin = at[b] - at[a], np.cos(yaw[a]), np.sin(yaw[a])
        way = float(np.hypot(*off))
        forward, left = scale * (cos * off[0] + sin * off[1]), scale * (cos * off[1] - sin * off[0])
        turn = (yaw[b] - yaw[a] + np.pi) % (2 * np.pi) - np.pi + bias * way
        noise = NOISE * way * random.standard_normal(2)
        moved.append(Odometry(float(forward + noise[0]), float(left + noise[1]), float(turn)))
    return moved


def pieces(rows: Ints, length: int, random: np.random.Generator) -> tuple[Ints, Bools]:
    """The drive cut into pieces in random order, and the images at which a piece starts."""
    if not length or len(rows) < 2 * length:
        return rows, np.arange(len(rows)) == 0
    count = len(rows) // length
    order = np.concatenate([rows[one * length : (one + 1) * length] for one in random.permutation(count)])
    return order, np.arange(len(order)) % length == 0


def follow(
    opened: OpenMap, described: Described, rows: Ints, starts: Bools, odometry: Sequence[Odometry | None]
) -> Found:
    """Follow a camera with the localizer."""
    localizer, estimates, seconds = Localizer(opened), [], []
    for n, (row, moved) in enumerate(zip(rows, odometry, strict=True)):
        begun = perf_counter()
        still = Odometry(0.0, 0.0, 0.0) if moved is not None and starts[n] else moved
        estimates.append(localizer.update(described.descriptors[row], float(n), still))
        seconds.append(perf_counter() - begun)
    return {
        "position": np.array([one.position for one in estimates]),
        "trusted": np.array([one.trusted for one in estimates]),
        "covariance": np.array([one.covariance for one in estimates]),
        "heading": np.array([np.nan if one.heading is None else one.heading for one in estimates]),
        "deviation": np.array([np.nan if one.heading is None else one.heading_deviation for one in estimates]),
        "milliseconds": 1e3 * float(np.median(seconds)),
    }


def single(locator: Locator, seen: Floats32) -> Found:
    found = locator.locate(seen, encoder=locator.map.encoder)
    return {
        "position": np.array([one.coordinates for one in found]),
        "trusted": np.array([one.confident for one in found]),
    }


def whole(locator: Locator, seen: Floats32, starts: Bools) -> Found:
    """Whole drives; each piece is one drive."""
    parts = [
        locate_sequence(locator, one, encoder=locator.map.encoder) for one in np.split(seen, np.flatnonzero(starts)[1:])
    ]
    found = [one for part in parts for one in part]
    return {
        "position": np.array([one.coordinates for one in found]),
        "trusted": np.array([one.confident for one in found]),
    }


def matched(described: Described, landmarks: int, seen: Floats32) -> Found:
    """Matching of short sequences: the last images against stretches of the map's longest visit, at several speeds.

    The map has as many images as the others have landmarks, all from that visit.
    """
    training = np.flatnonzero(described.places.split == "train")
    visit = training[max(described.places[training].sequences().values(), key=len)]
    order = visit[evenly(len(visit), landmarks)]
    squared = squared_between(seen, described.descriptors[order])
    squared = (squared - squared.mean(1, keepdims=True)) / squared.std(1, keepdims=True)
    at, count = described.places.positions[order], len(order)
    usual = count / max(1, len(seen))
    best = np.empty(len(seen), dtype=np.int64)
    for n in range(len(seen)):
        back = np.arange(min(MATCHED, n + 1))
        scores = np.full(count, np.inf)
        for speed in SPEEDS:
            for way in (-1, 1):
                column = np.arange(count)[:, None] + np.round(way * speed * usual * back).astype(int)
                inside = (column >= 0) & (column < count)
                cost = np.where(inside, squared[n - back, np.clip(column, 0, count - 1)], 0.0).mean(1)
                scores = np.minimum(scores, cost)
        best[n] = int(scores.argmin())
    return {"position": at[best], "trusted": np.ones(len(seen), dtype=bool)}


def filtered(locator: Locator, seen: Floats32) -> Found:
    """A Kalman filter with constant velocity on the positions of nearest landmarks; it trusts itself after 3 images."""
    measured = locator.positions[locator.map.store.nearest(seen, 1)[0][:, 0]][:, :2]
    noise = max(locator.calibration.plain_deviation, 1e-6) ** 2
    step = np.linalg.norm(np.diff(measured, axis=0), axis=1)
    pull = float(np.mean(step)) ** 2 / 4
    move = np.block([[np.eye(2), np.eye(2)], [np.zeros((2, 2)), np.eye(2)]])
    state, spread = np.concatenate([measured[0], np.zeros(2)]), np.diag([noise, noise, pull, pull])
    path, trusted = [measured[0]], [False]
    for one in measured[1:]:
        state, spread = move @ state, move @ spread @ move.T + np.diag([0, 0, pull, pull])
        gain = spread[:, :2] @ np.linalg.inv(spread[:2, :2] + noise * np.eye(2))
        state, spread = state + gain @ (one - state[:2]), spread - gain @ spread[:2]
        path.append(state[:2].copy())
        trusted.append(len(path) > 3)
    return {"position": np.array(path), "trusted": np.array(trusted)}


def judge(found: Found, truth: Floats, yaw: Floats, starts: Bools, within: tuple[float, float]) -> Found:
    """Count what was found, trusted and wrong; how soon; and whether covariances hold."""
    off = found["position"] - truth[:, : found["position"].shape[1]]
    error, trusted = np.linalg.norm(off, axis=1), found["trusted"]
    right = trusted & (error <= within[1])
    first = [int(np.argmax(one)) if one.any() else len(one) for one in np.split(right, np.flatnonzero(starts)[1:])]
    facts = {
        "images": len(error),
        "found": int((error <= within[0]).sum()),
        "median": float(np.median(error)),
        "trusted": int(trusted.sum()),
        "wrong": int((trusted & (error > within[1])).sum()),
        "pieces": len(first),
        "soon": int(sum(one < SOON for one in first)),
        "first": [int(one) for one in first],
    }
    if "covariance" in found and right.any():
        squared = np.einsum("ni,nij,nj->n", off, np.linalg.inv(found["covariance"]), off)[right]
        facts |= {
            "nees": float(squared.mean() / off.shape[1]),
            "held": int((squared < ELLIPSE).sum()),
            "judged": len(squared),
        }
        facts["milliseconds"] = found["milliseconds"]
        turned = np.abs((found["heading"] - yaw + np.pi) % (2 * np.pi) - np.pi)[right]
        if np.isfinite(turned).all():
            facts |= {"heading": float(np.median(turned)), "heading 90 %": float(np.quantile(turned, 0.9))}
            facts["heading held"] = int((turned <= found["deviation"][right]).sum())
    return facts


def run(given: argparse.Namespace) -> list[Found]:
    cells = []
    for text in given.sets:
        folder, first, second = text.split(":")
        source = Path(folder)
        bare = not (source / "descriptors.json").exists()
        read = read_descriptors(source / "descriptors.npy", load_places(source)) if bare else read_descriptors(source)
        described = replace(read, encoder=None)
        places = described.places
        if not (places.split == given.split).any():
            own = next(iter(places.sequences()))
            places = places.replace(
                split=np.where(places.sequence == own, "train", given.split).astype(object), role=""
            )
            described = replace(described, places=places)
        opened = OpenMap(build_map_of(described, "followed", landmarks=given.landmarks, every=given.every))
        locator = opened.locator
        asked = np.flatnonzero(places.split == given.split)
        for name, own in places[asked].sequences().items():
            for length in (0, given.kidnap):
                random = np.random.default_rng(given.seed)
                rows, starts = pieces(asked[own], length, random)
                if length and len(rows) < 2 * length:
                    continue
                seen, truth, yaw = described.descriptors[rows], places.positions[rows], places.yaw[rows]
                for way in WAYS:
                    if way.startswith("localizer"):
                        moved = odometry_of(described, rows, way.split()[-1], random)
                        found = follow(opened, described, rows, starts, moved)
                    elif way == "single images":
                        found = single(locator, seen)
                    elif way == "whole drive":
                        found = whole(locator, seen, starts)
                    elif way == "matched sequences":
                        found = matched(described, len(opened.map), seen)
                    else:
                        found = filtered(locator, seen)
                    facts = {"set": Path(folder).name, "drive": name, "kidnapped every": length, "way": way}
                    cells.append(facts | judge(found, truth, yaw, starts, (float(first), float(second))))
                    print(_line(cells[-1]), flush=True)
    return cells


def _line(cell: Found) -> str:
    share = 100 / max(1, cell["images"])
    text = f"{cell['set']}, {cell['drive']}, kidnapped every {cell['kidnapped every']}, {cell['way']}: "
    text += (
        f"found {share * cell['found']:.1f} %, median {cell['median']:.2f}, trusted {share * cell['trusted']:.0f} %, "
    )
    text += f"wrong {100 * cell['wrong'] / max(1, cell['trusted']):.2f} % of trusted, "
    text += f"within {SOON} images {cell['soon']} of {cell['pieces']}"
    if "nees" in cell:
        text += f", NEES {cell['nees']:.2f}, ellipses hold {100 * cell['held'] / cell['judged']:.1f} %"
        text += f", {cell['milliseconds']:.2f} ms" + (f", heading {cell['heading']:.3f}" if "heading" in cell else "")
    if "heading held" in cell:
        text += f", {100 * cell['heading held'] / cell['judged']:.0f} % within its deviation"
    return text


def table(cells: Sequence[Found]) -> None:
    """One row per set, kind of drive and method: sums over drives."""
    print(
        "| set | carried off | method | found | median | trusted | wrong | first | within 10 | NEES | ellipses | ms |"
    )
    print("|" + "---|" * 12)
    groups: dict[tuple[str, bool, str], list[Found]] = {}
    for cell in cells:
        groups.setdefault((cell["set"], bool(cell["kidnapped every"]), cell["way"]), []).append(cell)
    for (name, kidnapped, way), own in groups.items():
        total = {key: sum(one[key] for one in own) for key in ("images", "found", "trusted", "wrong", "soon", "pieces")}
        row = [name, "yes" if kidnapped else "no", way, f"{100 * total['found'] / total['images']:.1f} %"]
        row += [f"{np.median([one['median'] for one in own]):.2f}", f"{100 * total['trusted'] / total['images']:.0f} %"]
        first = np.median([number for one in own for number in one["first"]])
        row += [f"{100 * total['wrong'] / max(1, total['trusted']):.2f} %", f"{first:.0f}"]
        row += [f"{total['soon']} of {total['pieces']}"]
        judged = [one for one in own if "nees" in one]
        if judged:
            held, counted = (sum(one[key] for one in judged) for key in ("held", "judged"))
            row += [" to ".join(f"{f([one['nees'] for one in judged]):.2f}" for f in (min, max))]
            row += [f"{100 * held / counted:.1f} %", f"{np.median([one['milliseconds'] for one in judged]):.2f}"]
        print("| " + " | ".join(row + [""] * (12 - len(row))) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="FOLDER:FOUND:WRONG")
    parser.add_argument("--landmarks", type=int, help="number of landmarks (default: as `mappable map build`)")
    parser.add_argument("--every", action="store_true", help="make every image of the map's drives a landmark")
    parser.add_argument(
        "--split", default="test", help="split of the images that are followed (calibration: to choose)"
    )
    parser.add_argument("--kidnap", type=int, default=100, metavar="IMAGES", help="length of the pieces")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for all numbers")
    parser.add_argument("--table", type=Path, help="only print the table of this JSON file")
    given = parser.parse_args()
    cells = json.loads(given.table.read_text())["cells"] if given.table else run(given)
    if given.out:
        given.out.write_text(json.dumps({"seed": given.seed, "cells": cells}, indent=1) + "\n")
    table(cells)


if __name__ == "__main__":
    main()
