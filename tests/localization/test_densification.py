"""Images without positions become landmarks."""

from typing import Any

import numpy as np
import pytest

from made_maps import SPACING
from mappable.localization.densification import densify

pytestmark = pytest.mark.medium


@pytest.mark.parametrize("sequence", [False, True])
def test_images_are_added_where_they_were_taken(town: Any, sequence: bool) -> None:
    positions, descriptors = town.drive
    unknown = town.places(np.zeros_like(positions), "drive", condition="dusk")
    more = densify(town.map, unknown, descriptors, sequence=sequence)
    assert more.added.mean() > 0.9
    assert len(more.landmarks) == len(town.landmarks) + more.added.sum()
    fresh = more.landmarks.places[len(town.landmarks) :]
    off = fresh.positions - positions[more.added]
    assert np.median(np.linalg.norm(off, axis=1)) < 1.0
    assert more.landmarks.estimated.tolist() == [False] * len(town.landmarks) + [True] * len(fresh)
    assert set(fresh.condition) == {"dusk"}
    # The measured ones are as they were.
    assert more.landmarks.places[: len(town.landmarks)] == town.landmarks.places
    squared = np.einsum(
        "ni,nij,nj->n", off, np.linalg.inv(more.landmarks.covariance[len(town.landmarks) :]), off
    )
    assert np.median(squared) / 1.39 < 2.0  # the chi-square median of two dimensions


def test_images_from_elsewhere_are_not_added(town: Any) -> None:
    unknown = town.places(np.zeros((300, 2)), "absent")
    more = densify(town.map, unknown, town.absent)
    assert more.added.mean() < 0.1
    none = densify(town.map, unknown, town.absent, within=1e-6)
    assert none.landmarks is town.landmarks


def test_no_image_is_laid_on_a_measured_one(town: Any) -> None:
    copies = town.places(np.zeros((len(town.landmarks), 2)), "copies")
    more = densify(town.map, copies, town.landmarks.store.take(np.arange(len(town.landmarks))))
    apart = np.linalg.norm(
        more.landmarks.places.positions[len(town.landmarks) :, None]
        - town.landmarks.places.positions,
        axis=2,
    )
    assert not len(apart) or apart.min() > 0.02 * SPACING
