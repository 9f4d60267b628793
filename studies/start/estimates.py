"""Checks the estimate of `mappable start`: is what another visit gives within the interval that it stated before?

    python studies/start/estimates.py collect walks:5 street:10 track:10 rooms:1 --out trials.json
    python studies/start/estimates.py check trials.json --choose walks street

Each argument is a folder of `mappable embed`, and the distance within which an image counts as
found. A trial takes some visits as known, leaves each of them out in turn as `mappable map
estimate` does, and then locates another visit in a map of all known ones. Trials differ in the
known visits, in the other visit, and in the stretch of the route.

`check` chooses the prior of the interval on the trials of some sets: the narrowest intervals that
hold in 92 % of them. It then prints the share of intervals that hold on the trials of all other
sets. The encoder is off the shelf. Its clusters come from images of all visits, which the other
visit shares; no position was used for them.
"""

import argparse
import itertools
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import KDTree
from scipy.special import expit, logit

from mappable.arrays import Ints
from mappable.features.descriptors import Described, read_descriptors
from mappable.localization.estimate import (
    LINEAR,
    PRIOR_DEVIATION,
    Visit,
    locate_visit,
    predict,
    values_of,
)

STRETCHES = {
    "whole": (0.0, 1.0),
    "first half": (0.0, 0.5),
    "second half": (0.5, 1.0),
    "middle": (0.3, 0.7),
}
FEWEST = 30  # images of a visit within the stretch
MOST_TRIALS = 9
WANTED = 0.92  # share of the choosing trials whose intervals must hold
DEVIATIONS = (
    0.02,
    0.03,
    0.05,
    0.07,
    0.085,
    0.1,
    0.125,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.7,
    1.0,
    1.25,
    1.5,
    2.0,
    2.5,
    3.0,
)
WEIGHTS = (2.0, 3.0, 4.0, 8.0)

# Scales on which shares of visits deviate, and back.
SCALES = {
    "logit": (lambda x: logit(np.clip(x, 0.005, 0.995)), lambda y: np.round(expit(y), 2)),
    "arcsine": (lambda x: np.arcsin(np.sqrt(x)), lambda y: np.sin(np.clip(y, 0.0, np.pi / 2)) ** 2),
    "linear": LINEAR,
}

Trial = dict[str, Any]


def stretch_of(described: Described, low: float, high: float) -> dict[str, Ints]:
    """The rows of each visit between two shares of the route, by nearest place of the longest
    visit.
    """
    places = described.places
    visits = places.sequences()
    longest = max(visits.values(), key=len)
    nearest = KDTree(places.positions[longest]).query(places.positions)[1] / max(
        1, len(longest) - 1
    )
    return {
        name: rows[(nearest[rows] >= low) & (nearest[rows] <= high)]
        for name, rows in visits.items()
    }


def collect(folder: Path, radius: float, most: int, seed: int) -> list[Trial]:
    """All trials of one set."""
    described, random = read_descriptors(folder), np.random.default_rng(seed)
    located: dict[tuple[str, tuple[str, ...], str], Visit | None] = {}
    trials = []
    for stretch, (low, high) in STRETCHES.items():
        visits = {
            name: rows
            for name, rows in stretch_of(described, low, high).items()
            if len(rows) >= FEWEST
        }

        names = list(visits)
        every = [
            (known, asked)
            for count in range(2, min(4, len(names) - 1) + 1)
            for known in itertools.combinations(names, count)
            for asked in names
            if asked not in known
        ]
        for number in random.permutation(len(every))[:most]:
            known, asked = every[number]
            tasks = [(tuple(name for name in known if name != one), one) for one in known]
            for names_known, one in [*tasks, (known, asked)]:
                if (stretch, names_known, one) not in located:
                    rows = np.sort(np.concatenate([visits[name] for name in names_known]))
                    located[stretch, names_known, one] = locate_visit(
                        described, rows, visits[one], radius
                    )
            found = [located[stretch, *task] for task in tasks]
            left_out = [one for one in found if one is not None]
            new = located[stretch, known, asked]
            if new is None or not left_out:
                continue
            facts = {"set": folder.name, "stretch": stretch, "known": known, "asked": asked}
            trials.append(
                facts | {"left_out": [asdict(one) for one in left_out], "new": asdict(new)}
            )
            shown = ", ".join(f"{one.found:.2f}" for one in left_out)
            print(
                f"{folder.name}, {stretch}: known {known} found {shown}; {asked} found"
                f" {new.found:.2f}",
                flush=True,
            )
    return trials


