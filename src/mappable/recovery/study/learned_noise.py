"""The noise profile `learned`: ranges with the errors of a trained encoder, as measured on images it never saw.

A squared feature distance s of two images d metres apart is, by what was found in such encoders, about

    s = r(d) exp(w_i + w_j + e_ij),    r(d) = plateau - (plateau - offset) exp(-slope d / (plateau - offset)):

it does not begin at zero, rises, and says nothing any more where it is flat. w is the deviation of an image, which it
has with all others and shares with images close by: a corner looks unlike all around it. e is that of the pair alone.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares, nnls

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.formats import Format
from mappable.randomness import Purpose, generator
from mappable.recovery.ranges import Ranges

FORMAT = Format("mappable noise profile", 1, "fit it again")
FARTHEST = 40.0  # metres that a calibrated distance is cut at
ROUNDS = 20  # of the estimate of variances
LEAST_VARIANCE = 1e-9
LEAST_PAIRS = 50


@dataclass(frozen=True)
class LearnedNoise:
    """How squared feature distances follow from metres, and how far they scatter."""

    offset: float  # at no distance
    slope: float  # there, a metre
    plateau: float  # at a great distance
    image_sigma: float  # of log s: what an image has with all others
    image_metres: float  # over which neighbouring images share it, to 1/e
    near_sigma: float  # of log s: what a pair has alone, at no distance
    far_sigma: float  # and where the response is flat

    @property
    def reach(self) -> float:
        """The metres over which the response comes to within 1/e of its plateau."""
        return (self.plateau - self.offset) / self.slope

    def response(self, metres: Floats) -> Floats:
        """The squared feature distance in the middle of the noise."""
        squared: Floats = self.plateau - (self.plateau - self.offset) * np.exp(-metres / self.reach)
        return squared

    def metres(self, squared: Floats) -> Floats:
        """The distance whose response that is: 0 below the offset, and 40 m at most."""
        left = (self.plateau - squared) / (self.plateau - self.offset)
        apart: Floats = -self.reach * np.log(np.clip(left, np.exp(-FARTHEST / self.reach), 1.0))
        return apart

    def image_variance(self, metres: Floats) -> Floats:
        """The variance of log s that comes from the two images, which are the more alike the nearer."""
        variance: Floats = 2 * self.image_sigma**2 * (1 + np.exp(-metres / self.image_metres))
        return variance

    def pair_sigma(self, metres: Floats) -> Floats:
        """The deviation of log s that a pair has alone."""
        spread: Floats = self.far_sigma + (self.near_sigma - self.far_sigma) * np.exp(-metres / self.reach)
        return spread

    def sigma(self, metres: Floats) -> Floats:
        """The deviation in metres of a distance that was read off the response: that of s, divided by the slope."""
        spread = np.sqrt(self.image_variance(metres) + np.square(self.pair_sigma(metres)))
        deviation: Floats = spread * self.response(metres) / (self.slope * np.exp(-metres / self.reach))
        return deviation


@dataclass(frozen=True)
class Profile:
    """An encoder, as far as recovery is concerned: what it does, and what its user knows of that."""

    actual: LearnedNoise  # fitted to test pairs: as it is
    calibration: LearnedNoise  # fitted to calibration pairs: makes metres of squared feature distances
    bound: float  # of these: pairs above are not used, by the calibration pairs
    about: dict[str, Any] = field(default_factory=dict)  # where it comes from

    def to_json(self) -> str:
        return FORMAT.text(asdict(self)) + "\n"

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Profile":
        actual, calibration = (LearnedNoise(**fields[name]) for name in ("actual", "calibration"))
        return cls(actual, calibration, float(fields["bound"]), dict(fields["about"]))


def learned_profile(file: Path | str | None = None) -> Profile:
    """The profile of a file, or the one that is shipped: that of the demo's encoder, on runs it never saw."""
    source = Path(__file__).with_name("learned.json") if file is None else Path(file)
    with FORMAT.reading(source):
        return Profile.from_json(FORMAT.read(source))


