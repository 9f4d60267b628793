"""How well do distances of features follow metres? Train candidates on five homes, and score them on all five sets.

    python studies/metric/study.py pack FOLDER WORK      # real sets and weights, as small files
    python studies/metric/study.py draw WORK             # both worlds, every fourth image
    python studies/metric/study.py run WORK choose OUT --workers 10 --minutes 8
    python studies/metric/study.py table OUT.jsonl
    python studies/metric/study.py keep test.json OUT.jsonl
    python studies/metric/study.py rule choose.json

Every set has two regions or splits: `choose` never sees images that `test` scores. Descriptors are
compared with the mean of their visit removed, shrunk to the mean of the map by ten images, and also
as they are ("raw").
"""

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

SIZE = (240, 180)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHRINK = 10.0
RADII = {
    "racetrack": (10.0, 25.0, "m"),
    "gardens": (2.0, 6.0, "frames"),
    "nordland": (5.0, 20.0, "frames"),
    "street-v1": (10.0, 25.0, "m"),
    "rooms-v1": (1.0, 4.0, "m"),
}
SAME_VIEW = np.radians(30)
MOST_MAP, MOST_QUERIES = 500, 300  # images of a set that score


def pack(folder: Path, work: Path) -> None:
    """Write images as JPEG bytes of SIZE, and the weights in half precision."""
    work.mkdir(parents=True, exist_ok=True)
    for name in ("racetrack", "gardens", "nordland"):
        rows = list(csv.DictReader((folder / name / "places.csv").open()))
        rows = [row for row in rows if row.get("split") != "gap"]
        parts, ends = [], []
        for row in rows:
            image = Image.open(folder / name / row["path"]).convert("RGB")
            width, height = image.size
            wide = min(width, round(height * 4 / 3))
            left = (width - wide) // 2
            image = image.crop((left, 0, left + wide, height))
            if image.width > SIZE[0]:
                image = image.resize(SIZE, Image.Resampling.BILINEAR)
            buffer = io.BytesIO()
            image.save(buffer, "JPEG", quality=65 if name == "nordland" else 80)
            parts.append(np.frombuffer(buffer.getvalue(), np.uint8))
            ends.append(len(parts[-1]))
        np.savez(
            work / f"{name}.npz",
            data=np.concatenate(parts),
            ends=np.cumsum(ends),
            x=np.array([[float(row["x"]), float(row["y"])] for row in rows]),
            yaw=np.array([float(row.get("yaw") or "nan") for row in rows]),
            sequence=np.array([row["sequence"] for row in rows]),
            split=np.array([row.get("split") or "" for row in rows]),
        )
    from mappable.features.weights import load_weights

    tensors = load_weights("resnet50-keras")
    np.savez(work / "resnet.npz", **{key: value.half().numpy() for key, value in tensors.items()})


def draw(work: Path) -> None:
    """Draw both worlds on the GPU."""
    from mappable_worlds.simulation import simulate

    for name in ("street-v1", "rooms-v1"):
        start = time.time()
        drawn = simulate(name, parts=["main"], device="cuda", every=4)
        places = drawn.places
        pixels = np.stack(
            [
                np.asarray(Image.fromarray(p).resize(SIZE, Image.Resampling.BILINEAR))
                for p in drawn.pixels
            ]
        )
        np.savez(
            work / f"{name}.npz",
            pixels=pixels,
            x=places.positions[:, :2],
            yaw=places.yaw,
            sequence=places.sequence.astype(str),
            split=places.split.astype(str),
        )
        print(name, len(places), f"{time.time() - start:.0f} s", flush=True)


@dataclass
class Set:
    """Images of one set for one phase: rows to train on, rows of the map, and rows of queries."""

    name: str
    pixels: np.ndarray
    x: np.ndarray
    yaw: np.ndarray
    sequence: np.ndarray
    train: np.ndarray
    map: np.ndarray
    queries: np.ndarray


