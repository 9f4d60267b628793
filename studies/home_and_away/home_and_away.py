"""The study of settings at home and away: train candidates on several sets, score them there and on all other sets.

    python studies/home_and_away/home_and_away.py prepare work --real FOLDER --every 2 --device cuda
    python studies/home_and_away/home_and_away.py run work choose --workers 8 --minutes 9
    python studies/home_and_away/home_and_away.py run work test --only "resnet off-the-shelf"
    --seeds 0 --device cpu python studies/home_and_away/home_and_away.py summary work choose python
    studies/home_and_away/home_and_away.py rule work/choose.json python
    studies/home_and_away/home_and_away.py figure work/choose.json figure.png

`prepare` draws both worlds and converts the real sets: `FOLDER` has a folder `nordland`, `gardens`
(three walks) and `racetrack`, each with a `places.csv`. `run` trains the candidates of a study;
stopped or repeated, it continues. `summary` writes one JSON file with all scores. `rule` applies
the rule of its README to it. `figure` draws home against away, with the mean over the seeds.

The study `choose` looks at no test image. It trains and scores as `mappable reproduce --choose`
does. Its away places are the first half of the walks and of the track, the training stretch of
Nordland, and the calibration images of the worlds. The study `test` looks at the other images, with
the settings that `choose` gave. Every candidate starts from the settings of studies/presets, not
from today's presets.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mappable.arrays import Bools, Ints, evenly
from mappable.evaluation.away import MOST_LANDMARKS, MOST_QUERIES, away_place
from mappable.evaluation.protocols import protocols_named
from mappable.evaluation.protocols.home_and_away import HOME, HomeAndAway, gains_of
from mappable.evaluation.protocols.proportionality import Proportionality
from mappable.evaluation.reproduce import RESULTS, PlannedModel, Study, plan
from mappable.evaluation.result import RESULT, Accuracy, Result
from mappable.evaluation.rows import OFF_THE_SHELF, OURS, PAPER_VALUES, Row
from mappable.evaluation.sets import FRAMES_BLOCK, STREET_BLOCK, NamedSet, find_set
from mappable.evaluation.setup import Setup
from mappable.places.files import TABLE, load_places, save_places
from mappable.places.packing import pack_images
from mappable.places.pixels import ImageRows, Images
from mappable.places.table import Places
from mappable.readers.registry import read_places
from mappable_worlds.presets import PRESETS
from mappable_worlds.simulation import simulate

WORLDS = ("street-v1", "rooms-v1")
# Settings of the sets without a preset.
RAILWAY = Path(__file__).parents[1] / "nordland/nordland.yaml"
HOMES = ("nordland", *WORLDS)  # of the studies that choose
# Unit, radius away.
REAL = {"nordland": ("frames", 5.0), "gardens": ("frames", 2.0), "racetrack": ("metres", 10.0)}
RADII = {one: f":{PRESETS[one].positive_radius:g}" for one in WORLDS}
RADII |= {one: f":{radius:g}" for one, (_, radius) in REAL.items()}
STEPS = 1200  # of the presets
PROTOCOLS = ["home-and-away", "table1", "proportionality"]
RESNET = {"weights": "resnet50-keras"}
# Our settings before this study. Candidates change some of them.
SECOND: Mapping[str, Any] = {
    "loss": "triplet+huber",
    "geometric_weight": 5,
    "learning_rate": 1e-4,
    "averaging": 0.99,
    "distillation": 0,
}
SECOND_SCALE = {"street-v1": 1, "rooms-v1": 0.6, "nordland": 0.6, "gardens": 0.6, "racetrack": 1}
LAPTOP: Mapping[str, Any] = {
    "trainable": "last",
    "anchors": 2,
    "cache_every": 60,
    "cache_size": 500,
    "iterations": 300,
    "averaging": 0,
    "mirrored": 0,
    "light": 0,
}


@dataclass(frozen=True)
class Candidate:
    """Settings to try: changes of our settings, or of the paper's; `sets` are its homes, `seeds`
    its seeds.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    paper: bool = False
    sets: Sequence[str] = HOMES
    seeds: Sequence[int] = (0,)
    longer: int = 1  # times the usual number of steps

    def row(self, home: str) -> Row:
        """The row of a study: its name tells `plan` whether the paper's settings apply."""
        if self.paper:
            return Row(self.name, self.name, {**PAPER_VALUES, **self.changes})
        own = {**SECOND, "feature_scale_squared": SECOND_SCALE[home], **self.changes}
        return Row(self.name if self.name == OFF_THE_SHELF else self.name + OURS, self.name, own)


