"""Calibration and localization, in a made-up town."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.maps.calibrate import calibrate
from mappable.maps.calibration import Calibration
from mappable.maps.locate import Locator
from mappable.maps.location import Candidate
from mappable.maps.map import Map
from mappable.maps.ranging import ranges_between
from mappable.maps.spread import Spread
from mappable.maps.summary import summarize_map


def errors(town: Any, found: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """How far the drive's images are from their nearest landmarks, and from where they are said to be."""
    row = {name: number for number, name in enumerate(town.map.places.place_id)}
    landmarks = town.map.places.positions[[row[one.landmark] for one in found]]
    said = np.stack([one.coordinates for one in found])
    return tuple(np.linalg.norm(town.drive[0] - places, axis=1) for places in (landmarks, said))


@pytest.mark.parametrize("which", ["town", "hills"])
def test_metres_intervals_and_refined_positions(which: str, request: pytest.FixtureRequest) -> None:
    town = request.getfixturevalue(which)
    found = Locator(town.map).locate(town.drive[1], encoder=town.encoder)
    plain, refined = errors(town, found)
    told = [(one, far) for one, far in zip(found, plain, strict=True) if one.low is not None]
    assert len(told) > 380
    assert np.mean([one.low <= far <= one.high for one, far in told]) == pytest.approx(0.9, abs=0.08)
    assert np.median(refined) < 0.8 * np.median(plain)
    assert all(one.refined and one.low <= one.distance <= one.high for one, _ in told)
    assert np.mean([one.confident for one in found]) > 0.95
    covariances = np.stack([one.covariance for one in found])
    assert covariances.shape == (400, *(town.map.dimensions,) * 2)
    off = town.drive[0] - np.stack([one.coordinates for one in found])
    squared = np.einsum("ni,nij,nj->n", off, np.linalg.inv(covariances), off)
    assert 0.4 < np.median(squared) / town.map.dimensions < 1.5


def test_images_from_elsewhere_are_turned_away(town: Any) -> None:
    found = Locator(town.map).locate(town.absent, encoder=town.encoder)
    assert np.mean([one.confident for one in found]) <= 0.1
    reasons = {one.reason.split(":")[0] for one in found if not one.confident}
    assert reasons <= {"looks unlike every landmark", "looks unlike every calibration image"}
    assert reasons
    assert np.mean([one.low is not None for one in found]) < 0.02
    assert all((one.low is None) == (one.coverage is None) for one in found)


@pytest.mark.medium
def test_a_street_with_a_copy_does_not_take_the_confidence_from_what_has_none(town: Any) -> None:
    """From 200 m on it looks like the first 120 m again, all but for a little that tells the two apart."""
    random = np.random.default_rng(7)

    def drive(count: int, seed: int) -> tuple[Any, Any]:
        along = np.linspace(0.0, 400.0, count)
        copied = np.where((along >= 200) & (along < 320), along - 200, along)
        places = [np.column_stack([x, np.sin(along / 9 + seed)]) for x in (along, copied)]
        alone, shared = town.describe(places[0] + np.array([9000.0, 0.0]), seed), town.describe(places[1], seed)
        seen = shared + 0.35 * alone
        return places[0], (seen / np.linalg.norm(seen, axis=1, keepdims=True)).astype(np.float32)

    (at, landmarks), known, (asked, images) = drive(100, 2), drive(1000, 3), drive(600, 5)
    known_share = random.uniform(0.0, 0.75, (300, 1)).astype(np.float32)
    mixed = known_share * images[random.permutation(600)[:300]] + (1 - known_share) * town.absent
    elsewhere = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
    bare = Map.build(town.places(at, "landmarks"), landmarks, town.encoder)
    calibrated = bare.with_calibration(calibrate(bare, known[1], known[0], elsewhere=elsewhere))
    confident = np.array([one.confident for one in Locator(calibrated).locate(images, encoder=town.encoder)])
    copied = (asked[:, 0] < 120) | ((asked[:, 0] >= 200) & (asked[:, 0] < 320))
    assert confident[~copied].mean() > 0.8


