"""What a laptop gains in a minute: off-the-shelf against triplet against triplet + Huber on the demo's street.

    python scripts/laptop.py demo/street --out results.json

Trains the last block alone (preset `street-laptop`) for three seeds, and scores the test images: the nearest of 100
landmarks by descriptor is right if it lies within the positive radius.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from mappable.arrays import Floats
from mappable.features.encoder import Encoder
from mappable.learning.settings import Settings, load_settings
from mappable.learning.trainer import train
from mappable.places.cache import PackedImages, find_pack
from mappable.places.files import load_places
from mappable.places.sampling import farthest_points
from mappable.places.table import Places

METHODS = {"off-the-shelf": {"iterations": 0}, "triplet": {"loss": "triplet"}, "triplet+huber": {}}


def errors(encoder: Encoder, places: Places, pack: PackedImages, settings: Settings) -> Floats:
    """How far from each test image its nearest landmark by descriptor was taken, in metres."""
    candidates, queries = places.where(split="train"), places.where(split="test")
    landmarks = candidates[farthest_points(candidates.positions, settings.landmarks)]
    nearest = (encoder.embed(pack.view(queries)) @ encoder.embed(pack.view(landmarks)).T).argmax(1)
    return np.linalg.norm(queries.positions - landmarks.positions[nearest], axis=1)


def measure(folder: Path, seed: int, method: str, out: Path) -> dict[str, Any]:
    """Train one model and score it."""
    settings = load_settings("street-laptop", overrides={"seed": seed} | METHODS[method])
    places, pack = load_places(folder), find_pack(folder, settings.size, settings.fit)
    run = out / f"{method}-{seed}"
    encoder = train(places, pack.view(places), settings, out=run, activations=folder / "activations")
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    apart = errors(encoder, places, pack, settings)
    within = {f"{radius:g} m": 100 * float((apart <= radius).mean()) for radius in (10.0, 25.0)}
    seconds = max((line["seconds"] for line in steps if "seconds" in line), default=0.0)
    return {"seed": seed, "method": method, "training_seconds": seconds, "within": within}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the demo's street: mappable simulate street-v1-demo FOLDER")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, help="a JSON file for all of it")
    given = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as out:
        for seed in given.seeds:
            for method in METHODS:
                results.append(measure(given.folder, seed, method, Path(out)))
                print(json.dumps(results[-1]), flush=True)
    for method in METHODS:
        own = [result for result in results if result["method"] == method]
        shares = ", ".join(f"{result['within']['10 m']:.1f}" for result in own)
        average = mean(result["within"]["10 m"] for result in own)
        seconds = mean(result["training_seconds"] for result in own)
        print(f"{method:14} within 10 m: {shares} %, mean {average:.1f} %; training {seconds:.0f} s")
    if given.out:
        given.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
