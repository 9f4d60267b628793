"""Images asked about: described, though some may not decode, and located in a map."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mappable.arrays import Floats32, Ints, Pixels
from mappable.errors import BadImageError, BadInputError
from mappable.features.embedding import ImageFiles
from mappable.features.image_encoder import ImageEncoder
from mappable.maps.densify import densify
from mappable.maps.locate import Locator, Position
from mappable.maps.map import Map
from mappable.maps.ranging import ranges_between
from mappable.maps.sequence import locate_sequence
from mappable.places.cache import ImageRows
from mappable.places.images import Fit, Size
from mappable.places.table import Places
from mappable.recovery.ranges import Ranges


@dataclass(frozen=True)
class Seen:
    """Descriptors (n, D) of those `rows` (n,) of a table whose images decode, and what is wrong with the others."""

    rows: Ints
    descriptors: Floats32
    bad: dict[int, BadImageError]


def describe_readable(encoder: ImageEncoder, places: Places, images: ImageRows | None = None) -> Seen:
    """The descriptors of all images that decode; packed `images` all do."""
    if images is not None:
        return Seen(np.arange(len(places)), encoder.embed(images), {})
    files = _Tolerant(places, encoder.about.size, encoder.about.fit)
    descriptors = encoder.embed(files)
    bad = {row: files.bad[file] for row, file in enumerate(places.files) if file in files.bad}
    rows = np.setdiff1d(np.arange(len(places)), list(bad)).astype(np.int64)
    return Seen(rows, descriptors[rows], bad)


class _Tolerant(ImageFiles):
    """Files that need not decode: then they are black, and why is kept."""

    def __init__(self, places: Places, size: Size, fit: Fit) -> None:
        super().__init__(places, size, fit)
        self.bad: dict[Path, BadImageError] = {}

    def _load(self, file: Path) -> Pixels:
        try:
            return super()._load(file)
        except BadImageError as error:
            self.bad[file] = error
            return np.zeros(self.shape[1:], dtype=np.uint8)


def locate_images(
    landmarks: Map,
    encoder: ImageEncoder,
    places: Places,
    images: ImageRows | None = None,
    *,
    sequence: bool = False,
    coverage: float | None = None,
) -> list[Position | BadImageError]:
    """Where each image is, or why it does not decode; images of each `sequence` of the table may locate together."""
    seen = describe_readable(encoder, places, images)
    locator, fingerprint = Locator(landmarks), encoder.fingerprint
    found: dict[int, Position | BadImageError] = dict(seen.bad)
    if not sequence and len(seen.rows):
        found |= _by_row(seen.rows, locator.locate(seen.descriptors, encoder=fingerprint, coverage=coverage))
    for rows in places[seen.rows].sequences().values() if sequence else ():
        together = locate_sequence(locator, seen.descriptors[rows], encoder=fingerprint, coverage=coverage)
        found |= _by_row(seen.rows[rows], together)
    return [found[row] for row in range(len(places))]


@dataclass(frozen=True)
class Placed:
    """A map with the images that it could place, their number, that of the others by reason, and bad images."""

    map: Map
    added: int
    left_out: Counter[str]
    bad: tuple[BadImageError, ...]


def densify_images(
    landmarks: Map,
    encoder: ImageEncoder,
    places: Places,
    images: ImageRows | None = None,
    *,
    sequence: bool = False,
    within: float | None = None,
) -> Placed:
    """Add images to the map where it knows well enough where they are, see `densify`; those that decode, that is."""
    names = sorted(set(places.sequence))
    if sequence and len(names) > 1:
        raise BadInputError(
            f"the images are of {len(names):,} sequences, {names[0]!r} and others: add one after another"
        )
    seen = describe_readable(encoder, places, images)
    bad = tuple(seen.bad.values())
    if not len(seen.rows):
        return Placed(landmarks, 0, Counter(), bad)
    fingerprint, readable = encoder.fingerprint, places[seen.rows]
    dense = densify(landmarks, readable, seen.descriptors, encoder=fingerprint, within=within, sequence=sequence)
    denser = dense.map
    if dense.added.any():  # the images know no frame of their own, whatever is noted about two tables of one
        denser = replace(denser, places=denser.places.replace(notes=landmarks.places.notes))
    others = [one for one, added in zip(dense.positions, dense.added, strict=True) if not added]
    return Placed(denser, int(dense.added.sum()), Counter(_why_not(one) for one in others), bad)


def _why_not(position: Position) -> str:
    if not position.confident:
        return position.reason.partition(":")[0]
    return "position not known well enough" if position.refined else "not between landmarks"


def ranges_of_images(landmarks: Map, encoder: ImageEncoder, places: Places, images: ImageRows | None = None) -> Ranges:
    """Metres between images, by the calibration of a map; all of them must decode."""
    calibration = Locator(landmarks).calibration
    if landmarks.unit != "m":
        raise BadInputError(f"ranges are in metres, but this map knows distances in {landmarks.unit} only")
    return ranges_between(calibration, encoder.embed(places if images is None else images))


def _by_row(rows: Ints, positions: Sequence[Position]) -> dict[int, Position]:
    return dict(zip(rows.tolist(), positions, strict=True))
