"""The weights that are fetched have really seen images: they tell places apart where random ones do not."""

from collections.abc import Callable

import numpy as np
import pytest

from mappable.arrays import Pixels
from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.features.weights import fetch_weights
from mappable.places.table import Places

SIZE = (112, 84)


@pytest.fixture(scope="module")
def street(draw_runs: Callable[..., tuple[Places, Pixels]]) -> tuple[Places, Pixels]:
    """A part of the town on an overcast day and at night, 16 m from image to image."""
    return draw_runs(
        "street-v1", ("region-b-reference-overcast", "region-b-query-night"), every=16, size=SIZE
    )


def accuracy(weights: str, places: Places, pixels: Pixels) -> float:
    """The share of images at night whose nearest one by day, by descriptor, is among the two or
    three within 20 m.
    """
    references, queries = (np.flatnonzero(places.role == role) for role in ("reference", "query"))
    encoder = Encoder.create(weights=weights, size=SIZE, clusters=16)
    encoder.initialize(pixels[references], most=32, locations=50)
    products = (
        encoder.embed(pixels[queries], progress=False)
        @ encoder.embed(pixels[references], progress=False).T
    )
    apart = places.positions[queries] - places.positions[references[products.argmax(axis=1)]]
    return float((np.linalg.norm(apart, axis=1) <= 20.0).mean())


@pytest.mark.medium
@pytest.mark.parametrize(
    "weights", ["vgg16-v1", pytest.param("resnet50-keras", marks=pytest.mark.long)]
)
def test_off_the_shelf_weights_beat_random_ones_clearly(
    weights: str, street: tuple[Places, Pixels]
) -> None:
    try:
        fetch_weights(weights)
    except BadInputError as error:
        pytest.skip(str(error))
    learned, drawn = accuracy(weights, *street), accuracy("random", *street)
    assert learned > drawn + 0.3