def _paper(loss: str, rate: float, **others: Any) -> Candidate:
    return Candidate(
        f"paper {loss} {rate:g}", {"loss": loss, "learning_rate": rate}, True, **others
    )


# The JSON also has candidates with `layer_decay` and `toward_start`, two settings that no longer
# exist.
SEEDS = (0, 1, 2)
SHELF = Candidate(OFF_THE_SHELF, {"iterations": 0})
SHELF_RESNET = Candidate("resnet off-the-shelf", {"iterations": 0, **RESNET})
BEFORE = Candidate("second study")
DISTIL = {"feature_scale_squared": 2, "distillation": 20}
RESNET_DISTIL = {**RESNET, "feature_scale_squared": 2, "distillation": 20, "learning_rate": 3e-5}
TWO = ("nordland", "street-v1")


LAST = {**RESNET, **DISTIL, "trainable": "last", "mirrored": 0, "light": 0}
LAPTOP_RESNET = {**LAPTOP, **RESNET, **DISTIL}
ALL = (*REAL, *WORLDS)


FAR_LOSSES = ("lazy-quadruplet", "lazy-quadruplet+distance")


def _far(
    loss: str, radius: int | None, sets: Sequence[str] = TWO, scale: object = None
) -> Candidate:
    """One of the paper's losses with a larger positive radius, and with another F²."""
    changes: dict[str, object] = {"loss": loss, "learning_rate": 3e-5}
    name = f"paper {loss}"
    if radius:
        changes |= {"positive_radius": radius, "negative_radius": 2 * radius}
        name += f", radius {radius}"
    if scale:
        changes["feature_scale_squared"] = scale
        name += f", F² {scale}"
    return Candidate(name, changes, True, sets)


def _laptop(name: str, **changes: Any) -> Candidate:
    return Candidate(f"laptop {name}", {**LAPTOP, **changes})


# The values of `mappable train` without a preset, which are the same on all sets.
DEFAULT = {**LAST, "margin": 0.3, "positives_from": "other-runs"}
LAPTOP_DEFAULT = {
    **LAPTOP_RESNET,
    "margin": 0.1,
    "positives_from": "other-runs",
    "cache_every": 100,
}
STRONGER = {"distillation": 50, "learning_rate": 2e-4}
ALL_LAYERS = {"trainable": "all", "light": 0.3}


def _default(name: str, longer: int = 1, **changes: Any) -> Candidate:
    return Candidate(f"resnet default{name}", {**DEFAULT, **changes}, seeds=SEEDS, longer=longer)


def _laptop_default(name: str, **changes: Any) -> Candidate:
    return Candidate(f"laptop resnet default{name}", {**LAPTOP_DEFAULT, **changes}, seeds=SEEDS)


# Five losses of the paper, with and without a geometric term.
BEST_LOSSES = (
    "lazy-quadruplet+distance",
    "huber",
    "triplet+huber",
    "lazy-quadruplet+huber",
    "distance",
)


