"""What the images of a visit share is taken off."""

import numpy as np

from mappable.features.centering import PRIOR_IMAGES, without_visit_means


def test_means_are_those_of_visits_shrunk_to_the_mean_of_all() -> None:
    random = np.random.default_rng(0)
    descriptors = random.normal(size=(30, 8)).astype(np.float32)
    visits = np.array(["day"] * 20 + ["night"] * 10, dtype=object)
    overall = (descriptors[:20].mean(0) + descriptors[20:].mean(0)) / 2
    night = (descriptors[20:].sum(0) + PRIOR_IMAGES * overall) / (10 + PRIOR_IMAGES)
    expected = descriptors[20:] - night
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(without_visit_means(descriptors, visits)[20:], expected, rtol=1e-5)


def test_a_shift_of_a_visit_no_longer_hides_its_places() -> None:
    random = np.random.default_rng(1)
    places = random.normal(size=(40, 64))
    shift = 3 * random.normal(size=64)
    both = np.concatenate([places, places + shift + 0.2 * random.normal(size=places.shape)]).astype(
        np.float32
    )
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    visits = np.array(["summer"] * 40 + ["winter"] * 40, dtype=object)
    centered = without_visit_means(both, visits)
    raw = np.mean((both[40:] @ both[:40].T).argmax(1) == np.arange(40))
    assert np.mean((centered[40:] @ centered[:40].T).argmax(1) == np.arange(40)) == 1.0 > raw
