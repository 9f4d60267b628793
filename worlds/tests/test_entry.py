"""The entry point: what Mappable learns about each world from this package."""

from pathlib import Path

import pytest

from mappable.learning.settings import load_settings
from mappable.worlds import find_world, worlds
from mappable_worlds.presets import PRESETS
from mappable_worlds.simulation import Simulated

README = Path(__file__).parents[1] / "README.md"


def test_mappable_finds_every_preset() -> None:
    assert list(worlds()) == list(PRESETS)
    assert find_world("street-v1").away == ("rooms-v1",)
    assert find_world("street-v1-demo").away == ()
    assert set(find_world("rooms-v1").parts.values()) == {
        "main",
        "region-b",
        "wing",
        "camera",
        "leaving",
    }


@pytest.mark.parametrize("name", ["street", "rooms"])
def test_the_settings_of_a_world_agree_with_the_world(name: str) -> None:
    world = PRESETS[f"{name}-v1"]
    assert find_world(world.name).preset == name
    settings = load_settings(name)
    for shared in ("positive_radius", "negative_radius", "yaw_limit", "landmarks"):
        assert getattr(settings, shared) == getattr(world, shared)
    assert settings.size == world.size


@pytest.mark.medium
def test_the_python_of_the_page_runs() -> None:
    names: dict[str, object] = {}
    exec(README.read_text("utf-8").split("```python\n")[1].split("```")[0], names)
    town = names["town"]
    assert isinstance(town, Simulated)
    assert town.pixels.shape == (len(town.places), 120, 160, 3)
    assert len(town.world.aliases) > 100
