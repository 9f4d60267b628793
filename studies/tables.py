"""Writes the tables of measurements in docs and README.md from the JSON of the studies.

python studies/tables.py

A table stands between two comments, `<!-- table NAME -->` and `<!-- end of table -->`. TABLES, at
the end, lists them. A test fails if a page differs from what this script writes, so no page keeps
an old number.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from mappable.evaluation import paper

STUDIES = Path(__file__).parent
ROOT = STUDIES.parent
PAGES = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("results", "photos", "scale", "drives", "serve", "exchange", "recover")
    ),
]

SETS = {"street-v1": "10 m", "rooms-v1": "1 m", "Nordland": "5 frames"}  # positive radius
PRESETS = "triplet+huber-ours"  # the row of table 1 that has the presets for one place
# What `mappable train` does on a GPU without a preset.
DEFAULT = "resnet default, distillation 50, rate 2e-4"
OFF_THE_SHELF = "resnet off-the-shelf"
HOMES = {
    "street-v1": "`street-v1`",
    "rooms-v1": "`rooms-v1`",
    "nordland": "Nordland",
    "gardens": "walks, second half",
    "racetrack": "race track, second half",
}
ROW_NAMES = {"huber": "Huber"}


def read(file: str) -> Any:
    """A JSON file of a study."""
    return json.loads((STUDIES / file).read_text("utf-8"))


def rows_of(study: str, table: str, file: str = "tables.json") -> list[dict[str, Any]]:
    """The rows of a table that a study keeps."""
    rows: list[dict[str, Any]] = read(f"{study}/{file}")["tables"][table]
    return rows


def describe_kept(study: str, table: str, file: str = "tables.json") -> str:
    """A table as a study keeps it."""
    rows = rows_of(study, table, file)
    return write(list(rows[0]), [list(row.values()) for row in rows])


def write(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(cell(value) for value in row)} |" for row in (columns, *rows)]
    return "\n".join([lines[0], "|---" * len(columns) + "|", *lines[1:]])


def cell(value: Any) -> str:
    """A value as a table shows it; empty if there is none."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


def hundredths(value: float | None) -> str | None:
    """A value with two decimals, if there is one."""
    return None if value is None else f"{value:.2f}"


def percent(value: float) -> str:
    """A percentage with one decimal."""
    return f"{value:.1f}"


def signed(value: float) -> str:
    """A difference in points with one decimal and its sign."""
    return f"{value:+.1f}".replace("-", "−")


def interval(low: float, high: float) -> str:
    """An interval of differences."""
    return f"{low:.1f} to {high:.1f}".replace("-", "−")


# Table 1


def found(of: str, row: str) -> float:
    """Percentage of test images found within the positive radius: mean over the training seeds."""
    if of == "Nordland":
        name = (
            row.replace("-ours", "-preset")
            if row == PRESETS
            else f"{row}-paper"
            if "+" in row
            else row
        )
        models = [model for model in read("table1/nordland.json")["models"] if model["row"] == name]
        return fmean(100 * fmean(error <= 5 for error in model["errors"]) for model in models)
    runs = [run for run in read(f"table1/{of}.json")["runs"] if run["row"] == row]
    return fmean(run["within_positive_radius"][0] for run in runs)  # landmark seed 0


def row_name(row: str) -> str:
    """The losses of a row as a reader knows them."""
    if row == "off-the-shelf":
        return "off the shelf"
    return " + ".join(ROW_NAMES.get(part, part.replace("-", " ")) for part in row.split("+"))


def describe_table_1() -> str:
    """The paper's table, with our numbers of the same rows on our sets, and our presets."""
    columns = ["trained with", "paper: COLD, 1 m", "paper: Oxford, 10 m"]
    columns += [f"ours: {name}, {radius}" for name, radius in SETS.items()]
    rows: list[list[Any]] = []
    for row in paper.TABLE_1["cold"]:
        printed = [percent(paper.TABLE_1[of][row].positive) for of in ("cold", "oxford")]
        rows.append([row_name(row), *printed, *(percent(found(of, row)) for of in SETS)])
    ours = [f"**{percent(found(of, PRESETS))}**" for of in SETS]
    rows.append(["**triplet + Huber, preset for one place**", None, None, *ours])
    return write(columns, rows)


