"""Writes the tables of measurements in docs and README.md from the JSON of the studies.

python studies/tables.py

A table stands between two comments, `<!-- table NAME -->` and `<!-- end of table -->`. TABLES, at the end, lists them.
A test fails if a page differs from what this script writes, so no page keeps an old number.
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
        for name in ("results", "start", "scale", "sequences", "serve", "export", "recover")
    ),
]

SETS = {"street-v1": "10 m", "rooms-v1": "1 m", "Nordland": "5 frames"}  # positive radius
PRESETS = "triplet+huber-ours"  # the row of table 1 that has the presets for one place
DEFAULT = "resnet default, distillation 50, rate 2e-4"  # what `mappable train` does on a GPU without a preset
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
        name = row.replace("-ours", "-preset") if row == PRESETS else f"{row}-paper" if "+" in row else row
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
    return write(["set", "best of the paper's rows", "found, %", "gain of the preset, points", "95 % interval"], rows)


# Real drives


def share_wrong(row: dict[str, Any]) -> str:
    return percent(100 * row["wrong among them"] / row["confident"])


def describe_drives() -> str:
    """Drives on maps of another drive, with an encoder off the shelf."""
    trust = {
        (row["images"], row["map"], row["asked"]): row
        for row in rows_of("drives", "trust off the shelf")
        if row["way"] == "sequence"
    }
    columns = ["map", "asked", "nearest landmark, %", "single image, %", "**sequence**, %"]
    columns += ["wrong of confident, %", "90 % intervals that hold, %"]
    rows = []
    for row in rows_of("drives", "found off the shelf"):
        trusted = trust[row["images"], row["map"], row["asked"]]
        numbers = [percent(row[way]) for way in ("nearest, %", "single, %")]
        sequence = f"**{percent(row['sequence, %'])}**"
        kept = [share_wrong(trusted), percent(trusted["intervals that hold, %"])]
        rows.append([f"{row['images']}, {row['map']}", row["asked"], *numbers, sequence, *kept])
    return write(columns, rows)


def describe_trained_drives() -> str:
    """The same with trained encoders: all pairs of drives of a kind together."""
    columns = ["encoder and images", "nearest landmark, %", "single image, %", "**sequence**, %"]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in rows_of("drives", "found trained"):
        kinds.setdefault(row["encoder and images"], []).append(row)
    rows = []
    for kind, pairs in kinds.items():
        images = sum(row["asked images"] for row in pairs)
        means = [
            percent(sum(row["asked images"] * row[way] for row in pairs) / images)
            for way in ("nearest, %", "single, %", "sequence, %")
        ]
        rows.append([kind, *means[:2], f"**{means[2]}**"])
    return write(columns, rows)


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
    return fmean(model["away"][of] for model in models(home, candidate) for of in HOMES if of != home)


def describe_home_and_away() -> str:
    """Training without a preset beside ResNet-50 off the shelf: on the place itself, and on other places."""
    gains = {
        gain["home set"]: gain
        for gain in read("home_and_away/test-gains.json")
        if gain["candidate"] == DEFAULT and gain["over"] == OFF_THE_SHELF
    }
    columns = ["trained on", "home: off the shelf, %", "home: **trained**, %", "gain, points", "95 % interval"]
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
    """Pearson within the negative radius across visits for descriptors and fitted metres; the error of the latter."""
    columns = ["set", "encoder", "descriptor", "**fitted metres**", "error, %"]
    tested = read("metric/test.json")
    rows = []
    for home, name in HOMES.items():
        for candidate, title in (("off-the-shelf", "off the shelf"), ("default", "trained")):
            own = [row for row in tested if (row["home"], row["candidate"]) == (home, candidate)]
            fitted = [row["metric"]["all visits"] for row in own]
            plain, metres = (
                fmean(one["across pearson r2"] for one in kind) for kind in ([row["descriptor"] for row in own], fitted)
            )
            error = 100 * fmean(one["across error r1-r2"] for one in fitted)
            rows.append([name, title, f"{plain:.2f}", f"**{metres:.2f}**", f"{error:.0f}"])
    return write(columns, rows)


# Live, recovery, speed


def describe_live() -> str:
    """Cameras that are carried off every 100 images, beside the usual alternatives that know no later images."""
    skipped = ("`--sequence` (knows later images)", "Kalman filter on top-1")
    rows = [row for row in rows_of("live", "followed") if row["method"] not in skipped]
    columns = list(rows[0])
    return write(columns, [[hundredths(row[key]) if "wrong" in key else row[key] for key in columns] for row in rows])


def describe_recovery() -> str:
    """Recovery beside the version before, which sampled all courses of a drive, and beside straight lines."""
    rows = []
    for row in read("recovery/compare.json")["rows"]:
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
    methods = ["mappable.recover", "plain GTSAM", "the paper's SDP, converged", "scikit-learn MDS of paths"]
    shapes = ["straight line", "straight lines", "circle"]
    rows = []
    for case, errors in cases.items():
        least = min((errors[shape] for shape in shapes if shape in errors), default=None)
        cells = [hundredths(errors[method]) if method in errors else "" for method in methods]
        rows.append([case, f"**{cells[0]}**", *cells[1:], "" if least is None else hundredths(least)])
    return write(["case", "**ours**", *methods[1:], "line or circle"], rows)


def describe_speed() -> str:
    """Each benchmark with the usual alternative."""
    columns = ["task", "hardware", "unit", "**ours**", "alternative", "its value", "ratio"]
    keys = ["task", "hardware", "unit", "ours", "alternative", "alternative's value", "ratio"]
    skipped = ("plain loop in float32, decodes as it goes", "encoder step by step", "Clarabel on the sparse dual")
    rows = [row for row in rows_of("speed", "compared") if row["alternative"] not in skipped]
    rows = [row for row in rows if row["task"] != "the SDP in trace form, 100 images, gap 1e-4"]
    return write(columns, [[row[key] for key in keys] for row in rows])


def describe_trainings() -> str:
    """The paper's whole trainings."""
    columns = ["preset", "steps", "image size", "whole training, s", "images/s"]
    return write(columns, [[row[column] for column in columns] for row in rows_of("speed", "papers trainings")])


