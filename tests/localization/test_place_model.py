"""What the place model says about drives, single images and live cameras; and what it must not say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mappable.arrays import Floats32, Ints
from mappable.errors import BadInputError
from mappable.localization.answers import Answers
from mappable.localization.map import Map
from mappable.localization.numbers import NUMBERS
from mappable.localization.place_model import PlaceModel
from mappable.maps.exact import Exact
from mappable.maps.landmarks import Landmarks
from mappable.places.frames import Frame
from mappable.places.table import Places

COUNT, SPACING = 120, 5.0


def unit(vectors: Any) -> Floats32:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def route() -> Any:
    """Descriptors without noise of a route of 120 places, and as many of another route."""
    random = np.random.default_rng(1)
    kernel = np.exp(-0.5 * (np.arange(-9, 10) / 3) ** 2)
    made = [
        np.apply_along_axis(np.convolve, 0, random.normal(size=(COUNT, 256)), kernel, "same")
        for _ in range(2)
    ]
    return [one / one.std() for one in made]


def images(of: Any, rows: Ints, shift: float = 2.0, seed: int = 5) -> Floats32:
    """Images with noise of their own, and with a shift that all of them share."""
    random = np.random.default_rng(seed)
    noise = 1.5 * random.normal(size=(len(rows), 256)) + shift * random.normal(size=(1, 256))
    return unit(of[rows] + noise)


@pytest.fixture(scope="module")
def route_map(route: Any) -> Map:
    places = Places(
        path=[f"{n}.jpg" for n in range(COUNT)],
        x=SPACING * np.arange(COUNT),
        y=np.zeros(COUNT),
        frames=Frame("road"),
    )
    return Map(Landmarks.build(places, images(route[0], np.arange(COUNT), 0.0, 2), "made-up"))


def found(
    route_map: Map, seen: Floats32, rows: Ints, *, together: bool = True
) -> tuple[float, float, float]:
    """Shares of found images, of confident ones, and of wrong ones among these."""
    located = route_map.locate_drive(seen) if together else route_map.locate_all(seen)
    off = np.abs(np.array([one.coordinates[0] for one in located]) - SPACING * rows)
    sure = np.array([one.confident for one in located])
    return (
        float((off <= 10).mean()),
        float(sure.mean()),
        float((off[sure] > 10).mean()) if sure.any() else 0.0,
    )


@pytest.mark.parametrize(
    ("rows", "shift"),
    [
        (np.arange(10, 90), 2.0),
        (np.arange(90, 10, -1), 2.0),
        (np.arange(10, 90, 3), 2.0),
        (np.arange(50, 70), 0.0),
        (np.r_[20:50, [50] * 30, 50:80], 1.0),
    ],
    ids=["forward", "backward", "every third image", "a short visit", "go, stand, go"],
)
def test_a_drive_in_another_season_is_found(
    route_map: Map, route: Any, rows: Ints, shift: float
) -> None:
    share, _, wrong = found(route_map, images(route[0], rows, shift), rows)
    assert share > 0.95
    assert wrong < 0.05


def test_a_shift_does_not_hide_single_images_of_one_folder(route_map: Map, route: Any) -> None:
    rows = np.arange(10, 90)
    assert found(route_map, images(route[0], rows), rows, together=False)[0] > 0.9


def test_single_images_from_elsewhere_are_off_the_map(route_map: Map, route: Any) -> None:
    rows = np.arange(10, 90)
    here, elsewhere = (route_map.model.single(images(of, rows)).away.mean() for of in route)
    assert 2 * here < elsewhere


def test_images_that_repeat_count_less(route_map: Map, route: Any) -> None:
    rows = np.arange(20, 60)
    weights = []
    for repeated in (1, 8):
        seen = np.repeat(images(route[0], rows), repeated, axis=0)
        weights.append(
            route_map.model.likeness.explain(seen, route_map.model.drive(seen).states, 0.5)[1]
        )
    assert weights[1] < weights[0] / 4


def test_a_stranger_s_drive_and_shuffled_images_are_not_confident(
    route_map: Map, route: Any
) -> None:
    rows = np.arange(10, 90)
    assert found(route_map, images(route[1], rows), rows)[1] < 0.05
    mixed = np.random.default_rng(0).permutation(rows)
    share, sure, _ = found(route_map, images(route[0], mixed), mixed)
    assert share > 0.9  # as single images
    assert sure < 0.1


def test_a_camera_that_stands_still_does_not_leave_its_place(route_map: Map, route: Any) -> None:
    rows = np.full(30, 50)
    seen = np.repeat(images(route[0], rows[:1], 0.0), 30, axis=0)
    share, _, wrong = found(route_map, seen, rows)
    assert share > 0.95  # 30 equal images count as few, so the ends of the drive are uncertain
    assert wrong == 0.0


def test_a_camera_that_stands_still_in_noise_is_never_confidently_wrong(
    route_map: Map, route: Any
) -> None:
    rows = np.full(60, 50)
    share, _, wrong = found(route_map, images(route[0], rows, 0.0), rows)
    assert share > 0.95
    assert wrong == 0.0


def test_a_drive_on_a_slowly_changing_route_is_found_at_least_as_often_as_the_nearest_landmark() -> (
    None
):
    random = np.random.default_rng(3)
    walk = np.cumsum(random.normal(size=(COUNT, 256)), axis=0)
    walk /= walk.std()
    landmarks = unit(walk + 0.75 * random.normal(size=walk.shape))
    rows = np.arange(10, 90)
    seen = images(walk, rows)
    positions = np.column_stack([SPACING * np.arange(COUNT), np.zeros(COUNT)])
    model = PlaceModel(Exact(landmarks), positions, [np.arange(COUNT)])
    answers = Answers(model, model.drive(seen), 10.0)
    nearest = np.abs((seen @ landmarks.T).argmax(1) - rows) <= 2
    assert (np.abs(answers.positions[:, 0] - SPACING * rows) <= 10).mean() >= max(
        nearest.mean(), 0.7
    )


def test_states_are_made_of_landmarks_by_kriging() -> None:
    random = np.random.default_rng(4)
    positions = np.column_stack([np.cumsum(random.uniform(4, 6, 30)), np.zeros(30)])
    descriptors = unit(
        np.cumsum(random.normal(size=(30, 64)), axis=0) + 2 * random.normal(size=(30, 64))
    )
    model = PlaceModel(Exact(descriptors), positions, [np.arange(30)], replace(NUMBERS, window=30))
    likeness, at = model.likeness, model.states.positions[:, 0]
    assert likeness.noise > 0
    apart = np.abs(positions[:, None, 0] - positions[None, :, 0]) / model.states.spacing
    covariance = (1 - likeness.noise) * likeness.decay**apart + likeness.noise * np.eye(30)
    target = (1 - likeness.noise) * likeness.decay ** (
        np.abs(at[:, None] - positions[:, 0]) / model.states.spacing
    )
    shares = np.linalg.solve(covariance, target.T).T
    centered = descriptors - descriptors.mean(0)
    expected = shares @ unit(centered)
    image = descriptors[7] - descriptors.mean(0)
    cosine = expected @ image / np.linalg.norm(expected, axis=1)
    deviation = cosine - np.median(cosine)
    deviation /= 1.4826 * np.median(np.abs(deviation))
    np.testing.assert_allclose(
        model.deviations(descriptors[7:8], descriptors.mean(0))[0], deviation, atol=1e-3
    )


def test_gain_and_shift_minimize_what_is_left_over(route_map: Map, route: Any) -> None:
    likeness, rows = route_map.model.likeness, np.arange(20, 60)
    seen = images(route[0], rows)
    states = route_map.model.drive(seen).states
    weight = 0.5
    center, _, left = likeness.explain(seen, states, weight)
    price = NUMBERS.shift_images / (weight * len(rows) + NUMBERS.shift_images)
    expected = likeness._expected(states)

    def cost(gain: float) -> float:
        rest = seen - likeness.mean - gain * expected
        return float(
            np.square(rest - rest.mean(0)).sum(1).mean() + price * np.square(rest.mean(0)).sum()
        )

    gains = np.linspace(0, 1, 1001)
    costs = [cost(gain) for gain in gains]
    assert left == pytest.approx(min(costs), rel=1e-4)
    shift = (seen - likeness.mean - gains[int(np.argmin(costs))] * expected).mean(0)
    np.testing.assert_allclose(center, likeness.mean + (1 - price) * shift, atol=1e-3)


def test_a_live_camera_finds_its_way_and_odometry_helps(route_map: Map, route: Any) -> None:
    rows = np.arange(10, 90)
    shares = []
    for metres in (None, SPACING):
        live = route_map.model.live()
        steps = [live.update(image, metres) for image in images(route[0], rows)]
        states = [step.states.indices[step.states.data.argmax()] for step in steps]
        shares.append(
            (np.abs(route_map.model.states.positions[states, 0] - SPACING * rows) <= 10).mean()
        )
    assert shares[0] > 0.85
    assert shares[1] >= shares[0] - 0.05


@pytest.mark.parametrize("alike", [False, True])
def test_maps_of_one_landmark_or_of_images_all_alike_have_finite_answers(alike: bool) -> None:
    count = 20 if alike else 1
    descriptors = unit(np.ones((count, 16)))
    model = PlaceModel(
        Exact(descriptors), np.zeros((count, 2)) + np.arange(count)[:, None], [np.arange(count)]
    )
    for posterior in (
        model.single(descriptors[:1]),
        model.drive(np.repeat(descriptors[:1], 5, axis=0)),
    ):
        assert np.isfinite(posterior.states.data).all()
        assert np.isfinite(posterior.away).all()


def test_a_descriptor_that_is_not_finite_is_refused(route_map: Map) -> None:
    with pytest.raises(BadInputError, match="not a finite number"):
        route_map.locate_all(np.full((1, 256), np.nan, dtype=np.float32))
