"""Fit the model of drives to images of known position, in the order in which they were taken."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from scipy.optimize import isotonic_regression

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly, path_length
from mappable.maps.between import Between
from mappable.maps.deviations import fit_deviations
from mappable.maps.drive_model import (
    BLIND,
    DriveModel,
    Followed,
    Looks,
    coordinates_of,
    deviations_of,
    find_places,
    first_to_second,
    follow,
    look_at,
)
from mappable.maps.errors import UncalibratedError
from mappable.maps.live_errors import TrackedErrors, carried_factor, fit_live
from mappable.maps.map import Map
from mappable.maps.odds import Odds
from mappable.maps.place_filter import Layout, Motion
from mappable.maps.steps import Steps
from mappable.maps.tracking import LIVE_SURE, ODOMETRY_ERROR, Tracked, Tracker

MOST_FITTED = 600  # largest number of images that the model is fitted to
MOST_TRACKED = 300  # largest number of images per condition that a camera is tracked on
RESTART = 50  # number of images after which it starts again, because the first images of a drive err more
MOST_PER_CONDITION = 400  # largest number of images per condition that errors are measured on, if there are several

# The constants from here on were chosen by the tables of scripts/real.py, on all three of its data sets. So figures
# on these sets are not blind. Most of the constants are priors.
VISIT_CHANGE = 0.5  # how much another visit differs, as a share of the growth of feature distances along one visit
SHARPNESS, SHARPNESS_WEIGHT = 3.0, 10.0  # usual sharpness, and weight of this prior in images
HIDDEN_SHARES = (0.0, 0.1, 0.25, 0.5, 0.7, 0.85)  # landmarks are hidden up to these shares of the growth
SHARPNESS_CHOICES = tuple(np.geomspace(0.5, 10.0, 25).tolist())
USUAL_SCORE, SCORE_WEIGHT = 1.15, 30  # usual standard deviation of scores, and weight of this prior in images
SEEN_SCORE_WEIGHT = 20  # the same weight, in conditions that calibration saw
EVEN_CONTRAST, CONTRAST_SLOPE = 3.0, 1.5  # contrast at even odds of being on the map, and slope of the log odds
PRESENCE_WEIGHT = 10  # weight of this prior, in images
SURE_PROBABILITY = 0.85  # an image of a drive is confident if its place has at least this probability
LEAST_RADIUS = 1.5  # smallest radius of a place, in spacings of the landmarks
RADIUS_GROWTH = 0.5  # a place extends to this share of the growth of feature distances
# Standard deviation of a position whose place is certain: the sum of a part of the spacing and a part of the radius.
POSITION_SPACINGS, POSITION_RADII = 0.25, 0.05
BLEND_CHOICES = (0.0, 0.25, 0.5)  # choices of `DriveModel.blend`; the last one is the default
BEND_CHOICES = (0.3, 1.0, 3.0)  # choices of `DriveModel.bend`, in usual steps; the first one is the default
# A drive is in a condition that calibration saw if its median contrast exceeds this quantile of calibration's.
USUAL_CONTRAST = 0.25
FEWEST_IMAGES = 15  # smallest number of images for a condition of its own; half of it is enough to fit a sharpness
MOST_SCORES = 400  # largest number of scores that the map keeps
ENOUGH_FOR_COVARIANCE = 50  # smallest number of images at the right place that covariances are fitted to
STRIDES = (1, 4)  # drives made of the calibration images: every image, and every fourth
UNRELATED = 1.5  # factor for the distance at which feature distances have mostly grown; landmarks beyond are unrelated


@dataclass(frozen=True)
class OneVisit:
    """Path lengths at which images (n,) and landmarks (m,) were taken; other visits are far away."""

    images: Floats
    landmarks: Floats


def fit_drive(
    landmarks: Map,
    descriptors: Floats32,
    positions: Floats,
    between: Between,
    temperature: float,
    *,
    visit: OneVisit | None = None,
    along: Floats | None = None,
    elsewhere: Floats32 | None = None,
    conditions: Sequence[str] | None = None,
    false_accepts: float = 0.05,
) -> DriveModel:
    """Fit the model to images (n, D) at positions (n, k), in the order taken.

    `visit` is given if images and landmarks come from the same visit. Landmarks near each image are then hidden, so
    that the remaining ones look as different as another visit would. `along` (m,) is the path length at which
    landmarks were taken. `elsewhere` (e, D) are images that are not on the map. `between` and the `temperature` of
    its points refine positions. With several `conditions` (n,), each is left out in turn. This shows how wide
    intervals must be in a condition that calibration did not see.
    """
    given = landmarks, descriptors, positions, between.spacing
    model = _without_errors(*given, visit, along, elsewhere, false_accepts)
    if visit is not None:
        return model  # errors on the landmarks' own visit are too small to learn from
    layout = Layout(between.positions, between.spacing)
    queries = _Queries(landmarks, descriptors, positions, between, temperature, layout)
    groups = _groups(conditions, len(positions))
    drives = [_middle(own, max(MOST_FITTED // len(groups), MOST_PER_CONDITION)) for own in groups]
    model = _with_errors(model, queries, drives)
    if len(groups) == 1:
        return model
    changed = []
    for own, drive in zip(groups, drives, strict=True):
        rest = np.setdiff1d(np.arange(len(positions)), own)
        other = _without_errors(
            landmarks, descriptors[rest], positions[rest], between.spacing, None, along, elsewhere, false_accepts
        )
        other = replace(other, blend=model.blend, bend=model.bend)
        changed += [one.surer for one in queries.errors(other, [drive])]
    return replace(model, scores=_kept([_prior_scores(SCORE_WEIGHT), *changed]))


def _middle(rows: Ints, most: int) -> Ints:
    start = max(0, len(rows) - most) // 2
    return rows[start : start + most]


def _groups(conditions: Sequence[str] | None, count: int) -> list[Ints]:
    """Rows of each condition that has enough images, if there are several; otherwise all rows in one group."""
    if conditions is not None:
        named = np.array(conditions, dtype=str)
        groups = [np.flatnonzero(named == name) for name in dict.fromkeys(named.tolist())]
        groups = [own for own in groups if len(own) >= FEWEST_IMAGES]
        if len(groups) > 1:
            return groups
    return [np.arange(count)]


def _without_errors(
    landmarks: Map,
    descriptors: Floats32,
    positions: Floats,
    spacing: float,
    visit: OneVisit | None,
    along: Floats | None,
    elsewhere: Floats32 | None,
    false_accepts: float,
) -> DriveModel:
    """The model with priors for everything that only errors on other visits can show."""
    at = landmarks.places.positions
    steps = _steps(landmarks, descriptors, positions, visit, along)
    some = evenly(len(positions), MOST_FITTED)
    looks = look_at(landmarks.store, descriptors[some])
    rows = looks.rows
    away = np.linalg.norm(at[rows] - positions[some][:, None], axis=2)
    apart = away if visit is None else np.abs(visit.images[some][:, None] - visit.landmarks[rows])
    radius = max(LEAST_RADIUS * spacing, steps.reach(RADIUS_GROWTH))
    changed = apart < steps.reach(VISIT_CHANGE)
    hidden, gap = (np.zeros_like(changed), 0.0) if visit is None else (changed, steps.reach(VISIT_CHANGE))
    if elsewhere is None:
        absent = _without(looks, hidden | (away <= gap + UNRELATED * steps.reach(0.7)))
    else:
        absent = look_at(landmarks.store, elsewhere)
    seen = _without(looks, hidden).contrast
    allowed = [seen, _without(looks, changed).contrast] if elsewhere is None else [seen]
    ratios = first_to_second(absent, at, radius) if len(absent.rows) else np.zeros(1)
    contrasts, sharpness = _sharpness(looks, away, apart, steps, radius)
    return DriveModel(
        images=len(positions),
        steps=steps,
        radius=radius,
        contrasts=contrasts,
        sharpness=sharpness,
        presence=_presence(np.concatenate(allowed), absent.contrast),
        seen_presence=_presence(seen, absent.contrast),
        clear_ratio=float(np.quantile(ratios, false_accepts, method="lower")),
        sure=SURE_PROBABILITY,
        deviation=POSITION_SPACINGS * spacing + POSITION_RADII * radius,
        blend=BLEND_CHOICES[-1],
        bend=BEND_CHOICES[0],
        covariance_factor=1.0,
        covariance_deviation=POSITION_SPACINGS * spacing + POSITION_RADII * radius,
        scores=_kept([_prior_scores(SCORE_WEIGHT)]),
        seen_scores=(),
        usual_contrast=0.0,
    )


def _steps(
    landmarks: Map, descriptors: Floats32, positions: Floats, visit: OneVisit | None, along: Floats | None
) -> Steps:
    """Fit steps along visits: to images and landmarks of one visit, or to whichever of the two has shorter steps."""
    if visit is None:
        plain = Steps.fit(descriptors, positions)
        finer = None if along is None else _steps_along(landmarks, along)
        return finer if finer is not None and finer.metres[1] < plain.metres[1] else plain
    taken, first = np.unique(np.concatenate([visit.images, visit.landmarks]), return_index=True)
    rows = first[evenly(len(taken), 2 * MOST_FITTED)]
    images, others = rows[rows < len(positions)], rows[rows >= len(positions)] - len(positions)
    described = np.concatenate([descriptors[images], landmarks.store.take(others)])
    at = np.concatenate([positions[images], landmarks.places.positions[others]])
    order = np.argsort(np.concatenate([visit.images[images], visit.landmarks[others]]), kind="stable")
    return Steps.fit(described[order], at[order])


def _steps_along(landmarks: Map, along: Floats) -> Steps | None:
    order = np.argsort(along, kind="stable")[evenly(len(along), 2 * MOST_FITTED)]
    try:
        return Steps.fit(landmarks.store.take(order), landmarks.places.positions[order])
    except UncalibratedError:  # too few landmarks
        return None


def _sharpness(
    looks: Looks, away: Floats, apart: Floats, steps: Steps, radius: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Fit the sharpness at several contrasts; return the contrasts and the sharpness at each.

    Landmarks closer than a limit to an image, by `apart` (n, c), are hidden. The smaller the limit, the higher the
    contrast. Each sharpness makes the right places likeliest, with a prior.
    """
    found = {}
    for share in HIDDEN_SHARES:
        gap = steps.reach(share) if share else 0.0
        hidden, near = apart < gap, away <= gap + radius
        seen = np.flatnonzero((near & ~hidden).any(1))
        if len(seen) < FEWEST_IMAGES / 2:
            continue
        nearer = ((looks.usual[:, None] - looks.squared) / looks.deviation[:, None])[seen]
        nearer[hidden[seen]] = -np.inf
        found[float(np.median(nearer.max(1)))] = _sharpest(nearer, near[seen])
    if not found:
        return (0.0,), (SHARPNESS,)
    contrasts = sorted(found)
    rising = isotonic_regression([found[one] for one in contrasts]).x
    return tuple(contrasts), tuple(rising.tolist())