STUDIES: Mapping[str, Sequence[Candidate]] = {
    "choose": (
        replace(SHELF, seeds=SEEDS),
        Candidate("distillation 20", DISTIL, seeds=SEEDS),
        SHELF_RESNET,
        Candidate("resnet distillation 20", RESNET_DISTIL, seeds=(0, 1)),
        replace(BEFORE, seeds=SEEDS),
        Candidate(
            "distillation 5", {**DISTIL, "distillation": 5}, sets=("rooms-v1",), seeds=(0, 1)
        ),
        Candidate(
            "F² 1, distillation 20",
            {**DISTIL, "feature_scale_squared": 1},
            sets=("rooms-v1",),
            seeds=(0, 1),
        ),
        _laptop("second study"),
        _laptop("distillation 20", **DISTIL),
        _laptop("distillation 20, rate 3e-5", **{**DISTIL, "learning_rate": 3e-5}),
        _laptop("resnet distillation 20", **RESNET_DISTIL),
        _laptop("resnet distillation 20, rate 1e-4", **{**RESNET_DISTIL, "learning_rate": 1e-4}),
        _paper("lazy-quadruplet+distance", 3e-5),
    ),
    "choose-more": (
        Candidate("resnet last", LAST, seeds=SEEDS),
        Candidate("resnet last, rate 2e-4", {**LAST, "learning_rate": 2e-4}),
        Candidate("resnet last, distillation 5", {**LAST, "distillation": 5}),
        Candidate("resnet last, 1024", {**LAST, "dimensions": 1024}),
        Candidate("resnet last, 2048", {**LAST, "dimensions": 2048}),
        Candidate("laptop resnet, rate 2e-4", {**LAPTOP_RESNET, "learning_rate": 2e-4}),
        Candidate("laptop resnet, rate 4e-4", {**LAPTOP_RESNET, "learning_rate": 4e-4}),
        Candidate("laptop resnet, 600 steps", {**LAPTOP_RESNET, "iterations": 600}),
        Candidate("laptop resnet, 1024", {**LAPTOP_RESNET, "dimensions": 1024}),
        _paper("triplet+huber", 3e-5, sets=TWO),
        _paper("huber", 3e-5, sets=TWO),
        Candidate("resnet off-the-shelf, 1024", {"iterations": 0, **RESNET, "dimensions": 1024}),
        replace(SHELF_RESNET, seeds=SEEDS),
        Candidate(
            "resnet last, distillation 50, rate 2e-4",
            {**LAST, "distillation": 50, "learning_rate": 2e-4},
        ),
        Candidate("resnet last, float32", {**LAST, "precision": "float32"}, sets=("nordland",)),
    ),
    # The values of `mappable train` without a preset, and changes of them. First with one seed
    # (`--seeds 0`).
    "choose-default": (
        replace(SHELF_RESNET, seeds=SEEDS),
        _default(", distillation 50, rate 2e-4", **STRONGER),
        _default(""),
        _default(", distillation 50, rate 2e-4, twice the steps", 2, **STRONGER),
        _default(", all layers", **ALL_LAYERS),
        _default(", distillation 50, rate 2e-4, margin 1", **STRONGER, margin=1),
        _laptop_default(""),
        _laptop_default(", 600 steps", iterations=600),
        _laptop_default(", distillation 50, rate 2e-4", **STRONGER),
        _laptop_default(", distillation 50, rate 2e-4, 600 steps", **STRONGER, iterations=600),
    ),
    # The paper's rows that were best with 1e-5, with higher rates; those with 3e-5 that `choose`
    # has are not repeated.
    "choose-paper": (
        *(_paper(loss, 1e-4) for loss in (BEST_LOSSES[0], BEST_LOSSES[1])),
        *(_paper(loss, 3e-5) for loss in BEST_LOSSES[3:]),
        *(_paper(loss, 1e-4, sets=TWO) for loss in BEST_LOSSES[2:]),
        *(
            replace(_paper(loss, rate, longer=2), name=f"paper {loss} {rate:g}, twice the steps")
            for loss in BEST_LOSSES
            for rate in (3e-5, 1e-4)
        ),
    ),
    # How far metres reach. A larger positive radius changes what counts as found: only correlations
    # compare.
    "choose-reach": (
        *(_far(loss, radius) for radius in (100, None, 50) for loss in FAR_LOSSES),
        *(_far(loss, radius, ("rooms-v1",)) for radius in (10, None) for loss in FAR_LOSSES),
        *(_far(FAR_LOSSES[1], radius, scale="measure") for radius in (None, 100)),
    ),
    "test": (
        replace(SHELF, seeds=SEEDS, sets=ALL),
        replace(SHELF_RESNET, seeds=SEEDS, sets=ALL),
        Candidate(
            "distillation 20",
            DISTIL,
            seeds=SEEDS,
            sets=("gardens", "racetrack", "nordland", "street-v1"),
        ),
        Candidate("resnet last", LAST, seeds=SEEDS, sets=ALL),
        Candidate("resnet last, 1024", {**LAST, "dimensions": 1024}, seeds=SEEDS, sets=ALL),
        Candidate("laptop resnet", LAPTOP_RESNET, sets=ALL),
        replace(BEFORE, seeds=SEEDS),
        # The paper's best row of each set, by choosing images.
        _paper("huber", 3e-5, seeds=SEEDS, sets=("nordland",)),
        _paper("triplet+huber", 3e-5, seeds=SEEDS, sets=("street-v1",)),
        _paper("lazy-quadruplet+distance", 3e-5, seeds=SEEDS, sets=("rooms-v1",)),
    ),
}
SHELF_OF = {False: OFF_THE_SHELF, True: SHELF_RESNET.name}


