"""Metres from descriptors of any encoder: a linear map to short features, fitted in closed form.

Let z be descriptors of length one of images whose visit's mean was removed, and g distances in metres between the
images. With a reach L,

    K_ij = exp(-g_ij / L)                      inner products that two places should have     (1)
    T Tᵀ ≈ K                                   its FEATURES largest eigenvectors              (2)
    A = (Z Zᵀ + RIDGE I)⁻¹ T                   ridge regression from descriptors to T         (3)
    y(z) = Aᵀ Z z / ‖Aᵀ Z z‖                   the metric feature of an image                 (4)
    metres(z, z') = -L ln ⟨y(z), y(z')⟩        equation 1, solved for g                       (5)

Beyond about three times the reach all images look equally far.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from mappable.arrays import Floats, Floats32, evenly
from mappable.errors import BadInputError

# Chosen by studies/metric on choosing images, where 0.001 to 1 times the RIDGE, and four times the FEATURES, change
# Pearson's correlation within the reach by at most 0.06.
RIDGE = 0.1  # beside squared lengths of descriptors, which are one
FEATURES = 128
MOST_IMAGES = 2000  # spread evenly over the rows; the time of a fit grows with the cube
FARTHEST = 3.0  # reaches; products below exp(-3) are noise


@dataclass(frozen=True)
class Metric:
    """Distances in metres between images of one place, fitted to images with known positions.

    `matrix` (dimensions, FEATURES) is Zᵀ A of equation 4. `reach` is L in metres.
    """

    matrix: Floats32
    reach: float

    @classmethod
    def fit(cls, descriptors: Floats32, positions: Floats, *, reach: float) -> "Metric":
        """Fit to `descriptors` (n, dimensions) of images at `positions` (n, 2 or 3); `reach` is in metres.

        The descriptors have length one, after each visit's mean was removed. The negative radius is a good reach.
        """
        if len(descriptors) < 2:
            raise BadInputError(f"metres need at least 2 images with positions, got {len(descriptors)}")
        rows = evenly(len(descriptors), MOST_IMAGES)
        chosen, count = descriptors[rows], len(rows)
        apart = np.linalg.norm(positions[rows, None] - positions[None, rows], axis=2)
        largest = [max(count - FEATURES, 0), count - 1]
        values, vectors = scipy.linalg.eigh(np.exp(-apart / reach), subset_by_index=largest)
        targets = vectors * np.sqrt(values.clip(min=0))
        products = (chosen @ chosen.T).astype(np.float64) + RIDGE * np.eye(count)
        weights = scipy.linalg.solve(products, targets, assume_a="pos")
        matrix: Floats32 = chosen.T @ weights.astype(np.float32)
        return cls(matrix, reach)

    def features(self, descriptors: Floats32) -> Floats32:
        """Metric features (n, FEATURES) of length one: equation 4."""
        features = descriptors @ self.matrix
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        unit: Floats32 = features / np.maximum(lengths, np.finfo(np.float32).tiny)
        return unit

    def distances(self, first: Floats32, second: Floats32) -> Floats:
        """Distances (n, m) in metres between metric features (n, FEATURES) and (m, FEATURES): equation 5."""
        products = (first @ second.T).astype(np.float64)
        metres: Floats = -self.reach * np.log(products.clip(np.exp(-FARTHEST), 1.0))
        return metres
