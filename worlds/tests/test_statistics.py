"""The numbers about a world, beside hand-made cases and explicit loops."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from mappable.places.frames import Frame
from mappable.places.table import Places
from mappable_worlds.presets import PRESETS
from mappable_worlds.scene import Alias, Scene, World
from mappable_worlds.statistics import Statistics, statistics

ALIASES = [Alias("facade-1", 0, 0), Alias("facade-1", 9, 0), Alias("facade-2", 5, 5)]
WORLD = World(Scene(), {}, ALIASES)


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
    assert found.height == 0
    assert found.look_alikes == {"facade-1": 2, "facade-2": 1}
    assert (found.length, found.spacing, found.on_the_spot) == (pytest.approx(200), pytest.approx(1), 0)
    assert found.positive_bound is not None
    assert found.negative_bound is not None
    assert 0 < found.positive_bound < found.negative_bound <= 1
    assert found.covering_radius is not None
    assert found.covering_radius > preset.positive_radius
    assert Statistics(**json.loads(json.dumps(asdict(found)))) == found
    rows = dict(found.rows())
    assert len(rows) == len(found.rows())
    assert rows["test"] == "51 images of 1 run"
    assert "height" not in rows
    assert dict(replace(found, height=2.5).rows())["height"].startswith("2.5 m from the lowest")
    assert rows["route"] == "200 m"
    assert rows["alike on purpose"] == "3 places in 2 groups"
    assert rows["upper bound at 10 m"].startswith(f"{found.positive_bound:.2%} of the test images")
    few = statistics(places, preset, WORLD, every=2)
    assert few.length is None
    assert set(rows) - set(dict(few.rows())) == {"route", "spacing of images"}