@pytest.mark.medium
def test_the_threshold_can_do_without_images_from_elsewhere(town: Any) -> None:
    calibration = calibrate(town.bare, town.known[1], town.known[0])
    assert calibration.elsewhere == 0
    assert calibration.share_confident == pytest.approx(0.95, abs=0.01)  # where places are told apart as well as here
    more = calibrate(town.bare, town.known[1], town.known[0], false_accepts=0.2)
    assert more.threshold >= calibration.threshold
    locator = Locator(town.map.with_calibration(calibration))
    assert np.mean([one.confident for one in locator.locate(town.absent, encoder=town.encoder)]) <= 0.1
    assert np.mean([one.confident for one in locator.locate(town.drive[1], encoder=town.encoder)]) > 0.9


@pytest.mark.medium
def test_two_places_that_look_alike(town: Any) -> None:
    """A third of the town is there twice, 5 km away, under other names."""
    some = np.arange(len(town.map)) < len(town.map) // 3
    copy = town.map.places[some].replace(
        x=town.map.places.x[some] + 5000,
        path=[f"copy/{row}" for row in range(some.sum())],
        place_id=[f"copy/{row}" for row in range(some.sum())],
    )
    both = town.bare.add(copy, town.map.store.take(np.flatnonzero(some)), town.encoder)
    both = both.with_calibration(calibrate(both, town.known[1], town.known[0], elsewhere=town.elsewhere))
    found = Locator(both).locate(town.drive[1], encoder=town.encoder)
    x = town.drive[0][:, 0]
    twice, once = x < 100, x > 200
    aliased = np.array([one.reason.startswith("looks like two places") for one in found])
    assert aliased[twice].mean() > 0.9
    assert "nearly as much" in found[int(np.flatnonzero(aliased)[0])].reason
    assert aliased[once].mean() < 0.1
    assert np.mean([found[row].confident for row in np.flatnonzero(once)]) > 0.9


def test_other_coverages(town: Any) -> None:
    plain, _ = errors(town, Locator(town.map).locate(town.drive[1], encoder=town.encoder))
    for coverage in (0.5, 0.8):
        found = Locator(town.map).locate(town.drive[1], encoder=town.encoder, coverage=coverage)
        told = [(one, far) for one, far in zip(found, plain, strict=True) if one.low is not None]
        assert np.mean([one.low <= far <= one.high for one, far in told]) == pytest.approx(coverage, abs=0.1)
        assert told[0][0].coverage == coverage
    with pytest.raises(BadInputError, match="coverage"):
        Locator(town.map).locate(town.drive[1], encoder=town.encoder, coverage=2.0)


def test_an_interval_of_too_few_images_is_the_whole_range(town: Any) -> None:
    few = replace(town.calibration, confident=Spread.fit(np.linspace(0.1, 1.0, 8), np.zeros(8)))
    small = town.map.with_calibration(few)
    found = Locator(small).locate(town.drive[1][:50], encoder=town.encoder)
    (one, *_) = [one for one in found if one.confident]
    across = math.dist(town.map.places.positions.min(0), town.map.places.positions.max(0))
    assert one.low == 0.0
    assert one.high == pytest.approx(across + few.response.reach)
    summary = summarize_map(small).calibration
    assert summary is not None
    assert summary.width == one.high


def test_without_calibration_there_is_the_nearest_landmark_and_no_more(town: Any) -> None:
    (found,) = Locator(town.bare).locate(town.drive[1][:1], encoder=town.encoder)
    assert (found.distance, found.low, found.covariance, found.refined) == (None, None, None, False)
    assert not found.confident
    assert found.reason == "the map has no calibration"
    assert found.candidates[0] == Candidate(found.landmark, found.coordinates, found.feature_distance)


