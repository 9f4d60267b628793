"""Describe and locate a user's images; report the ones that cannot be decoded."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mappable.arrays import Floats32, Ints
from mappable.errors import BadImageError, BadInputError
from mappable.features.image_encoder import ImageEncoder
from mappable.localization.densification import densify
from mappable.localization.locate import CANDIDATES, Locator
from mappable.localization.location import Location, NotLocated, Outcome
from mappable.localization.ranging import check_metric, ranges_between
from mappable.maps.map import Map
from mappable.places.pixels import ImageFiles, Images
from mappable.places.table import Places
from mappable.recovery.ranges import Ranges


@dataclass(frozen=True)
class Readable:
    """The images that can be read, and the errors of the others."""

    rows: Ints  # (n,) rows of images that can be read
    descriptors: Floats32  # (n, D) their descriptors
    errors: Mapping[int, Exception]  # by row of each other image


def describe_readable(encoder: ImageEncoder, places: Places, images: Images | None = None) -> Readable:
    """Describe all images that can be read. Packed `images` can always be read."""
    if images is not None:
        return Readable(np.arange(len(places)), encoder.embed(images), {})
    bad: dict[Path, BadImageError] = {}
    files = ImageFiles(places, encoder.about.size, encoder.about.fit, bad)
    descriptors = encoder.embed(files, progress=len(places) > 1)
    errors = {row: bad[file] for row, file in enumerate(places.files) if file in bad}
    rows = np.setdiff1d(np.arange(len(places)), list(errors)).astype(np.int64)
    return Readable(rows, descriptors[rows], errors)


def locate_readable(
    locator: Locator,
    names: Sequence[str],
    readable: Readable,
    *,
    encoder: str,
    drives: Iterable[Ints] | None = None,
    coverage: float | None = None,
    candidates: int = CANDIDATES,
) -> list[Outcome]:
    """Locate images; return one outcome per image, in the order of their `names`.

    Each image is located alone, unless `drives` are given. A drive lists readable images that belong together, in
    order.
    """
    found: dict[int, Outcome] = {row: NotLocated(names[row], str(error)) for row, error in readable.errors.items()}
    together = drives is not None
    for drive in [np.arange(len(readable.rows))] if drives is None else drives:
        if len(drive):
            rows = readable.rows[drive].tolist()
            images = [names[row] for row in rows]
            made = readable.descriptors[drive]
            located = locator.locate(
                made, encoder=encoder, coverage=coverage, images=images, candidates=candidates, together=together
            )
            found |= zip(rows, located, strict=True)
    return [found[row] for row in range(len(names))]


@dataclass(frozen=True)
class Placed:
    """A map after images were added to it."""

    map: Map
    added: int  # number of images added
    left_out: Counter[str]  # number of images not added, by reason
    bad: tuple[str, ...]  # errors of images that cannot be read


def densify_images(
    landmarks: Map,
    encoder: ImageEncoder,
    places: Places,
    images: Images | None = None,
    *,
    sequence: bool = False,
    within: float | None = None,
) -> Placed:
    """Add those images that can be read and that the map locates well enough; see `densify`."""
    names = sorted(set(places.sequence))
    if sequence and len(names) > 1:
        raise BadInputError(
            f"the images are of {len(names):,} sequences, such as {names[0]!r}: add one sequence at a time"
        )
    readable = describe_readable(encoder, places, images)
    bad = tuple(map(str, readable.errors.values()))
    rows, made = readable.rows, readable.descriptors
    if not len(rows):
        return Placed(landmarks, 0, Counter(), bad)
    dense = densify(landmarks, places[rows], made, encoder=encoder.fingerprint, within=within, sequence=sequence)
    denser = dense.map
    if dense.added.any():  # notes about two tables in one frame do not apply: the images have no frame
        denser = replace(denser, places=denser.places.replace(notes=landmarks.places.notes))
    others = [one for one, added in zip(dense.locations, dense.added, strict=True) if not added]
    return Placed(denser, int(dense.added.sum()), Counter(_why_not(one) for one in others), bad)


def _why_not(location: Location) -> str:
    if not location.confident:
        return location.reason.partition(":")[0]
    return "position not known well enough" if location.refined else "not between landmarks"


def ranges_of_images(
    landmarks: Map, encoder: ImageEncoder, places: Places, images: Images | None = None, *, ordered: bool = True
) -> Ranges:
    """Ranges between images, by the calibration of a map; raise if an image cannot be read. See `ranges_between`."""
    calibration = Locator(landmarks).calibration
    check_metric(landmarks.unit)
    return ranges_between(calibration, encoder.embed(places if images is None else images), ordered=ordered)
