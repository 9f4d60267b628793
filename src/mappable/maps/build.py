"""Build a map: choose landmarks, describe them, and calibrate on the remaining images."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypedDict, Unpack

import numpy as np

from mappable.arrays import Floats, Floats32, Ints, evenly, path_length
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.descriptors import Described
from mappable.features.image_encoder import ImageEncoder
from mappable.maps.calibrate import calibrate, calibrating
from mappable.maps.calibrate_drive import OneVisit
from mappable.maps.calibration import Source
from mappable.maps.errors import UncalibratedError
from mappable.maps.landmarks import greedy_landmarks, sequential_landmarks
from mappable.maps.map import Map, Storage
from mappable.places.notes import Note
from mappable.places.pixels import AnyImages, images_of
from mappable.places.table import Places

LANDMARKS = 200  # where neither the user nor the encoder says how many
MOST = 5000  # images to calibrate by; of more, some are taken evenly


class Options(TypedDict, total=False):
    """How a map is built.

    Landmarks are `landmarks` places that lie far apart, the first random by `seed`; or places each `spacing` or more
    from the last one along its sequence; or `every` reference. Intervals of the calibration have the `coverage`, and
    it holds a share of `false_accepts` of images from elsewhere to be on the map. `storage` is that of descriptors.
    """

    landmarks: int | None
    spacing: float | None
    every: bool
    seed: int
    coverage: float
    false_accepts: float
    storage: Storage


def build_map(
    encoder: ImageEncoder,
    places: Places,
    images: AnyImages | None = None,
    *,
    elsewhere: AnyImages | None = None,
    **options: Unpack[Options],
) -> Map:
    """A map of some of the places, with a calibration measured on others; for what else to choose see `Options`.

    Landmarks are chosen among `places.references()`, as many as the encoder's settings say, unless `options` do.
    `places.calibration()` calibrates the map. If that is empty, references that are no landmarks do, which makes
    intervals too narrow. A map that cannot be calibrated has a note in its table that says why.

    `images` (n, height, width, 3) are those of the places, whose files are decoded otherwise; `elsewhere` are images
    that are not on the map, by which it learns to reject such.
    """
    pixels = images_of(places if images is None else images, encoder.about.size, encoder.about.fit)
    absent = None if elsewhere is None else lambda: encoder.embed(elsewhere)
    options.setdefault("landmarks", None)
    if options["landmarks"] is None:
        options["landmarks"] = _usual_count(encoder, places)
    return _build(
        places, lambda rows: encoder.embed(pixels.take(rows)), encoder.fingerprint, encoder.about, absent, **options
    )


def build_map_of(
    described: Described, encoder: str | None = None, *, elsewhere: Described | None = None, **options: Unpack[Options]
) -> Map:
    """As `build_map`, from descriptors that are there already; `encoder` names what made them, if they do not say."""
    fingerprint = described.encoder or encoder
    if not fingerprint:
        raise BadInputError("these descriptors do not say which encoder made them: give it a name (--fingerprint)")
    for said in (encoder, None if elsewhere is None else elsewhere.encoder):
        if said not in (None, fingerprint):
            raise BadInputError(f"the descriptors are of encoder {fingerprint}, not of {said}")
    absent = None if elsewhere is None else lambda: elsewhere.descriptors
    return _build(
        described.places, lambda rows: described.descriptors[rows], fingerprint, described.about, absent, **options
    )


def choose(
    places: Places, *, landmarks: int | None = None, spacing: float | None = None, every: bool = False, seed: int = 0
) -> Ints:
    """Rows of the places that become landmarks, by exactly one of `landmarks`, `spacing` and `every`."""
    if every:
        return np.arange(len(places))
    if spacing is not None:
        return sequential_landmarks(places, spacing)
    return greedy_landmarks(places, min(LANDMARKS, len(places)) if landmarks is None else landmarks, seed)


def _build(
    places: Places,
    describe: Callable[[Ints], Floats32],
    encoder: str,
    about: About | None,
    elsewhere: Callable[[], Floats32] | None,
    *,
    landmarks: int | None = None,
    spacing: float | None = None,
    every: bool = False,
    seed: int = 0,
    coverage: float = 0.9,
    false_accepts: float = 0.05,
    storage: Storage = "float32",
) -> Map:
    for name, value in (("coverage", coverage), ("false_accepts", false_accepts)):
        if not 0 < value < 1:
            raise BadInputError(f"{name} is {value}, but must be between 0 and 1")
    references = places.references()
    if not len(references):
        raise BadInputError("no place can be a landmark: all are for calibration, test or queries")
    if landmarks is None:
        landmarks = _enough_left(places, LANDMARKS)
    chosen = references[choose(places[references], landmarks=landmarks, spacing=spacing, every=every, seed=seed)]
    table = places[chosen].replace(notes=())  # what is noted there is about the whole collection
    built = Map.build(table, describe(chosen), encoder, about=about, storage=storage)
    rows, source = _calibrating(places, references, chosen, () if about is None else about.sequences)
    seen, absent = describe(rows), None if elsewhere is None else elsewhere()
    shares = {"coverage": coverage, "false_accepts": false_accepts}
    visit, along = visits(places, rows, chosen)
    try:
        calibration = calibrate(
            built,
            seen,
            places.positions[rows],
            source=source,
            elsewhere=absent,
            visit=visit if source == "train" else None,
            along=along,
            conditions=places.condition[rows].tolist(),
            **shares,
        )
    except UncalibratedError as error:
        return replace(built, places=built.places.noting(Note(f"not calibrated: {error}")))
    return built.with_calibration(calibration)


def visits(places: Places, images: Ints, landmarks: Ints) -> tuple[OneVisit | None, Floats]:
    """How far along their sequences images and landmarks were taken, if they share one; and landmarks in any case.

    Sequences are laid one after the other, far apart; a second lap in a sequence is another visit by its path length.
    """
    rows = np.union1d(images, landmarks)
    taken = places[rows]
    along, start = np.empty(len(rows)), 0.0
    gap = 10 * float(np.linalg.norm(np.ptp(taken.positions, axis=0))) + 1.0
    for own in taken.sequences().values():
        along[own] = start + path_length(taken.positions[own])
        start = along[own].max() + gap
    of_landmarks = along[np.searchsorted(rows, landmarks)]
    if not set(places.sequence[images]) & set(places.sequence[landmarks]):
        return None, of_landmarks
    return OneVisit(along[np.searchsorted(rows, images)], of_landmarks), of_landmarks


def _usual_count(encoder: ImageEncoder, places: Places) -> int:
    return _enough_left(places, int(encoder.about.settings.get("landmarks", LANDMARKS)))


def _enough_left(places: Places, landmarks: int) -> int:
    """So many landmarks, or fewer: where no images are kept to calibrate by, half of the references are left for it."""
    references = len(places.references())
    return min(landmarks, references if len(places.calibration()) else max(1, references // 2))


def _calibrating(places: Places, references: Ints, landmarks: Ints, trained: Collection[str]) -> tuple[Ints, Source]:
    """Rows of the images to calibrate by, and whether the encoder was trained on them.

    It was if their sequence was among those that it was trained on, and none of that sequence would train now: the
    sequence was taken out of the training images afterwards.
    """
    rows, source = calibrating(places.calibration(), references, landmarks)
    taken_out = set(trained) - set(places.sequence[places.training()])
    if taken_out & set(places.sequence[rows]):
        source = "train"
    return rows[evenly(len(rows), MOST)], source
