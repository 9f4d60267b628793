"""Encoders of others by name."""

import pytest

from mappable.errors import BadInputError
from mappable.features.foreign.hub import REPOSITORY
from mappable.features.foreign.named import ENCODERS
from mappable.features.opening import open_file

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("name", ENCODERS)
def test_each_name_is_a_description_with_a_pinned_commit(name: str) -> None:
    description = ENCODERS[name].description(name)
    found = REPOSITORY.fullmatch(str(description.hub))
    assert found


def test_a_named_encoder_asks_for_consent() -> None:
    with pytest.raises(
        BadInputError,
        match=r"get_trained_model\(\) of gmberton/MegaLoc at commit e31e8e0.*--trust-code",
    ):
        open_file("megaloc", "cpu")
    with pytest.raises(BadInputError, match="leave out --backend"):
        open_file("megaloc", "cpu", "onnx")
