"""Home and away: other sets and other views are scored as table I is, and compared with off-the-shelf."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from mappable.arrays import Floats32, Ints, Pixels
from mappable.errors import BadInputError
from mappable.evaluation.away import away_place
from mappable.evaluation.protocols.home_and_away import (
    HOME,
    MIRRORED,
    PROTOCOL,
    SHIFTED,
    HomeAndAway,
    shifted,
)
from mappable.evaluation.scoring import Scoring
from mappable.evaluation.setup import Setup, setup_of
from mappable.features.about import About
from mappable.places.files import save_places
from mappable.places.frames import Frame
from mappable.places.pixels import AnyImages
from mappable.places.table import Places

NUMBERS = 48  # of a descriptor, as in the made-up street


@dataclass(frozen=True)
class Seeing:
    """An encoder of tests: descriptors of places are their positions along the route, with noise."""

    about: About
    noise: float

    def embed(self, images: AnyImages, **options: object) -> Floats32:
        if isinstance(images, Places):
            random = np.random.default_rng([ord(letter) for letter in images.sequence[0]])
            angles = images.x / 20 + self.noise * random.normal(size=len(images))
        else:
            angles = np.asarray(images)[:, 0, 0, 0] / 255.0  # type: ignore[index]
        seen = np.zeros((len(angles), NUMBERS), dtype=np.float32)
        seen[:, 0], seen[:, 1] = np.cos(angles), np.sin(angles)
        return seen


@dataclass(frozen=True)
class Gray:
    """Images as bright as their row number."""

    def read(self, rows: Ints) -> Pixels:
        return np.repeat(rows % 256, 8 * 10 * 3).reshape(-1, 8, 10, 3).astype(np.uint8)


def other(name: str = "elsewhere", count: int = 40) -> Places:
    x = np.tile(np.arange(count), 2)
    return Places(
        path=[f"{name}/{row}.jpg" for row in range(2 * count)],
        x=x,
        y=0.0 * x,
        sequence=np.repeat(["one", "two"], count),
        frames=Frame(name, "frames"),
    )


def place(name: str = "elsewhere") -> Setup:
    places = other(name)
    role = np.where(places.sequence == "one", "reference", "query")
    made = setup_of(name, places.replace(role=role), positive_radius=2.0, negative_radius=5.0)
    return replace(made, counts=())


def scored(scoring: Scoring, noise: float, **changes: object) -> HomeAndAway:
    encoder = Seeing(scoring.about, noise)
    with_images = replace(scoring, load=lambda: (encoder, Gray()), away=(place(),), **changes)
    return PROTOCOL.run(with_images)


def test_home_views_and_other_sets_are_scored(scoring: Scoring) -> None:
    found = scored(scoring, 0.0)
    assert list(found.places) == [HOME, MIRRORED, SHIFTED, "elsewhere"]
    assert found.sets["elsewhere"].percent == 100.0
    assert found.sets["elsewhere"].unit == "frames"
    assert len(found.home.errors) == len(scoring.setup.queries)
    assert 50 < found.home.percent <= 100
    assert MIRRORED not in scored(scoring, 0.0, own_images=False).places


def test_a_shifted_view_shows_four_fifths_at_an_edge() -> None:
    ramp = np.tile(np.arange(0, 200, 2, dtype=np.uint8)[None, :, None], (60, 1, 3))
    right, left = shifted(np.stack([ramp, ramp]))
    assert (left[30, 0, 0], left[30, -1, 0]) == (0, 158)
    assert (right[30, 0, 0], right[30, -1, 0]) == (40, 198)


def test_a_folder_without_splits_is_a_map_of_its_first_sequence(tmp_path: Path) -> None:
    save_places(other(), tmp_path / "walks" / "places.parquet")
    found = away_place(f"{tmp_path / 'walks'}:2")
    assert (found.name, found.positive_radius, found.unit) == ("walks", 2.0, "frames")
    assert set(found.places.sequence[found.references]) == {"one"}
    assert set(found.places.sequence[found.queries]) == {"two"}
    assert away_place(str(tmp_path / "walks"), radius=3.0, unit="frames").positive_radius == 3.0
    for given, unit in ((tmp_path / "walks", "m"), (f"{tmp_path / 'walks'}:0", "frames")):
        with pytest.raises(BadInputError, match="RADIUS"):
            away_place(str(given), radius=3.0, unit=unit)
