"""All figures of some results in a folder."""

from dataclasses import replace
from pathlib import Path

import pytest

from mappable.evaluation.figures import everything
from mappable.evaluation.figures.everything import draw_all
from mappable.evaluation.figures.gallery import Images
from mappable.evaluation.result import Result
from mappable.evaluation.setup import Setup


@pytest.mark.medium
def test_what_there_is_is_drawn(
    results: list[Result], setup: Setup, images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(everything, "save", lambda figure, folder, name: [folder / f"{name}.png", figure])
    moving = {name: lambda *given: given[-1].write_bytes(b"GIF") for name in everything.ANIMATIONS}
    monkeypatch.setattr(everything, "ANIMATIONS", moving)
    drawn = draw_all(results[:1], setup, images, tmp_path)
    assert drawn["table1"] == tmp_path / "table1.png"
    assert drawn["localization-animation"].read_bytes() == b"GIF"
    assert set(drawn) == {*everything.FIGURES, *everything.ANIMATIONS} - {"variations"}
    monkeypatch.setattr(everything, "ANIMATIONS", {})
    one = replace(results[0], scored={"curves": results[0].scored["curves"]})
    assert list(draw_all([one], setup, images, tmp_path)) == ["curves"]
