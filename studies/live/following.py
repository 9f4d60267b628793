"""Measures the localizer: cameras that are followed, carried off every 100 images, with and without odometry.

    python studies/home_and_away/home_and_away.py prepare work --real FOLDER --device cuda
    python studies/live/following.py train work out --device cuda
    python studies/live/following.py run out --choose
    python studies/live/following.py run out

`train` trains two encoders per set: with the default settings of `mappable train`, and with the
preset of the set. It writes one file per encoder, with the descriptors of all images that `run`
needs. On a CPU, `train work out --every 2 --kinds default` takes the schedule of a laptop, and
every second training image. `run` needs no GPU. It builds maps, follows the test drives, and writes
`OUT/test.json`. With `--choose`, it looks at no test image: it follows every second stretch of each
calibration drive on a map that the others calibrated, and writes `OUT/choose.json`.

Nordland trains on its first 900 frames, and its map has the rest of the summer. The walks and the
race track are described by the encoders of Nordland. Their first drive is the map, and calibrates
itself.

Drives are cut into pieces of `--kidnap` images in random order; 0 follows them as they are.
Odometry is simulated from the true poses, with 5 % noise; drifting odometry also has a wrong scale
and a constant turn. It does not notice that the camera was carried off.

For comparison: single images, whole drives (`mappable locate --sequence`, which knows later
images), matching of short sequences (as SeqSLAM does), and a Kalman filter on the nearest landmark.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from baselines import Found, filtered, judge, matched, single, whole

from mappable.arrays import Bools, Ints, evenly
from mappable.evaluation.sets import find_set
from mappable.features.descriptors import Described
from mappable.localization.build import build_map_of
from mappable.localization.localizer import Localizer
from mappable.localization.map import Map
from mappable.maps.choosing import greedy_landmarks
from mappable.odometry import Odometry
from mappable.places.files import load_places
from mappable.places.frames import Frame
from mappable.places.table import Places

NUMBERS = 1024  # of a descriptor
# Landmarks of worlds that can be chosen later, and images of their longest visit.
LANDMARKS, VISIT = 1500, 400
STRETCH = 100  # images of a calibration drive that are followed, or calibrate, with `--choose`
TRAINED, CALIBRATING, TESTED = 900, (925, 1200), 1250  # frames of Nordland
# Distance within which an image counts as found, and beyond which a trusted pose is wrong.
WITHIN = {
    "street-v1": (10.0, 25.0),
    "rooms-v1": (1.0, 4.0),
    "nordland": (5.0, 20.0),
    "gardens": (5.0, 20.0),
    "racetrack": (10.0, 25.0),
}
HOMES = {
    "street-v1": ("street-v1",),
    "rooms-v1": ("rooms-v1",),
    "nordland": ("nordland", "gardens", "racetrack"),
}
KINDS = ("default", "preset")
NOISE = 0.05  # error of odometry, as a share of the way
# Deviations of the scale, and of the turn in radians per metre.
DRIFT_SCALE, DRIFT_TURN = 0.03, 0.002
WAYS = (
    *(f"localizer, odometry {kind}" for kind in ("none", "noisy", "drifting")),
    "single images",
    "whole drive",
    "matched sequences",
    "Kalman filter",
)


def train_all(given: argparse.Namespace) -> None:
    """Train the encoders that are missing, in parallel."""
    given.out.mkdir(parents=True, exist_ok=True)
    wanted = [(home, kind) for home in given.sets or HOMES for kind in given.kinds or KINDS]
    wanted = [one for one in wanted if not (given.out / f"{'-'.join(one)}.npz").exists()]
    if len(wanted) == 1:
        train_one(given, *wanted[0])
        return
    command = [
        sys.executable,
        __file__,
        "train",
        str(given.work),
        str(given.out),
        "--device",
        given.device,
    ]
    command += ["--every", str(given.every)]
    command += ["--set", f"iterations={given.iterations}"] if given.iterations else []
    running: list[subprocess.Popen[bytes]] = []
    for home, kind in wanted:
        running = [one for one in running if one.poll() is None]
        while len(running) >= given.workers:
            running.pop(0).wait()
        running.append(subprocess.Popen([*command, "--sets", home, "--kinds", kind]))
    for process in running:
        process.wait()


def train_one(given: argparse.Namespace, home: str, kind: str) -> None:
    """Train one encoder, describe the images of its sets, and write them to one file."""
    from mappable.features.devices import find_device
    from mappable.learning.auto import plan
    from mappable.learning.settings import load_settings
    from mappable.learning.trainer import train
    from mappable.places.packing import pack_images
    from mappable.places.pixels import ImageRows, Images

    def images(name: str, table: Places, size: tuple[int, int]) -> Images:
        if (given.work / f"{name}.npy").exists():
            return ImageRows(
                np.load(given.work / f"{name}.npy", mmap_mode="r"), np.arange(len(table))
            )
        return pack_images(table, given.work / name, size=size, wait=True)[0].view(table)

    table, begun = _parts(home, load_places(given.work / home))[0], perf_counter()
    split = table.split.copy()
    split[np.setdiff1d(table.training(), table.training()[:: given.every])] = ""
    table = table.replace(split=split)
    changes: dict[str, Any] = {"dimensions": NUMBERS, "landmarks": 0}
    changes |= {"size": "160x120"} if (given.work / f"{home}.npy").exists() else {}
    changes |= {"iterations": given.iterations} if given.iterations else {}
    named = find_set(home)
    settings = (
        plan(table, gpu=find_device(given.device).type == "cuda", changes=changes).settings
        if kind == "default"
        else load_settings(named.preset, overrides=changes)
    )
    cache = given.out / "training" / f"{home}-{kind}"
    encoder = train(
        table, images(home, table, settings.size), settings, out=cache, device=given.device
    )
    trained, columns = perf_counter() - begun, {}
    for name in HOMES[home]:
        places = _parts(name, load_places(given.work / name))[1]
        rows = _needed(places)
        described = encoder.embed(images(name, places, settings.size).take(rows), progress=False)
        scale = np.abs(described).max(1, keepdims=True) / 127
        own = {
            "descriptors": np.round(described / scale).astype(np.int8),
            "positions": places.positions[rows],
        }
        own |= {
            one: getattr(places, one)[rows].astype(str)
            for one in ("split", "role", "sequence", "condition")
        }
        columns |= {
            f"{name} {key}": value for key, value in (own | {"yaw": places.yaw[rows]}).items()
        }
    about = settings.model_dump(mode="json") | {
        "seconds": round(trained, 1),
        "device": str(encoder.device),
    }
    file = given.out / f"{home}-{kind}.npz"
    np.savez_compressed(
        file.with_suffix(".part.npz"), settings=np.array(json.dumps(about)), **columns
    )
    file.with_suffix(".part.npz").replace(file)
    print(
        f"{file}: {file.stat().st_size / 2**20:.1f} MiB, {perf_counter() - begun:.0f} s", flush=True
    )


def _parts(name: str, places: Places) -> tuple[Places, Places]:
    """The table to train on, and the table whose split `train` is the map."""
    if name == "nordland":
        x, winter = places.x, places.condition == "winter"
        split = np.where(x < TRAINED, "train", "").astype(object)
        first, last = CALIBRATING
        named = np.where(~winter & (x >= first), "train", "").astype(object)
        named[winter & (x >= first) & (x < last)] = "calibration"
        named[winter & (x >= TESTED)] = "test"
        return places.replace(split=split, role=""), places.replace(split=named, role="")
    if name not in HOMES:
        first = places.sequence == next(iter(places.sequences()))
        places = places.replace(split=np.where(first, "train", "test").astype(object), role="")
    return places, places


def _needed(places: Places) -> Ints:
    """All images that are followed, the likely landmarks, and a part of the longest visit."""
    training = np.flatnonzero(places.split == "train")
    chosen = training[greedy_landmarks(places[training], min(LANDMARKS, len(training)))]
    visit = training[max(places[training].sequences().values(), key=len)]
    leaving = np.flatnonzero([one.startswith("leaving") for one in places.sequence])
    followed = np.flatnonzero(np.isin(places.split.astype(str), ("calibration", "test")))
    return np.unique(
        np.concatenate(
            [chosen, visit[evenly(len(visit), min(VISIT, len(visit)))], leaving, followed]
        )
    )


def read(file: Path, name: str) -> Described:
    """The descriptors of one set in a file of `train`."""
    with np.load(file) as opened:
        own = {
            key.removeprefix(f"{name} "): opened[key]
            for key in opened.files
            if key.startswith(f"{name} ")
        }
    values = own["descriptors"].astype(np.float32)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    unit = "frames" if name in ("nordland", "gardens") else "m"
    places = Places(
        path=[f"{n}.png" for n in range(len(values))],
        x=own["positions"][:, 0],
        y=own["positions"][:, 1],
        yaw=own["yaw"],
        frames=Frame(name, unit=unit),
        **{one: own[one].astype(object) for one in ("split", "role", "sequence", "condition")},
    )
    return Described(places, values)


def halves(places: Places) -> Iterator[Places]:
    """Tables without test images: every second stretch of the calibration drives calibrates, the
    others are `test`.
    """
    for first in (0, 1):
        split = places.split.copy()
        split[split == "test"] = ""
        for rows in places.sequences().values():
            own = rows[places.split[rows] == "calibration"]
            split[own[np.arange(len(own)) // STRETCH % 2 == first]] = "test"
        yield places.replace(split=split, role="")


def odometry_of(
    places: Places, rows: Ints, kind: str, random: np.random.Generator
) -> list[Odometry | None]:
    """Motion between images; the first one has none. Without headings, the robot's frame never
    turns.
    """
    if kind == "none":
        return [None] * len(rows)
    at, yaw = places.positions[rows][:, :2], places.yaw[rows]
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
    if not length:
        return rows, np.arange(len(rows)) == 0
    length = min(length, len(rows) // 4)
    count = len(rows) // length
    order = np.concatenate(
        [rows[one * length : (one + 1) * length] for one in random.permutation(count)]
    )
    return order, np.arange(len(order)) % length == 0


def follow(
    opened: Map,
    described: Described,
    rows: Ints,
    starts: Bools,
    odometry: Sequence[Odometry | None],
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
        "deviation": np.array(
            [np.nan if one.heading is None else one.heading_deviation for one in estimates]
        ),
        "milliseconds": 1e3 * float(np.median(seconds)),
    }


def run(given: argparse.Namespace) -> None:
    """Follow the drives of all sets, with all methods."""
    cells: list[Found] = []
    for home, names in HOMES.items():
        for kind in given.kinds or KINDS:
            file = given.out / f"{home}-{kind}.npz"
            for name in names if file.exists() and home in (given.sets or HOMES) else ():
                described, count = read(file, name), None
                if name == home:  # the number that `mappable map build` takes
                    with np.load(file) as opened:
                        count = min(
                            json.loads(str(opened["settings"]))["landmarks"],
                            len(described.places.training()),
                        )
                tables = halves(described.places) if given.choose else [described.places]
                for half, places in enumerate(tables):
                    if (places.split == "test").any():
                        part = Described(places, described.descriptors)
                        facts = {"set": name, "encoder": kind, "half": half}
                        cells += [facts | one for one in _follow_all(part, name, count, given)]
    out = given.out / f"{'choose' if given.choose else 'test'}.json"
    out.write_text(json.dumps({"seed": given.seed, "cells": cells}, indent=1) + "\n")
    table(cells)


def _follow_all(
    described: Described, name: str, landmarks: int | None, given: argparse.Namespace
) -> Iterator[Found]:
    places = described.places
    opened = build_map_of(described, "followed", landmarks=given.landmarks or landmarks)
    asked = np.flatnonzero(places.split == "test")
    for drive, own in places[asked].sequences().items():
        for length in given.kidnap:
            random = np.random.default_rng(given.seed)
            rows, starts = pieces(asked[own], length, random)
            seen, truth, yaw = described.descriptors[rows], places.positions[rows], places.yaw[rows]
            for way in given.ways or WAYS:
                if way.startswith("localizer"):
                    moved = odometry_of(places, rows, way.split()[-1], random)
                    found = follow(opened, described, rows, starts, moved)
                elif way == "single images":
                    found = single(opened, seen)
                elif way == "whole drive":
                    found = whole(opened, seen, starts)
                elif way == "matched sequences":
                    found = matched(described, len(opened), seen)
                else:
                    found = filtered(opened, seen)
                cell = {"drive": drive, "kidnapped": bool(length), "way": way}
                yield cell | judge(found, truth, yaw, starts, WITHIN[name])


def table(cells: Sequence[Found]) -> None:
    """One row per set, encoder, kind of drive and method: sums over drives."""
    heads = (
        "set | encoder | carried off | method | found, % | median | trusted, % | wrong, % | first |"
        " again"
    )
    print(f"| {heads} | NEES | ellipses, % | headings, % | ms |\n|" + "---|" * 14)
    groups: dict[tuple[str, str, bool, str], list[Found]] = {}
    for cell in cells:
        groups.setdefault(
            (cell["set"], cell["encoder"], cell["kidnapped"], cell["way"]), []
        ).append(cell)
    for (name, kind, kidnapped, way), own in groups.items():
        total = {
            key: sum(one[key] for one in own)
            for key in ("images", "found", "trusted", "wrong", "soon", "pieces")
        }
        row = [
            name,
            kind,
            "yes" if kidnapped else "no",
            way,
            f"{100 * total['found'] / total['images']:.1f}",
        ]
        row += [
            f"{np.median([one['median'] for one in own]):.2f}",
            f"{100 * total['trusted'] / total['images']:.0f}",
        ]
        first = np.median([number for one in own for number in one["first"]])
        row += [f"{100 * total['wrong'] / max(1, total['trusted']):.2f}", f"{first:.0f}"]
        row += [f"{total['soon']} of {total['pieces']}"]
        judged = [one for one in own if "nees" in one]
        if judged:
            held, counted = (sum(one[key] for one in judged) for key in ("held", "judged"))
            row += [" to ".join(f"{f([one['nees'] for one in judged]):.2f}" for f in (min, max))]
            row += [f"{100 * held / counted:.1f}"]
            turned = [one for one in judged if "heading held" in one]
            share = sum(one["heading held"] for one in turned) / max(
                1, sum(one["judged"] for one in turned)
            )
            row += [f"{100 * share:.0f}" if turned else ""]
            row += [f"{np.median([one['milliseconds'] for one in judged]):.2f}"]
        print("| " + " | ".join(row + [""] * (14 - len(row))) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("train", help="train the encoders and describe all images")
    one.add_argument("work", type=Path, help="folder of `home_and_away.py prepare`")
    one.add_argument("--device", default="auto")
    one.add_argument("--workers", type=int, default=1, help="encoders that train at the same time")
    one.add_argument(
        "--every", type=int, default=1, metavar="K", help="train on every K-th training image"
    )
    one.add_argument(
        "--iterations", type=int, help="steps of every encoder (default: of its settings)"
    )
    one.set_defaults(do=train_all)
    one = commands.add_parser("run", help="follow the drives")
    one.add_argument("--choose", action="store_true", help="look at no test image")
    one.add_argument("--landmarks", type=int, help="number of landmarks")
    one.add_argument(
        "--kidnap",
        type=int,
        nargs="+",
        default=[0, 100],
        metavar="IMAGES",
        help="lengths of pieces",
    )
    one.add_argument("--ways", nargs="+", choices=WAYS, help="only these methods")
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(do=run)
    for one in commands.choices.values():
        one.add_argument("out", type=Path, help="folder of the descriptors")
        one.add_argument("--sets", nargs="+", choices=HOMES)
        one.add_argument("--kinds", nargs="+", choices=KINDS)
    one = commands.add_parser("table", help="print the table of a JSON file")
    one.add_argument("file", type=Path)
    one.set_defaults(do=lambda given: table(json.loads(given.file.read_text())["cells"]))
    given = parser.parse_args()
    given.do(given)


if __name__ == "__main__":
    main()