def _second_half(places: Places) -> Bools:
    """The part of a real set that `choose` does not look at."""
    if (places.split != "").any():
        return np.asarray(places.split == "test")
    first = next(iter(places.sequences().values()))
    steps = np.linalg.norm(np.diff(places.positions[first], axis=0), axis=1)
    along = np.append(0.0, np.cumsum(steps))
    if places.unit != "frames":  # laps: the position on the first lap counts
        lap = np.flatnonzero(
            np.linalg.norm(places.positions[first] - places.positions[first[0]], axis=1) < 15
        )
        length = along[lap[lap > 50][0]] if (lap > 50).any() else along[-1]
        first, along = first[along < length], along[along < length]
    at = places.positions
    nearest = np.argmin(np.linalg.norm(at[:, None] - at[first], axis=2), axis=1)
    return np.asarray(along[nearest] >= along[-1] / 2)


def prepare(given: argparse.Namespace) -> None:
    """Draw the worlds to arrays, convert the real sets, and write the away places of both studies."""
    work: Path = given.work
    work.mkdir(parents=True, exist_ok=True)
    if given.world is None:
        command = [sys.executable, __file__, "prepare", str(work), "--real", str(given.real)]
        command += ["--every", str(given.every), "--device", given.device]
        running = [subprocess.Popen([*command, "--world", one]) for one in (*WORLDS, "real")]
        if any(one.wait() for one in running):
            raise SystemExit("preparing failed")
        return
    if given.world != "real":
        drawn = simulate(given.world, device=given.device, every=given.every)
        np.save(work / f"{given.world}.npy", drawn.pixels)
        save_places(drawn.places, work / given.world / TABLE)
        named = find_set(given.world)
        settings = plan(named, [BEFORE.row(given.world)], [0])[0].settings
        for study in ("choose", "test"):
            setup = named.setup(drawn.places, settings, choose=study == "choose")
            rows = _some(setup)
            role = np.where(np.isin(rows, setup.queries), "query", "reference").astype(object)
            places = drawn.places[rows].replace(role=role, split="")
            _write_away(places, work / "away" / study / given.world, drawn.pixels[rows])
        return
    for name, (unit, _) in REAL.items():
        extra = {"unit": "frames", "other_splits": "clear"} if unit == "frames" else {}
        places = read_places("manifest", given.real / name, **extra)
        save_places(places, work / name / TABLE)
        later = _second_half(places)
        for study, kept in (("choose", ~later), ("test", later)):
            save_places(
                places[np.flatnonzero(kept)].replace(split=""), work / "away" / study / name / TABLE
            )


def _some(setup: Setup) -> Ints:
    """References and queries, evenly thinned: an away place uses no more."""
    references = setup.references[evenly(len(setup.references), 10 * MOST_LANDMARKS)]
    return np.sort(
        np.concatenate([references, setup.queries[evenly(len(setup.queries), MOST_QUERIES)]])
    )


def _write_away(places: Places, folder: Path, pixels: Any) -> None:
    for path, image in zip(places.path, pixels, strict=True):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file, compress_level=1)
    save_places(places.replace(root=folder), folder / TABLE)


def _own(name: str) -> NamedSet:
    """A real set that `mappable reproduce` does not know: train on one half of the route, test on
    the other.
    """
    preset, block = (None, FRAMES_BLOCK) if name == "gardens" else ("street", STREET_BLOCK)

    def special(places: Places, settings: Any) -> dict[str, object]:
        references, queries = (
            np.flatnonzero(places.role == role) for role in ("reference", "query")
        )
        return {"references": references, "queries": queries, "landmarks": None, "matrices": None}

    settings = None if preset else RAILWAY
    return NamedSet(name, name, preset, block, special, load_places, settings=settings)


def _set(name: str) -> NamedSet:
    named = find_set(name)
    return named if named.preset else replace(named, settings=RAILWAY)


OWN_SETTINGS = {
    "gardens": ("positive_radius=2", "negative_radius=8", "size=240x135", "landmarks=100"),
    "racetrack": ("positive_radius=10", "negative_radius=25", "size=240x180", "landmarks=100"),
}


