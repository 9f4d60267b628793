"""Keyframes: recover a few images of a dense sequence, and place the others between them."""

from dataclasses import dataclass

import numpy as np

from mappable.arrays import Bools, Floats, Ints
from mappable.errors import BadInputError
from mappable.recovery.ranges import Ranges

REACH = 1 / 6  # spacing as a share of the ranges' reach: a keyframe then has a dozen others in reach
MOST_REACH = 1 / 3  # largest spacing, even with noisy ranges; with a larger one, keyframes would be a bare chain
BLURRED = 2.0  # deviations: two images with a shorter range are hardly distinguishable
STEPS = 10  # majorization steps that place the other images
FAR_OFF = 4.0  # deviations: ranges that are farther off are false


def usual_spacing(ranges: Ranges) -> float:
    """Return the default metres between keyframes: a share of the ranges' reach, or more if ranges are noisy."""
    reach = float(np.quantile(ranges.metres, 0.9))  # not the maximum: a few ranges may be far longer than all others
    short = ranges.metres <= REACH * reach
    blurred = BLURRED * float(np.median(ranges.sigma[short])) if short.any() else 0.0
    return min(max(REACH * reach, blurred), MOST_REACH * reach) or blurred  # `blurred` if all ranges are 0


def keyframes(ranges: Ranges, spacing: float) -> Ints:
    """Choose points about `spacing` metres apart along the sequence, including the first and the last point.

    If the median range from an image to the next but one is `spacing` or more, all points are keyframes.

    Single ranges are too noisy to add up. So the ranges of a keyframe to later images vote: shorter than the spacing,
    or longer. The next keyframe is the image at which the votes for shorter have the largest lead. A keyframe has a
    range to the one before, if images have ranges at all.
    """
    if not spacing > 0:
        raise BadInputError(f"the spacing of keyframes must be above 0 m, got {spacing}")
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
    """Compute all positions (count, k) and parts (count,) from those of the keyframes.

    Another image is expected between the keyframes before and after it, in proportion to its number. The standard
    deviation of this guess is a quarter of their distance. Its ranges to keyframes then move it. If the two keyframes
    are in different parts, the image belongs to the one to which it has the shorter range.
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
    """Ranges between other images and keyframes; `own` counts among the other images, `key` among the keyframes."""

    own: Ints
    key: Ints
    metres: Floats
    sigma: Floats

    def where(self, keep: Bools) -> "_Links":
        return _Links(self.own[keep], self.key[keep], self.metres[keep], self.sigma[keep])

    def metres_to(self, keys: Ints) -> Floats:
        """Return the metres from each other image to one keyframe, or infinity without a range."""
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
    """Move points from their expected positions to fit their ranges: a few majorization steps for all at once."""
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