def _sharpest(nearer: Floats, near: Bools) -> float:
    best, found = -np.inf, SHARPNESS
    for sharpness in SHARPNESS_CHOICES:
        logs = sharpness * nearer
        likely = np.exp(logs - logs.max(1, keepdims=True))
        right = (likely * near).sum(1) / likely.sum(1)
        prior = SHARPNESS_WEIGHT * np.square(np.log(sharpness / SHARPNESS))
        score = float(np.log((1 - BLIND) * right + BLIND * near.mean()).sum() - prior)
        if score > best:
            best, found = score, sharpness
    return found


def _presence(here: Floats, absent: Floats) -> Odds:
    """Fit the odds that an image is on the map, to contrasts of images on the map and of others."""
    usual = EVEN_CONTRAST + np.linspace(-2, 2, PRESENCE_WEIGHT) * 2 / CONTRAST_SLOPE
    chance = 1 / (1 + np.exp(-CONTRAST_SLOPE * (usual - EVEN_CONTRAST)))
    numbers = np.concatenate([here, absent, usual, usual])
    holds = np.concatenate(
        [np.ones(len(here)), np.zeros(len(absent)), np.ones(PRESENCE_WEIGHT), np.zeros(PRESENCE_WEIGHT)]
    )
    weights = np.concatenate(
        [np.full(len(here), 1.0), np.full(len(absent), len(here) / max(1, len(absent))), chance, 1 - chance]
    )
    return Odds.fit(numbers[:, None], holds.astype(bool), weights=weights)


