"""Fixtures that several rooms share."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image

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