def _models(
    home: str, candidates: Sequence[Candidate], iterations: int | None, seeds: Sequence[int]
) -> list[PlannedModel]:
    named = _own(home) if home in OWN_SETTINGS else _set(home)
    found = []
    for one in candidates:
        if home in one.sets:
            before = [*OWN_SETTINGS.get(home, ())]
            if "iterations" not in one.changes:
                before.append(f"iterations={(iterations or STEPS) * one.longer}")
            own = [seed for seed in one.seeds if seed in seeds]
            found += plan(named, [one.row(home)], own, before)
    return found


def _study(work: Path, name: str, home: str, device: str, models: Sequence[PlannedModel]) -> Study:
    """The home with its images, and all other sets as away places."""
    settings = models[0].settings
    named = _own(home) if home in OWN_SETTINGS else _set(home)
    places = load_places(work / home)
    if home in WORLDS:
        pixels = np.load(work / f"{home}.npy", mmap_mode="r")
        images: Images = ImageRows(pixels, np.arange(len(places)))
    else:
        if home in OWN_SETTINGS:
            places = _halves(places)
        packed, _ = pack_images(
            places, work / home, size=settings.size, fit=settings.fit, wait=True
        )
        images = packed.view(places)
    setup = named.setup(places, settings, choose=name.startswith("choose"))
    folder = work / "away" / name.partition("-")[0]
    others = tuple(
        replace(away_place(f"{folder / one}{RADII[one]}"), name=one)
        for one in (*WORLDS, *REAL)
        if one != home
    )
    out = work / name / home
    command = "studies/home_and_away/home_and_away.py"
    return Study(
        setup, images, out, protocols_named(PROTOCOLS), device, command=command, away=others
    )


def _halves(places: Places) -> Places:
    """Train on the first half of the route; on the second half, the first sequence is the map."""
    later = _second_half(places)
    first = places.sequence == next(iter(places.sequences()))
    split = np.where(later, "", "train").astype(object)
    role = np.where(~later, "", np.where(first, "reference", "query")).astype(object)
    return places.replace(split=split, role=role)


def _named(
    names: Sequence[str] | None, study: str, sets: Sequence[str], seeds: Sequence[int]
) -> list[Candidate]:
    """The candidates of a study, or those with these names. Those of other studies get these sets
    and seeds.
    """
    own = {one.name: one for one in STUDIES[study]}
    if not names:
        return list(own.values())
    others = {
        one.name: replace(one, sets=sets, seeds=seeds)
        for study in STUDIES.values()
        for one in study
    }
    return [(others | own)[name] for name in names]


def run(given: argparse.Namespace) -> None:
    """Start the workers, which share the models among themselves."""
    until = given.until or time.time() + 60 * given.minutes
    if given.workers > 1:
        command = [
            sys.executable,
            __file__,
            "run",
            str(given.work),
            given.study,
            "--device",
            given.device,
        ]
        command += ["--until", str(until), "--workers", "1"]
        for option in ("iterations", "only", "sets", "seeds"):
            values = getattr(given, option) or []
            command += [f"--{option}", *map(str, values)] if values else []
        environment = {**os.environ, "OMP_NUM_THREADS": "2"}
        running = []
        for number in range(given.workers):
            log = (given.work / f"{given.study}-{number}.log").open("a")
            running.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        for one in running:
            one.wait()
        return
    candidates = _named(given.only, given.study, given.sets or ALL, given.seeds)
    homes = list(dict.fromkeys(home for one in candidates for home in one.sets))
    homes = [home for home in homes if not given.sets or home in given.sets]
    steps = (given.iterations or [None])[0]
    planned = {home: _models(home, candidates, steps, given.seeds) for home in homes}
    studies = {
        home: _study(given.work, given.study, home, given.device, planned[home]) for home in homes
    }
    # In the order of the candidates, so that a deadline cuts the last ones.
    order = {row: number for number, row in enumerate(one.name for one in candidates)}
    tasks = [(order[model.row.title], home, model) for home in homes for model in planned[home]]
    for _, home, model in sorted(tasks, key=lambda task: task[0]):
        if time.time() > until:
            return
        began = time.time()
        try:
            for result in studies[home].run([model]):
                found = result.get(HomeAndAway)
                percent = found.home.percent if found else float("nan")
                print(
                    f"{home} {model.folder}: {percent:.1f} %, {time.time() - began:.0f} s",
                    flush=True,
                )
        except Exception as error:  # one candidate must not stop the others
            print(f"{home} {model.folder} failed: {error!r}", flush=True)