def _without(looks: Looks, hidden: Bools) -> Looks:
    """The same images without the `hidden` (n, c) landmarks; images without any other landmark are dropped."""
    kept = np.flatnonzero(~hidden.all(1))
    count = int((~hidden[kept]).sum(1).min()) if len(kept) else 1
    squared = np.where(hidden[kept], np.inf, looks.squared[kept])
    order = np.argsort(squared, axis=1, kind="stable")[:, :count]
    rows, squared = (np.take_along_axis(one, order, 1) for one in (looks.rows[kept], squared))
    return Looks(rows, squared, looks.usual[kept], looks.deviation[kept])


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
class _Queries:
    """Images (n, D) at positions (n, k), of other visits than the landmarks', and what it takes to locate them."""

    landmarks: Map
    descriptors: Floats32
    positions: Floats
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
        for drive in (_middle(drive[::stride], MOST_TRACKED) for drive in drives for stride in STRIDES):
            tracker = Tracker(self.landmarks.store, self.layout, self.between, model, self.temperature)
            ways = np.diff(self.positions[drive], axis=0, prepend=self.positions[drive[:1]])
            for start in range(0, len(drive), RESTART):
                tracker.reset()
                some, own = drive[start : start + RESTART], ways[start : start + RESTART]
                moved = [_odometry(way, random) if carried else None for way in own]
                seen = [tracker.update(self.descriptors[row], one) for row, one in zip(some, moved, strict=True)]
                found.append(_tracked_errors(seen, self.positions[some], model.radius))
        return found

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


