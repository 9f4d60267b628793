"""What the nearest landmarks say."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mappable.maps.evidence import gather_evidence


@given(st.integers(0, 1000))
def test_it_is_what_a_loop_over_images_finds(seed: int) -> None:
    random = np.random.default_rng(seed)
    positions = random.uniform(0, 30, (20, 2))
    rows = np.array([random.permutation(20)[:15] for _ in range(4)])
    squared = np.sort(random.random((4, 15)).astype(np.float32), axis=1)
    allowed, place = random.random((2, 4, 15)) < 0.6
    allowed[:, 3], place[:, 3] = True, True
    found = gather_evidence(positions, rows, squared, 10.0, allowed=allowed, place=place)
    for image in range(4):
        own = [n for n in range(15) if allowed[image, n]]
        first = next(n for n in own if place[image, n])
        assert found.landmark[image] == rows[image, first]
        assert found.nearest[image] == squared[image, first]
        away = np.linalg.norm(positions[rows[image]] - positions[rows[image, first]], axis=1) > 10.0
        others = [n for n in own if away[n]]
        if others:
            assert found.rival[image] == rows[image, others[0]]
            assert found.rival_squared[image] == squared[image, others[0]]
        else:
            assert found.rival[image] == -1
            assert found.rival_squared[image] == squared[image, -1]
