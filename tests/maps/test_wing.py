"""Streets that the encoder never saw are added to a map without any training."""

import numpy as np

from mappable.features.encoder import Encoder
from mappable.maps.locate import locate
from mappable.maps.map import Map
from mappable.places.worlds.simulation import simulate

SIZE = (112, 84)


def test_landmarks_of_a_new_wing_are_found_at_once() -> None:
    main = simulate("street-v1", parts=["region-b"], every=64, size=SIZE)
    wing = simulate("street-v1", parts=["wing"], every=16, size=SIZE)
    known = np.flatnonzero(main.places.role == "reference")
    reference = np.flatnonzero(wing.places.role == "reference")
    queries = np.flatnonzero((wing.places.role == "query") & (wing.places.condition == "overcast"))
    encoder = Encoder.create(weights="vgg16-v1", size=SIZE, clusters=16)
    encoder.initialise(main.pixels[known], most=32, locations=50)
    made_by = encoder.fingerprint

    def embed(pixels: np.ndarray) -> np.ndarray:
        return encoder.embed(pixels, progress=False)

    before = Map.build(main.places[known], embed(main.pixels[known]), made_by)
    added = wing.places[reference].replace(frames=before.frame, frame=before.frame.name)
    after = before.add(added, embed(wing.pixels[reference]), made_by)
    descriptors, true = embed(wing.pixels[queries]), wing.places.positions[queries]
    near = [
        np.linalg.norm(
            np.stack([one.coordinates for one in locate(which, descriptors, encoder=made_by)]) - true, axis=1
        )
        for which in (before, after)
    ]
    assert (near[0] <= 10).mean() == 0.0
    assert (near[1] <= 10).mean() > 0.6
    assert encoder.fingerprint == made_by
