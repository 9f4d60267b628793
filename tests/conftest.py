"""Fixtures that several rooms share."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image

# Tests run side by side, one on each core: threads within one, and in what it starts, would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A busy machine is no failure; and where a change is judged, the examples are the same each time.
settings.register_profile("tests", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("tests")


@pytest.fixture
def draw() -> Callable[..., Path]:
    """Write a small real image file (format by suffix) whose pixels differ from file to file; makes its folders."""

    def write(file: Path, size: tuple[int, int] = (64, 48), **save_options: Any) -> Path:
        seed = np.frombuffer(file.name.encode(), dtype=np.uint8)
        coarse = np.random.default_rng(seed).integers(0, 255, (6, 8, 3), dtype=np.uint8)
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(file, **save_options)
        return file

    return write


@pytest.fixture
def geotagged(draw: Callable[..., Path]) -> Callable[..., list[Path]]:
    """Write photos of a walk as a phone does: 4 m north and 3 s from one to the next, looking north, in Oxford."""

    def write(folder: Path, count: int, start: datetime = datetime(2026, 5, 1, 12, tzinfo=UTC)) -> list[Path]:
        files = []
        for number in range(count):
            exif = Image.Exif()
            north = 51.752 + number * 4.0 / 111_250  # metres a degree
            exif.get_ifd(0x8825).update({1: "N", 2: _degrees(north), 3: "W", 4: _degrees(1.2577), 16: "T", 17: 0.0})
            moment = (start + timedelta(seconds=3 * number)).strftime("%Y:%m:%d %H:%M:%S")
            exif.get_ifd(0x8769).update({0x9003: moment, 0x9011: "+00:00"})
            files.append(draw(folder / f"{number:04d}.jpg", exif=exif))
        return files

    return write


def _degrees(value: float) -> tuple[float, float, float]:
    """Degrees, minutes and seconds, as photos have them."""
    minutes = value % 1 * 60
    return float(int(value)), float(int(minutes)), round(minutes % 1 * 60, 6)
