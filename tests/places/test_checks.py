"""Warnings about tables: each names what is wrong, and the option of `convert` that helps."""

from typing import Any

import numpy as np
import pytest

from mappable.places.checks import check, check_images
from mappable.places.frames import Frame
from mappable.places.survey import survey
from mappable.places.table import Places

COUNT = 60  # places of a visit
ANGLE = np.linspace(0, 4 * np.pi, 2 * COUNT)


def visits(count: int = COUNT, step: float = 2.0, **columns: Any) -> Places:
    """Two visits of one straight street, half a metre apart."""
    fields: dict[str, Any] = {
        "path": [f"{visit}/{number}.jpg" for visit in "ab" for number in range(count)],
        "x": np.tile(np.arange(count) * step, 2),
        "y": np.repeat([0.0, 0.5], count),
        "sequence": np.repeat(np.array(["a", "b"], dtype=object), count),
        "frames": Frame("town"),
    }
    return Places(**(fields | columns))


def moved(changes: dict[int, float]) -> Places:
    """The two visits with other x of some places."""
    x = visits().x.copy()
    for row, value in changes.items():
        x[row] = value
    return visits(x=x)


NOISE = np.random.default_rng(0).normal(0, 4, (2, 2 * COUNT))
TWO_FRAMES = {
    "frames": [Frame("a"), Frame("b")],
    "frame": np.repeat(np.array(["a", "b"], dtype=object), COUNT),
}


@pytest.mark.parametrize(
    ("places", "parts"),
    [
        (visits(), []),
        (visits()[:COUNT], ["all images are of one visit ('a')"]),
        # One visit with two laps.
        (visits(x=60 * np.cos(ANGLE), y=60 * np.sin(ANGLE), sequence="a"), []),
        (
            visits(x=np.arange(120) * 2.0 + np.repeat([0, 100], COUNT)),
            ["2 visits hardly overlap", "--color overlap"],
        ),
        (visits(**TWO_FRAMES), ["AGAIN --like PLACES", "one visit ('a')", "one visit ('b')"]),
        (moved({30: 4000.0, 90: 150.0}), ["2 places are far", "AGAIN --drop-outliers"]),
        (moved({30: 4000.0, 90: 4000.0}), ["2 positions jump"]),  # neither is alone there
        (visits(y=np.repeat([0.0, 6.0], COUNT)), ["disagree by about 6 m, more than the 2 m"]),
        (
            visits(step=0.5, x=visits(step=0.5).x + NOISE[0], y=NOISE[1]),
            ["disagree by about", "AGAIN --spacing"],
        ),
        (
            moved(dict.fromkeys(range(20, 40), 40.0)),
            ["19 of 120 images have the position", "AGAIN --spacing 1"],
        ),
        (
            visits(x=np.tile(np.repeat(np.arange(30) * 4.0, 2), 2)),
            ["60 of 120 images have the position"],
        ),
        (visits(role="query")[:COUNT], []),  # images to locate get no advice for maps
        (visits(split="test")[:COUNT], []),
    ],
)
def test_each_problem_has_its_warning(places: Places, parts: list[str]) -> None:
    warnings = "\n".join(str(note) for note in check(places, "AGAIN"))
    for part in parts:
        assert part in warnings
    assert bool(warnings) == bool(parts)


@pytest.mark.parametrize(
    ("places", "radii"),
    [
        (visits(count=120), (10.0, 25.0)),
        (visits(count=120, step=0.2, y=np.repeat([0.0, 0.05], 120)), (1.0, 4.0)),
        (visits(step=11.0), (22.0, 37.0)),
        (visits(count=120, step=1.0, frames=Frame("line", "frames"), y=np.zeros(240)), (5.0, 20.0)),
        (visits(y=np.repeat([0.0, 6.0], COUNT)), (24.0, 36.0)),
    ],
    ids=["street", "indoors", "sparse", "frame numbers", "rough"],
)
def test_radii_come_from_spacing_accuracy_and_unit(
    places: Places, radii: tuple[float, float]
) -> None:
    assert (survey(places).positive_radius, survey(places).negative_radius) == radii


def test_frozen_images_a_border_and_images_upside_down_are_reported() -> None:
    places = visits()
    pixels = np.random.default_rng(0).integers(0, 256, (120, 24, 32, 3), dtype=np.uint8)
    pixels[10] = pixels[9]
    pixels[:, :, :4] = 0

    def load(part: Places) -> np.ndarray[Any, Any]:
        return pixels[np.flatnonzero(np.isin(places.path, part.path))]

    border, frozen = check_images(places, load, "AGAIN")
    assert border.text.endswith("AGAIN --crop-border 13,0,0,0")
    assert frozen.items == ("a/10.jpg",)
    pixels[:, 16:] //= 2
    pixels[:, 16:] += 128
    assert any(note.text.endswith("--rotate 180") for note in check_images(places, load, "AGAIN"))


STREET = np.arange(COUNT) * 2.0


def test_in_a_small_area_radii_leave_negatives_and_landmarks_look_both_ways() -> None:
    angle = np.linspace(0, 2 * np.pi, COUNT, endpoint=False)
    ring = {"x": np.tile(6 * np.cos(angle), 2), "y": np.tile(6 * np.sin(angle), 2)}
    seen = survey(visits(**ring))
    assert seen.positive_radius < 2  # five times the spacing is 3.1 m
    assert np.mean(np.hypot(ring["x"] - 6, ring["y"]) > seen.negative_radius) > 0.5
    both_ways = survey(visits(**ring, yaw=np.repeat([0.0, np.pi], COUNT)))
    assert (
        both_ways.landmarks_needed == 2 * survey(visits(**ring, yaw=np.zeros(120))).landmarks_needed
    )
