"""Fits the noise profile `learned` of the recovery study to a trained encoder.

    mappable simulate street-v1-demo town
    mappable train town model --preset street-laptop
    python studies/recovery/fit_learned_noise.py town model --out learned.json

Pairs are images of the same run, up to 40 m apart. The profile has two parts. The test runs show
how the encoder behaves. The calibration runs alone show what its user knows: the conversion to
metres, and a bound. Of the calibration pairs below the bound, 95 % are within 15 m.

The script also prints the number of pairs below the bound, by true distance. It does so for each
test run, and for simulated runs with the fitted noise along the same positions. For both it prints
the error of the default recovery, next to that of a straight line.
"""

import argparse
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares, nnls

from learned_noise import FARTHEST, LearnedNoise, Profile, measure_learned
from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError, MappableError
from mappable.features.encoder import Encoder
from mappable.learning.settings import load_settings
from mappable.places.cache import find_pack
from mappable.places.files import load_places
from mappable.places.table import Places
from mappable.recovery.align import aligned_score
from mappable.recovery.baselines import trivial_rows
from mappable.recovery.matrices.mask import choose_threshold
from mappable.recovery.pipeline import recover
from mappable.recovery.ranges import Ranges

ROUNDS = 20  # of expectation-maximization
LEAST_VARIANCE = 1e-9
BANDS = (0.0, 2.5, 5.0, 7.5, 10.0, 15.0, 20.0, 40.0, np.inf)  # metres
# Squared feature distances, metres, and the rows of the two images.
Pairs = tuple[Floats, Floats, Ints, Ints]


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
    squared, metres, first, second = pairs
    near = metres <= FARTHEST
    return fit_learned(squared[near], metres[near], first[near], second[near])


def measured(pairs: Pairs, rows: Ints, profile: Profile) -> Ranges:
    """The ranges that the images of a run give; `measure_learned` simulates such ranges."""
    squared, _, first, second = pairs
    i, j = np.searchsorted(rows, first), np.searchsorted(rows, second)
    kept = (squared <= profile.bound) | (j == i + 1)
    metres = profile.calibration.metres(squared[kept])
    return Ranges(len(rows), i[kept], j[kept], metres, profile.calibration.sigma(metres))


def look(name: str, ranges: Ranges, positions: Floats) -> None:
    """Print the number of accepted pairs by true distance, and the error of the recovered
    positions.
    """
    true = np.linalg.norm(positions[ranges.i] - positions[ranges.j], axis=1)
    off = aligned_score(recover(ranges).positions, positions).of_length
    print(f"{name:24}", *(f"{count:5}" for count in np.histogram(true, BANDS)[0]), f"{off:8.1f} %")


def check(places: Places, runs: dict[str, tuple[Ints, Pairs]], profile: Profile) -> None:
    """Print each test run, and runs that the profile simulates along the same positions."""
    print(
        "accepted pairs by true distance in metres:",
        ", ".join(f"to {edge:g}" for edge in BANDS[1:]),
        "; error of the path",
    )
    for name, (rows, pairs) in runs.items():
        if places.split[rows[0]] == "test":
            positions = places.positions[rows]
            look(name, measured(pairs, rows, profile), positions)
            for seed in range(5):
                look(
                    f"  simulated, seed {seed}",
                    measure_learned(positions, profile, seed=seed),
                    positions,
                )
            print(f"  a straight line: {trivial_rows(positions)['straight line'].of_length:.1f} %")


def fit_learned(squared: Floats, apart: Floats, first: Ints, second: Ints) -> LearnedNoise:
    """The noise of pairs of images (pairs,), whose squared feature distances and true distances in
    metres are known.

    Give all pairs of whole sequences up to a distance where the response is flat, such as 40 m.
    Images of different sequences must have different numbers.
    """
    offset, slope, plateau = _fit_response(squared, apart)
    curve = LearnedNoise(offset, slope, plateau, 0.0, 1.0, 0.0, 0.0)
    residuals = np.log(squared / curve.response(apart))
    residuals -= np.median(residuals)
    # Where the response is nearly flat, deviations depend on what else images resemble. Near pairs
    # do not show this.
    near = apart <= curve.reach
    image, shared = _fit_images(residuals[near], apart[near], first[near], second[near])
    noise = replace(curve, image_sigma=image, image_metres=shared)
    near_sigma, far_sigma = _fit_pairs(
        np.square(residuals) - noise.image_variance(apart), np.exp(-apart / curve.reach)
    )
    return replace(noise, near_sigma=near_sigma, far_sigma=far_sigma)


