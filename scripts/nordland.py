"""What each loss gains on Nordland: from winter to summer along a railway line, on a part of it that none trained on.

    python scripts/nordland.py FOLDER --out results.json            # 15 rows, 3 seeds; run it again to go on
    python scripts/nordland.py --out results.json --table           # the tables alone
    python scripts/nordland.py --out results.json --table --figure results.png

FOLDER holds places.csv and the images that it names. Queries are the winter images of the split `test`, references all
of its summer images. A query is right if the nearest reference, by descriptor, is at most 5 frames off. A model that is
in the results is not trained again; one that was interrupted goes on from its last checkpoint.
"""

import argparse
import json
import platform
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import harmonic_mean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mappable.arrays import Floats, Ints, Pixels
from mappable.errors import BadInputError, MappableError
from mappable.evaluation.bootstrap import Interval, block_bootstrap, route_blocks
from mappable.features.devices import find_device
from mappable.features.embedding import ImageFiles, actual_precision
from mappable.learning.checkpoint import CHECKPOINT
from mappable.learning.folder import DIVIDING, WATCHING, OtherRunError
from mappable.learning.metrics import METRICS
from mappable.learning.settings import Settings, load_settings
from mappable.learning.trainer import train
from mappable.places.files import write_atomically
from mappable.places.packing import cores
from mappable.places.readers import read_places
from mappable.places.table import Places

RIGHT, NEAR = 5, 20  # frames
BLOCK = 20.0  # frames that are drawn together by the bootstrap
PAPER = {"geometric_weight": 0.5, "feature_scale_squared": 2.0}
OURS = {"geometric_weight": 5.0, "feature_scale_squared": 0.6}
VISUAL, GEOMETRIC = ("triplet", "quadruplet", "lazy-triplet", "lazy-quadruplet"), ("distance", "huber")
COMBINED = {  # each combination of the paper, with the weight and feature scale of both
    f"{visual}+{geometric}-{whose}": (visual, geometric, scales)
    for whose, scales in (("paper", PAPER), ("ours", OURS))
    for geometric in GEOMETRIC
    for visual in ("triplet", "lazy-quadruplet")
}
# Settings over those of the preset.
ROWS: dict[str, dict[str, Any]] = {"off-the-shelf": {"iterations": 0}}
ROWS |= {loss: {"loss": loss} for loss in VISUAL}
ROWS |= {loss: {"loss": loss, "feature_scale_squared": PAPER["feature_scale_squared"]} for loss in GEOMETRIC}
ROWS |= {row: {"loss": f"{visual}+{geometric}"} | scales for row, (visual, geometric, scales) in COMBINED.items()}
DRAWN = {  # of the curves, the line of each; colours tell the visual loss
    "off-the-shelf": "-",
    "huber": "-",
    "triplet": ":",
    "lazy-quadruplet": ":",
    "triplet+huber-paper": "--",
    "lazy-quadruplet+huber-paper": "--",
    "triplet+huber-ours": "-",
    "lazy-quadruplet+huber-ours": "-",
}
ByModel = dict[tuple[str, int], Floats]  # by row and seed: 1 or 0 for each query
INDIFFERENT = WATCHING | DIVIDING | {"weights_file"}  # settings that change no result, or only by rounding


