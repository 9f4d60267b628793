"""Logistic regression: the odds that a statement is true, from a few numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mappable.arrays import Bools, Floats

MOST_ITERATIONS = 50  # of Newton's method
PRIOR_PRECISION = 1.0  # L2 prior on standardized numbers; keeps slopes finite for separable data


@dataclass(frozen=True)
class Odds:
    """A fitted model: log odds = `constant` + `slopes` · numbers."""

    constant: float
    slopes: tuple[float, ...]

    @classmethod
    def fit(cls, numbers: Floats, holds: Bools, *, even_at_zero: bool = False, weights: Floats | None = None) -> "Odds":
        """Fit examples (n, d) with optional weights (n,); `even_at_zero` forces even odds where all numbers are 0."""
        weight = np.ones(len(numbers)) if weights is None else weights
        mean, scale = np.zeros(numbers.shape[1]) if even_at_zero else numbers.mean(0), numbers.std(0) + 1e-12
        inputs = np.column_stack([np.full(len(numbers), 0.0 if even_at_zero else 1.0), (numbers - mean) / scale])
        found, prior = np.zeros(inputs.shape[1]), PRIOR_PRECISION * np.eye(inputs.shape[1])
        for _ in range(MOST_ITERATIONS):
            chance = 1 / (1 + np.exp(-np.clip(inputs @ found, -30, 30)))
            slope = inputs.T @ (weight * (holds - chance)) - prior @ found
            step = np.linalg.solve((inputs * (weight * chance * (1 - chance))[:, None]).T @ inputs + prior, slope)
            found = found + step
            if np.abs(step).max() < 1e-9:
                break
        slopes = found[1:] / scale
        return cls(float(found[0] - slopes @ mean), tuple(slopes.tolist()))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Odds":
        """Read what `dataclasses.asdict` returned, with a list in place of the tuple."""
        return cls(float(values["constant"]), tuple(values["slopes"]))

    def log(self, numbers: Floats) -> Floats:
        """Log odds (n,) for numbers (n, d)."""
        odds: Floats = self.constant + numbers @ np.array(self.slopes)
        return odds
