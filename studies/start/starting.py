"""Runs `mappable start` on raw folders, and then locates another visit in the map that it made.

    mappable simulate street-v1-demo worlds/street
    mappable simulate rooms-v1 worlds/rooms --every 4
    python studies/start/starting.py --data DATA --worlds worlds --out started
    python studies/start/starting.py --out started --table

DATA has the folders gardens, racetrack and nordland with their places.csv. For each set, the folder
OUT/SET/raw gets a table of the known visits, as a user would have it. `mappable start` sees this
folder alone. Then the script locates the images of another visit in the map that `start` made, and
in a map by the off-the-shelf encoder. With `--by-hand`, also in one by an encoder that was trained
with a preset and radii of our studies.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Bools
from mappable.features.descriptors import Described
from mappable.learning.choosing import OFF_THE_SHELF
from mappable.localization.build import build_map_of, usual_landmarks
from mappable.localization.estimate import judge, seen_before
from mappable.localization.map import open_map
from mappable.maps.encoders import open_encoder
from mappable.places.files import load_places
from mappable.places.table import Places
from mappable.readers.registry import read_places


@dataclass(frozen=True)
class Set:
    """A set: where it is, which rows `start` gets, which it does not, and the settings that people
    chose by hand.
    """

    folder: str
    unit: str
    known: Callable[[Places], Bools]
    new: Callable[[Places], Bools]
    by_hand: Sequence[str]
    sequence: Callable[[Places], Sequence[str]] = lambda places: places.sequence.tolist()


def laps(places: Places) -> list[str]:
    """The sequences, with the two laps of `noon` apart."""
    noon = int((places.sequence == "noon").sum()) // 2
    seen, names = 0, []
    for name in places.sequence:
        seen += name == "noon"
        names.append(f"noon-{1 + (seen > noon)}" if name == "noon" else str(name))
    return names


def of(*names: str) -> Callable[[Places], Bools]:
    return lambda places: np.isin(places.sequence.astype(str), names)


WAYS = ("start", "off the shelf", "by hand")
HEADS = (
    "found, %",
    "in a drive, %",
    "coverage, %",
    "confident, %",
    "confident and right, %",
    "interval width",
)
HAND = ("--preset", "street-laptop", "--set")
SETS = {
    "walks": Set(
        "gardens", "frames", of("day_left", "day_right"), of("night_right"),
        ("positive_radius=5", "negative_radius=20", "size=240x135"),
    ),
    "track": Set("racetrack", "m", of("noon-1", "noon-2"), of("afternoon"), ("size=240x180",), laps),
    "line": Set(
        "nordland", "frames",
        lambda places: (places.sequence == "summer") | (places.x < 1200),
        lambda places: (places.sequence == "winter") & (places.x >= 1250),
        ("positive_radius=5", "negative_radius=20", "size=240x135"),
    ),
    "street": Set("street", "m", lambda p: p.split == "train", of("test-overcast"), ("size=160x120",)),
    "rooms": Set(
        "rooms", "m", of("cloudy-run1", "sunny-run1", "night-run1"), of("cloudy-run3"),
        ("positive_radius=1", "negative_radius=4", "yaw_limit=0.5236", "size=160x120"),
    ),
}  # fmt: skip


def read(name: str, given: argparse.Namespace) -> Places:
    one = SETS[name]
    if (given.worlds / one.folder / "world.json").is_file():
        places = load_places(given.worlds / one.folder)
    else:
        places = read_places(
            "manifest", given.data / one.folder, unit=one.unit, other_splits="clear"
        )
        places = places.replace(split="")
    return places.replace(sequence=one.sequence(places))


def write_raw(places: Places, folder: Path) -> None:
    """The table of the known images, as a user would have it: no splits, paths below another
    folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "places.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(
            ["path", "x", "y", "sequence", *(["yaw"] if np.isfinite(places.yaw).all() else [])]
        )
        for row in range(len(places)):
            yaw = [places.yaw[row]] if np.isfinite(places.yaw).all() else []
            writer.writerow(
                [places.path[row], places.x[row], places.y[row], places.sequence[row], *yaw]
            )