def describe_gains() -> str:
    """What our presets gain over the best of the paper's rows on each set."""
    gains = {row["set"]: row for row in read("table1/gains.json")["tables"]["gain over best"]}
    rows = []
    for of in SETS:
        best = max(paper.TABLE_1["cold"], key=lambda row: found(of, row))
        gain = gains[of]
        points = signed(gain["gain of ours, points"])
        rows.append([of, row_name(best), percent(found(of, best)), points, gain["95 % interval"]])
    return write(
        [
            "set",
            "best of the paper's rows",
            "found, %",
            "gain of the preset, points",
            "95 % interval",
        ],
        rows,
    )


# Real drives

WALKS = {
    "gardens": ("walks, by day and night", "5 frames"),
    "nordland": ("railway, summer and winter", "5 frames"),
    "racetrack": ("race track, noon and afternoon", "10 m"),
}
BACKBONES = {"rn": "ResNet-50", "vgg": "VGG-16"}


def share(rows: Sequence[dict[str, Any]], counted: str, of: str) -> str:
    """Percentage of all rows together; a dash if there is nothing to count."""
    total = sum(row[of] for row in rows)
    return percent(100 * sum(row[counted] for row in rows) / total) if total else "–"


def cells_of_sets() -> dict[str, list[dict[str, Any]]]:
    """The pairs of visits of the study of the place model, by set."""
    sets: dict[str, list[dict[str, Any]]] = {}
    for pair in read("place/after.json")["cells"]:
        sets.setdefault(pair["set"], []).append(pair)
    return sets


def set_name(of: str) -> str:
    backbone, _, place = of.partition("-")
    return f"{WALKS[place][0]}, {BACKBONES[backbone]}"


def describe_drives() -> str:
    """Every visit as a map that locates every other visit, off the shelf."""
    columns = ["images and encoder", "nearest landmark, %", "single image, %", "**drive**, %"]
    columns += ["confident, %", "wrong of confident, %", "90 % intervals that hold, %"]
    rows = []
    for of, pairs in cells_of_sets().items():
        images = sum(pair["images"] for pair in pairs)
        drives = [pair["drive"] for pair in pairs]
        single = percent(100 * sum(pair["single"]["found"] for pair in pairs) / images)
        found, sure = (
            percent(100 * sum(drive[key] for drive in drives) / images)
            for key in ("found", "confident")
        )
        row = [set_name(of), share(pairs, "nearest", "images"), single, f"**{found}**", sure]
        rows.append([*row, share(drives, "wrong", "confident"), share(drives, "held", "intervals")])
    return write(columns, rows)


def describe_left_out() -> str:
    """Drives with numbers of the place model that were chosen on the other places."""
    columns = [
        "images and encoder",
        "nearest landmark, %",
        "**drive**, %",
        "confident, %",
        "confident and wrong",
    ]
    rows = []
    for row in read("place/leave_one_out.json")["left out"]:
        shares = [
            percent(100 * row[key] / row["images"]) for key in ("nearest", "found", "confident")
        ]
        strangers = f"{row['confident strangers']} of {row['strangers']}"
        rows.append(
            [
                set_name(row["set"]),
                shares[0],
                f"**{shares[1]}**",
                shares[2],
                row["wrong"],
                strangers,
            ]
        )
    return write([*columns, "confident strangers"], rows)


# Home and away


def models(home: str, candidate: str) -> list[dict[str, Any]]:
    """The models of a candidate that trained on a set, one per seed."""
    return [
        model
        for model in read("home_and_away/test.json")
        if model["home set"] == home and model["candidate"] == candidate
    ]


def at_home(home: str, candidate: str) -> float:
    """Percentage found on the set that the models trained on."""
    return fmean(model["home"] for model in models(home, candidate))


def elsewhere(home: str, candidate: str) -> float:
    """Percentage found on the four other sets, mean."""
    return fmean(
        model["away"][of] for model in models(home, candidate) for of in HOMES if of != home
    )


def describe_home_and_away() -> str:
    """Training without a preset beside ResNet-50 off the shelf: on the place itself, and on other
    places.
    """
    gains = {
        gain["home set"]: gain
        for gain in read("home_and_away/test-gains.json")
        if gain["candidate"] == DEFAULT and gain["over"] == OFF_THE_SHELF
    }
    columns = [
        "trained on",
        "home: off the shelf, %",
        "home: **trained**, %",
        "gain, points",
        "95 % interval",
    ]
    columns += ["away: off the shelf, %", "away: **trained**, %", "gain, points", "95 % interval"]
    rows = []
    for home, name in HOMES.items():
        row = [name]
        for score, key in ((at_home, "Home"), (elsewhere, "Other sets, mean")):
            gain, low, high = gains[home][key]
            row += [percent(score(home, OFF_THE_SHELF)), f"**{percent(score(home, DEFAULT))}**"]
            row += [signed(gain), interval(low, high)]
        rows.append(row)
    return write(columns, rows)


