"""The paper's conversion from squared feature distances to squared metres, and the mask of trusted distances."""

import numpy as np

from mappable.arrays import Ints, evenly
from mappable.errors import BadInputError
from mappable.evaluation.scoring import NotApplicableError, Scoring
from mappable.evaluation.setup import Setup
from mappable.recovery.matrices.mask import Threshold, choose_threshold

MOST_PAIRED = 1000  # images whose pairs fit λ and choose the threshold


def paired_rows(setup: Setup) -> Ints:
    """Rows of images whose pairs fit λ and choose the threshold: calibration images, or references if none."""
    images = setup.calibration if len(setup.calibration) else setup.references
    return images[evenly(len(images), MOST_PAIRED, nearest=True)]


class Ruler:
    """The paper's conversion from squared feature distances to squared metres: λ, and the threshold of the mask."""

    def __init__(self, scoring: Scoring) -> None:
        setup, about, images = scoring.setup, scoring.about, paired_rows(scoring.setup)
        drives = setup.places.sequence[images]
        pairs = np.triu(drives[:, None] == drives, 1)
        squared = scoring.squared(images, images)[pairs].astype(np.float64)
        metres = scoring.metres(images, images)[pairs]
        near, self.radius = metres <= setup.positive_radius, setup.positive_radius
        if not squared[near].any():
            raise NotApplicableError("no two images of one drive are near, so feature distances cannot be scaled")
        fitted = float(np.square(metres[near]) @ squared[near] / (squared[near] @ squared[near]))
        if about.feature_scale_squared is not None and about.positive_radius is not None and about.unit == setup.unit:
            self.scale = about.positive_radius**2 / about.feature_scale_squared
            how = (
                "r1²/F²" if about.proportional else "r1²/F², although no loss made feature distances proportional to it"
            )
            how += f"; the best fit to pairs within r1 is {fitted:.4g} m²"
        else:
            self.scale, how = fitted, "the best fit to pairs within r1, because the encoder has no F²"
        self.notes = [f"A squared feature distance of 1 stands for λ = {self.scale:.4g} m²: {how}."]
        self.threshold: Threshold | None = None
        try:
            self.threshold = choose_threshold(squared, metres, self.radius)
            self.notes.append(_threshold_note(self.threshold, "calibration" if len(setup.calibration) else "train"))
        except BadInputError as error:
            self.notes.append(f"There is no mask with a chosen threshold: {error}.")


def _threshold_note(threshold: Threshold, split: str) -> str:
    return (
        f"The mask keeps squared feature distances up to {threshold.squared:.4g}. In drives of the split {split}, "
        f"{threshold.precision:.1%} of such pairs are within {threshold.near:g} m. They are {threshold.recall:.1%} of "
        "all pairs within that distance."
    )