# README


def describe_readme() -> str:
    """One row per claim: what an image finds without Mappable, and with it."""
    drives = {(row["map"], row["asked"]): row for row in rows_of("drives", "found off the shelf")}

    def drive(name: str, pair: tuple[str, str], radius: str) -> list[Any]:
        row = drives[pair]
        return [name, radius, percent(row["nearest, %"]), percent(row["sequence, %"]), "sequence"]

    def training(name: str, of: str, radius: str) -> list[Any]:
        before = percent(at_home(of, "off-the-shelf"))
        return [name, radius, before, percent(at_home(of, DEFAULT)), "training"]

    rows = [
        drive("campus, day map, night walk (real)", ("day, left", "night, right"), "5 frames"),
        drive("race track, noon map, afternoon (real)", ("noon", "afternoon"), "10 m"),
        drive("Nordland, summer map, winter, 186 landmarks (real)", ("summer", "winter"), "5 frames"),
        training("Nordland, as above, 372 landmarks (real)", "nordland", "5 frames"),
        training("`street-v1` (drawn)", "street-v1", "10 m"),
        training("`rooms-v1` (drawn)", "rooms-v1", "1 m"),
    ]
    return write(["images", "correct within", "before, %", "Mappable, %", "by"], rows)


def describe_origins() -> str:
    """Hardware and date of the runs that the tables come from; the files state the commands."""
    files = ["table1/street-v1.json", "table1/rooms-v1.json", "table1/gains.json"]
    files += [f"{study}/tables.json" for study in ("drives", "live", "speed")]
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

    return re.sub(r"(<!-- table ([\w ]+) -->\n).*?(<!-- end of table -->)", written, page, flags=re.DOTALL)


TABLES: dict[str, Callable[[], str]] = {
    "1": describe_table_1,
    "of gains": describe_gains,
    "of drives": describe_drives,
    "of drives with trained encoders": describe_trained_drives,
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
