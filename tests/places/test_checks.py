"""Warnings about tables: each names what is wrong, and the option of `convert` that mends it."""

import numpy as np

from mappable.places.checks import check, check_images, outlier_rows, standing_rows
from mappable.places.frames import Frame
from mappable.places.routes import thinned
from mappable.places.survey import survey
from mappable.places.table import Places


def visits(count: int = 60, step: float = 2.0, **columns: object) -> Places:
    """Two visits of one straight street, half a metre apart."""
    x = np.tile(np.arange(count) * step, 2)
    fields: dict[str, object] = {
        "path": [f"{visit}/{number}.jpg" for visit in "ab" for number in range(count)],
        "x": x,
        "y": np.repeat([0.0, 0.5], count),
        "sequence": np.repeat(np.array(["a", "b"], dtype=object), count),
        "frames": Frame("town"),
    }
    return Places(**(fields | columns))


def texts(places: Places) -> str:
    return "\n".join(str(note) for note in check(places, "AGAIN"))


def test_a_good_table_has_no_warnings() -> None:
    assert check(visits()) == ()


def test_radii_come_from_spacing_accuracy_and_unit() -> None:
    seen = survey(visits(count=120))
    assert (seen.spacing, seen.accuracy) == (2.0, 0.5)
    assert (seen.positive_radius, seen.negative_radius) == (10.0, 25.0)
    indoors = survey(visits(count=120, step=0.2, y=np.repeat([0.0, 0.05], 120)))
    assert (indoors.positive_radius, indoors.negative_radius) == (1.0, 4.0)
    sparse = survey(visits(step=11.0))
    assert sparse.positive_radius == 22.0
    route = survey(visits(count=120, step=1.0, frames=Frame("line", "frames"), y=np.zeros(240)))
    assert (route.positive_radius, route.negative_radius) == (5.0, 20.0)
    rough = survey(visits(y=np.repeat([0.0, 6.0], 60)))
    assert rough.positive_radius == 24.0


def test_in_a_small_area_radii_leave_negatives_and_landmarks_look_both_ways() -> None:
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    ring = {"x": np.tile(6 * np.cos(angle), 2), "y": np.tile(6 * np.sin(angle), 2)}
    seen = survey(visits(**ring))
    assert seen.positive_radius < 2  # five times the spacing is 3.1 m
    beyond = np.hypot(ring["x"] - 6, ring["y"]) > seen.negative_radius
    assert beyond.mean() > 0.5
    both_ways = survey(visits(**ring, yaw=np.repeat([0.0, np.pi], 60)))
    assert both_ways.landmarks_needed == 2 * survey(visits(**ring, yaw=np.zeros(120))).landmarks_needed


def test_one_visit_is_reported_unless_it_has_laps() -> None:
    assert "one visit" in texts(visits()[:60])
    angle = np.linspace(0, 4 * np.pi, 200)
    laps = {"x": 60 * np.cos(angle), "y": 60 * np.sin(angle), "path": [f"{n}.jpg" for n in range(200)], "sequence": "a"}
    assert "one visit" not in texts(visits(**laps))
    assert survey(visits(**laps)).laps > 0.9


def test_visits_that_do_not_overlap_are_listed() -> None:
    apart = visits(x=np.arange(120) * 2.0 + np.repeat([0, 100], 60))
    assert "visits hardly overlap" in texts(apart)
    assert "mappable places show PLACES --picture map.png --color overlap" in texts(apart)


def test_several_frames_are_reported() -> None:
    two = visits(frames=[Frame("a"), Frame("b")], frame=np.repeat(np.array(["a", "b"], dtype=object), 60))
    assert "AGAIN --like PLACES" in texts(two)


def test_outliers_are_reported_and_dropped() -> None:
    x = visits().x.copy()
    x[30] = 4000.0
    x[90] += 90.0  # jumps away and back
    assert "AGAIN --drop-outliers" in texts(visits(x=x))
    assert outlier_rows(visits(x=x)).tolist() == [30, 90]
    x[90] = x[30]  # neither is alone there
    assert "2 positions jump away and back" in texts(visits(x=x))


def test_images_to_locate_get_no_advice_for_maps() -> None:
    assert "one visit" in texts(visits()[:60])
    assert texts(visits(role="query")[:60]) == texts(visits(split="test")[:60]) == ""


def test_positions_rougher_than_the_spacing_are_reported() -> None:
    assert "positions disagree by about 6 m, more than the 2 m" in texts(visits(y=np.repeat([0.0, 6.0], 60)))
    noise = np.random.default_rng(0).normal(0, 4, (2, 120))
    assert "m between images; keep fewer images" in texts(visits(step=0.5, x=visits(step=0.5).x + noise[0], y=noise[1]))


def test_a_standing_camera_is_reported_and_thinned_but_a_turning_one_is_not() -> None:
    x = visits().x.copy()
    x[20:40] = x[20]
    assert "1 stretches without motion" in texts(visits(x=x))
    assert "AGAIN --spacing 1" in texts(visits(x=x))
    assert len(thinned(visits(x=x), 2.0)) == 101
    assert standing_rows(visits(x=x, yaw=np.arange(120) * 0.1)) == []


def test_several_images_per_position_are_reported_but_views_are_not() -> None:
    x = np.tile(np.repeat(np.arange(30) * 4.0, 2), 2)
    assert "60 of 120 images have the position and direction of another" in texts(visits(x=x))
    turned = visits(x=np.repeat(np.arange(24) * 10.0, 5))
    assert "96 of 120 images have the position and direction of another" in texts(turned)
    assert texts(turned.replace(yaw=np.tile(np.arange(5) * 1.2, 24))).count("position and direction") == 0
    spread = visits(x=x)
    assert check(spread[thinned(spread, 4.0)]) == ()


def test_images_that_repeat_are_reported_and_a_border_too() -> None:
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (120, 24, 32, 3), dtype=np.uint8)
    pixels[10] = pixels[9]
    pixels[:, :, :4] = 0
    notes = check_images(
        visits(), lambda places: pixels[[int(np.flatnonzero(visits().path == p)[0]) for p in places.path]], "t"
    )
    said = "\n".join(map(str, notes))
    assert "--crop-border 13,0,0,0" in said
    assert "1 images look like the image before" in said
