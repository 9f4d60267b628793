"""Metres from descriptors of any encoder: a linear map to short features, fitted in closed form.

Let z be descriptors of length one of images whose visit's mean was removed, and g distances in
metres between the images. With a reach L,

    K_ij = exp(-g_ij / L)                      inner products that two places should have     (1)
    T Tᵀ ≈ K                                   its FEATURES largest eigenvectors              (2)
    A = (Z Zᵀ + RIDGE I)⁻¹ T                   ridge regression from descriptors to T         (3)
    y(z) = Aᵀ Z z / ‖Aᵀ Z z‖                   the metric feature of an image                 (4)
    metres(z, z') = -L ln ⟨y(z), y(z')⟩        equation 1, solved for g                       (5)

Beyond about three times the reach all images look equally far.

`relations` measures how well any distance follows metres, over pairs that look the same way.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from mappable.arrays import Bools, Floats, Floats32, evenly
from mappable.errors import BadInputError
from mappable.places.angles import wrap
from mappable.places.table import Places

# Compared by hand (studies/metric/README.md). Pearson's correlation within the reach changes by at
# most 0.02 with a RIDGE of 0.001 or 0.01, falls by up to 0.15 with 1, and changes by at most 0.03
# with four times the FEATURES.
RIDGE = 0.1  # beside squared lengths of descriptors, which are one
FEATURES = 128
MOST_IMAGES = 2000  # spread evenly over the rows; the time of a fit grows with the cube
FARTHEST = 3.0  # reaches; products below exp(-3) are noise
SAME_VIEW = math.radians(30)  # the paper's yaw limit for positives
ERROR = 0.2  # median relative error up to which distances reach
FEWEST_PAIRS = 30  # for a correlation or a median
# Of pairs with equal size, whose medians make the curve from feature distance to metres.
GROUPS = 40


@dataclass(frozen=True)
class Metric:
    """Distances in metres between images of one place, fitted to images with known positions.

    `matrix` (dimensions, FEATURES) is Zᵀ A of equation 4. `reach` is L in metres.
    """

    matrix: Floats32
    reach: float

    @classmethod
    def fit(cls, descriptors: Floats32, positions: Floats, *, reach: float) -> "Metric":
        """Fit to `descriptors` (n, dimensions) of images at `positions` (n, 2 or 3); `reach` is in
        metres.

        The descriptors have length one, after each visit's mean was removed. The negative radius is
        a good reach.
        """
        if len(descriptors) < 2:
            raise BadInputError(
                f"metres need at least 2 images with positions, got {len(descriptors)}"
            )
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
        """Distances (n, m) in metres between metric features (n, FEATURES) and (m, FEATURES):
        equation 5.
        """
        products = (first @ second.T).astype(np.float64)
        metres: Floats = -self.reach * np.log(products.clip(np.exp(-FARTHEST), 1.0))
        return metres


@dataclass(frozen=True)
class Relations:
    """How well distances follow metres, over pairs of images.

    `pearson` and `pairs` have the keys "r1", "r2", "2 r2" and "all": pairs at most so far apart.
    `reach` is the end of the longest run of distances from r1 on whose median relative error is
    below ERROR; 0 if there is none.
    """

    pearson: dict[str, float | None]
    pairs: dict[str, int]
    reach: float


def same_view(queries: Places, images: Places, *, across: bool) -> Bools:
    """Pairs (n, m) of one frame that look the same way, of one visit or, if `across`, of two.

    An image whose yaw is unknown may look any way. Pairs of one position are left out.
    """
    turned = np.abs(wrap(queries.yaw[:, None] - images.yaw[None]))
    pairs = (queries.frame[:, None] == images.frame[None]) & ~(turned > SAME_VIEW)
    pairs &= (queries.sequence[:, None] != images.sequence[None]) == across
    return np.asarray(
        pairs & (queries.positions[:, None] != images.positions[None]).any(axis=2), dtype=bool
    )


def curve_to_metres(distances: Floats, metres: Floats) -> tuple[Floats, Floats]:
    """A rising curve from feature distances (p,) to metres (p,): medians of GROUPS groups, for
    `np.interp`.
    """
    groups = np.array_split(np.argsort(distances), min(GROUPS, len(distances)))
    medians = np.array(
        [[np.median(distances[group]), np.median(metres[group])] for group in groups]
    )
    return medians[:, 0], np.maximum.accumulate(medians[:, 1])


def relations(
    distances: Floats,
    metres: Floats,
    *,
    near: float,
    far: float,
    curve: tuple[Floats, Floats] | None = None,
) -> Relations:
    """Compare `distances` (p,) of pairs with true `metres` (p,); `near` and `far` are r1 and r2.

    Distances of a `Metric` are metres. Those of descriptors need the `curve` of other pairs.
    """
    pearson, pairs = {}, {}
    for name, radius in (("r1", near), ("r2", far), ("2 r2", 2 * far), ("all", math.inf)):
        inside = metres <= radius
        pairs[name] = int(inside.sum())
        enough = pairs[name] >= FEWEST_PAIRS and np.ptp(distances[inside]) > 0
        pearson[name] = (
            float(np.corrcoef(distances[inside], metres[inside])[0, 1]) if enough else None
        )
    estimates = distances if curve is None else np.interp(distances, *curve)
    reach, step = 0.0, near / 4
    for start in np.arange(near, metres.max(initial=0.0), step):
        inside = (metres >= start) & (metres < start + step)
        errors = np.abs(estimates[inside] - metres[inside]) / metres[inside]
        if len(errors) < FEWEST_PAIRS or np.median(errors) >= ERROR:
            break
        reach = float(start + step)
    return Relations(pearson, pairs, reach)
