"""What the tests of the losses share: tuples to try them on."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.learning.layout import Layout
from mappable.learning.losses.terms import TupleDistances


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture
def draw_tuples() -> Callable[..., Tensor]:
    """Unit descriptors (B, layout.images, 5), of one tuple so alike that some of its hinges are
    active and some not.
    """

    def draw(
        layout: Layout, dtype: torch.dtype = torch.float64, anchors: int = 4, seed: int = 0
    ) -> Tensor:
        generator = np.random.default_rng(seed)
        centers = generator.normal(size=(anchors, 1, 5))
        descriptors = centers + 0.4 * generator.normal(size=(anchors, layout.images, 5))
        return torch.tensor(
            descriptors / np.linalg.norm(descriptors, axis=-1, keepdims=True), dtype=dtype
        )

    return draw


@pytest.fixture
def given_distances() -> TupleDistances:
    """Two anchors with two positives and three negatives each, for values worked out by hand.

    The best positives are the second at 0.04 and the first at 0.50.
    """
    return TupleDistances(
        positive=torch.tensor([[0.25, 0.04], [0.50, 0.75]], dtype=torch.float64),
        negative=torch.tensor([[0.09, 0.01, 1.00], [0.45, 1.25, 0.55]], dtype=torch.float64),
        other=torch.tensor([[0.01, 0.25, 0.36], [2.00, 0.60, 0.80]], dtype=torch.float64),
    )
