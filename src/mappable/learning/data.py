"""Training data: the training places and their images, and a few others to monitor progress."""

import hashlib
from dataclasses import dataclass

import numpy as np

from mappable.arrays import Ints
from mappable.errors import BadInputError
from mappable.places.pixels import BLOCK, Images, blocks
from mappable.places.table import COLUMNS, Places
from mappable.progress import track
from mappable.randomness import Purpose, generator


@dataclass(frozen=True)
class TrainingData:
    """Training places and monitor queries, with the images of both: those of the queries follow the others."""

    train: Places
    queries: Places
    images: Images

    @property
    def fingerprint(self) -> str:
        """16 hex digits that change with any training place or image; a run goes on only with the same."""
        digest = hashlib.sha256()
        for name in COLUMNS:
            column = getattr(self.train, name)
            digest.update("\0".join(column).encode() if column.dtype == object else column.tobytes())
        count = len(self.train)
        trained = self.images.take(np.arange(count))
        for pixels in track(blocks(trained), "reading images", -(-count // BLOCK)):
            digest.update(pixels.tobytes())
        return digest.hexdigest()[:16]


def select(places: Places, images: Images, *, queries: int) -> TrainingData:
    """The places that train (`Places.training`), and up to `queries` places of the calibration split.

    The latter are the same for all runs, so that what the monitor says can be compared.

    `images` are those of `places`, in their order.
    """
    if len(images) != len(places):
        raise BadInputError(f"there are {len(places):,} places, but {len(images):,} images")
    train = places.training()
    if not len(train):
        raise BadInputError(
            f"none of the {len(places):,} places can train: they are for calibration, test or queries; "
            "give some the split 'train'"
        )
    chosen = np.sort(generator(0, Purpose.MONITOR).permutation(places.calibration())[:queries])
    used: Ints = np.concatenate([train, chosen])
    return TrainingData(places[train], places[chosen], images.take(used))
