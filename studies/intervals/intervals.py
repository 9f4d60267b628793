"""Measures localization on a simulated world: intervals, rejection, refined positions, sequences; several seeds.

    mappable reproduce street-v1 --rows triplet+huber-ours --seeds 0,1,2 --device cuda
    python studies/intervals/intervals.py results/street-v1 --device cuda --out street.json
    python studies/intervals/intervals.py --table street.json

For each seed of the study, its encoder is used to choose landmarks and to calibrate on the split `calibration`. The
rejection threshold is set in two ways: from the map alone (`left out`), and with images of the world's other region
(`elsewhere`). All results are scored on the split `test`, on the route that leaves the map, and in the wing that no
encoder trained on. Errors are distances to the true position in metres.
"""

import argparse
import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mappable.arrays import Bools, Floats, Floats32, Ints
from mappable.errors import MappableError
from mappable.evaluation.bootstrap import block_bootstrap, route_blocks
from mappable.evaluation.reproduce import MODELS
from mappable.evaluation.sets import PLACES
from mappable.features.about import About
from mappable.features.encoder import Encoder
from mappable.features.files import ENCODER
from mappable.files import write_atomically
from mappable.maps.calibrate import calibrate
from mappable.maps.calibration import Calibration
from mappable.maps.densification import densify
from mappable.maps.landmarks import greedy_landmarks
from mappable.maps.locate import Locator
from mappable.maps.location import Location
from mappable.maps.map import Map
from mappable.maps.sequence import locate_sequence
from mappable.places.cache import find_pack
from mappable.places.files import load_places
from mappable.places.table import Places

COUNTS = (50, 100, 200, 400)  # numbers of landmarks
DEFAULT_COUNT = 200  # number of landmarks at which all figures are measured
COVERAGE, FALSE_ACCEPTS = 0.9, 0.05
ELLIPSE = 5.991  # 95 % quantile of chi squared with two degrees of freedom

Results = dict[str, Any]


class World:
    """A simulated world: the descriptors of all its images by one encoder, and the part and split of each image."""

    def __init__(self, places: Places, descriptors: Floats32, encoder: str, about: About) -> None:
        self.places, self.descriptors, self.encoder = places, descriptors, encoder
        self.positive_radius, self.negative_radius = about.positive_radius or 0.0, about.negative_radius or 0.0
        named = [name.split("-query")[0].split("-reference")[0] for name in places.sequence]
        self.part = np.array([name if places.role[row] else "main" for row, name in enumerate(named)], dtype=object)
        self.train, self.calibration, self.test = (
            np.flatnonzero(places.split == name) for name in ("train", "calibration", "test")
        )
        self.conditions = set(places.condition[self.calibration])
        self.seen = np.array([condition in self.conditions for condition in places.condition], dtype=bool)

    def of_part(self, part: str, role: str) -> Ints:
        """Rows of a part other than the main one; queries only in conditions that calibration has seen."""
        return np.flatnonzero((self.part == part) & (self.places.role == role) & (self.seen | (role == "reference")))


