"""Training data: the training places, foreign images, a few monitor queries, and the images of all of them."""

import hashlib
from dataclasses import dataclass

import numpy as np

from mappable.errors import BadInputError
from mappable.places.pixels import BLOCK, Images, JoinedImages, blocks
from mappable.places.table import COLUMNS, Places
from mappable.progress import track
from mappable.randomness import Purpose, generator


@dataclass(frozen=True)
class TrainingData:
    """Training places, monitor queries, and images: of the training places, then `foreign` ones, then the queries."""

    train: Places
    queries: Places
    images: Images
    foreign: int = 0

    @property
    def learned(self) -> int:
        """Number of images to learn from: of the training places, and foreign ones."""
        return len(self.train) + self.foreign

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with any training place or image; a run resumes only if they are equal."""
        digest = hashlib.sha256()
        for name in COLUMNS:
            column = getattr(self.train, name)
            digest.update("\0".join(column).encode() if column.dtype == object else column.tobytes())
        count = self.learned
        training_images = self.images.take(np.arange(count))
        for pixels in track(blocks(training_images), "reading images", -(-count // BLOCK)):
            digest.update(pixels.tobytes())
        return digest.hexdigest()[:16]


def select(places: Places, images: Images, *, queries: int, foreign: Images | None = None) -> TrainingData:
    """Select the training places (`Places.training`), and at most `queries` places of the calibration split.

    All runs get the same queries, so that monitor results can be compared. `images` has one image per place, in the
    order of `places`. `foreign` images show other places.
    """
    if len(images) != len(places):
        raise BadInputError(f"{len(places):,} places, but {len(images):,} images; expected one image per place")
    train = places.training()
    if not len(train):
        raise BadInputError(
            f"none of the {len(places):,} places is for training: all are for calibration, test or queries; "
            "set the split of some places to 'train'"
        )
    chosen = np.sort(generator(0, Purpose.MONITOR).permutation(places.calibration())[:queries])
    if foreign is None:
        return TrainingData(places[train], places[chosen], images.take(np.concatenate([train, chosen])))
    joined = JoinedImages((images.take(train), foreign, images.take(chosen)))
    return TrainingData(places[train], places[chosen], joined, len(foreign))
