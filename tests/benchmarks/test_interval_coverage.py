"""Intervals hold what they state: made-up worlds whose queries and calibration images are drawn alike."""

from collections.abc import Iterable

import numpy as np
import pytest

from interval_coverage import LEVELS, draw_world, measure

QUERIES = 750


@pytest.mark.medium
@pytest.mark.parametrize("seeds", [(0, 1, 5), pytest.param(range(9), marks=pytest.mark.long)], ids=["few", "all"])
def test_a_stated_coverage_holds_in_every_group(seeds: Iterable[int]) -> None:
    found, known = [], []
    for seed in seeds:
        world = draw_world(seed, queries=QUERIES)
        found.append(measure(world))
        known.append(len(world.known[0]))
    for group in ("confident", "not confident", "retrieved", "pairs"):
        own = [(one[group], size) for one, size in zip(found, known, strict=True) if group in one]
        count = sum(one.count for one, _ in own)
        assert count > 100
        for at, level in enumerate(LEVELS):
            share = sum(one.held[at] for one, _ in own) / count
            # The queries of a world are binomial about what its intervals hold, and that varies with 1 / images.
            seen = [(one.count / count, one.count, size * (1 if group == "retrieved" else 0.9)) for one, size in own]
            if group == "not confident":
                seen = [(part, of, 50.0) for part, of, _ in seen]  # the fewest that calibration makes intervals of
            if group == "pairs":
                seen = [(part, size / 2, size) for part, _, size in seen]  # each query is in many pairs
            variance = level * (1 - level) * sum(part**2 * (1 / of + 1 / size) for part, of, size in seen)
            more = sum(part / size for part, _, size in seen)  # of the rank, which is a whole number
            within = 3 * np.sqrt(variance)
            assert level - within <= share <= level + more + within, (group, level, share)