def maps_of(world: World, count: int, seed: int) -> tuple[Map, dict[str, Calibration]]:
    """A map with `count` landmarks, and its calibrations by name."""
    rows = world.train[greedy_landmarks(world.places[world.train], count, seed)]
    bare = Map.build(world.places[rows], world.descriptors[rows], world.encoder)
    known = world.descriptors[world.calibration], world.places.positions[world.calibration]
    given = {"coverage": COVERAGE, "false_accepts": FALSE_ACCEPTS}
    given |= {"conditions": world.places.condition[world.calibration].tolist()}
    elsewhere = world.descriptors[world.of_part("region-b", "query")]
    calibrations = {
        "left out": calibrate(bare, *known, **given),
        "elsewhere": calibrate(bare, *known, elsewhere=elsewhere, **given),
    }
    if count == DEFAULT_COUNT:
        others = np.setdiff1d(world.train, rows)[:: max(1, len(world.train) // 2500)]
        own = world.descriptors[others], world.places.positions[others]
        given["conditions"] = world.places.condition[others].tolist()
        calibrations["train"] = calibrate(bare, *own, source="train", elsewhere=elsewhere, **given)
    return bare, calibrations


def score(world: World, count: int, seed: int) -> tuple[Results, dict[str, Floats]]:
    """All results of one map, and the errors of every test image."""
    bare, calibrations = maps_of(world, count, seed)
    at, test = world.places.positions, world.test
    result: Results = {"spacing": calibrations["elsewhere"].spacing, "reach": calibrations["elsewhere"].response.reach}
    errors: dict[str, Floats] = {}
    for name, calibration in calibrations.items():
        locator = Locator(bare.with_calibration(calibration))
        found = locator.locate(world.descriptors[test], encoder=world.encoder)
        truly = distances(at[test], positions_of(bare, found))
        result[name] = intervals(found, truly, world.seen[test], locator, world)
        if name != "train":
            result[name] |= rejection(world, locator, found, calibration)
        if name == "elsewhere":
            errors = {"top1": truly, "refined": distances(at[test], coordinates(found))}
            errors["oracle"] = np.min(np.linalg.norm(at[test][:, None] - bare.places.positions, axis=2), axis=1)
            errors["sequence"], result["sequence"] = sequences(world, locator)
            result["refined share"] = float(np.mean([one.refined for one in found]))
            result |= accuracy(errors, world)
            result["deviation"] = normalized(found, at[test], truly, calibration)
            if count <= DEFAULT_COUNT:
                result["wing"] = wing(world, locator.map)
                result["densified"] = densified(world, locator.map)
    return result, errors


def coordinates(found: list[Location]) -> Floats:
    """Estimated positions (n, k)."""
    return np.stack([one.coordinates for one in found])


def positions_of(landmarks: Map, found: list[Location]) -> Floats:
    """Positions (n, k) of the landmarks that were found."""
    row = {name: number for number, name in enumerate(landmarks.places.place_id)}
    return landmarks.places.positions[[row[one.landmark] for one in found]]


def distances(first: Floats, second: Floats) -> Floats:
    """Distances (n,) between positions (n, k)."""
    return np.linalg.norm(first - second, axis=1)


def intervals(found: list[Location], truly: Floats, seen: Bools, locator: Locator, world: World) -> Results:
    """Coverage and width of the intervals, compared with fixed intervals that are the same for every image."""
    low, high = (np.array([getattr(one, name) for one in found], dtype=np.float64) for name in ("low", "high"))
    sure, bounded = np.array([one.confident for one in found]), np.isfinite(low)
    inside = (low <= truly) & (truly <= high)
    known = locator.locate(world.descriptors[world.calibration], encoder=world.encoder)
    usual = distances(world.places.positions[world.calibration], positions_of(locator.map, known))
    usual_sure = usual[[one.confident for one in known]]
    width, width_of_all = (float((high - low)[seen & which].mean()) for which in (sure, bounded))
    return {
        "confident": share(sure[seen]),
        "confident, unseen": share(sure[~seen]),
        "right place where confident": share((truly <= world.negative_radius)[seen & sure]),
        "coverage": share(inside[seen & sure]),
        "coverage of all": share(inside[seen & bounded]),
        "coverage, unseen": share(inside[~seen & sure]),
        "coverage of all, unseen": share(inside[~seen & bounded]),
        "width": width,
        "width / 5 to 95 % of all": width / central(usual),
        "width / shortest of all": width / shortest(usual),
        "width / 5 to 95 % of confident": width / central(usual_sure),
        "width / shortest of confident": width / shortest(usual_sure),
        "width of all / 5 to 95 % of all": width_of_all / central(usual),
        "metres off": float(
            np.median(np.abs(np.array([one.distance for one in found], dtype=np.float64) - truly)[seen & sure])
        ),
    }


def central(values: Floats) -> float:
    """The width of the range without the smallest and the largest 5 %; NaN without values."""
    if not len(values):
        return float("nan")
    return float(np.diff(np.quantile(values, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]))[0])


def shortest(values: Floats) -> float:
    """The width of the shortest range that contains 90 %; NaN without values."""
    if not len(values):
        return float("nan")
    ordered, held = np.sort(values), int(np.ceil(COVERAGE * len(values)))
    return float((ordered[held - 1 :] - ordered[: len(values) - held + 1]).min())


def share(holds: Bools) -> float | None:
    """The share of True in percent; None without values."""
    return 100.0 * float(holds.mean()) if len(holds) else None


def rejection(world: World, locator: Locator, found: list[Location], calibration: Calibration) -> Results:
    """Shares of accepted images: with the map's threshold, and with one that accepts 5 % of the leaving route."""
    leaving = world.of_part("leaving", "query")
    at = world.places.positions
    away = np.linalg.norm(at[leaving][:, None] - locator.positions, axis=2).min(1) > world.negative_radius
    here, absent = (
        locator.look(
            *locator.map.nearest(world.descriptors[rows], calibration.neighbors, encoder=world.encoder)
        ).matched
        for rows in (world.test[world.seen[world.test]], leaving[away])
    )
    sure = np.array([one.confident for one in locator.locate(world.descriptors[leaving[away]], encoder=world.encoder)])
    return {
        "accepted": share(here <= calibration.threshold),
        "falsely accepted": share(absent <= calibration.threshold),
        "falsely confident": share(sure),
        "accepted at 5 %": share(here <= np.quantile(absent, FALSE_ACCEPTS)),
    }


def sequences(world: World, locator: Locator) -> tuple[Floats, Results]:
    """Errors of test images, each drive located as a whole; and how reliable covariances and intervals are."""
    places, by_drive = world.places, dict.fromkeys(world.places.sequence[world.test].tolist())
    errors, squared = np.empty(len(world.test)), np.empty(len(world.test))
    found: list[Location] = [None] * len(world.test)  # type: ignore[list-item]
    for name in by_drive:
        own = np.flatnonzero(places.sequence[world.test] == name)
        some = locate_sequence(locator, world.descriptors[world.test[own]], encoder=world.encoder)
        off = places.positions[world.test[own]] - coordinates(some)
        errors[own] = np.linalg.norm(off, axis=1)
        squared[own] = np.einsum("ni,nij,nj->n", off, np.linalg.inv(np.stack([one.covariance for one in some])), off)
        for row, one in zip(own, some, strict=True):
            found[row] = one
    right = world.seen[world.test] & (errors <= world.negative_radius)
    facts = {
        "mean": float(squared[right].mean() / off.shape[1]),
        "within 95 % ellipse": share(squared[right] <= ELLIPSE),
    }
    for group, which in (("seen", world.seen[world.test]), ("unseen", ~world.seen[world.test])):
        if which.any():
            facts[group] = trust(locator.map, world, world.test[which], [found[row] for row in np.flatnonzero(which)])
    for part in ("leaving", "region-b"):
        rows = world.of_part(part, "query")
        away = (
            np.linalg.norm(places.positions[rows][:, None] - locator.positions, axis=2).min(1) > world.negative_radius
        )
        sure: list[bool] = []
        for name in dict.fromkeys(places.sequence[rows].tolist()):
            own = rows[places.sequence[rows] == name]
            located = locate_sequence(locator, world.descriptors[own], encoder=world.encoder)
            sure += [one.confident for one in located]
        facts[f"falsely confident, {part}"] = share(np.array(sure)[away])
    return errors, facts


def trust(landmarks: Map, world: World, rows: Ints, found: list[Location]) -> Results:
    """Shares of confident images, of wrong ones among them, of images with an interval, and of correct intervals."""
    at = world.places.positions[rows]
    truly, off = distances(at, positions_of(landmarks, found)), distances(at, coordinates(found))
    low, high = (np.array([getattr(one, name) for one in found], dtype=np.float64) for name in ("low", "high"))
    sure, bounded = np.array([one.confident for one in found]), np.isfinite(low)
    return {
        "images": len(rows),
        "confident": share(sure),
        "wrong where confident": share((off > world.negative_radius)[sure]),
        "intervals": share(bounded),
        "coverage": share(((low <= truly) & (truly <= high))[bounded]),
        "median width": float(np.median((high - low)[bounded])) if bounded.any() else None,
    }


def accuracy(errors: dict[str, Floats], world: World) -> Results:
    """Median errors, and shares within the radii, in conditions that calibration has seen and in others."""
    seen, result = world.seen[world.test], {}
    for group, which in (("seen", seen), ("unseen", ~seen)):
        if which.any():
            result[group] = {
                name: {
                    "median": float(np.median(values[which])),
                    "within positive radius": share(values[which] <= world.positive_radius),
                    "within negative radius": share(values[which] <= world.negative_radius),
                }
                for name, values in errors.items()
            }
    return result


def normalized(found: list[Location], true: Floats, truly: Floats, calibration: Calibration) -> Results:
    """Squared errors over the covariance, per dimension, of images at the right place; 1 if it is right."""
    which = np.flatnonzero((truly <= calibration.response.reach) & np.array([one.confident for one in found]))
    off = true[which] - coordinates([found[row] for row in which])
    inverse = np.linalg.inv(np.stack([found[row].covariance for row in which]))
    squared = np.einsum("ni,nij,nj->n", off, inverse, off)
    return {"mean": float(squared.mean() / off.shape[1]), "within 95 % ellipse": share(squared <= ELLIPSE)}


def wing(world: World, landmarks: Map) -> Results:
    """Images of streets or rooms that no training image shows, before and after landmarks there were added."""
    reference, queries = world.of_part("wing", "reference"), world.of_part("wing", "query")
    at, result = world.places.positions, {}
    length = np.linalg.norm(np.diff(at[reference], axis=0), axis=1).sum()
    whole = (
        len(landmarks) * length / np.linalg.norm(np.diff(at[world.test[: len(world.test) // 3]], axis=0), axis=1).sum()
    )
    chosen = reference[greedy_landmarks(world.places[reference], max(2, min(len(reference), round(whole))))]
    larger = landmarks.add(world.places[chosen].replace(split="", role=""), world.descriptors[chosen], world.encoder)
    for name, one in (("before", landmarks), ("after", larger)):
        found = Locator(one).locate(world.descriptors[queries], encoder=world.encoder)
        truly, sure = distances(at[queries], positions_of(one, found)), np.array([each.confident for each in found])
        inside = np.array([(each.low or 0) <= far <= (each.high or 0) for each, far in zip(found, truly, strict=True)])
        result[name] = {
            "landmarks": len(one),
            "within positive radius": share(truly <= world.positive_radius),
            "confident": share(sure),
            "right place where confident": share((truly <= world.negative_radius)[sure]),
            "coverage": share(inside[sure]),
            "median refined": float(np.median(distances(at[queries], coordinates(found)))),
            "single": trust(one, world, queries, found),
        }
        drives = dict.fromkeys(world.places.sequence[queries].tolist())
        rows = [queries[world.places.sequence[queries] == drive] for drive in drives]
        along = [locate_sequence(Locator(one), world.descriptors[own], encoder=world.encoder) for own in rows]
        result[name]["sequence"] = trust(one, world, np.concatenate(rows), [each for some in along for each in some])
    return result


def densified(world: World, landmarks: Map) -> Results:
    """Errors of the last test drive of a seen condition, before and after the first was added without positions."""
    names = list(dict.fromkeys(world.places.sequence[world.test[world.seen[world.test]]]))
    first, last = (world.test[world.places.sequence[world.test] == name] for name in (names[0], names[-1]))
    more = densify(landmarks, world.places[first], world.descriptors[first], encoder=world.encoder, sequence=True)
    added, result = first[more.added], {}
    off = distances(world.places.positions[added], more.map.places.positions[len(landmarks) :])
    result["added"] = {
        "images": len(added),
        "of": len(first),
        "median error": float(np.median(off)) if len(off) else None,
    }
    for name, one in (("before", landmarks), ("after", more.map)):
        found = Locator(one).locate(world.descriptors[last], encoder=world.encoder)
        error = distances(world.places.positions[last], coordinates(found))
        result[name] = {
            "median refined": float(np.median(error)),
            "within positive radius": share(error <= world.positive_radius),
        }
    return result


def compare(errors: dict[int, dict[str, list[Floats]]], world: World, seed: int) -> Results:
    """By how many metres refined positions and sequences are better than top-1, by a paired block bootstrap."""
    places, test, result = world.places, world.test, {}
    along = np.empty(len(test))
    for name in np.unique(places.sequence[test].astype(str)):
        own = np.flatnonzero(places.sequence[test] == name)
        steps = np.linalg.norm(np.diff(places.positions[test[own]], axis=0), axis=1)
        along[own] = np.concatenate([[0.0], np.cumsum(steps)])
    blocks = route_blocks(along, world.negative_radius if world.negative_radius > 5 else 2.0)
    for count, values in errors.items():
        for group, which in (("seen", world.seen[test]), ("unseen", ~world.seen[test])):
            for name in ("refined", "sequence"):
                if which.any():
                    gains = np.stack(values["top1"])[:, which] - np.stack(values[name])[:, which]
                    found = block_bootstrap(gains, blocks[which], seed=seed)
                    result[f"{count}, {group}, {name}"] = vars(found)
    return result


def run(given: argparse.Namespace) -> Results:
    """Compute the results of all seeds of a study."""
    folder = given.study / PLACES
    places = load_places(folder)
    images = find_pack(folder).view(places)
    facts: Results = {
        "study": given.study.name,
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name() if given.device == "cuda" else platform.processor(),
        "torch": torch.__version__,
        "seeds": {},
    }
    errors: dict[int, dict[str, list[Floats]]] = {}
    for seed in given.seeds:
        encoder = Encoder.load(given.study / MODELS / f"{given.row}-seed{seed}" / ENCODER).to(
            torch.device(given.device)
        )
        world = World(places, encoder.embed(images), encoder.fingerprint, encoder.about)
        facts["seeds"][seed] = {}
        for count in given.landmarks:
            facts["seeds"][seed][count], own = score(world, count, seed)
            for kind, values in own.items():
                errors.setdefault(count, {}).setdefault(kind, []).append(values)
        facts["better than top-1, m"] = compare(errors, world, given.seeds[0])
        if given.out:
            text = json.dumps(facts, indent=1) + "\n"
            write_atomically(given.out, lambda stream, text=text: stream.write(text.encode()))
    return facts


def table(facts: Results) -> None:
    """Print means over the seeds."""
    first = next(iter(facts["seeds"].values()))
    for count in [key for key in first if key.isdigit()]:
        runs = [one[count] for one in facts["seeds"].values()]
        print(f"\n{facts['study']}, {count} landmarks, {len(runs)} seeds")
        for line in _means(runs):
            print("  " + line)
    print()
    for name, found in facts["better than top-1, m"].items():
        print(f"  {name}: better by {found['mean']:.2f} m ({found['low']:.2f} to {found['high']:.2f})")


def _means(runs: list[Any], name: str = "") -> list[str]:
    if isinstance(runs[0], dict):
        return [
            line for key in runs[0] for line in _means([run[key] for run in runs], f"{name} / {key}" if name else key)
        ]
    known = [value for value in runs if value is not None]
    if not known:
        return []
    return [f"{name}: {np.mean(known):.3f} ({', '.join(f'{value:.2f}' for value in known)})"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", type=Path, help="folder of a study of street-v1 or rooms-v1")
    parser.add_argument("--row", default="triplet+huber-ours", help="row of the study whose encoders are used")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--landmarks", type=int, nargs="+", default=list(COUNTS))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, help="JSON file to write all results to")
    parser.add_argument("--table", type=Path, help="only print the means of this JSON file")
    given = parser.parse_args()
    if given.table:
        table(json.loads(given.table.read_text()))
        return
    if not given.study:
        parser.error("give the folder of a study, or --table FILE")
    table(json.loads(json.dumps(run(given))))


if __name__ == "__main__":
    try:
        main()
    except MappableError as problem:
        raise SystemExit(f"localization: {problem}") from None
