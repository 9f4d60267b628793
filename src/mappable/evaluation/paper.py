"""Numbers from the paper, by set, row, region and method.

Thoma, Paudel, Chhatkuli and Van Gool, "Geometrically Mappable Image Features", IEEE Robotics and
Automation Letters, 2020 (arXiv 2003.09682). Its sets are `oxford` (RobotCar) and `cold`; accuracies
are percentages of the queries.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Accuracy(NamedTuple):
    """Percentages of queries located within the positive and the negative radius."""

    positive: float
    negative: float


class Milliseconds(NamedTuple):
    """Time per query."""

    mean: float
    std: float


class Models(NamedTuple):
    """Mean accuracy of the four models with only a visual loss, and of the four with a combination."""

    visual: float
    combined: float


class Recovery(NamedTuple):
    """Error of a recovered map in metres, and in percent of the route length."""

    metres: float
    percent: float


class Sizes(NamedTuple):
    """Numbers of images and landmarks, and the epochs of training."""

    train: int
    test: int
    landmarks: int
    gallery_landmarks: int
    epochs: int


TABLE_1: Mapping[str, Mapping[str, Accuracy]] = {
    "cold": {  # within 1 m and 4 m
        "off-the-shelf": Accuracy(57.92, 78.65),
        "distance": Accuracy(56.71, 71.56),
        "huber": Accuracy(58.23, 72.00),
        "triplet": Accuracy(67.45, 92.32),
        "quadruplet": Accuracy(68.76, 92.40),
        "lazy-triplet": Accuracy(68.55, 95.69),
        "lazy-quadruplet": Accuracy(68.30, 91.78),
        "triplet+distance": Accuracy(80.66, 99.81),
        "lazy-quadruplet+distance": Accuracy(95.10, 99.85),
        "triplet+huber": Accuracy(83.47, 99.94),
        "lazy-quadruplet+huber": Accuracy(80.63, 99.61),
    },
    "oxford": {  # within 10 m and 25 m
        "off-the-shelf": Accuracy(44.56, 58.55),
        "distance": Accuracy(43.31, 44.39),
        "huber": Accuracy(48.15, 49.65),
        "triplet": Accuracy(39.67, 55.40),
        "quadruplet": Accuracy(63.92, 80.21),
        "lazy-triplet": Accuracy(69.85, 84.19),
        "lazy-quadruplet": Accuracy(67.94, 82.52),
        "triplet+distance": Accuracy(79.33, 89.23),
        "lazy-quadruplet+distance": Accuracy(70.91, 81.73),
        "triplet+huber": Accuracy(79.46, 90.44),
        "lazy-quadruplet+huber": Accuracy(78.51, 89.28),
    },
}

# Feature against geometric distance, on freiburg-a/seq2_sunny3.
PEARSON: Mapping[str, Mapping[str, float]] = {
    "cold": {"lazy-quadruplet": 0.441, "lazy-quadruplet+distance": 0.823}
}

# Rows whose feature and geometric distances it shows.
FIGURE_1 = ("lazy-quadruplet", "lazy-quadruplet+distance")
FIGURE_2 = ("off-the-shelf", "triplet", "triplet+huber")  # rows whose distance matrices it shows

# Within 1 m, by spacing of landmarks in metres.
GENERALIZATION: Mapping[str, Mapping[str, Mapping[str, Models]]] = {
    "cold": {
        "Freiburg A": {"1.0": Models(87.02, 94.79), "1.25": Models(82.42, 94.34)},
        "Freiburg B": {"1.0": Models(77.65, 76.18), "1.25": Models(73.52, 76.47)},
        "Saarbrücken B": {"1.0": Models(69.92, 67.99), "1.25": Models(60.88, 60.92)},
    }
}

TIMING: Mapping[str, Mapping[str, Milliseconds]] = {
    "cold": {
        "describe": Milliseconds(7.13, 0.09),
        "kd-tree": Milliseconds(4.65, 1.87),
        "total": Milliseconds(11.78, 1.96),
    },
    "oxford": {
        "describe": Milliseconds(6.20, 0.17),
        "kd-tree": Milliseconds(6.81, 0.30),
        "total": Milliseconds(13.01, 0.13),
    },
}
HARDWARE = "GTX 1080 Ti, i7-9700K"  # on which the paper measured these times

RECOVERY: Mapping[str, Mapping[str, Recovery]] = {
    "oxford": {"classical MDS": Recovery(31.37, 4.67), "SMACOF": Recovery(38.77, 5.77)}
}
RECOVERY_LENGTH = 672.0  # metres of the route

SIZES: Mapping[str, Sizes] = {
    "cold": Sizes(train=29_237, test=12_831, landmarks=100, gallery_landmarks=100, epochs=1),
    "oxford": Sizes(train=15_006, test=12_329, landmarks=200, gallery_landmarks=1_000, epochs=2),
}
