"""Fit what only errors on other visits can show: how positions are blended and smoothed, and how far they err."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly, path_length
from mappable.maps.between import Between
from mappable.maps.deviations import fit_deviations
from mappable.maps.drive_model import DriveModel, Followed, coordinates_of, deviations_of, follow
from mappable.maps.found_places import find_places
from mappable.maps.live_errors import TrackedErrors, carried_factor, fit_live
from mappable.maps.looks import Looks, look_at
from mappable.maps.map import Map
from mappable.maps.place_filter import Layout, Motion
from mappable.maps.tracking import ODOMETRY_ERROR, Tracked, Tracker
from mappable.places.angles import wrap

MOST_TRACKED = 300  # largest number of images per condition that a camera is tracked on
RESTART = 50  # number of images after which it starts again, because the first images of a drive err more
# The constants from here on were chosen by the tables of studies/drives; see calibrate_drive.py.
USUAL_SCORE, SCORE_WEIGHT = 1.15, 30  # usual standard deviation of scores, and weight of this prior in images
SEEN_SCORE_WEIGHT = 20  # the same weight, in conditions that calibration saw
BLEND_CHOICES = (0.0, 0.25, 0.5)  # choices of `DriveModel.blend`; the last one is the default
BEND_CHOICES = (0.3, 1.0, 3.0)  # choices of `DriveModel.bend`, in usual steps; the first one is the default
# A drive is in a condition that calibration saw if its median contrast exceeds this quantile of calibration's.
USUAL_CONTRAST = 0.25
MOST_SCORES = 400  # largest number of scores that the map keeps
ENOUGH_FOR_COVARIANCE = 50  # smallest number of images at the right place that covariances are fitted to
STRIDES = (1, 4)  # drives made of the calibration images: every image, and every fourth


@dataclass(frozen=True)
class _Errors:
    """Errors of the images (n,) of one drive."""

    scores: Floats  # (n,) errors of the distance to the landmark, in standard deviations
    deviations: Floats  # (n,) these standard deviations, in metres
    off: Floats  # (n, k) errors of coordinates
    right: Bools  # (n,) whether the place is right
    spread: Floats  # (n, k, k) covariance over the place

    @property
    def surer(self) -> Floats:
        """Scores of the half with smaller deviations; the other half is covered anyway, and would narrow intervals."""
        return self.scores[self.deviations <= np.median(self.deviations)]


@dataclass(frozen=True)
class Queries:
    """Images (n, D) at positions (n, k), of other visits than the landmarks', and what it takes to locate them."""

    landmarks: Map
    descriptors: Floats32
    positions: Floats
    yaw: Floats  # (n,) headings; NaN if unknown
    between: Between
    temperature: float
    layout: Layout

    def errors(self, model: DriveModel, drives: Sequence[Ints]) -> list[_Errors]:
        """Errors along drives, each given by rows; once with all images and once thinned."""
        return [
            self._errors(model, drive[::stride], *self.followed(model, drive[::stride]))
            for drive in drives
            for stride in STRIDES
        ]

    def followed(self, model: DriveModel, drive: Ints) -> tuple[Looks, Followed]:
        looks = look_at(self.landmarks.store, self.descriptors[drive])
        return looks, follow(model, self.layout, looks, self.descriptors[drive])

    def _errors(self, model: DriveModel, drive: Ints, looks: Looks, followed: Followed) -> _Errors:
        places = find_places(followed.beliefs, self.layout.positions, model.radius)
        coordinates = coordinates_of(model, self.between, self.temperature, looks, places, followed)
        true, at = self.positions[drive], self.layout.positions[places.landmark]
        truly, stated = (np.linalg.norm(at - where, axis=1) for where in (true, coordinates))
        deviations = deviations_of(model, places, followed)
        scores = np.abs(truly - stated) / deviations
        return _Errors(scores, deviations, coordinates - true, truly <= model.radius, places.covariance)

    def tracked(self, model: DriveModel, drives: Sequence[Ints], *, carried: bool) -> list[TrackedErrors]:
        """Errors of a tracked camera, `carried` by odometry or not.

        As in `errors`, drives are also thinned: odometry adds up more error between images that are farther apart.
        """
        random, found = np.random.default_rng(0), []
        for drive in (middle_of(drive[::stride], MOST_TRACKED) for drive in drives for stride in STRIDES):
            tracker = Tracker(self.landmarks.store, self.layout, self.between, model, self.temperature)
            for start in range(0, len(drive), RESTART):
                tracker.reset()
                some = drive[start : start + RESTART]
                moved = self._odometry(some, random) if carried else [None] * len(some)
                seen = [tracker.update(self.descriptors[row], one) for row, one in zip(some, moved, strict=True)]
                found.append(_tracked_errors(seen, self.positions[some], model.radius))
        return found

    def _odometry(self, rows: Ints, random: np.random.Generator) -> list[Motion]:
        """Odometry with its usual error, along images `rows`."""
        ways = np.diff(self.positions[rows], axis=0, prepend=self.positions[rows[:1]])[:, :2]
        error = ODOMETRY_ERROR * np.linalg.norm(ways, axis=1)
        ways = ways + error[:, None] * random.standard_normal(ways.shape)
        yaw = np.nan_to_num(self.yaw[rows])
        before, turn = np.append(yaw[:1], yaw[:-1]), wrap(np.diff(yaw, prepend=yaw[:1]))
        forward = np.cos(before) * ways[:, 0] + np.sin(before) * ways[:, 1]
        left = np.cos(before) * ways[:, 1] - np.sin(before) * ways[:, 0]
        return [Motion(*one) for one in np.column_stack([forward, left, turn, np.square(error)]).tolist()]

    def choose(self, model: DriveModel, drives: Sequence[Ints]) -> DriveModel:
        """The model with the blend and the bend that have the smallest median error."""
        thinned = [drive[::stride] for drive in drives for stride in STRIDES]
        found = [(drive, *self.followed(model, drive)) for drive in thinned]

        def median(choice: DriveModel) -> float:
            offs = [self._errors(choice, *one).off for one in found]
            return float(np.median(np.linalg.norm(np.concatenate(offs), axis=1)))

        return min(
            (replace(model, blend=blend, bend=bend) for bend in BEND_CHOICES for blend in BLEND_CHOICES), key=median
        )


