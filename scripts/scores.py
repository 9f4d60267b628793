"""What training gains on a simulated world: several losses and seeds, each trained and then scored on the test images.

    python scripts/scores.py demo/street --preset street-laptop           # a folder; on two cores
    python scripts/scores.py street-v1 --preset street --device cuda      # drawn in memory; on a GPU

A test image is right if the nearest of the landmarks, by descriptor, was taken within the radius of it. Landmarks are
chosen greedily among the training images; their number is that of the settings.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from mappable.arrays import Pixels
from mappable.errors import MappableError
from mappable.features.activations import FOLDER
from mappable.features.encoder import Encoder
from mappable.learning.settings import Settings, load_settings
from mappable.learning.trainer import train
from mappable.places.cache import ImageRows, find_pack
from mappable.places.files import load_places
from mappable.places.sampling import farthest_points
from mappable.places.table import Places
from mappable.places.worlds.simulation import simulate

OFF_THE_SHELF = "off-the-shelf"


def score(encoder: Encoder, places: Places, images: Pixels | ImageRows, settings: Settings) -> list[dict[str, Any]]:
    """For landmark seeds 0 to 4, the percentage of test images that are right: within each radius, by condition."""
    train_rows, queries = (np.flatnonzero(places.split == split) for split in ("train", "test"))
    described, conditions = encoder.embed(images[queries]), places.condition[queries]
    chosen = [train_rows[farthest_points(places.positions[train_rows], settings.landmarks, one)] for one in range(5)]
    known = np.unique(np.concatenate(chosen))
    of_known = encoder.embed(images[known])
    scores = []
    for landmarks in chosen:
        nearest = landmarks[(described @ of_known[np.searchsorted(known, landmarks)].T).argmax(1)]
        apart = np.linalg.norm(places.positions[queries] - places.positions[nearest], axis=1)
        right = 100.0 * (apart <= settings.positive_radius)
        by_condition = {one: float(right[conditions == one].mean()) for one in np.unique(conditions)}
        far = 100.0 * float((apart <= settings.negative_radius).mean())
        scores.append({"positive_radius": float(right.mean()), "negative_radius": far, "by_condition": by_condition})
    return scores


def run(
    places: Places, images: Pixels | ImageRows, settings: Settings, device: str, activations: Path | None
) -> dict[str, Any]:
    """Train one encoder and score it."""
    with tempfile.TemporaryDirectory() as out:
        encoder = train(places, images, settings, out=out, device=device, activations=activations)
        lines = [json.loads(line) for line in (Path(out) / "metrics.jsonl").read_text().splitlines()]
    seconds = max((line["seconds"] for line in lines if "seconds" in line), default=0.0)
    return {"training_seconds": seconds, "scores": score(encoder, places, images, settings)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("world", help="a folder written by `mappable simulate`, or the name of a world to draw")
    parser.add_argument("--preset", required=True, help="settings: street, street-laptop or rooms")
    parser.add_argument("--losses", nargs="+", default=[OFF_THE_SHELF, "triplet", "triplet+huber"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--set", dest="values", nargs="+", default=[], metavar="KEY=VALUE", help="other settings")
    parser.add_argument("--out", type=Path, help="a JSON file for all of it")
    given = parser.parse_args()
    images: Pixels | ImageRows
    if Path(given.world).is_dir():
        places, activations = load_places(given.world), Path(given.world) / FOLDER
        images = find_pack(given.world).view(places)
    else:
        world = simulate(given.world, parts=["main"], device=given.device)
        places, images, activations = world.places, world.pixels, None
    results: list[dict[str, Any]] = []
    for loss in given.losses:
        for seed in given.seeds:
            what = "iterations=0" if loss == OFF_THE_SHELF else f"loss={loss}"
            settings = load_settings(given.preset, overrides=[*given.values, what, f"seed={seed}"])
            found = {"loss": loss, "seed": seed} | run(places, images, settings, given.device, activations)
            results.append(found)
            print(json.dumps(found), flush=True)
            if given.out:
                given.out.write_text(json.dumps(results, indent=1) + "\n")
    for loss in given.losses:
        own = [result for result in results if result["loss"] == loss]
        shares = [result["scores"][0]["positive_radius"] for result in own]
        seconds = mean(result["training_seconds"] for result in own)
        listed = ", ".join(f"{share:.1f}" for share in shares)
        print(f"{loss:22} {listed} %, mean {mean(shares):.1f} %; training {seconds:.0f} s")


if __name__ == "__main__":
    try:
        main()
    except MappableError as problem:
        raise SystemExit(f"scores: {problem}") from None
