"""Build a map: choose landmarks, describe them, and calibrate on the remaining images."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypedDict, Unpack

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly, path_length
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.descriptors import Described
from mappable.features.image_encoder import ImageEncoder
from mappable.maps.between import spacing_of
from mappable.maps.calibrate import ENOUGH_FOR_INTERVALS, FEWEST, calibrate, calibrating
from mappable.maps.calibrate_drive import OneVisit
from mappable.maps.calibration import Calibration, Source
from mappable.maps.drive_model import DriveModel
from mappable.maps.errors import UncalibratedError
from mappable.maps.landmarks import greedy_landmarks, sequential_landmarks
from mappable.maps.map import Map, Storage
from mappable.places.notes import Note
from mappable.places.pixels import AnyImages, images_of
from mappable.places.table import Places

DEFAULT_LANDMARKS = 200  # number of landmarks if neither the user nor the encoder's settings give one
MOST_CALIBRATING = 5000  # largest number of images to calibrate on; a larger set is thinned evenly
MOST_VISITS = 20  # visits that may calibrate a map without a split `calibration`: the longest ones
MOST_COPIED = 20_000  # with more landmarks, no visit calibrates: the landmarks of the others would be copied
ACROSS = 2.0  # an image counts if a landmark of another visit is within this distance; in spacings of landmarks


class Options(TypedDict, total=False):
    """How to build a map.

    There are three ways to choose landmarks. `landmarks` is a number of places that lie far apart; `seed` sets the
    random first one. `spacing` takes places at least that far from the last landmark along their sequence. `every`
    takes every reference.

    Intervals of the calibration have the `coverage`. Its threshold accepts a share `false_accepts` of images from
    elsewhere. `storage` is the number format of descriptors. `unseen` are the ids of images that a trained encoder did
    not train on (default: those of visits that it did not see).
    """

    landmarks: int | None
    spacing: float | None
    every: bool
    seed: int
    coverage: float
    false_accepts: float
    storage: Storage
    unseen: Collection[str] | None


def build_map(
    encoder: ImageEncoder,
    places: Places,
    images: AnyImages | None = None,
    *,
    elsewhere: AnyImages | None = None,
    **options: Unpack[Options],
) -> Map:
    """Build a map from some of the places and calibrate it on others; `Options` lists all options.

    Landmarks are chosen among `places.references()`. Their number comes from `options`, or else from the encoder's
    settings. The map is calibrated on `places.calibration()`. If that is empty, references that are not landmarks
    calibrate it: those of the visit that the landmarks of the other visits find worst, if the encoder did not train on
    them. Otherwise all of them do, which makes intervals too narrow. A map that cannot be calibrated gets a note with
    the cause.

    `images` (n, height, width, 3) are the images of the places; by default, their files are decoded. `elsewhere` are
    images that are not on the map. With them, the map learns to reject such images.
    """
    pixels = images_of(places if images is None else images, encoder.about.size, encoder.about.fit)
    absent = None if elsewhere is None else lambda: encoder.embed(elsewhere)
    options.setdefault("landmarks", None)
    if options["landmarks"] is None:
        options["landmarks"] = usual_landmarks(encoder.about, places)
    return _build(
        places, lambda rows: encoder.embed(pixels.take(rows)), encoder.fingerprint, encoder.about, absent, **options
    )


def build_map_of(
    described: Described, encoder: str | None = None, *, elsewhere: Described | None = None, **options: Unpack[Options]
) -> Map:
    """Build a map from finished descriptors, as `build_map` does; `encoder` names the encoder if they record none."""
    fingerprint = described.encoder or encoder
    if not fingerprint:
        raise BadInputError("the descriptors record no encoder: name the encoder that made them (--fingerprint)")
    for name in (encoder, None if elsewhere is None else elsewhere.encoder):
        if name not in (None, fingerprint):
            raise BadInputError(f"all descriptors must come from one encoder, got {fingerprint} and {name}")
    absent = None if elsewhere is None else lambda: elsewhere.descriptors
    return _build(
        described.places, lambda rows: described.descriptors[rows], fingerprint, described.about, absent, **options
    )


def choose(
    places: Places, *, landmarks: int | None = None, spacing: float | None = None, every: bool = False, seed: int = 0
) -> Ints:
    """Rows of the places that become landmarks; give at most one of `landmarks`, `spacing` and `every`."""
    if every:
        return np.arange(len(places))
    if spacing is not None:
        return sequential_landmarks(places, spacing)
    return greedy_landmarks(places, min(DEFAULT_LANDMARKS, len(places)) if landmarks is None else landmarks, seed)


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
    unseen: Collection[str] | None = None,
) -> Map:
    for name, value in (("coverage", coverage), ("false_accepts", false_accepts)):
        if not 0 < value < 1:
            raise BadInputError(f"{name} must be between 0 and 1, got {value}")
    references = places.references()
    if not len(references):
        raise BadInputError("no place can be a landmark: all places are for calibration, test or queries")
    if landmarks is None:
        landmarks = _enough_left(places, DEFAULT_LANDMARKS)
    chosen = references[choose(places[references], landmarks=landmarks, spacing=spacing, every=every, seed=seed)]
    table = places[chosen].replace(notes=())  # its notes describe the whole collection
    built = Map.build(table, describe(chosen), encoder, about=about, storage=storage)
    trained = () if about is None or about.settings.get("iterations") == 0 else about.sequences
    rows, source = _calibrating(places, references, chosen, trained)
    fresh = ~np.isin(places.sequence, list(trained)) if unseen is None else np.isin(places.place_id, list(unseen))
    seen, absent = describe(rows), None if elsewhere is None else elsewhere()
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
            yaw=places.yaw[rows],
            coverage=coverage,
            false_accepts=false_accepts,
        )
    except UncalibratedError as error:
        return replace(built, places=built.places.noting(Note(f"not calibrated: {error}")))
    if source == "train" and not len(places.calibration()) and len(chosen) <= MOST_COPIED:
        # The model of drives stays: it allows for changes that no visit so far has shown.
        across = _across_visits(
            built,
            places,
            chosen,
            rows,
            seen,
            fresh | (not trained),
            calibration.drive,
            absent,
            coverage,
            false_accepts,
        )
        if across is not None:
            calibration = replace(across, landmarks=calibration.landmarks)
    return built.with_calibration(calibration)


def _across_visits(
    built: Map,
    places: Places,
    chosen: Ints,
    rows: Ints,
    seen: Floats32,
    fresh: Bools,
    drive: DriveModel,
    elsewhere: Floats32 | None,
    coverage: float,
    false_accepts: float,
) -> Calibration | None:
    """Calibrate on `fresh` images of one visit, with the landmarks of the other visits; None if no visit has enough.

    Another visit may differ as much from the map as the most different one so far. So the visit calibrates that these
    landmarks find worst. `seen` are the descriptors of the `rows`, and `chosen` the rows of the landmarks.
    The model of drives is given.
    """
    names, counts = np.unique(places.sequence[rows], return_counts=True)
    worst, found = np.inf, None
    for name in names[np.argsort(-counts, kind="stable")[:MOST_VISITS]]:
        others = np.flatnonzero(places.sequence[chosen] != name)
        if len(others) < FEWEST:
            continue
        at = places.positions[chosen[others]]
        near = ACROSS * spacing_of(at)
        own = np.flatnonzero((places.sequence[rows] == name) & fresh[rows])
        own = own[KDTree(at).query(places.positions[rows[own]])[0] <= near] if len(own) else own
        if len(own) < ENOUGH_FOR_INTERVALS:
            continue
        part = Map.build(built.places[others], built.store.take(others), built.encoder)
        nearest = part.store.nearest(seen[own], 1)[0][:, 0]
        right = float((np.linalg.norm(at[nearest] - places.positions[rows[own]], axis=1) <= near).mean())
        if right < worst:
            worst, found = right, (part, own, others)
    if found is None:
        return None
    part, own, others = found
    images = rows[own]
    try:
        return calibrate(
            part,
            seen[own],
            places.positions[images],
            source="visits",
            elsewhere=elsewhere,
            drive=drive,
            conditions=places.condition[images].tolist(),
            yaw=places.yaw[images],
            coverage=coverage,
            false_accepts=false_accepts,
        )
    except UncalibratedError:
        return None


def visits(places: Places, images: Ints, landmarks: Ints) -> tuple[OneVisit | None, Floats]:
    """Path lengths at which images and landmarks were taken: of both if they share a sequence, and of the landmarks.

    Sequences follow each other with a long gap, so they count as separate visits. A second lap of one sequence counts
    as another visit too, because its path length differs.
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


def usual_landmarks(about: About | None, places: Places) -> int:
    """The default number of landmarks: that of the encoder's settings, but enough images are left for calibration."""
    settings = {} if about is None else about.settings
    return _enough_left(places, int(settings.get("landmarks", DEFAULT_LANDMARKS)))


def _enough_left(places: Places, landmarks: int) -> int:
    """Limit the number of landmarks: without a calibration split, half of the references remain for calibration."""
    references = len(places.references())
    return min(landmarks, references if len(places.calibration()) else max(1, references // 2))


def _calibrating(places: Places, references: Ints, landmarks: Ints, trained: Collection[str]) -> tuple[Ints, Source]:
    """Rows of the images to calibrate on, and "train" if the encoder was trained on them.

    An image counts as trained on if its sequence was in the training set, but has no training images now. The user
    then took the sequence out of the training images after training.
    """
    rows, source = calibrating(places.calibration(), references, landmarks)
    removed = set(trained) - set(places.sequence[places.training()])
    if removed & set(places.sequence[rows]):
        source = "train"
    return rows[evenly(len(rows), MOST_CALIBRATING)], source