def with_errors(model: DriveModel, queries: Queries, drives: Sequence[Ints]) -> DriveModel:
    """The model fitted to errors along `drives`, together with the prior."""
    model = queries.choose(model, drives)
    errors = queries.errors(model, drives)
    surer = [one.surer for one in errors]
    contrast = look_at(queries.landmarks.store, queries.descriptors[np.concatenate(list(drives))]).contrast
    model = replace(
        model,
        scores=kept_scores([prior_scores(SCORE_WEIGHT), *surer]),
        seen_scores=kept_scores([prior_scores(SEEN_SCORE_WEIGHT), *surer]),
        usual_contrast=float(np.quantile(contrast, USUAL_CONTRAST)),
    )
    off, spread = (np.concatenate([getattr(one, name)[one.right] for one in errors]) for name in ("off", "spread"))
    if len(off) < ENOUGH_FOR_COVARIANCE:
        return model
    factor, deviation = fit_deviations(spread, off)
    model = replace(model, covariance_factor=factor, covariance_deviation=deviation)
    live = fit_live(queries.tracked(model, drives, carried=False), model.radius)
    if live is None:
        return model
    carried = carried_factor(queries.tracked(replace(model, live=live), drives, carried=True), model.radius)
    return replace(model, live=replace(live, carried=carried))


def _tracked_errors(seen: Sequence[Tracked], truth: Floats, radius: float) -> TrackedErrors:
    """Errors of the positions that are trusted and right."""
    off = np.array([one.position for one in seen]) - truth
    right = np.array([not one.doubt for one in seen]) & (np.linalg.norm(off, axis=1) <= 2 * radius)
    return TrackedErrors(
        along=path_length(truth)[right],
        off=off[right],
        spread=np.array([one.found.covariance[0] for one in seen])[right],
        covariance=np.array([one.covariance for one in seen])[right],
        contrast=np.array([one.contrast for one in seen])[right],
    )


def middle_of(rows: Ints, most: int) -> Ints:
    """The middle rows, at most this many."""
    start = max(0, len(rows) - most) // 2
    return rows[start : start + most]


def prior_scores(images: int) -> Floats:
    """Usual scores of this many images."""
    return USUAL_SCORE * _half_normal(images)


def kept_scores(scores: Sequence[Floats]) -> tuple[float, ...]:
    """All scores sorted; a long list is thinned evenly."""
    together = np.sort(np.concatenate(scores))
    return tuple(together[evenly(len(together), MOST_SCORES)].tolist())


def _half_normal(count: int) -> Floats:
    """Quantiles (count,) of the absolute value of a standard normal variable."""
    levels = (np.arange(count) + 0.5) / count
    return np.array([NormalDist().inv_cdf(0.5 + level / 2) for level in levels])
