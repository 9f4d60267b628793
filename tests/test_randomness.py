"""Random numbers: one stream a purpose, epoch and period, and the same ones for good."""

import numpy as np

from mappable.randomness import Purpose, generator


def test_a_stream_follows_from_seed_purpose_and_number_alone() -> None:
    keys = [(seed, purpose, number) for seed in (0, 1) for purpose in Purpose for number in (0, 1)]
    drawn = [generator(*key).random(3).tolist() for key in keys]
    assert [generator(*key).random(3).tolist() for key in keys] == drawn
    assert len({tuple(numbers) for numbers in drawn}) == len(keys)
    assert (
        generator(1, Purpose.WEIGHTS).random(3).tolist()
        == generator(1, Purpose.WEIGHTS, 0).random(3).tolist()
    )


def test_purposes_keep_their_streams() -> None:
    """Runs of an older version can be repeated only as long as these numbers stay."""
    assert {purpose.name: int(purpose) for purpose in Purpose} == {
        "WEIGHTS": 1,
        "CLUSTER_IMAGES": 2,
        "CLUSTER_LOCATIONS": 3,
        "CLUSTER_STARTS": 4,
        "FEATURE_SCALE": 5,
        "ANCHORS": 6,
        "CACHE": 7,
        "POSITIVES": 8,
        "NEGATIVES": 9,
        "OTHERS": 10,
        "REDUCTION_IMAGES": 11,
        "MONITOR": 12,
        "BOOTSTRAP": 13,
        "ROUTE": 14,
        "RANGES": 15,
        "LANDMARKS": 16,
        "COMPLETION": 17,
        "LEARNED_RANGES": 18,
        "SUBSAMPLES": 19,
        "KNOWN_POSITIONS": 20,
        "PROBES": 21,
        "ANCHORED": 22,
        "EXAMPLES": 23,
        "MIRRORED": 24,
        "LIGHT": 25,
        "BOOTSTRAP_RUNS": 26,
    }
    expected = np.random.default_rng([3, 7, 2]).random(4)
    np.testing.assert_array_equal(generator(3, Purpose.CACHE, 2).random(4), expected)