def load(work: Path, name: str, phase: str) -> Set:
    file = np.load(work / f"{name}.npz")
    x, yaw, sequence, split = (file[key] for key in ("x", "yaw", "sequence", "split"))
    if "pixels" in file:
        pixels = file["pixels"]
    else:
        data, ends = file["data"], file["ends"]
        starts = np.append(0, ends[:-1])
        decoded = (
            Image.open(io.BytesIO(data[a:b].tobytes())).convert("RGB")
            for a, b in zip(starts, ends, strict=True)
        )
        pixels = np.stack(
            [np.asarray(image.resize(SIZE, Image.Resampling.BILINEAR)) for image in decoded]
        )
    choose = phase == "choose"
    if name == "racetrack":
        noon = np.flatnonzero(sequence == "noon")
        away = np.linalg.norm(x[noon] - x[noon[0]], axis=1)
        lap = next(n for n in range(50, len(noon)) if away[n] < 15)
        first = noon[:lap]
        nearest = np.argmin(np.linalg.norm(x[:, None] - x[first], axis=2), axis=1)
        early = nearest < lap // 2
        region = early if choose else ~early
        sequence = sequence.astype("<U12")
        sequence[noon[lap:]] = "noon-2"
        train = np.flatnonzero(region & (sequence != "afternoon"))
        return _thin(
            Set(
                name,
                pixels,
                x,
                yaw,
                sequence,
                train,
                train,
                np.flatnonzero(region & (sequence == "afternoon")),
            )
        )
    if name == "gardens":
        region = (x[:, 0] < 100) if choose else (x[:, 0] >= 100)
        query = "day_right" if choose else "night_right"
        train = np.flatnonzero(region & (sequence != query))
        return _thin(
            Set(
                name,
                pixels,
                x,
                yaw,
                sequence,
                train,
                np.flatnonzero(region & (sequence == "day_left")),
                np.flatnonzero(region & (sequence == query)),
            )
        )
    if name == "nordland":
        frame = x[:, 0]
        train = frame < (800 if choose else 1200)
        region = (frame >= 850) & (frame < 1200) if choose else frame >= 1250
        return _thin(
            Set(
                name,
                pixels,
                x,
                yaw,
                sequence,
                np.flatnonzero(train),
                np.flatnonzero(region & (sequence == "summer")),
                np.flatnonzero(region & (sequence == "winter")),
            )
        )
    train = np.flatnonzero(split == "train")
    base = "train-overcast" if name == "street-v1" else "cloudy-run1"
    queries = np.flatnonzero(split == ("calibration" if choose else "test"))
    return _thin(
        Set(name, pixels, x, yaw, sequence, train, np.flatnonzero(sequence == base), queries)
    )


def _thin(chosen: Set) -> Set:
    def some(rows: np.ndarray, most: int) -> np.ndarray:
        return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]

    chosen.map, chosen.queries = some(chosen.map, MOST_MAP), some(chosen.queries, MOST_QUERIES * 2)
    return chosen


BASE: dict[str, Any] = {
    "loss": "triplet+huber",
    "margin": 0.3,
    "geometric_weight": 5,
    "feature_scale_squared": 2,
    "distillation": 50,
    "anchors": 8,
    "positives_from": "other-runs",
    "cache_every": 200,
    "cache_size": 4000,
    "iterations": 1200,
    "averaging": 0.99,
    "learning_rate": 2e-4,
    "trainable": "last",
    "weights": "resnet50-keras",
    "size": "240x180",
    "landmarks": 0,
}
CANDIDATES: dict[str, dict[str, Any]] = {
    "off-the-shelf": {"iterations": 0},
    "default": {},
    "default, distillation 20": {"distillation": 20, "learning_rate": 1e-4},
}


def settings_of(candidate: str, home: str, seed: int) -> Any:
    from mappable.learning.settings import load_settings

    near, far, _ = RADII[home]
    values = {
        **BASE,
        **CANDIDATES[candidate],
        "positive_radius": near,
        "negative_radius": far,
        "seed": seed,
    }
    if home == "rooms-v1":
        values["yaw_limit"] = float(SAME_VIEW)
    return load_settings(overrides=values)


def _use_half_weights(work: Path) -> None:
    import mappable.features.encoder as module

    tensors = {
        key: torch.from_numpy(value.astype(np.float32))
        for key, value in np.load(work / "resnet.npz").items()
    }
    module.load_weights = lambda name, file=None: tensors  # type: ignore[assignment]