def _gains(results: Mapping[tuple[str, str, int | None], Result]) -> list[dict[str, Any]]:
    """Gains over off the shelf with 95 % intervals: over VGG-16, and over the same network."""
    rows = []
    for home, title in dict.fromkeys((home, title) for home, title, _ in results):
        own = {key[2]: one for key, one in results.items() if key[:2] == (home, title)}
        for shelf in dict.fromkeys((OFF_THE_SHELF, SHELF_OF["resnet" in title])):
            pairs = [
                (own[seed], results[home, shelf, seed])
                for seed in own
                if (home, shelf, seed) in results
            ]
            both = [(one.get(HomeAndAway), other.get(HomeAndAway)) for one, other in pairs]
            accuracies = [(one.places, other.places) for one, other in both if one and other]
            if accuracies and title != shelf:
                intervals = gains_of(accuracies, ALL)
                found = {name: [gain.mean, gain.low, gain.high] for name, gain in intervals.items()}
                gains = {
                    name: [round(number, 2) for number in numbers]
                    for name, numbers in found.items()
                }
                rows.append(
                    {"home set": home, "candidate": title, "over": shelf, "seeds": len(accuracies)}
                    | gains
                )
    return rows


def summary(given: argparse.Namespace) -> None:
    """Write all scores of a study to `WORK/STUDY.json`, and gains with intervals to
    `WORK/STUDY-gains.json`.
    """
    rows, results = [], {}
    for file in sorted((given.work / given.study).glob(f"*/{RESULTS}/*/{RESULT}")):
        result = Result.load(file.parent)
        found, accuracy, pairs = (
            result.get(HomeAndAway),
            result.get(Accuracy),
            result.get(Proportionality),
        )
        if found is None:
            continue
        results[file.parents[2].name, result.title, result.seed] = result
        row: dict[str, Any] = {
            "home set": file.parents[2].name,
            "candidate": result.title,
            "seed": result.seed,
            "home": round(found.home.percent, 2),
            "away": {
                name: round(one.percent, 2) for name, one in found.places.items() if name != HOME
            },
            "seconds": round(float(result.ran.get("training_seconds", 0)), 1),
        }
        if accuracy:
            row["negative radius"] = round(accuracy.negative[0], 2)
        if pairs:
            row["pearson"] = round(pairs.pearson or 0, 4)
            row["same view"] = {
                visits: ways["descriptor"].pearson for visits, ways in pairs.relations.items()
            }
        rows.append(row)
    file = given.work / f"{given.study}.json"
    file.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    gains = json.dumps(_gains(results), indent=1)
    file.with_name(f"{given.study}-gains.json").write_text(gains + "\n", "utf-8")
    print(f"{len(rows)} models: {file}")


def _means(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[float, float, int]]:
    """Percent found at home and on the other sets, mean over seeds, and number of seeds, by
    candidate and home.
    """
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["candidate"], row["home set"]), []).append(row)
    return {
        key: (
            float(np.mean([row["home"] for row in own])),
            float(
                np.mean(
                    [
                        percent
                        for row in own
                        for other, percent in row["away"].items()
                        if other in ALL
                    ]
                )
            ),
            len(own),
        )
        for key, own in found.items()
    }


def rule(given: argparse.Namespace) -> None:
    """Apply the rule: which candidates are admissible, and which one is chosen. Last line: names of
    the best.
    """
    means = _means(json.loads(given.rows.read_text("utf-8")))
    admissible = {}
    for name in dict.fromkeys(name for name, _ in means):
        shelf = SHELF_OF["resnet" in name]
        if name == shelf or name.startswith("laptop") != given.laptop or name.startswith("paper"):
            continue
        own = np.array([means[name, home][:2] for home in HOMES if (name, home) in means])
        if len(own) < len(HOMES) or any(means[name, home][2] < given.fewest for home in HOMES):
            continue
        change = own[:, 1] - [means[shelf, home][1] for home in HOMES]
        allowed = change.mean() >= -1 and change.min() >= -2
        home, away = own.mean(axis=0)
        print(
            f"{home:5.1f} {away:5.1f} {'yes' if allowed else 'no':4s}{name}  home, away:",
            *own.round(1).tolist(),
        )
        if allowed:
            admissible[name] = home, away
    best = max((home for home, _ in admissible.values()), default=0.0)
    order = sorted(
        admissible, key=lambda name: admissible[name][1 if admissible[name][0] >= best - 1 else 0]
    )
    equal = [name for name in order[::-1] if admissible[name][0] >= best - 1]
    print("|".join([*equal, *(name for name in order[::-1] if name not in equal)][: given.most]))