def fit_learned(squared_feature_distances: Floats, metres: Floats, i: Ints, j: Ints) -> LearnedNoise:
    """The noise of pairs of images `i` and `j` (pairs,), whose squared feature and true distances are known.

    Give all pairs of whole sequences up to some distance where the response is flat, such as 40 m; images of several
    sequences have different numbers.
    """
    squared, apart, first, second = _checked(squared_feature_distances, metres, i, j)
    offset, slope, plateau = _fit_response(squared, apart)
    curve = LearnedNoise(offset, slope, plateau, 0.0, 1.0, 0.0, 0.0)
    residuals = np.log(squared / curve.response(apart))
    residuals -= np.median(residuals)
    # Where the response is nearly flat, images deviate by what else they resemble: that is no matter of near pairs.
    near = apart <= curve.reach
    image, shared = _fit_images(residuals[near], apart[near], first[near], second[near])
    noise = replace(curve, image_sigma=image, image_metres=shared)
    near_sigma, far_sigma = _fit_pairs(np.square(residuals) - noise.image_variance(apart), np.exp(-apart / curve.reach))
    return replace(noise, near_sigma=near_sigma, far_sigma=far_sigma)


def measure_learned(positions: Floats, profile: Profile, *, seed: int, missing: float = 0.0) -> Ranges:
    """The ranges that the encoder of a profile would give along positions (n, k), which are in the order of the drive.

    Kept are the pairs that the bound lets through, among them false ones of places that happen to look alike, and all
    pairs of consecutive images; of the former a share is `missing`. It takes n² steps, but no n x n memory.
    """
    if positions.ndim != 2 or len(positions) < 2 or not np.isfinite(positions).all():
        raise BadInputError(f"positions {positions.shape} should be (n, 2) or (n, 3), all of them numbers")
    if not 0 <= missing < 1:
        raise BadInputError(f"the share missing is {missing:g}, but must be at least 0 and below 1")
    actual, known = profile.actual, profile.calibration
    rng = generator(seed, Purpose.LEARNED_RANGES)
    deviations = _along(rng, np.linalg.norm(np.diff(positions, axis=0), axis=1), actual)
    i, j, squared = [], [], []
    for row in range(len(positions) - 1):
        apart = np.linalg.norm(positions[row + 1 :] - positions[row], axis=1)
        own = actual.pair_sigma(apart) * rng.standard_normal(len(apart))
        seen = actual.response(apart) * np.exp(deviations[row] + deviations[row + 1 :] + own)
        kept = (seen <= profile.bound) & (rng.random(len(apart)) >= missing)
        kept[0] = True
        found = np.flatnonzero(kept)
        i.append(np.full(len(found), row))
        j.append(row + 1 + found)
        squared.append(seen[found])
    calibrated = known.metres(np.concatenate(squared))
    return Ranges(len(positions), np.concatenate(i), np.concatenate(j), calibrated, known.sigma(calibrated))


def _along(rng: np.random.Generator, steps: Floats, noise: LearnedNoise) -> Floats:
    """A deviation for each image, like that of the one before it the closer they are."""
    likeness = np.exp(-steps / noise.image_metres)
    fresh = noise.image_sigma * rng.standard_normal(len(steps) + 1)
    deviations = fresh.copy()
    for number, like in enumerate(likeness, 1):
        deviations[number] = like * deviations[number - 1] + np.sqrt(1 - like**2) * fresh[number]
    return deviations


def _fit_response(squared: Floats, metres: Floats) -> tuple[float, float, float]:
    """Offset, slope and plateau, by least squares of log s that heed outliers little."""

    def misfit(logs: Floats) -> Floats:
        offset, rise, reach = np.exp(logs)
        off: Floats = np.log(squared) - np.log(offset + rise * -np.expm1(-metres / reach))
        return off

    low, high = np.quantile(squared, [0.05, 0.6])
    start = np.log([max(low, 1e-6), max(high - low, 1e-6), max(float(np.median(metres)) / 2, 1e-6)])
    offset, rise, reach = np.exp(least_squares(misfit, start, loss="soft_l1", f_scale=0.3).x)
    return float(offset), float(rise / reach), float(offset + rise)


