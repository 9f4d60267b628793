"""Checks the estimate of `mappable start`: is what another visit gives within the interval that it stated before?

    python scripts/estimates.py collect walks:5 street:10 track:10 rooms:1 --out trials.json
    python scripts/estimates.py check trials.json --choose walks street

Each argument is a folder of `mappable embed`, and the distance within which an image counts as found. A trial takes
some visits as known, leaves each of them out in turn as `mappable map estimate` does, and then locates another visit in
a map of all known ones. Trials differ in the known visits, in the other visit, and in the stretch of the route.

`check` chooses the prior of the interval on the trials of some sets: the narrowest intervals that hold in 92 % of them.
It then prints the share of intervals that hold on the trials of all other sets. The encoder is off the shelf. Its
clusters come from images of all visits, which the other visit shares; no position was used for them.
"""

import argparse
import itertools
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Ints
from mappable.features.descriptors import Described, read_descriptors
from mappable.maps.estimate import PRIOR_DEVIATION, PRIOR_VISITS, Visit, locate_visit, predict

STRETCHES = {"whole": (0.0, 1.0), "first half": (0.0, 0.5), "second half": (0.5, 1.0), "middle": (0.3, 0.7)}
FEWEST = 30  # images of a visit within the stretch
MOST_TRIALS = 12  # per set and stretch
WANTED = 0.92  # share of the choosing trials whose intervals must hold
DEVIATIONS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.85, 1.0, 1.25, 1.5, 2.0)
WEIGHTS = (2.0, 4.0, 8.0)

Trial = dict[str, Any]


def stretch_of(described: Described, low: float, high: float) -> dict[str, Ints]:
    """The rows of each visit between two shares of the route, by nearest place of the longest visit."""
    places = described.places
    visits = places.sequences()
    longest = max(visits.values(), key=len)
    from scipy.spatial import KDTree

    nearest = KDTree(places.positions[longest]).query(places.positions)[1] / max(1, len(longest) - 1)
    return {name: rows[(nearest[rows] >= low) & (nearest[rows] <= high)] for name, rows in visits.items()}


def collect(folder: Path, radius: float, seed: int) -> list[Trial]:
    """All trials of one set."""
    described, random = read_descriptors(folder), np.random.default_rng(seed)
    located: dict[tuple[str, tuple[str, ...], str], Visit | None] = {}
    trials = []
    for stretch, (low, high) in STRETCHES.items():
        visits = {name: rows for name, rows in stretch_of(described, low, high).items() if len(rows) >= FEWEST}

        names = list(visits)
        every = [
            (known, asked)
            for count in range(2, min(4, len(names) - 1) + 1)
            for known in itertools.combinations(names, count)
            for asked in names
            if asked not in known
        ]
        for number in random.permutation(len(every))[:MOST_TRIALS]:
            known, asked = every[number]
            tasks = [(tuple(name for name in known if name != one), one) for one in known]
            for names_known, one in [*tasks, (known, asked)]:
                if (stretch, names_known, one) not in located:
                    rows = np.sort(np.concatenate([visits[name] for name in names_known]))
                    located[stretch, names_known, one] = locate_visit(described, rows, visits[one], radius)
            found = [located[stretch, *task] for task in tasks]
            left_out = [one for one in found if one is not None]
            new = located[stretch, known, asked]
            if new is None or not left_out:
                continue
            facts = {"set": folder.name, "stretch": stretch, "known": known, "asked": asked}
            trials.append(facts | {"left_out": [asdict(one) for one in left_out], "new": asdict(new)})
            shown = ", ".join(f"{one.found:.2f}" for one in left_out)
            print(f"{folder.name}, {stretch}: known {known} found {shown}; {asked} found {new.found:.2f}", flush=True)
    return trials


def values_of(trial: Trial, name: str) -> tuple[Any, Any, float]:
    key = name.replace(" ", "_")
    values = np.array([one[key] for one in trial["left_out"]], dtype=float)
    counts = np.array([one["queries"] for one in trial["left_out"]])
    finite = np.isfinite(values)
    return values[finite], counts[finite], float(trial["new"][key])


def judge(trials: list[Trial], name: str, deviation: float, weight: float) -> tuple[float, float, int]:
    """The share of trials whose interval holds, the mean width, and the number of trials."""
    held, widths = [], []
    for trial in trials:
        values, counts, new = values_of(trial, name)
        if not len(values) or not np.isfinite(new):
            continue
        _, low, high = predict(values, counts, name, deviation, weight)
        held.append(low <= new <= high)
        widths.append(high - low)
    return float(np.mean(held)), float(np.mean(widths)), len(held)


def check(trials: list[Trial], choosing: list[str]) -> None:
    first = [trial for trial in trials if trial["set"] in choosing]
    second = [trial for trial in trials if trial["set"] not in choosing]
    print("| value | deviation, weight | choosing: hold, % | width | checking: hold, % | width | trials |")
    print("|---|---|---|---|---|---|---|")
    for name in PRIOR_DEVIATION:
        grid = [(judge(first, name, one, weight), one, weight) for one in DEVIATIONS for weight in WEIGHTS]
        good = [cell for cell in grid if cell[0][0] >= WANTED] or [max(grid, key=lambda cell: cell[0][0])]
        chosen, deviation, weight = min(good, key=lambda cell: cell[0][1])
        checked = judge(second, name, deviation, weight)
        row = [f"{deviation:g}, {weight:g}", f"{100 * chosen[0]:.1f}", f"{chosen[1]:.2f}"]
        print(
            f"| {name} | " + " | ".join([*row, f"{100 * checked[0]:.1f}", f"{checked[1]:.2f}", str(checked[2])]) + " |"
        )
    print("\nas released:")
    for name, deviation in PRIOR_DEVIATION.items():
        for part, what in ((first, "choosing"), (second, "checking")):
            held, width, count = judge(part, name, deviation, PRIOR_VISITS)
            print(f"{name}, {what}: {100 * held:.1f} % of {count} hold, mean width {width:.2f}")
    for one in sorted({trial["set"] for trial in trials}):
        own = [trial for trial in trials if trial["set"] == one]
        shares = [
            f"{name} {100 * judge(own, name, PRIOR_DEVIATION[name], PRIOR_VISITS)[0]:.0f}" for name in PRIOR_DEVIATION
        ]
        print(f"{one} ({len(own)} trials), hold, %: {', '.join(shares)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("sets", nargs="+", metavar="FOLDER:DISTANCE")
    collecting.add_argument("--out", type=Path, required=True)
    collecting.add_argument("--seed", type=int, default=0)
    checking = commands.add_parser("check")
    checking.add_argument("files", nargs="+", type=Path)
    checking.add_argument("--choose", nargs="+", required=True, help="sets on which the prior is chosen")
    given = parser.parse_args()
    if given.command == "collect":
        trials = []
        for one in given.sets:
            folder, _, radius = one.rpartition(":")
            trials += collect(Path(folder), float(radius), given.seed)
        given.out.write_text(json.dumps(trials, indent=1))
    else:
        check([trial for file in given.files for trial in json.loads(file.read_text())], given.choose)


if __name__ == "__main__":
    main()