# Kinds of candidates in the figure: label, color, and whether a candidate belongs to it. The first
# that fits counts.
KINDS: Sequence[tuple[str, str, Any]] = (
    ("off the shelf", "black", lambda name: "off-the-shelf" in name),
    ("the paper's rows", "#e69f00", lambda name: name.startswith("paper")),
    ("preset of the second study", "#d55e00", lambda name: name.endswith("second study")),
    ("ResNet-50", "#009e73", lambda name: "resnet" in name),
    ("VGG-16", "#0072b2", lambda name: True),
)
# What `mappable train` does without a preset.
CIRCLED = "resnet default, distillation 50, rate 2e-4"


def figure(given: argparse.Namespace) -> None:
    """Draw percent found at home against the mean over the other sets, one panel per home."""
    import matplotlib.pyplot as plt

    means = _means(json.loads(given.rows.read_text("utf-8")))
    homes = [home for home in ALL if any(own == home for _, own in means)]
    drawn, axes = plt.subplots(
        1, len(homes), figsize=(4.6 * len(homes), 4.2), squeeze=False, layout="constrained"
    )
    for home, axis in zip(homes, axes[0], strict=True):
        for name in (name for name, own in means if own == home):
            found, away, _ = means[name, home]
            at = away, found
            label, color, _ = next(kind for kind in KINDS if kind[2](name))
            marker = "^" if name.startswith("laptop") else "o"
            axis.plot(
                *at,
                marker,
                color=color,
                label=label,
                markersize=8 if "off-the-shelf" in name else 6,
            )
            if name == CIRCLED:
                axis.plot(*at, "o", color="black", fillstyle="none", markersize=14)
        axis.set(
            title=f"trained on {home}",
            xlabel="found on the four other sets [%]",
            ylabel="found at home [%]",
        )
        axis.grid(alpha=0.3)
    labels = {
        text: line
        for axis in axes[0]
        for line, text in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    found = [(label, labels[label]) for label, _, _ in KINDS if label in labels]
    drawn.legend(
        [line for _, line in found],
        [label for label, _ in found],
        loc="outside lower center",
        ncols=5,
    )
    drawn.savefig(given.out, dpi=110)


def main() -> None:
    """Run one of the four commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("prepare")
    one.add_argument("work", type=Path)
    one.add_argument("--real", type=Path, required=True)
    one.add_argument("--every", type=int, default=1)
    one.add_argument("--device", default="cpu")
    one.add_argument("--world")
    one.set_defaults(do=prepare)
    one = commands.add_parser("run")
    one.add_argument("work", type=Path)
    one.add_argument("study", choices=STUDIES)
    one.add_argument("--workers", type=int, default=1)
    one.add_argument("--minutes", type=float, default=1e6)
    one.add_argument("--until", type=float)
    one.add_argument(
        "--iterations", type=int, nargs=1, help="steps of every candidate that gives none"
    )
    one.add_argument("--only", nargs="+", help="names of candidates")
    one.add_argument("--sets", nargs="+", help="names of homes")
    one.add_argument("--seeds", nargs="+", type=int, default=SEEDS, help="seeds of the candidates")
    one.add_argument("--device", default="auto")
    one.set_defaults(do=run)
    one = commands.add_parser("summary")
    one.add_argument("work", type=Path)
    one.add_argument("study", choices=STUDIES)
    one.set_defaults(do=summary)
    one = commands.add_parser("rule")
    one.add_argument("rows", type=Path, help="file of `summary`")
    one.add_argument("--laptop", action="store_true", help="candidates for a laptop")
    one.add_argument("--fewest", type=int, default=1, help="fewest seeds of a candidate")
    one.add_argument(
        "--most", type=int, default=4, help="candidates that the last line names at most"
    )
    one.set_defaults(do=rule)
    one = commands.add_parser("figure")
    one.add_argument("rows", type=Path, help="file of `summary`")
    one.add_argument("out", type=Path)
    one.set_defaults(do=figure)
    given = parser.parse_args()
    given.do(given)


if __name__ == "__main__":
    main()
