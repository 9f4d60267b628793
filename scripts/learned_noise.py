"""The noise profile `learned` of the recovery study, fitted to a trained encoder.

    mappable simulate street-v1-demo town
    mappable train town model --preset street-laptop
    python scripts/learned_noise.py town model --out learned.json

Pairs are of images of the same run, up to 40 m apart. How the encoder behaves is fitted to the test runs; what its user
knows of that, and so makes metres with, to the calibration runs alone, like the bound up to which 95 % of their pairs
are within 15 m. Printed beside it is how many pairs the bound lets through, by true distance: in each test run, and in
runs along the same positions with the fitted noise; and how far off the default recovery is with either, beside a
straight line.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError, MappableError
from mappable.features.encoder import Encoder
from mappable.learning.settings import load_settings
from mappable.places.cache import find_pack
from mappable.places.files import load_places
from mappable.places.table import Places
from mappable.recovery.align import aligned_score
from mappable.recovery.matrices.mask import choose_threshold
from mappable.recovery.ranges import Ranges
from mappable.recovery.study.baselines import trivial_rows
from mappable.recovery.study.learned_noise import FARTHEST, LearnedNoise, Profile, fit_learned, measure_learned
from mappable.recovery.unanchored.pipeline import recover

BANDS = (0.0, 2.5, 5.0, 7.5, 10.0, 15.0, 20.0, 40.0, np.inf)  # metres
Pairs = tuple[Floats, Floats, Ints, Ints]  # squared feature distances, metres, and the rows of the two images


def describe(folder: Path, encoder: Encoder) -> tuple[Places, Floats]:
    """The places of the calibration and test runs, and their descriptors."""
    places = load_places(folder)
    chosen = places[np.flatnonzero(np.isin(places.split, ["calibration", "test"]))]
    for split in ("calibration", "test"):
        if not (chosen.split == split).any():
            raise BadInputError(f"{folder}: no place has the split {split!r}")
    pack = find_pack(folder, encoder.about.size)
    return chosen, encoder.embed(pack.view(chosen), precision="float32").astype(np.float64)


def pairs_of(places: Places, descriptors: Floats, rows: Ints) -> Pairs:
    """All pairs of images of one run."""
    first, second = (rows[side] for side in np.triu_indices(len(rows), 1))
    squared = np.square(descriptors[rows]).sum(1)
    products = descriptors[rows] @ descriptors[rows].T
    apart = (squared[:, None] + squared - 2 * products)[np.triu_indices(len(rows), 1)]
    metres = np.linalg.norm(places.positions[first] - places.positions[second], axis=1)
    return np.maximum(apart, 1e-6), metres, first, second


def joined(runs: list[Pairs]) -> Pairs:
    squared, metres, first, second = (np.concatenate(column) for column in zip(*runs, strict=True))
    return squared, metres, first, second


def fitted(pairs: Pairs) -> LearnedNoise:
    near = pairs[1] <= FARTHEST
    return fit_learned(*(column[near] for column in pairs))


def measured(pairs: Pairs, rows: Ints, profile: Profile) -> Ranges:
    """The ranges of a run as its images give them: what `measure_learned` imitates."""
    squared, _, first, second = pairs
    i, j = np.searchsorted(rows, first), np.searchsorted(rows, second)
    kept = (squared <= profile.bound) | (j == i + 1)
    metres = profile.calibration.metres(squared[kept])
    return Ranges(len(rows), i[kept], j[kept], metres, profile.calibration.sigma(metres))


def look(name: str, ranges: Ranges, positions: Floats) -> None:
    """How many pairs of each true distance were let through, and how far off the recovered positions are."""
    true = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    off = aligned_score(recover(ranges).positions, positions).of_length
    print(f"{name:24}", *(f"{count:5}" for count in np.histogram(true, BANDS)[0]), f"{off:8.1f} %")


def check(places: Places, runs: dict[str, tuple[Ints, Pairs]], profile: Profile) -> None:
    """Each test run beside what the profile makes of its positions."""
    print("pairs let through, by true metres:", ", ".join(f"to {edge:g}" for edge in BANDS[1:]), "; error of the path")
    for name, (rows, pairs) in runs.items():
        if places.split[rows[0]] == "test":
            positions = places.positions[rows]
            look(name, measured(pairs, rows, profile), positions)
            for seed in range(5):
                look(f"  simulated, seed {seed}", measure_learned(positions, profile, seed=seed), positions)
            print(f"  a straight line: {trivial_rows(positions)['straight line'].of_length:.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("town", type=Path, help="a folder written by `mappable simulate` or `mappable convert`")
    parser.add_argument("model", type=Path, help="the folder of a run of `mappable train` on it")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file for the profile")
    given = parser.parse_args()
    encoder = Encoder.load(given.model / "encoder.safetensors")
    settings = load_settings(None, given.model / "settings.yaml")
    places, descriptors = describe(given.town, encoder)
    runs = {name: (rows, pairs_of(places, descriptors, rows)) for name, rows in sorted(places.sequences().items())}
    test, calibration = (
        joined([pairs for rows, pairs in runs.values() if places.split[rows[0]] == split])
        for split in ("test", "calibration")
    )
    bound = choose_threshold(calibration[0], calibration[1], settings.positive_radius)
    about = {
        "commands": __doc__.split("\n\n")[1].replace("    ", "").splitlines(),
        "seed": settings.seed,
        "loss": settings.loss,
        "encoder": encoder.fingerprint,
        "runs": {name: f"{places.split[rows[0]]}, {len(rows)} images" for name, (rows, _) in runs.items()},
        "pairs": {"test": int((test[1] <= FARTHEST).sum()), "calibration": int((calibration[1] <= FARTHEST).sum())},
        "bound": str(bound).replace("training", "calibration"),
        "date": datetime.now(UTC).date().isoformat(),
    }
    profile = Profile(fitted(test), fitted(calibration), bound.squared, about)
    given.out.write_text(profile.to_json())
    print(profile.to_json())
    check(places, runs, profile)


if __name__ == "__main__":
    try:
        main()
    except MappableError as problem:
        raise SystemExit(f"learned_noise: {problem}") from None
