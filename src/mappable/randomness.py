"""Random numbers with a separate stream per purpose, so that drawing more for one purpose changes no other."""

from enum import IntEnum, auto

import numpy as np


class Purpose(IntEnum):
    """What random numbers are for. Add a new purpose at the end, so that the others keep their
    streams.
    """

    WEIGHTS = auto()
    CLUSTER_IMAGES = auto()
    CLUSTER_LOCATIONS = auto()
    CLUSTER_STARTS = auto()
    FEATURE_SCALE = auto()
    ANCHORS = auto()
    CACHE = auto()
    POSITIVES = auto()
    NEGATIVES = auto()
    OTHERS = auto()
    REDUCTION_IMAGES = auto()
    MONITOR = auto()
    BOOTSTRAP = auto()
    ROUTE = auto()
    RANGES = auto()
    LANDMARKS = auto()
    COMPLETION = auto()  # no longer used; without it, all numbers after it would change
    LEARNED_RANGES = auto()
    SUBSAMPLES = auto()
    KNOWN_POSITIONS = auto()
    PROBES = auto()
    ANCHORED = auto()
    EXAMPLES = auto()
    MIRRORED = auto()
    LIGHT = auto()
    BOOTSTRAP_RUNS = auto()


def generator(seed: int, purpose: Purpose, number: int = 0) -> np.random.Generator:
    """The random stream of a seed for a purpose; `number` tells apart repeated uses, such as
    epochs.

    >>> draws = {tuple(generator(3, purpose).random(2)) for purpose in Purpose}
    >>> len(draws) == len(Purpose)
    True
    """
    return np.random.default_rng([seed, purpose, number])
