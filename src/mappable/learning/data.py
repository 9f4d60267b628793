"""Training data: the training places, a few monitor queries, and the images of both."""

import hashlib
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.places.pixels import IMAGES_PER_BLOCK, Images, blocks
from mappable.places.table import COLUMNS, Places
from mappable.progress import track
from mappable.randomness import Purpose, generator


@dataclass(frozen=True)
class TrainingData:
    """Training places, monitor queries, and the images of both: first the training images, then the
    queries.
    """

    train: Places
    queries: Places
    images: Images

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with any training place or image; a run resumes only if
        they are equal.
        """
        digest = hashlib.sha256()
        for name in COLUMNS:
            column = getattr(self.train, name)
            digest.update(
                "\0".join(column).encode() if column.dtype == object else column.tobytes()
            )
        count = len(self.train)
        training_images = self.images.take(np.arange(count))
        for pixels in track(
            blocks(training_images), "reading images", -(-count // IMAGES_PER_BLOCK)
        ):
            digest.update(pixels.tobytes())
        return digest.hexdigest()[:16]


def select(places: Places, images: Images, *, queries: int) -> TrainingData:
    """Select the training places (`Places.training`), and at most `queries` places of the
    calibration split.

    All runs get the same queries, so that monitor results can be compared. `images` has one image
    per place, in the order of `places`.
    """
    if len(images) != len(places):
        raise BadInputError(
            f"{len(places):,} places, but {len(images):,} images; expected one image per place"
        )
    train = places.training()
    if not len(train):
        raise BadInputError(
            f"none of the {len(places):,} places is for training: all are for calibration, test or"
            " queries; set the split of some places to 'train'"
        )
    chosen = np.sort(generator(0, Purpose.MONITOR).permutation(places.calibration())[:queries])
    rows: Ints = np.concatenate([train, chosen])
    return TrainingData(places[train], places[chosen], images.take(rows))