def test_of_another_encoder(town: Any) -> None:
    with pytest.raises(BadInputError, match=r"other.*made-up"):
        Locator(town.map).locate(town.drive[1], encoder="other")


def test_it_goes_to_disk_and_back(town: Any, tmp_path: Path) -> None:
    assert Calibration.from_json(json.loads(json.dumps(town.calibration.to_json()))) == town.calibration
    opened = Map.open(town.map.save(tmp_path / "map").files["landmarks"].path.parent)
    assert opened.calibration == town.calibration
    before, after = (Locator(one).locate(town.drive[1][:20], encoder=town.encoder) for one in (town.map, opened))
    assert before == after
    json.dumps(asdict(before[0]), allow_nan=False)


def test_the_same_images_give_the_same_calibration(town: Any) -> None:
    again = calibrate(town.bare, town.known[1], town.known[0], elsewhere=town.elsewhere)
    assert again == town.calibration


@pytest.mark.medium
def test_a_long_map_can_be_calibrated(town: Any) -> None:
    """8 km, with images 40 m apart."""
    along = np.linspace(0.0, 8_000.0, 800)
    road = np.column_stack([along, 0 * along])
    long = Map.build(town.places(road, "long"), town.describe(road, seed=1), town.encoder)
    known = np.column_stack([np.linspace(5.0, 7_880.0, 200) + np.tile([0, 3.0], 100), np.ones(200)])
    calibration = calibrate(long, town.describe(known, seed=2), known)
    assert 10 < calibration.response.reach < 40
    assert calibration.response.floor < 0.4
    assert calibration.share_confident > 0.9
    assert calibration.pairs is None
    with pytest.raises(BadInputError, match="ranges"):
        ranges_between(calibration, town.drive[1])


@pytest.mark.medium
def test_two_cameras_side_by_side(town: Any) -> None:
    beside = town.map.places.positions + np.array([0.0, 0.1])
    both = town.bare.add(town.places(beside, "right"), town.describe(beside, seed=8), town.encoder)
    calibration = calibrate(both, town.known[1], town.known[0], elsewhere=town.elsewhere)
    assert calibration.spacing == pytest.approx(town.calibration.spacing, rel=0.05)


def test_landmarks_added_elsewhere_change_nothing_here(town: Any) -> None:
    far = np.column_stack([9000 + 0.25 * np.arange(400.0), np.zeros(400)])
    larger = town.map.add(town.places(far, "far"), town.describe(far, seed=8), town.encoder)
    before, after = (Locator(one).locate(town.drive[1], encoder=town.encoder) for one in (town.map, larger))
    off = [math.dist(one.coordinates, other.coordinates) for one, other in zip(before, after, strict=True)]
    assert np.quantile(off, 0.95) < 0.1


def test_a_small_map_rejects_by_the_images_it_knows(town: Any) -> None:
    """No landmark is far enough from an image to stand for another place."""
    few = town.bare.remove(town.bare.places.place_id[6:].tolist())
    near = town.known[0][:, 0] < 40
    random = np.random.default_rng(0)
    positions = np.repeat(town.known[0][near], 5, axis=0) + random.normal(size=(5 * near.sum(), 2))
    descriptors = town.describe(positions, seed=4)
    assert calibrate(few, descriptors, positions).share_confident > 0.5
    assert calibrate(few, descriptors, positions, elsewhere=town.elsewhere).share_confident > 0.8


def test_a_map_of_one_landmark_is_never_confident_of_an_image_alone(town: Any) -> None:
    """All images are near the landmark, so no image shows how others look: the gate stays closed."""
    lonely = town.bare.remove(town.bare.places.place_id[1:].tolist())
    positions = lonely.places.positions + np.random.default_rng(0).normal(0, 1.5, (200, 2))
    calibration = calibrate(lonely, town.describe(positions, seed=4), positions)
    assert calibration.drive.clear_ratio == 0
    locator = Locator(lonely.with_calibration(calibration))
    for descriptors in (town.describe(positions, seed=9), town.absent):
        found = locator.locate(descriptors, encoder=town.encoder)
        assert not any(one.confident for one in found)
        assert all(one.reason for one in found)