def _fit_response(squared: Floats, metres: Floats) -> tuple[float, float, float]:
    """Offset, slope and plateau, by robust least squares of log s."""

    def misfit(logs: Floats) -> Floats:
        offset, rise, reach = np.exp(logs)
        off: Floats = np.log(squared) - np.log(offset + rise * -np.expm1(-metres / reach))
        return off

    low, high = np.quantile(squared, [0.05, 0.6])
    start = np.log([max(low, 1e-6), max(high - low, 1e-6), max(float(np.median(metres)) / 2, 1e-6)])
    offset, rise, reach = np.exp(least_squares(misfit, start, loss="soft_l1", f_scale=0.3).x)
    return float(offset), float(rise / reach), float(offset + rise)


def _fit_images(residuals: Floats, metres: Floats, i: Ints, j: Ints) -> tuple[float, float]:
    """Standard deviation of the images' deviations, and the metres over which images share them.

    Expectation-maximization: given both and the variance of pairs, the images' deviations have a
    normal distribution. Its mean and covariance follow from a linear system. All three are then set
    to their expectations under it. Matrices are dense, so this suits a few thousand images.
    """
    names, numbers = np.unique(np.concatenate([i, j]), return_inverse=True)
    count, pairs = len(names), len(i)
    both = numbers[:pairs], numbers[pairs:]
    # Number of pairs of two images; on the diagonal, of one image.
    shared = np.zeros((count, count))
    np.add.at(shared, both, 1.0)
    shared += shared.T + np.diag(np.bincount(numbers, minlength=count))
    pull = np.bincount(both[0], residuals, count) + np.bincount(both[1], residuals, count)
    image = pair = max(float(residuals.var()) / 3, LEAST_VARIANCE)
    length = float(np.median(metres))
    for _ in range(ROUNDS):
        prior = image * _likeness(count, both, metres, length)
        covariance = np.linalg.solve(np.eye(count) + prior @ shared / pair, prior)
        deviations = covariance @ pull / pair
        expected = np.diag(covariance) + np.square(deviations)
        products = covariance[both] + deviations[both[0]] * deviations[both[1]]
        left = np.square(residuals) - 2 * residuals * (deviations[both[0]] + deviations[both[1]])
        left += expected[both[0]] + expected[both[1]] + 2 * products
        image, pair = (
            max(float(expected.mean()), LEAST_VARIANCE),
            max(float(left.mean()), LEAST_VARIANCE),
        )
        length = _fit_length(products / image, metres, length)
    return float(np.sqrt(image)), length


def _likeness(count: int, both: tuple[Ints, Ints], metres: Floats, length: float) -> Floats:
    """Correlation of the images' deviations (count, count): exp(-metres / length), and 0 for far
    pairs.
    """
    alike = np.zeros((count, count))
    alike[both] = np.exp(-metres / length)
    alike += alike.T
    lowest = float(np.linalg.eigvalsh(alike)[0])
    # Without the far pairs it may not be positive definite.
    alike[np.diag_indices(count)] = max(1.0, 1e-3 - lowest)
    scaled: Floats = alike / alike[0, 0]
    return scaled


def _fit_length(likeness: Floats, metres: Floats, start: float) -> float:
    def misfit(log_length: Floats) -> Floats:
        off: Floats = likeness - np.exp(-metres / np.exp(log_length[0]))
        return off

    found = least_squares(misfit, [np.log(start)], bounds=(np.log(0.1), np.log(FARTHEST)))
    return float(np.exp(found.x[0]))


def _fit_pairs(variances: Floats, faded: Floats) -> tuple[float, float]:
    """Near and far deviations; their mixture, weighted by how flat the response is, fits the
    variances of pairs.
    """
    groups = np.array_split(np.argsort(faded), max(2, min(40, len(faded) // 50)))
    deviation = np.sqrt(np.maximum([variances[group].mean() for group in groups], 0.0))
    at = np.array([faded[group].mean() for group in groups])
    near, far = nnls(np.column_stack([at, 1 - at]), deviation)[0]
    return float(near), float(far)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "town", type=Path, help="a folder written by `mappable simulate` or `mappable convert`"
    )
    parser.add_argument("model", type=Path, help="the folder of a run of `mappable train` on it")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file for the profile")
    given = parser.parse_args()
    encoder = Encoder.load(given.model / "encoder.safetensors")
    settings = load_settings(None, given.model / "settings.yaml")
    places, descriptors = describe(given.town, encoder)
    runs = {
        name: (rows, pairs_of(places, descriptors, rows))
        for name, rows in sorted(places.sequences().items())
    }
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
        "runs": {
            name: f"{places.split[rows[0]]}, {len(rows)} images" for name, (rows, _) in runs.items()
        },
        "pairs": {
            "test": int((test[1] <= FARTHEST).sum()),
            "calibration": int((calibration[1] <= FARTHEST).sum()),
        },
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
