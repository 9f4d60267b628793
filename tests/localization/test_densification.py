"""Images without positions become landmarks."""

from typing import Any

import numpy as np
import pytest

from made_maps import SPACING
from mappable.errors import BadInputError
from mappable.localization.densification import densify


@pytest.mark.parametrize("sequence", [False, True])
def test_images_are_added_where_they_were_taken(town: Any, sequence: bool) -> None:
    positions, descriptors = town.drive
    unknown = town.places(np.zeros_like(positions), "drive", condition="dusk")
    more = densify(town.map, unknown, descriptors, encoder=town.encoder, sequence=sequence)
    assert more.added.mean() > 0.9
    assert len(more.map) == len(town.map) + more.added.sum()
    fresh = more.map.places[len(town.map) :]
    off = fresh.positions - positions[more.added]
    assert np.median(np.linalg.norm(off, axis=1)) < 1.0
    assert more.map.estimated.tolist() == [False] * len(town.map) + [True] * len(fresh)
    assert set(fresh.condition) == {"dusk"}
    assert more.map.places[: len(town.map)] == town.map.places  # the measured ones are as they were
    squared = np.einsum("ni,nij,nj->n", off, np.linalg.inv(more.map.covariance[len(town.map) :]), off)
    assert np.median(squared) / 1.39 < 2.0  # the chi-square median of two dimensions


def test_images_from_elsewhere_are_not_added(town: Any) -> None:
    unknown = town.places(np.zeros((300, 2)), "absent")
    more = densify(town.map, unknown, town.absent, encoder=town.encoder)
    assert more.added.mean() < 0.1
    none = densify(town.map, unknown, town.absent, encoder=town.encoder, within=1e-6)
    assert none.map is town.map


def test_no_image_is_laid_on_a_measured_one(town: Any) -> None:
    copies = town.places(np.zeros((len(town.map), 2)), "copies")
    more = densify(town.map, copies, town.map.store.take(np.arange(len(town.map))), encoder=town.encoder)
    apart = np.linalg.norm(more.map.places.positions[len(town.map) :, None] - town.map.places.positions, axis=2)
    assert not len(apart) or apart.min() > 0.02 * SPACING


def test_refused(town: Any) -> None:
    with pytest.raises(BadInputError, match=r"landmark.*'landmarks/0\.jpg'"):
        densify(town.map, town.map.places[:3], town.drive[1][:3], encoder=town.encoder)
    with pytest.raises(BadInputError, match="0 m"):
        densify(town.map, town.places(np.zeros((1, 2)), "a"), town.drive[1][:1], encoder=town.encoder, within=0)
    with pytest.raises(BadInputError, match=r"0 images.*0 descriptors"):
        densify(town.map, town.places(np.zeros((0, 2)), "a"), town.drive[1][:0], encoder=town.encoder)
