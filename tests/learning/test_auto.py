"""Settings derived from a table: radii, size, steps, and when training cannot help."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mappable.arrays import evenly
from mappable.learning.auto import SIZE_SAMPLE, plan
from mappable.learning.choosing import _own_visit, _rows_to_judge
from mappable.places.frames import Frame
from mappable.places.table import Places


def street(
    root: Path,
    count: int = 100,
    visits: str = "ab",
    size: tuple[int, int] = (640, 360),
    **columns: object,
) -> Places:
    """Visits of one straight street with an image every 2 m; only the files at which `plan` looks
    exist.
    """
    number = len(visits)
    paths = [f"{visit}-{n}.png" for visit in visits for n in range(count)]
    for row in evenly(len(paths), SIZE_SAMPLE):
        Image.new("RGB", size).save(root / paths[row])
    fields: dict[str, object] = {
        "path": paths,
        "x": np.tile(np.arange(count) * 2.0, number),
        "y": np.zeros(count * number),
        "sequence": np.repeat(np.array(list(visits), dtype=object), count),
        "frames": Frame("town"),
        "root": root,
    }
    return Places(**(fields | columns))


def test_a_table_gives_radii_size_and_landmarks(tmp_path: Path) -> None:
    found = plan(street(tmp_path, count=120), gpu=False)
    settings = found.trained
    assert settings is not None
    assert (settings.positive_radius, settings.negative_radius, settings.yaw_limit) == (
        10,
        25,
        None,
    )
    assert settings.size == (280, 152)  # the shape of the files, and about 240x180 pixels
    assert settings.trainable == "last"
    assert settings.landmarks == found.off_the_shelf.landmarks == 80
    assert settings.dimensions == found.off_the_shelf.dimensions == 768
    assert {"positive_radius", "size", "iterations", "landmarks"} <= {
        one.name for one in found.reasons
    }


@pytest.mark.parametrize(
    ("places", "why"),
    [
        ({"visits": "a", "count": 200}, "one visit.*again"),
        ({"count": 20}, "40 images are too few.*take 100"),
        (
            {"x": np.arange(200) * 2.0 + np.repeat([0, 100], 100)},
            "0 % of the images show a place of another visit.*convert --like",
        ),
        ({"y": np.repeat([0.0, 9.0], 100)}, "positions agree to 9 m only.*more accurate"),
    ],
)
def test_if_training_cannot_help_it_says_why_and_what_would(
    tmp_path: Path, places: dict[str, Any], why: str
) -> None:
    found = plan(street(tmp_path, **places), gpu=False)
    assert found.trained is None
    assert found.settings.iterations == 0
    assert re.search(why, found.why_not), found.why_not


def test_a_heading_that_contradicts_the_course_sets_no_yaw_limit(tmp_path: Path) -> None:
    """Two phones, sometimes more than 90 degrees apart, on one straight street."""
    random = np.random.default_rng(0)
    yaw = np.repeat(np.radians([35.0, -50.0]), 100) + random.normal(0, 0.15, 200)
    found = plan(street(tmp_path, yaw=yaw), gpu=False)
    assert found.settings.yaw_limit is None
    (why,) = (reason.why for reason in found.reasons if reason.name == "yaw")
    assert why.startswith("headings of b turned by 8")
    means = [np.mean(found.table.yaw[found.table.sequence == visit]) for visit in "ab"]
    assert means[0] == pytest.approx(means[1], abs=0.05)


def test_the_held_out_stretch_is_in_both_visits_and_nothing_near_it_trains(tmp_path: Path) -> None:
    places = street(tmp_path)
    found = plan(places, gpu=False)
    held, settings = found.held_out, found.settings
    assert set(places.sequence[held]) == {"a", "b"}
    assert 0.1 < len(held) / len(places) < 0.25
    train = found.table.training()
    assert not set(train) & set(held)
    assert np.abs(places.x[train][:, None] - places.x[held]).min() > settings.positive_radius
    asked, known = _rows_to_judge(places, held)
    assert set(asked) <= set(held)
    assert not _own_visit(places, asked, known).all(axis=1).any()
