"""The guide to recovery: its Python runs, and what it says of files and methods is so."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.recovery.align import score
from mappable.recovery.methods import METHODS

PAGE = (Path(__file__).parent.parent.parent / "docs/recover.md").read_text()


@pytest.mark.medium
@pytest.mark.usefixtures("gtsam")
def test_the_python_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(block, names)
    assert "mirror image" in capsys.readouterr().out
    truth, anchored = names["truth"], names["anchored"]
    assert score(anchored.positions, truth).of_length < 1.0
    assert anchored.covariances.shape == (400, 2, 2)
    assert (np.linalg.eigvalsh(anchored.covariances) > 0).all()


def test_every_method_and_every_column_is_on_the_page() -> None:
    for name in METHODS:
        assert f"`{name}`" in PAGE
    for columns in (
        "i,j,metres[,sigma]",
        "point,x,y[,z][,sigma]",
        "point,part,x,y[,z]",
        "time x y z qx qy qz qw",
        "i,j,forward,left,turn[,sigma][,sigma_turn]",
    ):
        assert columns in PAGE
