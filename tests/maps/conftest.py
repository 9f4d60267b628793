"""What tests of maps share: places along a line, with descriptors of length one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mappable.places.frames import Frame
from mappable.places.table import Places

Described = tuple[Places, NDArray[np.float32]]


@pytest.fixture(scope="session")
def described() -> Callable[..., Described]:
    """Some places 1 m apart, the first at x = `first`, and a random descriptor of 8 numbers for each."""

    def make(count: int, first: int = 0, **columns: Any) -> Described:
        rows = range(first, first + count)
        vectors = np.random.default_rng(first).normal(size=(count, 8)).astype(np.float32)
        given = {"path": [f"{row}.jpg" for row in rows], "x": [float(row) for row in rows], "y": np.zeros(count)}
        places = Places(**(given | {"frames": Frame("town"), "root": "/data"} | columns))
        return places, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    return make