# Proportionality


def describe_proportionality() -> str:
    """Pearson within the negative radius across visits for descriptors and fitted metres; the error
    of the latter.
    """
    columns = ["set", "encoder", "descriptor", "**fitted metres**", "error, %"]
    tested = read("metric/test.json")
    rows = []
    for home, name in HOMES.items():
        for candidate, title in (("off-the-shelf", "off the shelf"), ("default", "trained")):
            own = [row for row in tested if (row["home"], row["candidate"]) == (home, candidate)]
            fitted = [row["metric"]["all visits"] for row in own]
            plain, metres = (
                fmean(one["across pearson r2"] for one in kind)
                for kind in ([row["descriptor"] for row in own], fitted)
            )
            error = 100 * fmean(one["across error r1-r2"] for one in fitted)
            rows.append([name, title, f"{plain:.2f}", f"**{metres:.2f}**", f"{error:.0f}"])
    return write(columns, rows)


# Live, recovery, speed


def describe_live() -> str:
    """A camera that is followed image by image, on the drives of `describe_drives`."""
    columns = ["images and encoder", "odometry", "found, %", "trusted, %", "wrong of trusted, %"]
    rows = []
    for of, pairs in cells_of_sets().items():
        images = sum(pair["images"] for pair in pairs)
        for way, odometry in (("live", "no"), ("live with odometry", "yes")):
            poses = [pair[way] for pair in pairs]
            found, sure = (
                percent(100 * sum(pose[key] for pose in poses) / images)
                for key in ("found", "confident")
            )
            rows.append([set_name(of), odometry, found, sure, share(poses, "wrong", "confident")])
    return write(columns, rows)


# Of the cases of the study, one of each kind.
RECOVERED = (
    "drive of 150, mid, odometry drifting, 0 known",
    "drive of 150, mid, odometry drifting, 3 known",
    "drive of 150, mid, odometry paused after the known positions, 3 known",
    "drive of 150, mid, odometry none, 3 known",
    "drive of 150, mid, odometry none, 10 known",
    "open of 400, mid, no odometry, 10 known",
    "loop of 400, learned, no odometry, 10 known",
    "snaking of 200, mid, no odometry, 5 known",
    "erratic turns of 80 in 3-D, 8 known",
    "loop of 200, mid, nothing known",
    "open of 200, mid, nothing known",
    "city of 5,000, odometry noisy, 100 known",
)


def describe_recovery() -> str:
    """Recovery beside the version before, which sampled all courses of a drive, and beside straight
    lines.
    """
    rows = []
    for row in read("recovery/compare.json")["rows"]:
        if row["case"] not in RECOVERED:
            continue
        before, ours = row.get("base", []), row["new"]
        nees = [result["nees"] for result in ours if result["nees"] is not None]
        lines = [line for line in row["line"] if line is not None]
        rows.append(
            [
                row["case"],
                len(row["seeds"]),
                hundredths(median([result["error"] for result in before])) if before else "",
                f"**{hundredths(median([result['error'] for result in ours]))}**",
                hundredths(median(lines)) if lines else "",
                hundredths(median(nees)) if nees else "",
                sum(result["said"] for result in ours),
                hundredths(median([result["seconds"] for result in before])) if before else "",
                hundredths(median([result["seconds"] for result in ours])),
            ]
        )
    columns = ["case", "drives", "0.2.0, m", "**ours**, m", "straight lines, m", "NEES", "listed"]
    return write([*columns, "0.2.0, CPU s", "ours, CPU s"], rows)


def describe_recovery_alternatives() -> str:
    """Recovery beside plain GTSAM, scikit-learn and the paper's program: median errors in metres."""
    cases: dict[str, dict[str, float]] = {}
    for row in read("recovery/benchmark.json")["rows"]:
        cases.setdefault(row["case"], {})[row["method"]] = row["error, m"]
    methods = [
        "mappable.recover",
        "plain GTSAM",
        "the paper's SDP, converged",
        "scikit-learn MDS of paths",
    ]
    shapes = ["straight line", "straight lines", "circle"]
    rows = []
    for case, errors in cases.items():
        least = min((errors[shape] for shape in shapes if shape in errors), default=None)
        cells = [hundredths(errors[method]) if method in errors else "" for method in methods]
        rows.append(
            [case, f"**{cells[0]}**", *cells[1:], "" if least is None else hundredths(least)]
        )
    return write(["case", "**ours**", *methods[1:], "line or circle"], rows)


