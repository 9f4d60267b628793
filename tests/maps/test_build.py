"""Building a map of descriptors that are there already: whose places are landmarks, and whose calibrate."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.descriptors import Described
from mappable.maps import build
from mappable.maps.build import build_map_of
from mappable.maps.locate import Locator
from mappable.maps.map import Map
from mappable.maps.summary import summarize_map
from mappable.places.frames import Frame
from mappable.places.joining import concatenate


def gathered(town: Any, every: int = 5, **columns: Any) -> Described:
    """The landmarks of the town as a training split, and one in `every` images of a drive to calibrate by."""
    train = town.map.places.replace(split="train", **columns)
    at, descriptors = (one[::every] for one in town.known)
    known = town.places(at, "known", split="calibration", **columns)
    seen = town.map.store.take(np.arange(len(train)))
    return Described(concatenate([train, known]), np.concatenate([seen, descriptors]))


@pytest.mark.medium
@pytest.mark.parametrize(("trained", "source"), [(("tuesday",), "train"), (("monday",), "calibration")])
def test_a_sequence_that_the_encoder_learned_from_is_no_calibration_split(
    trained: tuple[str, ...], source: str, town: Any
) -> None:
    given = gathered(town)
    places = given.places.replace(sequence=np.where(given.places.split == "train", "monday", "tuesday"))
    built = build_map_of(Described(places, given.descriptors, "made-up", about(sequences=trained)), every=True)
    assert built.calibration is not None
    assert built.calibration.source == source


@pytest.mark.medium
@pytest.mark.parametrize("dimensions", [2, 3])
def test_training_places_are_landmarks_and_others_calibrate(dimensions: int, town: Any, hills: Any) -> None:
    world = town if dimensions == 2 else hills
    built = build_map_of(gathered(world), world.encoder, every=True)
    assert built.places.place_id.tolist() == world.map.places.place_id.tolist()
    assert built.calibration is not None
    assert (built.calibration.source, built.calibration.images, built.calibration.elsewhere) == ("calibration", 100, 0)
    found = Locator(built).locate(world.drive[1], encoder=world.encoder)
    errors = np.linalg.norm([one.coordinates for one in found] - world.drive[0], axis=1)
    assert np.median(errors) < 2
    away = Described(world.places(np.zeros((300, dimensions)), "away"), world.elsewhere)
    rejecting = build_map_of(gathered(world, every=1), world.encoder, every=True, elsewhere=away)
    assert rejecting.calibration == world.calibration


def test_roles_stand_in_for_splits(town: Any) -> None:
    described = gathered(town)
    count = len(town.map)
    roles = np.array(["reference"] * count + ["query"] * 100, dtype=object)
    places = described.places.replace(split="", role=roles)
    built = build_map_of(Described(places, described.descriptors), town.encoder, every=True)
    assert set(built.places.role) == {"reference"}
    assert (built.calibration.source, built.calibration.images) == ("train", count)  # no query calibrates
    queries = Described(places[count:], described.descriptors[count:])
    with pytest.raises(BadInputError, match="landmark"):
        build_map_of(queries, town.encoder)


def two_visits(town: Any, every: int = 2) -> Described:
    """The known drive as the visit `monday`, and every second image of it with other noise as `tuesday`."""
    at = town.known[0][::every]
    both = concatenate([town.places(at, name, sequence=name) for name in ("monday", "tuesday")])
    return Described(both, np.concatenate([town.known[1][::every], town.describe(at, 7)]))


def about(**changes: Any) -> About:
    return About(weights="random", size=(64, 48), fit="crop", mean=(0, 0, 0), std=(1, 1, 1), **changes)


@pytest.mark.medium
def test_without_a_split_one_visit_calibrates_with_the_landmarks_of_the_others(town: Any) -> None:
    built = build_map_of(two_visits(town), town.encoder, landmarks=160)
    assert built.calibration is not None
    assert built.calibration.source == "visits"
    assert not built.calibration.note
    assert not summarize_map(built).notes
    assert set(built.places.sequence) == {"monday", "tuesday"}  # but all visits have landmarks
    locator = Locator(built)
    found = locator.locate(town.drive[1], encoder=town.encoder)
    number = {name: row for row, name in enumerate(built.places.place_id)}
    truly = np.linalg.norm(locator.positions[[number[one.landmark] for one in found]] - town.drive[0], axis=1)
    held = np.mean([one.low <= off <= one.high for one, off in zip(found, truly, strict=True)])
    assert held > 0.87
    assert np.mean([one.confident for one in found]) > 0.8
    assert np.median([one.high - one.low for one in found]) < 15  # the route is 400 m long
    noise = np.random.default_rng(8).normal(size=town.drive[1].shape) / np.sqrt(town.drive[1].shape[1])
    unlike = (town.drive[1] + noise).astype(np.float32)  # another visit may change more than those of the map did
    unlike /= np.linalg.norm(unlike, axis=1, keepdims=True)
    by_drives = Locator(built.with_calibration(replace(built.calibration, source="train")))
    both = (each.locate(unlike, encoder=town.encoder) for each in (locator, by_drives))
    doubtful = [(one, other) for one, other in zip(*both, strict=True) if not one.confident]
    assert doubtful
    assert all(one.coordinates == other.coordinates for one, other in doubtful)


@pytest.mark.medium
def test_images_that_trained_the_encoder_show_nothing_of_another_visit(town: Any) -> None:
    given = two_visits(town)
    trained = replace(given, encoder=town.encoder, about=about(sequences=("monday", "tuesday")))
    built = build_map_of(trained, landmarks=160)
    assert built.calibration is not None
    assert built.calibration.source == "train"
    held_out = given.places.place_id[given.places.x > 150]
    few = build_map_of(trained, landmarks=160, unseen=held_out[:40].tolist())
    assert few.calibration == built.calibration
    better = build_map_of(trained, landmarks=160, unseen=held_out.tolist())
    assert better.calibration is not None
    assert better.calibration.source == "visits"
    assert better.calibration.images < len(held_out) / 2
    assert better.calibration.drive == built.calibration.drive


@pytest.mark.medium
def test_landmarks_are_chosen_with_a_seed_and_nested(town: Any) -> None:
    def chosen(**options: Any) -> list[str]:
        return build_map_of(gathered(town), town.encoder, **options).places.place_id.tolist()

    assert chosen(landmarks=60)[:20] == chosen(landmarks=60, seed=0)[:20]
    assert chosen(landmarks=40) == chosen(landmarks=60)[:40]
    assert chosen(landmarks=40) != chosen(landmarks=40, seed=1)
    assert len(chosen()) == len(town.map)  # 200 are usual, but there are no more


def test_images_in_another_frame_do_not_calibrate(town: Any) -> None:
    described = gathered(town)
    places = described.places
    frame = np.where(places.split == "train", "town", "village").astype(object)
    sequence = places.split
    places = places.replace(frame=frame, frames=[Frame("town"), Frame("village")], sequence=sequence)
    built = build_map_of(Described(places, described.descriptors), town.encoder, every=True)
    assert (built.calibration.source, built.calibration.images) == ("train", len(town.map))
    assert list(built.places.frames) == ["town"]


def test_few_images_calibrate_and_fewer_do_not(town: Any) -> None:
    """Landmarks of one drive alone: half of it, so that images are left; or all of it."""
    positions, seen = town.drive[0][:136:4], town.drive[1][:136:4]
    known, asked = (one[:170] for one in town.known)

    def build(count: int, **options: Any) -> Map:
        return build_map_of(Described(town.places(positions[:count], "d"), seen[:count]), town.encoder, **options)

    half, whole = build(34), build(34, every=True)
    assert (len(half), half.calibration.images) == (17, 17)
    assert (len(whole), whole.calibration.images) == (34, 34)
    for built in (half, whole):
        found = Locator(built).locate(asked, encoder=town.encoder)
        truly = [
            math.dist(built.places.positions[list(built.places.place_id).index(one.landmark)], at)
            for one, at in zip(found, known, strict=True)
        ]
        held = [one.low <= far <= one.high for one, far in zip(found, truly, strict=True) if one.low is not None]
        assert len(held) > 0.9 * len(found)
        assert np.mean(held) > 0.8
    few = build(14, every=True)
    assert few.calibration is None
    assert "14 images" in str(few.places.notes[0])


@pytest.mark.medium
def test_very_many_images_to_calibrate_by_are_thinned(town: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "MOST_CALIBRATING", 200)
    described = gathered(town, every=1)
    rows = np.concatenate([np.arange(len(town.map)), np.resize(np.arange(500), 700) + len(town.map)])
    copies = [f"{row}.jpg" for row in range(len(rows))]
    columns = {axis: getattr(described.places, axis)[rows] for axis in "xy"}
    split = described.places.split[rows]
    places = town.map.places.replace(
        path=copies, place_id=copies, split=split, frame="town", sequence="", condition="", role="",
        **columns, z=None, yaw=None, time=None,
    )  # fmt: skip
    built = build_map_of(Described(places, described.descriptors[rows]), town.encoder, every=True)
    assert built.calibration is not None
    assert built.calibration.images == 200


def test_a_map_in_frames_says_so(town: Any) -> None:
    built = build_map_of(gathered(town, frames=Frame("route", "frames"), frame="route"), town.encoder, every=True)
    summary = summarize_map(built)
    assert summary.unit == "frames"
    assert summary.calibration is not None
    assert 0.5 < summary.calibration.confident <= 1
    assert summary.notes == ()
    assert Locator(built).locate(town.drive[1][:1], encoder=town.encoder)[0].unit == "frames"
    fewer = summarize_map(built.remove(built.places.place_id[:1]))
    assert fewer.notes == (f"calibrated with {len(town.map)} landmarks; build the map again to renew the calibration",)


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
