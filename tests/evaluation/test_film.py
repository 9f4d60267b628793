"""The two animations."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mappable.evaluation import film
from mappable.evaluation.protocol import Images, View
from mappable.evaluation.protocols import proportionality
from mappable.evaluation.protocols.table1 import drive
from mappable.evaluation.result import Result
from mappable.evaluation.setup import Setup


def frames(file: Path) -> list[Image.Image]:
    with Image.open(file) as picture:
        found = []
        for number in range(picture.n_frames):
            picture.seek(number)
            found.append(picture.convert("RGB"))
        return found


@pytest.mark.medium
def test_both_animations_move(
    results: list[Result], setup: Setup, images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proportionality, "FRAMES", 3)
    monkeypatch.setattr(drive, "FRAMES", 3)
    first, second = View(results, setup), View(results[2:3], setup, images)
    for moving in (proportionality.animate(first), drive.animate_drive(second)):
        film.write_gif(tmp_path / "moving.gif", moving)
        found = frames(tmp_path / "moving.gif")
        assert len(found) == 3
        assert found[0].width == 900
        assert found[0].getpixel((1, 1)) == (255, 255, 255)
        assert all(np.any(np.asarray(one) != np.asarray(found[0])) for one in found[1:])


def test_the_hardest_sequence_is_shown(setup: Setup) -> None:
    errors = np.where(setup.places.sequence[setup.queries] == "test-rain", 11.0, 1.0)
    assert set(setup.places.sequence[setup.queries[drive._hardest(setup, errors)]]) == {"test-rain"}


def test_a_file_that_would_be_too_large_has_fewer_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    noise = [Image.fromarray(random.integers(0, 256, (40, 40, 3), dtype=np.uint8)) for _ in range(8)]
    film.write_gif(tmp_path / "all.gif", noise)
    assert len(frames(tmp_path / "all.gif")) == 8
    monkeypatch.setattr(film, "MOST_BYTES", 1000)
    film.write_gif(tmp_path / "some.gif", noise)
    assert len(frames(tmp_path / "some.gif")) == 2
