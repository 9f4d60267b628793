"""Streets that the encoder never saw are added to a map without any training."""

from collections.abc import Callable

import numpy as np
import pytest

from mappable.arrays import Pixels
from mappable.features.encoder import Encoder
from mappable.maps.locate import Locator
from mappable.maps.map import Map
from mappable.places.table import Places

SIZE = (112, 84)
RUNS = ("region-b-reference-overcast", "wing-reference-overcast", "wing-query-overcast")


@pytest.mark.long
def test_landmarks_of_a_new_wing_are_found_at_once(draw_runs: Callable[..., tuple[Places, Pixels]]) -> None:
    places, pixels = draw_runs("street-v1", RUNS, every=16, size=SIZE)
    known, reference, queries = (np.flatnonzero(places.sequence == run) for run in RUNS)
    known = known[::4]
    encoder = Encoder.create(weights="vgg16-v1", size=SIZE, clusters=16)
    encoder.initialize(pixels[known], most=32, locations=50)
    made_by = encoder.fingerprint

    def embed(rows: np.ndarray) -> np.ndarray:
        return encoder.embed(pixels[rows], progress=False)

    before = Map.build(places[known], embed(known), made_by)
    after = before.add(places[reference], embed(reference), made_by)
    descriptors, true = embed(queries), places.positions[queries]
    near = [
        np.linalg.norm(
            np.stack([one.coordinates for one in Locator(which).locate(descriptors, encoder=made_by)]) - true, axis=1
        )
        for which in (before, after)
    ]
    assert (near[0] <= 10).mean() == 0.0
    assert (near[1] <= 10).mean() > 0.6
    assert encoder.fingerprint == made_by
