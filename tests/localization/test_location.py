"""One record of a located image: every output has every field."""

import csv
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.exchange.poses import poses_of_locations
from mappable.exchange.tables import write_csv
from mappable.localization import location
from mappable.localization.location import Location, NotLocated
from mappable.service.responses import Positions, adapter

NAMES = [one.name for one in fields(Location)]
UNREAD = NotLocated("b.jpg", "b.jpg: not an image")


@pytest.fixture
def found(town: Any) -> Location:
    """One image of the town's drive."""
    (one,) = town.map.locate_all(town.drive[1][:1], names=["a.jpg"])
    return one


def test_a_distance_has_a_unit_beside_it_and_an_interval_round_it(found: Location) -> None:
    assert (found.image, found.frame, found.unit, found.coverage) == ("a.jpg", "town", "m", 0.9)
    assert found.low is not None
    assert found.distance is not None
    assert found.high is not None
    assert 0 <= found.low <= found.distance <= found.high
    assert found.landmark in [one.landmark for one in found.candidates]
    assert len(found.candidates) == 5


def test_every_output_has_every_field(town: Any, found: Location, tmp_path: Path) -> None:
    entry = json.loads(json.dumps(asdict(found), allow_nan=False))
    assert list(entry) == NAMES
    answered = json.loads(adapter(Positions).dump_json(Positions([found, UNREAD], None)))[
        "positions"
    ]
    assert answered == [entry, {"image": "b.jpg", "error": "b.jpg: not an image"}]
    places = town.places(np.zeros((2, 2)), "images")
    write_csv(tmp_path / "out.csv", poses_of_locations(town.landmarks, places, [found, UNREAD]))
    row, other = csv.DictReader((tmp_path / "out.csv").read_text().splitlines())
    split = {
        "coordinates": {"x", "y"},
        "covariance": {"covariance_xx", "covariance_xy", "covariance_yy"},
    }
    assert set(row) == set(NAMES) - set(split) | set.union(*split.values())
    for name in set(NAMES) & set(row) - {"candidates"}:
        assert row[name] == ("" if entry[name] is None else str(entry[name]))
    assert row["candidates"].split("|") == [one["landmark"] for one in entry["candidates"]]
    assert {name: value for name, value in other.items() if value} == asdict(UNREAD)


def test_a_field_that_is_added_appears_everywhere(
    found: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import make_dataclass

    longer = make_dataclass(
        "Longer", [("floor", float)], bases=(Location,), kw_only=True, frozen=True
    )
    monkeypatch.setattr(location, "Location", longer)
    more = longer(**vars(found), floor=1.5)
    assert asdict(more)["floor"] == 1.5