def _with_errors(model: DriveModel, queries: _Queries, drives: Sequence[Ints]) -> DriveModel:
    """The model fitted to errors along `drives`, together with the prior."""
    model = queries.choose(model, drives)
    errors = queries.errors(model, drives)
    surer = [one.surer for one in errors]
    contrast = look_at(queries.landmarks.store, queries.descriptors[np.concatenate(list(drives))]).contrast
    model = replace(
        model,
        scores=_kept([_prior_scores(SCORE_WEIGHT), *surer]),
        seen_scores=_kept([_prior_scores(SEEN_SCORE_WEIGHT), *surer]),
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
    carried = carried_factor(queries.tracked(replace(model, live=live), drives, carried=True))
    return replace(model, live=replace(live, carried=carried))


def _tracked_errors(seen: Sequence[Tracked], truth: Floats, radius: float) -> TrackedErrors:
    """Errors of the positions that are sure and right."""
    off = np.array([one.position for one in seen]) - truth
    right = (np.array([one.mass for one in seen]) >= LIVE_SURE) & (np.linalg.norm(off, axis=1) <= 2 * radius)
    return TrackedErrors(
        along=path_length(truth)[right],
        off=off[right],
        spread=np.array([one.found.covariance[0] for one in seen])[right],
        covariance=np.array([one.covariance for one in seen])[right],
        contrast=np.array([one.contrast for one in seen])[right],
    )


def _odometry(way: Floats, random: np.random.Generator) -> Motion:
    """Odometry with its usual error, for a way (k,) in the frame of the map."""
    error = ODOMETRY_ERROR * float(np.linalg.norm(way))
    forward, left = (way[:2] + error * random.standard_normal(2)).tolist()
    return Motion(forward, left, 0.0, error**2)


def _prior_scores(images: int) -> Floats:
    return USUAL_SCORE * _half_normal(images)


def _kept(scores: Sequence[Floats]) -> tuple[float, ...]:
    """All scores sorted; a long list is thinned evenly."""
    together = np.sort(np.concatenate(scores))
    return tuple(together[evenly(len(together), MOST_SCORES)].tolist())


def _half_normal(count: int) -> Floats:
    """Quantiles (count,) of the absolute value of a standard normal variable."""
    levels = (np.arange(count) + 0.5) / count
    return np.array([NormalDist().inv_cdf(0.5 + level / 2) for level in levels])
