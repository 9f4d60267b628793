"""Building a map of descriptors that are there already: whose places are landmarks, and whose calibrate."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.descriptors import Described
from mappable.localization.build import build_map_of
from mappable.localization.map import Map
from mappable.maps.summary import summarize_map
from mappable.places.frames import Frame
from mappable.places.joining import concatenate

pytestmark = pytest.mark.medium


def gathered(town: Any, every: int = 5, **columns: Any) -> Described:
    """The landmarks of the town as a training split, and one in `every` images of a drive to
    calibrate by.
    """
    train = town.landmarks.places.replace(split="train", **columns)
    at, descriptors = (one[::every] for one in town.known)
    known = town.places(at, "known", split="calibration", **columns)
    seen = town.landmarks.store.take(np.arange(len(train)))
    return Described(concatenate([train, known]), np.concatenate([seen, descriptors]))


@pytest.mark.parametrize("dimensions", [2, 3])
def test_training_places_are_landmarks_and_others_calibrate(
    dimensions: int, town: Any, hills: Any
) -> None:
    world = town if dimensions == 2 else hills
    built = build_map_of(gathered(world), world.encoder, every=True)
    assert built.landmarks.places.place_id.tolist() == world.landmarks.places.place_id.tolist()
    assert built.calibration is not None
    assert (
        built.calibration.calibrated_on,
        built.calibration.images,
        built.calibration.elsewhere,
    ) == (
        "a drive",
        100,
        0,
    )
    found = built.locate_all(world.drive[1])
    errors = np.linalg.norm([one.coordinates for one in found] - world.drive[0], axis=1)
    assert np.median(errors) < 2


def test_roles_stand_in_for_splits(town: Any) -> None:
    described = gathered(town)
    count = len(town.landmarks)
    roles = np.array(["reference"] * count + ["query"] * 100, dtype=object)
    places = described.places.replace(split="", role=roles)
    built = build_map_of(Described(places, described.descriptors), town.encoder, every=True)
    assert set(built.landmarks.places.role) == {"reference"}
    # No query calibrates.
    assert (built.calibration.calibrated_on, built.calibration.images) == ("own visit", count)
    queries = Described(places[count:], described.descriptors[count:])
    with pytest.raises(BadInputError, match="landmark"):
        build_map_of(queries, town.encoder)


def two_visits(town: Any, every: int = 2) -> Described:
    """The known drive as the visit `monday`, and every second image of it with other noise as
    `tuesday`.
    """
    at = town.known[0][::every]
    both = concatenate([town.places(at, name, sequence=name) for name in ("monday", "tuesday")])
    return Described(both, np.concatenate([town.known[1][::every], town.describe(at, 7)]))


def about(**changes: Any) -> About:
    return About(
        weights="random", size=(64, 48), fit="crop", mean=(0, 0, 0), std=(1, 1, 1), **changes
    )


def test_visits_calibrate_a_map_of_the_others_unless_they_trained_the_encoder(town: Any) -> None:
    built = build_map_of(two_visits(town, 4), town.encoder, every=True)
    assert built.calibration is not None
    assert built.calibration.calibrated_on == "other visits"
    assert not summarize_map(built.landmarks).notes
    found = built.locate_drive(town.drive[1])
    off = np.linalg.norm([one.coordinates for one in found] - town.drive[0], axis=1)
    held = [
        one.low
        <= math.dist(
            at,
            built.landmarks.places.positions[
                list(built.landmarks.places.place_id).index(one.landmark)
            ],
        )
        <= one.high
        for one, at in zip(found, town.drive[0], strict=True)
    ]
    assert np.median(off) < 2
    assert np.mean(held) > 0.85
    trained = replace(
        two_visits(town), encoder=town.encoder, about=about(sequences=("monday", "tuesday"))
    )
    assert build_map_of(trained, every=True).calibration.calibrated_on == "own visit"


def test_images_in_another_frame_do_not_calibrate(town: Any) -> None:
    described = gathered(town)
    places = described.places
    frame = np.where(places.split == "train", "town", "village").astype(object)
    sequence = places.split
    places = places.replace(
        frame=frame, frames=[Frame("town"), Frame("village")], sequence=sequence
    )
    built = build_map_of(Described(places, described.descriptors), town.encoder, every=True)
    assert (built.calibration.calibrated_on, built.calibration.images) == (
        "own visit",
        len(town.landmarks),
    )
    assert list(built.landmarks.places.frames) == ["town"]


def test_what_cannot_be_built_is_refused(town: Any) -> None:
    described = gathered(town)
    for options, problem in (
        ({"coverage": 0.0}, "coverage must be .*got 0.0"),
        ({"false_accepts": 1.5}, "false_accepts must be .*got 1.5"),
        ({"spacing": -1.0}, "spacing of landmarks must be .*got -1.0"),
    ):
        with pytest.raises(BadInputError, match=problem):
            build_map_of(described, town.encoder, **options)
    with pytest.raises(BadInputError, match="encoder"):
        build_map_of(described)
    assert isinstance(build_map_of(described, "other", landmarks=50), Map)
