"""Encoders of others by name."""

from pathlib import Path

import pytest

from mappable.errors import BadInputError
from mappable.features.foreign import named
from mappable.features.foreign.hub import REPOSITORY
from mappable.features.foreign.named import ENCODERS, best_at_hand, find_named
from mappable.features.opening import open_file

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("name", ENCODERS)
def test_each_name_is_a_description_with_a_pinned_commit(name: str) -> None:
    description = ENCODERS[name].description(name)
    found = REPOSITORY.fullmatch(str(description.hub))
    assert found


def test_a_named_encoder_asks_for_consent() -> None:
    with pytest.raises(
        BadInputError, match=r"get_trained_model\(\) of gmberton/MegaLoc at commit e31e8e0.*--trust-code"
    ):
        open_file("megaloc", "cpu")
    with pytest.raises(BadInputError, match="leave out --backend"):
        open_file("megaloc", "cpu", "onnx")


def test_a_file_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_named("boq") == ENCODERS["boq"]
    (tmp_path / "boq").touch()
    assert find_named("boq") is None


def test_the_best_one_that_can_be_fetched_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for reachable, expected in ((True, "megaloc"), (False, None)):
        monkeypatch.setattr(named, "is_reachable", lambda address, reachable=reachable: reachable)
        assert best_at_hand() == expected