def judge(trials: list[Trial], name: str, *prior: Any) -> tuple[float, float, int]:
    """The share of trials whose interval holds, the mean width, and the number of trials."""
    held, widths = [], []
    for trial in trials:
        visits, new = (
            [Visit(**one) for one in trial["left_out"]],
            float(trial["new"][name.replace(" ", "_")]),
        )
        values = values_of(visits, name, trial["new"]["source"])
        if not len(values) or not np.isfinite(new):
            continue
        _, low, high = predict(values, name, *prior)
        held.append(low <= new <= high)
        widths.append(high - low)
    return float(np.mean(held)), float(np.mean(widths)), len(held)


def check(trials: list[Trial], choosing: list[str]) -> None:
    first = [trial for trial in trials if trial["set"] in choosing]
    second = [trial for trial in trials if trial["set"] not in choosing]
    print(
        "| value | scale, deviation, weight | choosing: hold, % | width | checking: hold, % | width"
        " | trials |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, scale in itertools.product(PRIOR_DEVIATION, SCALES):
        grid = [
            (judge(first, name, *prior, SCALES[scale]), prior)
            for prior in itertools.product(DEVIATIONS, WEIGHTS)
        ]
        good = [cell for cell in grid if cell[0][0] >= WANTED] or [
            max(grid, key=lambda cell: cell[0][0])
        ]
        chosen, prior = min(good, key=lambda cell: cell[0][1])
        checked = judge(second, name, *prior, SCALES[scale])
        cells = [name, f"{scale}, {prior[0]:g}, {prior[1]:g}"]
        cells += [
            text for one in (chosen, checked) for text in (f"{100 * one[0]:.1f}", f"{one[1]:.2f}")
        ]
        print(f"| {' | '.join(cells)} | {checked[2]} |")
    print("\nas released:")
    for name in PRIOR_DEVIATION:
        for part, what in ((first, "choosing"), (second, "checking")):
            held, width, count = judge(part, name)
            print(f"{name}, {what}: {100 * held:.1f} % of {count} hold, mean width {width:.2f}")
    for one in sorted({trial["set"] for trial in trials}):
        own = [trial for trial in trials if trial["set"] == one]
        shares = [f"{name} {100 * judge(own, name)[0]:.0f}" for name in PRIOR_DEVIATION]
        print(f"{one} ({len(own)} trials), hold, %: {', '.join(shares)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("sets", nargs="+", metavar="FOLDER:DISTANCE")
    collecting.add_argument("--out", type=Path, required=True)
    collecting.add_argument(
        "--trials", type=int, default=MOST_TRIALS, help="trials per set and stretch, at most"
    )
    collecting.add_argument("--seed", type=int, default=0)
    checking = commands.add_parser("check")
    checking.add_argument("files", nargs="+", type=Path)
    checking.add_argument(
        "--choose", nargs="+", required=True, help="sets on which the prior is chosen"
    )
    given = parser.parse_args()
    if given.command == "collect":
        trials = []
        for one in given.sets:
            folder, _, radius = one.rpartition(":")
            trials += collect(Path(folder), float(radius), given.trials, given.seed)
        given.out.write_text(json.dumps(trials, indent=1))
    else:
        check(
            [trial for file in given.files for trial in json.loads(file.read_text())], given.choose
        )


if __name__ == "__main__":
    main()
