"""The picture of a calibration."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mappable.errors import BadInputError
from mappable.maps.reliability import draw_reliability


@pytest.mark.medium
def test_it_is_drawn(town: Any, tmp_path: Path) -> None:
    conditions = np.array(["sun", "rain", "$x_{$", r"$\nosuch$"] * 100, dtype=object)  # the last two are not formulas
    positions, descriptors = town.drive
    file = tmp_path / "reliability.png"
    draw_reliability(
        file, town.map, descriptors, positions, encoder=town.encoder, conditions=conditions, elsewhere=town.absent
    )
    with Image.open(file) as picture:
        assert len(set(picture.convert("RGB").resize((200, 64)).get_flattened_data())) > 100


def test_refused(town: Any, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"\.png"):
        draw_reliability(tmp_path / "a.gif", town.map, town.drive[1], town.drive[0], encoder=town.encoder)
    with pytest.raises(BadInputError, match="confident"):
        draw_reliability(
            tmp_path / "a.png", town.map, np.eye(3, 192, dtype=np.float32), np.zeros((3, 2)), encoder=town.encoder
        )