def run(words: Sequence[str], log: Path) -> dict[str, float]:
    """Run a command of mappable; its seconds, and those of all cores together. Its output goes to a
    file.
    """
    began, before = time.perf_counter(), os.times()
    with log.open("w") as stream:
        command = [sys.executable, "-m", "mappable", *words]
        subprocess.run(command, check=True, stdout=stream, stderr=subprocess.STDOUT)
    after = os.times()
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return {"seconds": time.perf_counter() - began, "cpu": cpu}


def measured(
    encoder: Path, known: Places, new: Places, radius: float, folder: Path | None = None
) -> dict[str, Any]:
    """What the map in a folder does on the other visit; without a folder, a map of the known
    images.
    """
    loaded = open_encoder(str(encoder), "auto")
    new = new[seen_before(known, new, radius)]
    if folder is not None:
        built = open_map(folder)
    else:
        described = Described(known, loaded.embed(known), loaded.fingerprint, loaded.about)
        built = build_map_of(described, landmarks=usual_landmarks(loaded.about, known))
    return asdict(judge(built, new, loaded.embed(new), radius))


def start(name: str, given: argparse.Namespace) -> dict[str, Any]:
    one, out = SETS[name], given.out / name
    places = read(name, given)
    plain = places.replace(split="", role="", notes=())
    known, new = plain[one.known(places)], plain[one.new(places)]
    write_raw(known, out / "raw")
    options = [
        word
        for text in (f"unit={one.unit}", f"images={places.root}")
        for word in ("--option", text)
    ]
    words = [
        "start",
        str(out / "raw"),
        str(out / "map"),
        "--no-serve",
        "--minutes",
        f"{given.minutes:g}",
        *options,
    ]
    file, model = given.out / f"{name}.json", out / "map/model"
    result: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    if "start" not in result:
        result = {"set": name, "images": len(known), **run(words, out / "start.log")}
        result["estimate"] = json.loads((out / "map/estimate.json").read_text())
        result["chosen"] = json.loads((out / "map/model/auto.json").read_text())["chosen"]
        result["radius"] = open_encoder(str(model), "cpu").about.positive_radius or 1.0
        result["start"] = measured(model, known, new, result["radius"], out / "map/map")
        file.write_text(json.dumps(result, indent=1))
    if "off the shelf" not in result:
        same, shelf = result["chosen"]["kept"] == OFF_THE_SHELF, model / OFF_THE_SHELF
        result["off the shelf"] = (
            result["start"] if same else measured(shelf, known, new, result["radius"])
        )
        file.write_text(json.dumps(result, indent=1))
    if given.by_hand and "by hand" not in result:
        words = ["train", str(out / "map/places"), str(out / "by-hand"), *HAND[:2]]
        words += [word for value in one.by_hand for word in (HAND[2], value)]
        result["training by hand"] = run(words, out / "by-hand.log")
        result["by hand"] = measured(out / "by-hand", known, new, result["radius"])
        file.write_text(json.dumps(result, indent=1))
    return result


def table(results: Sequence[dict[str, Any]]) -> None:
    heads = ["set", "images", "minutes", "kept", "expected found, %"]
    heads += [f"{what}: {value}" for what in WAYS for value in HEADS]
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for one in results:
        expected = next(
            (e for e in (one["estimate"] or {}).get("expected", ()) if e["name"] == "found"), None
        )
        cells = [
            one["set"],
            f"{one['images']:,}",
            f"{one['seconds'] / 60:.1f}",
            one["chosen"]["kept"],
        ]
        cells.append(
            ""
            if expected is None
            else f"{100 * expected['low']:.0f} to {100 * expected['high']:.0f}"
        )
        for what in WAYS:
            found = one.get(what)
            shares = ("found", "found_in_a_drive", "coverage", "confident", "right")
            cells += ["" if found is None else f"{100 * found[key]:.1f}" for key in shares]
            cells.append("" if found is None else f"{found['width']:.1f}")
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--worlds", type=Path, default=Path("worlds"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument(
        "--by-hand", action="store_true", help="also train with a preset and radii of our studies"
    )
    parser.add_argument("--table", action="store_true", help="print the table of finished sets")
    given = parser.parse_args()
    given.data, given.worlds, given.out = (
        given.data.resolve(),
        given.worlds.resolve(),
        given.out.resolve(),
    )
    for name in [] if given.table else given.sets:
        table([start(name, given)])
    if given.table:
        table([json.loads(file.read_text()) for file in sorted(given.out.glob("*.json"))])


if __name__ == "__main__":
    main()
