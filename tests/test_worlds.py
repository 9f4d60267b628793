"""Without a package that draws worlds, what needs one says what to install."""

from collections.abc import Iterator

import pytest

from mappable import worlds
from mappable.errors import BadInputError
from mappable.evaluation.sets import find_set, set_names
from mappable.learning.settings import load_settings, preset_names
from mappable.worlds import find_world


@pytest.fixture(autouse=True)
def no_worlds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    worlds.world_modules.cache_clear()
    monkeypatch.setattr(worlds, "entry_points", lambda group: [])
    yield
    worlds.world_modules.cache_clear()


@pytest.mark.parametrize("find", [find_world, find_set, load_settings])
def test_a_missing_world_names_the_package(find: object) -> None:
    with pytest.raises(BadInputError, match=r"pip install 'mappable\[demo\]'$"):
        find("street-v1")  # type: ignore[operator]


def test_the_core_has_the_papers_presets_and_no_drawn_set() -> None:
    assert preset_names() == ["cold", "oxford"]
    assert set_names() == ["oxford", "cold", "boreas", "nordland"]
