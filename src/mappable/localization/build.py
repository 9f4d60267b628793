"""Build a map: choose landmarks, describe them, and calibrate the place model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np

from mappable.arrays import Floats32, Ints, evenly
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.descriptors import Described
from mappable.features.image_encoder import ImageEncoder
from mappable.localization.fitting import calibrate_or_say
from mappable.localization.map import Map
from mappable.maps.choosing import greedy_landmarks, sequential_landmarks
from mappable.maps.encoders import open_encoder
from mappable.maps.landmarks import Landmarks, Storage
from mappable.places.notes import Note
from mappable.places.pixels import AnyImages, images_of
from mappable.places.table import Places

# Number of landmarks if neither the user nor the encoder's settings give one.
DEFAULT_LANDMARKS = 200
MOST_CALIBRATING = 5000  # largest number of images to calibrate on; a larger set is thinned evenly


class Options(TypedDict, total=False):
    """How to build a map.

    There are three ways to choose landmarks. `landmarks` is a number of places that lie far apart;
    `seed` sets the random first one. `spacing` takes places at least that far from the last
    landmark along their sequence. `every` takes every reference.

    Intervals of the calibration have the `coverage`. At most a share `false_accepts` of the images
    from elsewhere may be confident. `storage` is the number format of descriptors.
    """

    landmarks: int | None
    spacing: float | None
    every: bool
    seed: int
    coverage: float
    false_accepts: float
    storage: Storage


def build_map(
    places: Places,
    images: AnyImages | None = None,
    *,
    encoder: ImageEncoder | Path | str,
    elsewhere: AnyImages | None = None,
    **options: Unpack[Options],
) -> Map:
    """Build a map from some of the places and calibrate it on others; `Options` lists all options.

    `encoder` is an encoder, or its file or folder; `Map.save` keeps a copy of it with the map.

    Landmarks are chosen among `places.references()`. Their number comes from `options`, or else
    from the encoder's settings. The images of the split `calibration` are a drive that calibrates
    the map. Without that split, the visits of the map do.

    `images` (n, height, width, 3) are the images of the places; by default, their files are
    decoded. `elsewhere` are images that are not on the map. With them, the map learns to reject
    such images.
    """
    if isinstance(encoder, str | Path):
        encoder = open_encoder(encoder)
    pixels = images_of(places if images is None else images, encoder.about.size, encoder.about.fit)
    embed = encoder.embed
    absent = None if elsewhere is None else lambda: embed(elsewhere)
    if options.get("landmarks") is None:
        options["landmarks"] = usual_landmarks(encoder.about, places)
    landmarks = _build(
        places,
        lambda rows: embed(pixels.take(rows)),
        encoder.fingerprint,
        encoder.about,
        absent,
        **options,
    )
    return Map(landmarks, encoder)


def build_map_of(
    described: Described,
    encoder: str | None = None,
    *,
    elsewhere: Described | None = None,
    **options: Unpack[Options],
) -> Map:
    """Build a map from finished descriptors, as `build_map` does; `encoder` names the encoder if
    they record none.
    """
    fingerprint = described.encoder or encoder
    if not fingerprint:
        raise BadInputError(
            "the descriptors record no encoder: name the encoder that made them (--fingerprint)"
        )
    for name in (encoder, None if elsewhere is None else elsewhere.encoder):
        if name not in (None, fingerprint):
            raise BadInputError(
                f"all descriptors must come from one encoder, got {fingerprint} and {name}"
            )
    absent = None if elsewhere is None else lambda: elsewhere.descriptors
    landmarks = _build(
        described.places,
        lambda rows: described.descriptors[rows],
        fingerprint,
        described.about,
        absent,
        **options,
    )
    return Map(landmarks)


def choose(
    places: Places,
    *,
    landmarks: int | None = None,
    spacing: float | None = None,
    every: bool = False,
    seed: int = 0,
) -> Ints:
    """Rows of the places that become landmarks; give at most one of `landmarks`, `spacing` and
    `every`.
    """
    if every:
        return np.arange(len(places))
    if spacing is not None:
        return sequential_landmarks(places, spacing)
    return greedy_landmarks(
        places, min(DEFAULT_LANDMARKS, len(places)) if landmarks is None else landmarks, seed
    )


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
) -> Landmarks:
    references = places.references()
    if not len(references):
        raise BadInputError(
            "no place can be a landmark: all places are for calibration, test or queries"
        )
    chosen = references[
        np.sort(
            choose(places[references], landmarks=landmarks, spacing=spacing, every=every, seed=seed)
        )
    ]
    table = places[chosen].replace(notes=())  # its notes describe the whole collection
    built = Landmarks.build(table, describe(chosen), encoder, about=about, storage=storage)
    absent = None if elsewhere is None else elsewhere()
    rows = places.calibration()
    rows = rows[places.frame[rows] == built.frame.name]
    rows = rows[evenly(len(rows), MOST_CALIBRATING)]
    seen = describe(rows) if len(rows) else np.empty((0, built.store.dimensions), dtype=np.float32)
    calibrated, why = calibrate_or_say(
        built, places[rows], seen, coverage=coverage, elsewhere=absent, false_accepts=false_accepts
    )
    return replace(calibrated, places=built.places.noting(Note(why))) if why else calibrated


def usual_landmarks(about: About | None, places: Places) -> int:
    """The default number of landmarks: that of the encoder's settings, at most all references."""
    settings = {} if about is None else about.settings
    return min(int(settings.get("landmarks", DEFAULT_LANDMARKS)), max(len(places.references()), 1))
