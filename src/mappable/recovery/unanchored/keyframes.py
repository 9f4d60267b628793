"""Keyframes: lay out a few images of a dense sequence, and place the others between them."""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.recovery.ranges import Ranges

REACH = 1 / 6  # of how far ranges reach: keyframes at this distance have a dozen others in reach
MOST_REACH = 1 / 3  # of it, however noisy the ranges are: else keyframes are a bare chain
BLURRED = 2.0  # deviations: shorter ranges hardly tell two images apart
STEPS = 10
FAR_OFF = 4.0  # deviations, of ranges that are taken as false


def usual_spacing(ranges: Ranges) -> float:
    """The metres between keyframes: a share of how far ranges reach, or more where their noise leaves images nearer."""
    reach = float(np.quantile(ranges.metres, 0.9))  # a few of a sparse sequence lead far beyond all others
    short = ranges.metres <= REACH * reach
    blurred = BLURRED * float(np.median(ranges.sigma[short])) if short.any() else 0.0
    return min(max(REACH * reach, blurred), MOST_REACH * reach) or blurred  # where all ranges are 0


def keyframes(ranges: Ranges, spacing: float) -> Ints:
    """The points that are about `spacing` metres apart along the sequence, with the first and the last.

    All points, if every other image is usually farther than that from the one before. Single ranges are too noisy to
    add up: from a keyframe on, later images speak for being within the spacing or beyond it, and the next keyframe is
    where those within have most over those beyond. It has a range to the one before, as long as images have any.
    """
    if not spacing > 0:
        raise BadInputError(f"keyframes are {spacing} m apart, but that must be above 0")
    skips = ranges.metres[ranges.j - ranges.i == 2]
    if not len(skips) or np.median(skips) >= spacing:
        return np.arange(ranges.count)
    begins = np.searchsorted(ranges.i, np.arange(ranges.count + 1))  # the ranges are sorted by i, then j
    chosen = [0]
    while chosen[-1] < ranges.count - 1:
        later = slice(begins[chosen[-1]], begins[chosen[-1] + 1])
        lead = np.where(ranges.metres[later] < spacing, 1, -1).cumsum()
        found = len(lead) and lead.max() > 0
        chosen.append(int(ranges.j[later][np.argmax(lead)]) if found else chosen[-1] + 1)
    return np.array(chosen, dtype=np.int64)


def place_others(ranges: Ranges, key: Ints, key_positions: Floats, key_parts: Ints) -> tuple[Floats, Ints]:
    """All positions (count, k) and parts (count,), given those of the keyframes.

    Another image is expected between the keyframes before and after it in order, as far along as its number says,
    give or take a quarter of their distance; its ranges to keyframes then move it. Where the two keyframes are in
    different parts, it is with the one that it has the shorter range to.
    """
    others = np.setdiff1d(np.arange(ranges.count), key)
    after = np.searchsorted(key, others)
    before = after - 1
    links = _links(ranges, key, others)
    along = (others - key[before]) / (key[after] - key[before])
    nearer = links.metres_to(after) < links.metres_to(before)
    along = np.where(key_parts[before] == key_parts[after], along, nearer)
    other_parts = key_parts[np.where(along > 0.5, after, before)]
    expected = (1 - along)[:, None] * key_positions[before] + along[:, None] * key_positions[after]
    gaps = np.linalg.norm(key_positions[after] - key_positions[before], axis=1)
    spread = np.maximum(gaps, max(float(np.median(gaps)), 1e-3)) / 4
    off = np.abs(np.linalg.norm(expected[links.own] - key_positions[links.key], axis=1) - links.metres)
    true = (other_parts[links.own] == key_parts[links.key]) & (off < FAR_OFF * (links.sigma + spread[links.own]))
    positions, parts = np.zeros((ranges.count, key_positions.shape[1])), np.zeros(ranges.count, dtype=np.int64)
    positions[key], parts[key] = key_positions, key_parts
    positions[others], parts[others] = _moved(expected, spread, key_positions, links.where(true)), other_parts
    return positions, parts


@dataclass(frozen=True)
class _Links:
    """Ranges between other images and keyframes, each by its place among its kind."""

    own: Ints
    key: Ints
    metres: Floats
    sigma: Floats

    def where(self, keep: Bools) -> "_Links":
        return _Links(self.own[keep], self.key[keep], self.metres[keep], self.sigma[keep])

    def metres_to(self, keys: Ints) -> Floats:
        """From each other image to one keyframe, or infinity."""
        found = np.full(len(keys), np.inf)
        meant = self.key == keys[self.own]
        found[self.own[meant]] = self.metres[meant]
        return found


def _links(ranges: Ranges, key: Ints, others: Ints) -> _Links:
    place, is_key = np.empty(ranges.count, dtype=np.int64), np.zeros(ranges.count, dtype=bool)
    place[key], place[others], is_key[key] = np.arange(len(key)), np.arange(len(others)), True
    mixed = np.flatnonzero(is_key[ranges.i] != is_key[ranges.j])
    i, j = ranges.i[mixed], ranges.j[mixed]
    own, keys = place[np.where(is_key[i], j, i)], place[np.where(is_key[i], i, j)]
    return _Links(own, keys, ranges.metres[mixed], ranges.sigma[mixed])


def _moved(expected: Floats, spread: Floats, key_positions: Floats, links: _Links) -> Floats:
    """Points near where they are expected that fit their ranges: a few majorisation steps, all points at once."""
    points, to = expected.copy(), key_positions[links.key]
    weight, prior = links.sigma**-2, spread**-2
    total = prior + np.bincount(links.own, weight, len(points))
    for _ in range(STEPS):
        apart = points[links.own] - to
        lengths = np.maximum(np.linalg.norm(apart, axis=1), 1e-9)
        targets = weight[:, None] * (to + apart * (links.metres / lengths)[:, None])
        pulled = np.stack([np.bincount(links.own, column, len(points)) for column in targets.T], 1)
        points = (prior[:, None] * expected + pulled) / total[:, None]
    return points
