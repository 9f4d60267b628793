"""Settings of the planned models, and how settings are chosen without test images."""

from dataclasses import replace

import numpy as np
import pytest

from mappable.errors import BadInputError
from mappable.evaluation.reproduce import plan
from mappable.evaluation.rows import ROWS
from mappable.evaluation.sets import SETS, find_set
from mappable.learning.settings import load_settings
from mappable.places.frames import Frame
from mappable.places.table import Places
from mappable_worlds.presets import find_preset
from nordland import NORDLAND


def test_the_papers_rows_use_the_papers_settings_unless_the_user_changes_them() -> None:
    named = replace(find_set("street-v1"), preset="street", paper=("iterations=7",))
    usual, other = (
        plan(named, [ROWS["triplet+huber"]], [0], values)[0].settings
        for values in ([], ["margin=0.4"])
    )
    assert (usual.iterations, usual.margin, usual.light, usual.geometric_weight) == (7, 0.1, 0, 0.5)
    assert (other.margin, other.light) == (0.4, 0)
    ours = plan(named, [ROWS["triplet+huber-ours"]], [0])[0].settings
    assert ours == load_settings("street", overrides=["loss=triplet+huber"])


@pytest.fixture(scope="module")
def film() -> Places:
    """Two films of 100 frames, the last 40 of them for the test."""
    frames = np.tile(np.arange(100.0), 2)
    season = np.repeat(["summer", "winter"], 100)
    split = np.where(frames < 60, "train", "test")
    paths = [f"{one}/{at:g}.jpg" for one, at in zip(season, frames, strict=True)]
    return Places(
        path=paths,
        x=frames,
        y=0 * frames,
        sequence=season,
        condition=season,
        split=split,
        frames=Frame("line", unit="frames"),
    )


def test_nordland_settings_are_chosen_on_the_second_half_of_the_training_stretch(
    film: Places,
) -> None:
    setup = NORDLAND.setup(film, load_settings(None, NORDLAND.settings), choose=True)
    assert set(film.split[setup.queries]) == set(film.split[setup.references]) == {"train"}
    train = setup.places.x[setup.places.split == "train"]
    assert (train.max(), setup.places.x[setup.queries].min()) == (29, 32)
    assert set(setup.places.condition[setup.queries]) == {"winter"}


@pytest.mark.parametrize("name", ["street-v1", "rooms-v1"])
def test_settings_of_worlds_are_chosen_on_calibration_images(name: str) -> None:
    named, runs = find_set(name), np.repeat(np.array(find_preset(name).runs, dtype=object), 8)
    places = Places(
        path=[f"{run.name}/{number}.png" for number, run in enumerate(runs)],
        x=30.0 * np.arange(len(runs)),
        y=np.zeros(len(runs)),
        sequence=[run.name for run in runs],
        condition=[run.condition for run in runs],
        split=[run.split for run in runs],
        role=[run.role for run in runs],
        frames=Frame(name),
    )
    setup = named.setup(places, load_settings(named.preset, overrides=["landmarks=8"]), choose=True)
    assert set(places.split[setup.queries]) == {"calibration"}
    assert set(places.split[setup.references]) == {"train"}
    assert "test" not in set(places.split[setup.places.split != ""])
    assert "night-rain" not in set(setup.places.condition[setup.references])


def test_choosing_without_spare_images_raises(film: Places) -> None:
    assert SETS["oxford"].choosing is None
    with pytest.raises(BadInputError, match=r"oxford.*test"):
        SETS["oxford"].setup(film, load_settings("oxford"), choose=True)
