"""The noise profile `learned`: ranges with the errors of a trained encoder, as measured on images it never saw.

In such encoders, the squared feature distance s of two images d metres apart is about

    s = r(d) exp(w_i + w_j + e_ij),    r(d) = plateau - (plateau - offset) exp(-slope d / (plateau - offset)):

r does not begin at zero, it rises, and it carries no information where it is flat. w is the
deviation of an image. It affects all pairs of the image, and images close by share it: a corner
looks unlike everything around it. e is the deviation of the pair alone.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Floats
from mappable.formats import Format
from mappable.randomness import Purpose, generator
from mappable.recovery.ranges import Ranges

FORMAT = Format("mappable noise profile", 1, "fit it again")
FARTHEST = 40.0  # largest calibrated distance, in metres


@dataclass(frozen=True)
class LearnedNoise:
    """Squared feature distances as a function of metres, and their scatter."""

    offset: float  # at distance 0
    slope: float  # at distance 0, per metre
    plateau: float  # at a great distance
    image_sigma: float  # of log s: an image's deviation in all its pairs
    image_metres: float  # distance at which the correlation of two images' deviations falls to 1/e
    near_sigma: float  # of log s: a pair's own deviation at distance 0
    far_sigma: float  # the same where the response is flat

    @property
    def reach(self) -> float:
        """The distance in metres at which the response has risen to within 1/e of its plateau."""
        return (self.plateau - self.offset) / self.slope

    def response(self, metres: Floats) -> Floats:
        """The squared feature distance without noise."""
        squared: Floats = self.plateau - (self.plateau - self.offset) * np.exp(-metres / self.reach)
        return squared

    def metres(self, squared: Floats) -> Floats:
        """The distance with this response: 0 below the offset, at most 40 m."""
        left = (self.plateau - squared) / (self.plateau - self.offset)
        apart: Floats = -self.reach * np.log(np.clip(left, np.exp(-FARTHEST / self.reach), 1.0))
        return apart

    def image_variance(self, metres: Floats) -> Floats:
        """The variance of log s due to the two images, whose deviations are more alike the nearer
        they are.
        """
        variance: Floats = 2 * self.image_sigma**2 * (1 + np.exp(-metres / self.image_metres))
        return variance

    def pair_sigma(self, metres: Floats) -> Floats:
        """The standard deviation of log s due to the pair alone."""
        spread: Floats = self.far_sigma + (self.near_sigma - self.far_sigma) * np.exp(
            -metres / self.reach
        )
        return spread

    def sigma(self, metres: Floats) -> Floats:
        """The standard deviation of a calibrated distance, in metres: the deviation of s, divided
        by the slope.
        """
        spread = np.sqrt(self.image_variance(metres) + np.square(self.pair_sigma(metres)))
        deviation: Floats = (
            spread * self.response(metres) / (self.slope * np.exp(-metres / self.reach))
        )
        return deviation


@dataclass(frozen=True)
class Profile:
    """An encoder as recovery sees it: how it behaves, and what its user knows about it."""

    actual: LearnedNoise  # fitted to test pairs: how the encoder behaves
    # Fitted to calibration pairs: converts squared feature distances to metres.
    calibration: LearnedNoise
    # Pairs with a larger squared feature distance are not used; from the calibration pairs.
    bound: float
    about: dict[str, Any] = field(default_factory=dict)  # how it was made

    def to_json(self) -> str:
        return FORMAT.text(asdict(self)) + "\n"

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Profile":
        actual, calibration = (LearnedNoise(**fields[name]) for name in ("actual", "calibration"))
        return cls(actual, calibration, float(fields["bound"]), dict(fields["about"]))


def learned_profile(file: Path | str | None = None) -> Profile:
    """Read a profile from a file. The default is the profile of the demo's encoder, on runs it
    never saw.
    """
    source = Path(__file__).with_name("learned.json") if file is None else Path(file)
    with FORMAT.reading(source):
        return Profile.from_json(FORMAT.read(source))


def measure_learned(
    positions: Floats, profile: Profile, *, seed: int, missing: float = 0.0
) -> Ranges:
    """Simulate the ranges that the encoder of a profile would give along positions (n, k), in the
    order of the drive.

    The result has all pairs of consecutive images, and all pairs below the bound except the
    fraction `missing`. Some of the latter are false, because their places happen to look alike. It
    takes n² steps, but no n x n memory.
    """
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
    return Ranges(
        len(positions), np.concatenate(i), np.concatenate(j), calibrated, known.sigma(calibrated)
    )


def _along(rng: np.random.Generator, steps: Floats, noise: LearnedNoise) -> Floats:
    """One deviation per image; it is more like that of the image before the closer both are."""
    likeness = np.exp(-steps / noise.image_metres)
    fresh = noise.image_sigma * rng.standard_normal(len(steps) + 1)
    deviations = fresh.copy()
    for number, like in enumerate(likeness, 1):
        deviations[number] = like * deviations[number - 1] + np.sqrt(1 - like**2) * fresh[number]
    return deviations
