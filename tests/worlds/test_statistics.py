"""The numbers about a world, beside hand-made cases and explicit loops."""

from dataclasses import replace

import numpy as np
import pytest

from mappable.places.frames import Frame
from mappable.places.table import Places
from mappable.worlds.presets import PRESETS
from mappable.worlds.scene import Alias, Scene, World
from mappable.worlds.statistics import Statistics, driven_again, statistics, turns

ALIASES = [Alias("facade-1", 0, 0), Alias("facade-1", 9, 0), Alias("facade-2", 5, 5)]
WORLD = World(Scene(), {}, ALIASES, {"houses": 40.0, "pool_share": 0.075, "turns": 1.0, "leaving_off_map_m": 70.0})


def line(*corners: tuple[float, float], spacing: float = 1.0) -> Places:
    """A drive along straight lines, looking ahead."""
    points = np.array(corners, dtype=np.float64)
    along = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1)))
    at = np.arange(0.0, along[-1] + 1e-9, spacing)
    x, y = (np.interp(at, along, points[:, axis]) for axis in (0, 1))
    leg = np.clip(np.searchsorted(along, at, side="right") - 1, 0, len(points) - 2)
    ahead = np.diff(points, axis=0)[leg]
    ids = [f"{number}.png" for number in range(len(x))]
    return Places(path=ids, x=x, y=y, z=0 * x, yaw=np.arctan2(ahead[:, 1], ahead[:, 0]), frames=Frame("street-v1"))


@pytest.mark.parametrize(
    ("corners", "expected"),
    [
        (((0, 0), (200, 0)), 0),
        (((0, 0), (100, 0), (100, 100)), 1),
        (((0, 0), (100, 0), (200, 70)), 0),  # 35 degrees
        (((0, 0), (100, 0), (170, 71)), 1),
        (((0, 0), (60, 0), (60, 60), (0, 60), (0, 0), (60, 0)), 4),
        (((0, 0), (60, 0), (60, 12), (120, 12)), 2),  # left, then right
    ],
)
def test_turns_are_changes_of_heading_by_45_degrees(corners: tuple[tuple[float, float], ...], expected: int) -> None:
    for spacing in (1.0, 2.0):
        places = line(*corners, spacing=spacing)
        assert turns(places.x, places.y, places.yaw) == expected


def test_crossing_a_street_is_not_driving_it_again() -> None:
    crossing = line((0, 0), (100, 0), (100, 100), (50, 100), (50, -50))
    assert driven_again(crossing, near=6, gap=50) == 0
    loop = line((0, 0), (100, 0), (100, 100), (0, 100), (0, 0), (80, 0))
    assert driven_again(loop, near=6, gap=50) == pytest.approx(80, abs=2)
    back = line((0, 0), (200, 0), (200, 3), (0, 3))
    assert driven_again(back, near=6, gap=50) == pytest.approx(200 - 24, abs=4)


@pytest.mark.medium
def test_the_numbers_of_a_small_street() -> None:
    preset = replace(PRESETS["street-v1"], landmarks=6)
    train = line((0, 0), (100, 0), (100, 100)).replace(sequence="train-sun", split="train")
    test = line((0, 2), (100, 2), spacing=2.0).replace(sequence="test-night", split="test")
    wing = line((300, 0), (300, 40)).replace(sequence="wing-query-night", role="query")
    tables = [
        table.replace(place_id=[f"{table.sequence[0]}/{one}" for one in table.path]) for table in (train, test, wing)
    ]
    names = ("path", "place_id", "x", "y", "z", "yaw", "sequence", "split", "role")
    columns = {name: np.concatenate([getattr(table, name) for table in tables]) for name in names}
    places = Places(**columns | {"path": columns["place_id"]}, frames=Frame("street-v1"))
    found = statistics(places, preset, WORLD)
    assert found.images == {"train": 201, "test": 51, "wing": 41}
    assert found.runs == {"train": 1, "test": 1, "wing": 1}
    assert found.extent == (300, 100, 0)
    assert found.look_alikes == {"facade-1": 2, "facade-2": 1}
    assert found.route is not None
    assert (found.route.length, found.route.turns, found.route.spacing) == (pytest.approx(200), 1, pytest.approx(1))
    assert found.bound is not None
    assert 0 < found.bound.within_positive_radius < found.bound.within_negative_radius <= 1
    assert found.bound.covering_radius > preset.positive_radius
    assert Statistics.from_json(found.to_json()) == found
    rows = dict(found.rows())
    assert len(rows) == len(found.rows())
    assert rows["test"] == "51 images of 1 run"
    assert "height" not in rows
    assert dict(replace(found, extent=(300, 100, 2.5)).rows())["height"].startswith("2.5 m from the lowest")
    assert rows["route"] == "200 m, 0 m of it for a second time"
    assert rows["turns"] == "1 of at least 45 degrees"
    assert rows["alike on purpose"] == "3 facades of 2 kinds, 7.5% of the houses"
    assert rows["upper bound at 10 m"].startswith(f"{found.bound.within_positive_radius:.2%} of the test images")
    assert "leaving the map" not in rows  # nobody did
    few = statistics(places, preset, WORLD, every=2)
    assert few.route is None
    assert set(rows) - set(dict(few.rows())) == {"route", "turns", "spacing of images"}


def test_a_part_without_training_images_has_counts_alone() -> None:
    wing = line((0, 0), (40, 0)).replace(sequence="wing-query-night", role="query")
    found = statistics(wing, PRESETS["street-v1"], WORLD)
    assert (found.route, found.bound) == (None, None)
    assert found.rows()[0] == ("wing", "41 images of 1 run")
    assert Statistics.from_json(found.to_json()) == found