def _fit_images(residuals: Floats, metres: Floats, i: Ints, j: Ints) -> tuple[float, float]:
    """How far images deviate, and the metres over which they share that, by expectation-maximisation.

    Given these and the variance of pairs, the images' deviations have a normal distribution whose mean and covariance
    follow from a linear system; all three are then what is expected of it. Dense: for a few thousand images.
    """
    names, numbers = np.unique(np.concatenate([i, j]), return_inverse=True)
    count, pairs = len(names), len(i)
    both = numbers[:pairs], numbers[pairs:]
    shared = np.zeros((count, count))  # how many pairs two images have, and how many each has
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
        image, pair = max(float(expected.mean()), LEAST_VARIANCE), max(float(left.mean()), LEAST_VARIANCE)
        length = _fit_length(products / image, metres, length)
    return float(np.sqrt(image)), length


def _likeness(count: int, both: tuple[Ints, Ints], metres: Floats, length: float) -> Floats:
    """How alike the deviations of images (count, count) are: exp(-metres / length), and nothing for far ones."""
    alike = np.zeros((count, count))
    alike[both] = np.exp(-metres / length)
    alike += alike.T
    lowest = float(np.linalg.eigvalsh(alike)[0])
    alike[np.diag_indices(count)] = max(1.0, 1e-3 - lowest)  # what was left out may have made it no covariance
    scaled: Floats = alike / alike[0, 0]
    return scaled


def _fit_length(likeness: Floats, metres: Floats, start: float) -> float:
    def misfit(log_length: Floats) -> Floats:
        off: Floats = likeness - np.exp(-metres / np.exp(log_length[0]))
        return off

    found = least_squares(misfit, [np.log(start)], bounds=(np.log(0.1), np.log(FARTHEST)))
    return float(np.exp(found.x[0]))


def _fit_pairs(variances: Floats, faded: Floats) -> tuple[float, float]:
    """The deviations near and far that, mixed by how far the response has faded, fit the variances of pairs."""
    groups = np.array_split(np.argsort(faded), max(2, min(40, len(faded) // 50)))
    deviation = np.sqrt(np.maximum([variances[group].mean() for group in groups], 0.0))
    at = np.array([faded[group].mean() for group in groups])
    near, far = nnls(np.column_stack([at, 1 - at]), deviation)[0]
    return float(near), float(far)


def _checked(squared: Floats, metres: Floats, i: Ints, j: Ints) -> tuple[Floats, Floats, Ints, Ints]:
    squared, metres = np.asarray(squared, dtype=np.float64), np.asarray(metres, dtype=np.float64)
    i, j = np.asarray(i), np.asarray(j)
    shapes = {array.shape for array in (squared, metres, i, j)}
    if len(shapes) > 1 or squared.ndim != 1:
        raise BadInputError(f"pairs have as many squared feature distances, metres, i and j, not {sorted(shapes)}")
    if len(squared) < LEAST_PAIRS:
        raise BadInputError(f"there are {len(squared)} pairs, but a profile needs at least {LEAST_PAIRS}")
    for values, name, lowest in ((squared, "squared feature distance", "above 0"), (metres, "distance", "at least 0")):
        wrong = ~np.isfinite(values) | (values < 0) | ((values == 0) & (lowest == "above 0"))
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            raise BadInputError(f"the {name} of pair {at} is {values[at]:g}, but must be {lowest}")
    if (i == j).any():
        raise BadInputError(f"pair {int(np.flatnonzero(i == j)[0])} is of an image with itself")
    return squared, metres, i, j