def test_training_images_are_said_to_guarantee_nothing(town: Any) -> None:
    assert town.calibration.note == ""
    trained = replace(town.calibration, source="train")
    assert trained.note == "calibrated on training images, coverage not guaranteed"


def test_what_cannot_be_calibrated(town: Any) -> None:
    known, seen = town.known
    with pytest.raises(BadInputError, match="14 images"):
        calibrate(town.bare, seen[:14], known[:14])
    with pytest.raises(BadInputError, match=r"\(499, 2\), expected \(500, 2\)"):
        calibrate(town.bare, seen, known[:499])
    with pytest.raises(BadInputError, match=r"coverage.*0 and 1.*90"):
        calibrate(town.bare, seen, known, coverage=90)
    with pytest.raises(BadInputError, match=r"0 images from elsewhere.*0\.05"):
        calibrate(town.bare, seen, known, elsewhere=seen[:0])
    with pytest.raises(BadInputError, match=r"\(500, 9\), expected n x 192"):
        calibrate(town.bare, seen[:, :9], known)
    with pytest.raises(BadInputError, match="position 3 "):
        calibrate(town.bare, seen, np.where(np.arange(500)[:, None] == 3, np.nan, known))
    with pytest.raises(BadInputError, match=r"does not tell places apart|do not grow"):
        calibrate(town.bare, np.random.default_rng(0).permutation(seen), known)
    lonely = town.bare.remove(town.bare.places.place_id[2:].tolist())
    with pytest.raises(BadInputError, match=r"too small|have a nearest landmark|do not grow"):
        calibrate(lonely, seen, known)


def test_images_unlike_those_of_calibration_are_said_to_be(town: Any) -> None:
    def told(descriptors: Any) -> str:
        found = Locator(town.map).locate(descriptors, encoder=town.encoder)
        return town.calibration.doubt(np.array([one.candidates[0].feature_distance for one in found]))

    changed = town.drive[1] + np.random.default_rng(0).normal(scale=0.06, size=town.drive[1].shape)
    changed /= np.linalg.norm(changed, axis=1, keepdims=True)
    assert told(town.drive[1]) == ""
    assert "condition" in told(changed.astype(np.float32))
    assert replace(town.calibration, source="train").doubt(np.ones(3)) == ""
    assert town.calibration.doubt(np.empty(0)) == ""


def test_a_condition_that_is_left_out_makes_intervals_wider(town: Any) -> None:
    """The second half of the images is of another condition, in which descriptors have more noise."""
    at, seen = (one[::2] for one in town.known)
    random = np.random.default_rng(3)
    other = seen + np.where(np.arange(250)[:, None] < 125, 0.0, 0.05 * random.normal(size=seen.shape))
    other = (other / np.linalg.norm(other, axis=1, keepdims=True)).astype(np.float32)
    conditions = np.where(np.arange(250) < 125, "day", "night").tolist()
    alone, parted = (calibrate(town.bare, other, at, conditions=one) for one in (None, conditions))
    (_, low, high), (_, low_parted, high_parted) = (
        one.confident.predict(np.array([0.5]), 0.9) for one in (alone, parted)
    )
    assert high_parted - low_parted > high - low
    few = calibrate(town.bare, other, at, conditions=["day"] * 245 + ["night"] * 5)
    assert few.confident == alone.confident


def test_a_drive_unlike_calibration_has_wider_intervals(town: Any) -> None:
    model = replace(town.calibration.drive, scores=(1.0,) * 9 + (4.0,), seen_scores=(1.0,) * 10, usual_contrast=3.0)
    assert model.width(0.9, contrast=3.5) == 1.0
    assert model.width(0.9, contrast=2.5) == 4.0
    assert replace(model, seen_scores=()).width(0.9, contrast=3.5) == 4.0