def describe_speed() -> str:
    """Each benchmark with the usual alternative."""
    columns = ["task", "hardware", "unit", "**ours**", "alternative", "its value", "ratio"]
    keys = ["task", "hardware", "unit", "ours", "alternative", "alternative's value", "ratio"]
    skipped = (
        "plain loop in float32, decodes as it goes",
        "encoder step by step",
        "Clarabel on the sparse dual",
    )
    rows = [row for row in rows_of("speed", "compared") if row["alternative"] not in skipped]
    rows = [row for row in rows if row["task"] != "the SDP in trace form, 100 images, gap 1e-4"]
    return write(columns, [[row[key] for key in keys] for row in rows])


def describe_trainings() -> str:
    """The paper's whole trainings."""
    columns = ["preset", "steps", "image size", "whole training, s", "images/s"]
    return write(
        columns,
        [[row[column] for column in columns] for row in rows_of("speed", "papers trainings")],
    )


# README


def describe_readme() -> str:
    """One row per claim: what an image finds without Mappable, and with it, and what was tuned."""
    rows: list[list[Any]] = []
    for row in read("place/leave_one_out.json")["left out"]:
        backbone, _, place = row["set"].partition("-")
        if backbone == "rn":
            name, radius = WALKS[place]
            before, ours = (percent(100 * row[key] / row["images"]) for key in ("nearest", "found"))
            strangers = f"{row['confident strangers']} of {row['strangers']}"
            rows.append([name, radius, before, ours, "drive", "other places", strangers])
    for of, name, radius, tuned in (
        ("nordland", "railway, summer map, winter", "5 frames", "also this set"),
        ("street-v1", "`street-v1` (drawn)", "10 m", "calibration images"),
        ("rooms-v1", "`rooms-v1` (drawn)", "1 m", "calibration images"),
    ):
        before, ours = (percent(at_home(of, candidate)) for candidate in (OFF_THE_SHELF, DEFAULT))
        rows.append([name, radius, before, ours, "training", tuned, None])
    columns = [
        "images",
        "correct within",
        "before, %",
        "Mappable, %",
        "by",
        "tuned on",
        "trusted strangers",
    ]
    return write(columns, rows)


def describe_origins() -> str:
    """Hardware and date of the runs that the tables come from; the files state the commands."""
    files = ["table1/street-v1.json", "table1/rooms-v1.json", "table1/gains.json"]
    files += ["speed/tables.json"]
    files += ["recovery/compare.json", "recovery/benchmark.json"]
    rows = []
    for file in files:
        kept = read(file)
        origin = kept.get("origin", kept)
        rows.append([f"`{file}`", origin["hardware"], origin["date"]])
    return write(["file", "hardware", "date"], rows)


def fill(page: str) -> str:
    """The page with all its tables written anew."""

    def written(marks: re.Match[str]) -> str:
        return f"{marks[1]}\n{TABLES[marks[2]]()}\n\n{marks[3]}"

    return re.sub(
        r"(<!-- table ([\w ]+) -->\n).*?(<!-- end of table -->)", written, page, flags=re.DOTALL
    )


TABLES: dict[str, Callable[[], str]] = {
    "1": describe_table_1,
    "of gains": describe_gains,
    "of drives": describe_drives,
    "of drives chosen elsewhere": describe_left_out,
    "of home and away": describe_home_and_away,
    "of proportionality": describe_proportionality,
    "of live cameras": describe_live,
    "of recovery": describe_recovery,
    "of recovery alternatives": describe_recovery_alternatives,
    "of speed": describe_speed,
    "of trainings": describe_trainings,
    "of the README": describe_readme,
    "of origins": describe_origins,
    "of starts": partial(describe_kept, "start", "found"),
    "of estimates": partial(describe_kept, "start", "estimate"),
    "of serving": partial(describe_kept, "speed", "serving"),
    "of CPUs": partial(describe_kept, "speed", "cpu"),
    "of Milvus": partial(describe_kept, "cluster", "milvus"),
    "of Ray": partial(describe_kept, "cluster", "ray"),
    "of the filter": partial(describe_kept, "drives", "cost", "cost.json"),
}


if __name__ == "__main__":
    for file in PAGES:
        file.write_text(fill(file.read_text("utf-8")), "utf-8")