def centered(descriptors: torch.Tensor, visits: np.ndarray, shared: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(descriptors)
    for visit in np.unique(visits):
        rows = torch.from_numpy(np.flatnonzero(visits == visit)).to(descriptors.device)
        mean = (descriptors[rows].sum(0) + SHRINK * shared) / (len(rows) + SHRINK)
        out[rows] = torch.nn.functional.normalize(descriptors[rows] - mean, dim=1)
    return out


def _correlation(feature: np.ndarray, metres: np.ndarray) -> float | None:
    return None if len(metres) < 30 else round(float(np.corrcoef(feature, metres)[0, 1]), 4)


def _curve(feature: np.ndarray, metres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Monotone curve from feature distance to metres: medians of 40 groups of equal size."""
    order = np.argsort(feature)
    groups = np.array_split(order, 40)
    x = np.array([np.median(feature[g]) for g in groups])
    y = np.maximum.accumulate(np.array([np.median(metres[g]) for g in groups]))
    return x, y


def relations(
    feature: np.ndarray, metres: np.ndarray, curve: Any, near: float, far: float, prefix: str
) -> dict[str, Any]:
    """Pearson and relative errors of pairs of the same view; `feature` are plain feature distances."""
    result: dict[str, Any] = {}
    for name, radius in (("r1", near), ("r2", far), ("2r2", 2 * far)):
        inside = (metres <= radius) & (metres > 0)
        result[f"{prefix} pearson {name}"] = _correlation(feature[inside], metres[inside])
    if curve is not None:
        guess = np.interp(feature, *curve)
        for name, low, high in (("r1-r2", near, far), ("r2-2r2", far, 2 * far)):
            inside = (metres >= low) & (metres <= high)
            if inside.sum() >= 30:
                result[f"{prefix} error {name}"] = round(
                    float(np.median(np.abs(guess - metres)[inside] / metres[inside])), 4
                )
    return result


def score(describe: Any, chosen: Set) -> dict[str, Any]:
    """Found and proportionality of one set."""
    near, far, _ = RADII[chosen.name]
    rows = np.concatenate([chosen.map, chosen.queries])
    raw = describe(chosen, rows)
    m = len(chosen.map)
    visits, x, yaw = chosen.sequence[rows], chosen.x[rows], chosen.yaw[rows]
    apart = np.linalg.norm(x[:, None] - x[None], axis=2)
    turned = np.abs(yaw[:, None] - yaw[None])
    turned = np.minimum(turned, 2 * np.pi - turned)
    same_view = ~(turned > SAME_VIEW)
    result: dict[str, Any] = {}
    for kind, d in (("raw", raw), ("", centered(raw, visits, raw[:m].mean(0)))):
        squared = (2 - 2 * (d @ d[:m].T)).clamp(min=0).cpu().numpy()
        feature = np.sqrt(squared)
        best = feature[m:].argmin(1)
        error = apart[m:, :m][np.arange(len(best)), best]
        result[f"{kind} found".strip()] = round(100 * float(np.mean(error <= near)), 2)
        own = (
            np.triu(np.ones((m, m), bool), 1)
            & same_view[:m, :m]
            & (apart[:m, :m] <= 2 * far)
            & (apart[:m, :m] > 0)
        )
        f_own, g_own = feature[:m][own], apart[:m, :m][own]
        across = same_view[m:, :m]
        f_across, g_across = feature[m:][across], apart[m:, :m][across]
        curve = _curve(f_own, g_own) if len(f_own) > 400 else None
        if kind == "":
            result |= relations(f_own, g_own, None, near, far, "own")
            result |= relations(f_across, g_across, curve, near, far, "across")
            inside = g_across <= 2 * far
            if inside.sum() > 400:  # the best that any monotone curve could do across visits
                result |= {
                    k: v
                    for k, v in relations(
                        f_across,
                        g_across,
                        _curve(f_across[inside], g_across[inside]),
                        near,
                        far,
                        "oracle",
                    ).items()
                    if "error" in k
                }
        else:
            result["raw across pearson r2"] = relations(f_across, g_across, None, near, far, "a")[
                "a pearson r2"
            ]
    return result


def score_metric(describe: Any, chosen: Set) -> dict[str, Any]:
    """Metric of the home: fitted to all its training visits, and to the images of the map alone."""
    from mappable.learning.metric import Metric

    near, far, _ = RADII[chosen.name]
    rows, count = np.concatenate([chosen.map, chosen.queries]), len(chosen.map)
    raw = describe(chosen, rows)
    images = centered(raw, chosen.sequence[rows], raw[:count].mean(0)).cpu().numpy()
    x, yaw = chosen.x[rows], chosen.yaw[rows]
    apart = np.linalg.norm(x[count:, None] - x[None, :count], axis=2)
    turned = np.abs(yaw[count:, None] - yaw[None, :count])
    same_view = ~(np.minimum(turned, 2 * np.pi - turned) > SAME_VIEW)
    result: dict[str, Any] = {}
    for visits, fitted in (("all visits", chosen.train), ("map", chosen.map)):
        raw = describe(chosen, fitted)
        began = time.time()
        metric = Metric.fit(
            centered(raw, chosen.sequence[fitted], raw.mean(0)).cpu().numpy(),
            chosen.x[fitted],
            reach=far,
        )
        seconds = time.time() - began
        features = metric.features(images)
        metres = metric.distances(features[count:], features[:count])
        line = (np.array([0.0, 1e6]), np.array([0.0, 1e6]))
        found = relations(metres[same_view], apart[same_view], line, near, far, "across")
        best = metres.argmin(1)
        found["found"] = round(100 * float(np.mean(apart[np.arange(len(best)), best] <= near)), 2)
        result[visits] = found | {"images": len(fitted), "seconds": round(seconds, 1)}
    return result


def one(
    work: Path,
    phase: str,
    candidate: str,
    home: str,
    seed: int,
    sets: dict[str, Set],
    steps: int | None,
) -> dict[str, Any]:
    from mappable.learning.trainer import train
    from mappable.places.frames import Frame
    from mappable.places.table import Places

    chosen, settings = sets[home], settings_of(candidate, home, seed)
    if steps and settings.iterations:
        settings = settings.model_copy(update={"iterations": steps})
    rows = chosen.train
    places = Places(
        path=[f"{row:06d}.jpg" for row in rows],
        x=chosen.x[rows, 0],
        y=chosen.x[rows, 1],
        yaw=chosen.yaw[rows],
        frames=Frame(name=home, unit=RADII[home][2]),
        sequence=chosen.sequence[rows].astype(object),
        split=np.array(["train"] * len(rows), dtype=object),
    )
    began = time.time()
    encoder = train(places, chosen.pixels[rows], settings, device=DEVICE)
    seconds = time.time() - began
    encoder.eval()

    def describe(target: Set, wanted: np.ndarray) -> torch.Tensor:
        parts = []
        with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16):
            for part in np.array_split(wanted, -(-len(wanted) // 128)):
                pixels = torch.from_numpy(target.pixels[part]).to(DEVICE)
                parts.append(encoder(pixels).float())
        return torch.cat(parts)

    row: dict[str, Any] = {
        "phase": phase,
        "candidate": candidate,
        "home": home,
        "seed": seed,
        "seconds": round(seconds, 1),
    }
    row["sets"] = {name: score(describe, target) for name, target in sets.items()}
    row["metric"] = score_metric(describe, chosen)
    return row


def run(given: argparse.Namespace) -> None:
    until = given.until or time.time() + 60 * given.minutes
    if given.workers > 1:
        running = []
        for worker in range(given.workers):
            command = [
                sys.executable,
                __file__,
                "run",
                str(given.work),
                given.phase,
                str(given.out),
                "--until",
                str(until),
                "--share",
                f"{worker}/{given.workers}",
            ]
            command += ["--seeds", *map(str, given.seeds)]
            command += ["--only", *given.only] if given.only else []
            command += ["--homes", *given.homes] if given.homes else []
            command += ["--steps", str(given.steps)] if given.steps else []
            running.append(
                subprocess.Popen(
                    command,
                    stderr=Path(f"{given.out}.{worker}.log").open("w"),  # noqa: SIM115 - the worker keeps it
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                )
            )
        for process in running:
            process.wait()
        return
    _use_half_weights(given.work)
    sets = {
        name: load(given.work, name, given.phase)
        for name in RADII
        if (given.work / f"{name}.npz").exists()
    }
    homes = given.homes or list(sets)
    tasks = [
        (candidate, home, seed)
        for seed in given.seeds
        for candidate in given.only or CANDIDATES
        for home in homes
        if home in sets
    ]
    share, workers = map(int, given.share.split("/"))
    for number, (candidate, home, seed) in enumerate(tasks):
        if number % workers != share or time.time() > until:
            continue
        try:
            row = one(given.work, given.phase, candidate, home, seed, sets, given.steps)
        except Exception as error:  # one model must not stop the others
            print(f"{candidate} {home} failed: {error!r}", flush=True)
            import traceback

            traceback.print_exc()
            continue
        torch.cuda.empty_cache()
        with Path(f"{given.out}.{share}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        own = row["sets"][home]
        away = np.mean([cells["found"] for name, cells in row["sets"].items() if name != home])
        print(
            f"{candidate} | {home} {seed}: {own['found']} % at home, {away:.1f} % away", flush=True
        )


def table(given: argparse.Namespace) -> None:
    """Print means over seeds: per home the descriptor, the metric of all visits, and the metric of
    the map.
    """
    rows = [
        json.loads(line) for file in given.files for line in Path(file).read_text().splitlines()
    ]
    keys = [
        "found",
        "across pearson r2",
        "across pearson 2r2",
        "across error r1-r2",
        "across error r2-2r2",
    ]
    print(f"{'':26s}{'':12s}", *(key.removeprefix("across ").rjust(14) for key in keys))
    for name in dict.fromkeys(row["candidate"] for row in rows):
        for home in RADII:
            own = [row for row in rows if row["candidate"] == name and row["home"] == home]
            for kind in ("descriptor", "all visits", "map") if own else ():
                cells = [
                    row["sets"][home] if kind == "descriptor" else row["metric"][kind]
                    for row in own
                ]
                means = [
                    np.mean([cell[key] for cell in cells if cell.get(key) is not None])
                    for key in keys
                ]
                print(f"{name[:14]:15s}{home:11s}{kind:12s}", *(f"{mean:14.3f}" for mean in means))


def rule(given: argparse.Namespace) -> None:
    """Decide `distillation`: 50 stays, unless 20 finds more on average at home and away."""
    rows = json.loads(given.file.read_text("utf-8"))
    means = {}
    for name, distillation in (("default", 50), ("default, distillation 20", 20)):
        models = [row for row in rows if row["candidate"] == name]
        home = np.mean([row["descriptor"]["found"] for row in models])
        away = np.mean([np.mean(list(row["found away"].values())) for row in models])
        means[distillation] = (home + away) / 2
        print(
            f"distillation {distillation}: {home:.1f} % at home, {away:.1f} % away, {len(models)}"
            " models"
        )
    print(f"the rule keeps distillation {20 if means[20] > means[50] else 50}")


def keep(given: argparse.Namespace) -> None:
    """Write what the README quotes: found at home and away, and proportionality at home, per model."""
    kept = []
    for line in (line for file in given.files for line in Path(file).read_text().splitlines()):
        row = json.loads(line)
        home = row["sets"].pop(row["home"])
        away = {name: cells["found"] for name, cells in row["sets"].items()}
        raw_away = {name: cells["raw found"] for name, cells in row["sets"].items()}
        home = {key: value for key, value in home.items() if not key.startswith("head")}
        kept.append(
            {key: row[key] for key in ("phase", "candidate", "home", "seed", "seconds")}
            | {"descriptor": home, "found away": away, "found away, not centered": raw_away}
            | ({"metric": row["metric"]} if "metric" in row else {})
        )
    given.out.write_text("[\n" + ",\n".join(json.dumps(row) for row in kept) + "\n]\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    sub = commands.add_parser("pack")
    sub.add_argument("folder", type=Path)
    sub.add_argument("work", type=Path)
    sub.set_defaults(do=lambda given: pack(given.folder, given.work))
    sub = commands.add_parser("draw")
    sub.add_argument("work", type=Path)
    sub.set_defaults(do=lambda given: draw(given.work))
    sub = commands.add_parser("run")
    sub.add_argument("work", type=Path)
    sub.add_argument("phase", choices=["choose", "test"])
    sub.add_argument("out", type=Path)
    sub.add_argument("--workers", type=int, default=1)
    sub.add_argument("--minutes", type=float, default=8)
    sub.add_argument("--until", type=float)
    sub.add_argument("--share", default="0/1")
    sub.add_argument("--seeds", type=int, nargs="+", default=[0])
    sub.add_argument("--only", nargs="+")
    sub.add_argument("--homes", nargs="+")
    sub.add_argument("--steps", type=int)
    sub.set_defaults(do=run)
    sub = commands.add_parser("table")
    sub.add_argument("files", nargs="+")
    sub.set_defaults(do=table)
    sub = commands.add_parser("rule")
    sub.add_argument("file", type=Path)
    sub.set_defaults(do=rule)
    sub = commands.add_parser("keep")
    sub.add_argument("out", type=Path)
    sub.add_argument("files", nargs="+")
    sub.set_defaults(do=keep)
    given = parser.parse_args()
    given.do(given)


if __name__ == "__main__":
    main()