class Nordland:
    """The images, decoded once for all models, and which of them are queries and references."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.places = read_places("manifest", folder, unit="frames", other_splits="clear")
        self.queries, self.references = (rows_of_test(self.places, folder, one) for one in ("winter", "summer"))
        self.pixels: Pixels = ImageFiles(self.places, settings.size, settings.fit)[np.arange(len(self.places))]

    @property
    def query_frames(self) -> list[int]:
        return [round(frame) for frame in self.places.x[self.queries]]


def rows_of_test(places: Places, folder: Path, condition: str) -> Ints:
    """The rows of the split `test` in one condition."""
    rows = np.flatnonzero((places.split == "test") & (places.condition == condition))
    if not len(rows):
        raise BadInputError(f"{folder}: no place has the split 'test' and the condition {condition!r}")
    return rows


def frame_errors(
    queries: NDArray[np.float32], references: NDArray[np.float32], query_frames: Floats, reference_frames: Floats
) -> Ints:
    """How many frames off the nearest reference of each query is; descriptors (n, D) of length one."""
    nearest = (queries @ references.T).argmax(axis=1)
    errors: Ints = np.rint(np.abs(query_frames - reference_frames[nearest])).astype(np.int64)
    return errors


def run_model(data: Nordland, row: str, settings: Settings, device: str, folder: Path) -> dict[str, Any]:
    """Train a model in `folder`, or go on with it there, and score it."""
    begun, resumed = time.perf_counter(), (folder / CHECKPOINT).exists()
    try:
        encoder = train(data.places, data.pixels, settings, out=folder, device=device, resume=True)
    except OtherRunError:  # the rest of another study
        resumed = False
        encoder = train(data.places, data.pixels, settings, out=folder, device=device, overwrite=True)
    queries, references = (
        encoder.embed(data.pixels[rows], precision=settings.precision, progress=False)
        for rows in (data.queries, data.references)
    )
    errors = frame_errors(queries, references, data.places.x[data.queries], data.places.x[data.references])
    lines = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    return {
        "row": row,
        "seed": settings.seed,
        "errors": errors.tolist(),
        "training_seconds": steps[-1]["seconds"] if steps else 0.0,
        "images_per_second": harmonic_mean([line["images_per_second"] for line in steps]) if steps else None,
        "wall_seconds": time.perf_counter() - begun,  # of this call
        "resumed": resumed,
        "hardware": hardware(encoder.device),
        "torch": torch.__version__,
        "precision": actual_precision(encoder.device, settings.precision),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": settings.model_dump(mode="json"),
    }


def hardware(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{cores()} cores of {platform.machine()}"


def read_results(file: Path) -> dict[str, Any]:
    """What the file holds: the frames of the queries, and the models so far."""
    if not file.exists():
        return {"query_frames": [], "models": []}
    try:
        results: dict[str, Any] = json.loads(file.read_text("utf-8"))
        frames = np.array(results["query_frames"], dtype=np.float64)
        for model in results["models"]:
            if model["row"] not in ROWS or not isinstance(model["seed"], int):
                raise ValueError(f"row {model['row']!r}, seed {model['seed']!r}")
            if np.array(model["errors"], dtype=np.int64).shape != frames.shape:
                raise ValueError(f"row {model['row']!r} has other queries")
    except KeyError as error:
        raise BadInputError(f"{file}: not a file of results, for {error} is missing") from None
    except (OSError, ValueError, TypeError) as error:
        raise BadInputError(f"{file}: not a file of results that can be read ({error})") from None
    return results


def find_model(results: dict[str, Any], row: str, seed: int) -> dict[str, Any] | None:
    return next((model for model in results["models"] if (model["row"], model["seed"]) == (row, seed)), None)


def check_same(file: Path, results: dict[str, Any], planned: Iterable[tuple[str, Settings]]) -> None:
    """Refuse results that were made with other settings, before anything is trained."""
    for row, settings in planned:
        if model := find_model(results, row, settings.seed):
            now, before = settings.model_dump(mode="json"), model["settings"]
            differing = [key for key in now if key not in INDIFFERENT and before.get(key) != now[key]]
            if differing:
                values = ", ".join(f"{key} {before.get(key)!r} (now {now[key]!r})" for key in differing)
                raise BadInputError(f"{file}: holds {row}, seed {settings.seed}, with {values}; choose another --out")


def study(
    data: Nordland, planned: Sequence[tuple[str, Settings]], file: Path, *, work: Path, device: str, end: float
) -> None:
    """Train and score what the file does not hold yet, one after another, and write each into it.

    No model is begun that might take longer than until `end` on the clock `time.perf_counter`.
    """
    results = read_results(file)
    if results["models"] and results["query_frames"] != data.query_frames:
        raise BadInputError(f"{file}: was made of other test images; choose another --out")
    results["query_frames"] = data.query_frames
    here = hardware(find_device(device))
    for number, (row, settings) in enumerate(planned):
        if find_model(results, row, settings.seed):
            continue
        longest = max((one["wall_seconds"] for one in results["models"] if one["hardware"] == here), default=0.0)
        if time.perf_counter() + longest > end:
            left = sum(not find_model(results, name, one.seed) for name, one in planned[number:])
            print(f"the time is up; {left} models are left: run it again to go on", file=sys.stderr)
            return
        folder = work / f"{row}-seed{settings.seed}"
        model = run_model(data, row, settings, device, folder)
        results["models"].append(model)
        write_atomically(file, lambda stream: stream.write(json.dumps(results).encode() + b"\n"))
        shutil.rmtree(folder)  # encoders are large
        shown = f"{percent(within(model, RIGHT).mean())} % within {RIGHT} frames"
        print(f"{row}, seed {settings.seed}: {shown}, {model['wall_seconds']:.0f} s", file=sys.stderr, flush=True)


def within(model: dict[str, Any], frames: int) -> Floats:
    """For each query 1 if it is so few frames off, else 0."""
    right: Floats = (np.array(model["errors"]) <= frames).astype(np.float64)
    return right


def tables(results: dict[str, Any]) -> str:
    """How often each row is right, and what each combination gains over its visual loss alone, in Markdown."""
    blocks = route_blocks(np.array(results["query_frames"]), BLOCK)
    right, near = (
        {(model["row"], model["seed"]): within(model, frames) for model in results["models"]}
        for frames in (RIGHT, NEAR)
    )
    gains = gain_lines(right, blocks)
    return "\n".join([*share_lines(right, near, blocks), *(["", *gains] if gains else [])])


def share_lines(right: ByModel, near: ByModel, blocks: Ints) -> list[str]:
    """A line for each row of which there is a model."""
    seeds = sorted({seed for _, seed in right})
    shares = f"within {RIGHT} frames, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    lines = table_head(["row", "γ", "F²", shares, "mean", "95 % interval", f"within {NEAR} frames"])
    for row in ROWS:
        known = [seed for seed in seeds if (row, seed) in right]
        if known:
            found = block_bootstrap(np.stack([right[row, seed] for seed in known]), blocks, seed=0)
            each = ", ".join(percent(right[row, seed].mean()) if seed in known else "–" for seed in seeds)
            share_near = percent(np.mean([near[row, seed] for seed in known]))
            lines.append(table_line([*labels(row), each, percent(found.mean), bounds(found), share_near]))
    return lines


def gain_lines(right: ByModel, blocks: Ints) -> list[str]:
    """A line for each combination that shares a seed with its visual loss alone; none if there is no such."""
    lines = []
    for row, (pure, _, _) in COMBINED.items():
        gains = [right[row, seed] - right[pure, seed] for of, seed in right if of == row and (pure, seed) in right]
        if gains:
            found = block_bootstrap(np.stack(gains), blocks, seed=0)
            name, *values = labels(row)
            cells = [f"{name} − {pure}", *values, str(len(gains)), percent(found.mean, "+"), bounds(found, "+")]
            lines.append(table_line([*cells, "yes" if found.above_zero else "no"]))
    heads = ["difference", "γ", "F²", "seeds", "points", "95 % interval", "better"]
    return [*table_head(heads), *lines] if lines else []


def draw(results: dict[str, Any], file: Path) -> None:
    """Left how often each row is right, with its interval; right how that grows with the frames one allows for."""
    from matplotlib.figure import Figure

    blocks = route_blocks(np.array(results["query_frames"]), BLOCK)
    models = {row: [model for model in results["models"] if model["row"] == row] for row in ROWS}
    rows = [row for row in ROWS if models[row]]
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    for height, row in enumerate(reversed(rows)):
        found = block_bootstrap(np.stack([within(model, RIGHT) for model in models[row]]), blocks, seed=0)
        left.plot([100 * found.low, 100 * found.high], [height, height], color=colour(row), linewidth=2)
        for model in models[row]:
            left.plot(100 * within(model, RIGHT).mean(), height, "|", color="black", markersize=9, zorder=3)
        left.plot(100 * found.mean, height, "o", color=colour(row))
    left.set_yticks(range(len(rows)), [in_words(row) for row in reversed(rows)], fontsize=8)
    left.set(xlim=(0, 100), xlabel=f"% within {RIGHT} frames: seeds, mean, 95 % interval")
    left.grid(axis="x", alpha=0.3)
    frames = np.arange(0, 51)
    for row in (row for row in rows if row in DRAWN):
        errors = np.array([model["errors"] for model in models[row]])
        shares = 100 * (errors[..., None] <= frames).mean(axis=(0, 1))
        right.plot(frames, shares, color=colour(row), linestyle=DRAWN[row], label=in_words(row))
    right.axvline(RIGHT, color="0.6", linewidth=0.8)
    right.set(xlim=(0, 50), ylim=(0, 100), xlabel="frames off, at most", ylabel="% of queries")
    right.grid(alpha=0.3)
    right.legend(fontsize=7, loc="lower right")
    try:
        figure.savefig(file, dpi=150)
    except (OSError, ValueError) as error:
        raise BadInputError(f"{file}: cannot be written ({error})") from None


def colour(row: str) -> str:
    """One that colour-blind people tell apart from the others, by the visual loss."""
    by_start = {"off": "#777777", "triplet": "#0072b2", "lazy-quad": "#d55e00", "quad": "#cc79a7", "lazy-t": "#56b4e9"}
    return next((value for start, value in by_start.items() if row.startswith(start)), "#009e73")


def in_words(row: str) -> str:
    name, gamma, scale = labels(row)
    return f"{name}, γ {gamma}, F² {scale}" if row in COMBINED else name


def labels(row: str) -> list[str]:
    """The loss, and its weight and feature scale where it has them."""
    numbers = [ROWS[row].get(name) for name in PAPER]
    return [ROWS[row].get("loss", row), *("–" if number is None else f"{number:g}" for number in numbers)]


def percent(share: float | np.floating[Any], sign: str = "") -> str:
    return f"{100.0 * float(share):{sign}.1f}"


def bounds(interval: Interval, sign: str = "") -> str:
    return f"{percent(interval.low, sign)} to {percent(interval.high, sign)}"


def table_head(cells: Sequence[str]) -> list[str]:
    return [table_line(cells), "|" + "---|" * len(cells)]


def table_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    begun = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="places.csv and the images")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file, to which each model is added")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--set", dest="values", nargs="+", default=[], metavar="KEY=VALUE", help="other settings")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no model that might end later than this")
    parser.add_argument("--work", type=Path, help="folder of the model under way (default: beside OUT, named .models)")
    parser.add_argument("--table", action="store_true", help="train nothing")
    parser.add_argument("--figure", type=Path, help="a file for a picture of the results: PNG, SVG or PDF")
    given = parser.parse_args(arguments)
    if not given.table:
        if given.folder is None:
            parser.error("FOLDER is missing")
        planned = [(row, settings_of(row, seed, given.values)) for seed in given.seeds for row in given.rows]
        check_same(given.out, read_results(given.out), planned)
        data, work = Nordland(given.folder, planned[0][1]), given.work or given.out.with_suffix(".models")
        study(data, planned, given.out, work=work, device=given.device, end=begun + 60.0 * given.minutes)
    results = read_results(given.out)
    if not results["models"]:
        raise BadInputError(f"{given.out}: holds no models yet")
    print(tables(results))
    if given.figure:
        draw(results, given.figure)


def settings_of(row: str, seed: int, values: Sequence[str]) -> Settings:
    """The preset, then what the user says, then what the row is about."""
    own = [f"{name}={value}" for name, value in ROWS[row].items()]
    return load_settings("nordland", overrides=[*values, *own, f"seed={seed}"])


if __name__ == "__main__":
    try:
        main()
    except MappableError as problem:
        raise SystemExit(f"nordland: {problem}") from None
