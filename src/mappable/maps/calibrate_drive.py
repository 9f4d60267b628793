"""Fit what a map knows about whole drives, to images of known position in the order taken."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from scipy.optimize import isotonic_regression

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly
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
from mappable.maps.map import Map
from mappable.maps.odds import Odds
from mappable.maps.place_filter import Layout
from mappable.maps.steps import Steps

TRIED, A_CONDITION = 600, 400  # images at most that are looked at: in all, and of each condition that errors are of
CHANGED = 0.5  # of the way from near to far: how much another visit differs from one; this and what follows is a
# prior, chosen by the tables of scripts/real.py on all of its three sets: figures on these are not blind
SHARPNESS, CERTAINTY = 3.0, 10.0  # the usual one, and by how many images it is believed
HIDDEN = (0.0, 0.1, 0.25, 0.5, 0.7, 0.85)  # shares of the growth of feature distances within which landmarks are hidden
FEWEST = 15  # images that tell a sharpness, or that are a condition of their own
SHARPNESSES = tuple(np.geomspace(0.5, 10.0, 25).tolist())
USUAL_SCORE, BELIEVED = 1.15, 30  # deviation of scores, and by how many images it is believed
BELIEVED_SEEN = 20  # the same in conditions that calibration saw
EVEN, SLOPE, EXAMPLES = 3.0, 1.5, 10  # contrast of even odds to be on the map, their slope, and believed by how many
SURE = 0.85  # probability of the place
PLACE, APART = 1.5, 0.5  # radius of a place: spacings at least, and share of the growth of feature distances
BETWEEN, BLUR = 0.25, 0.05  # deviation of positions whose place is certain: spacings, and radii of a place
STRIDES = (1, 4)  # the images of calibration as drives: all, and thinned
KEPT, ENOUGH = 400, 50  # scores that are kept, and images at the right place that tell covariances
BLENDS = (0.0, 0.25, 0.5)  # how much a position is the mean of its place; the last where nothing tells
BENDS = (0.3, 1.0, 3.0)  # changes of velocity, in usual steps; the first where nothing tells
USUAL_CONTRAST = 0.25  # share of calibration images with less contrast than a drive in a condition that they saw
CLEAR = 1.5  # how much farther than where feature distances have mostly grown landmarks know nothing of an image


@dataclass(frozen=True)
class OneVisit:
    """How far along their visit images (n,) and landmarks (m,) were taken; those of other visits are far away."""

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
    """Fit to images (n, D) at positions (n, k), in the order taken.

    If they are of the `visit` of the landmarks, landmarks near each image are left out, until the next ones look as
    another visit would. `along` (m,) is how far along their visits landmarks were taken. `elsewhere` (e, D) are images
    that are not on the map. `between`, and the `temperature` of its points, refine positions. With several `conditions`
    (n,) each is left out in turn: this shows how wide intervals must be in a condition that calibration did not see.
    """
    given = landmarks, descriptors, positions, between.spacing
    model = _without_errors(*given, visit, along, elsewhere, false_accepts)
    if visit is not None:
        return model  # the visit of the landmarks is too easy: nothing about errors is learned from it
    layout = Layout(between.positions, between.spacing)
    ask = _Asked(landmarks, descriptors, positions, between, temperature, layout)
    groups = _groups(conditions, len(positions))
    drives = [_middle(own, max(TRIED // len(groups), A_CONDITION)) for own in groups]
    model = _with_errors(model, ask, drives)
    if len(groups) == 1:
        return model
    changed = []
    for own, drive in zip(groups, drives, strict=True):
        rest = np.setdiff1d(np.arange(len(positions)), own)
        other = _without_errors(
            landmarks, descriptors[rest], positions[rest], between.spacing, None, along, elsewhere, false_accepts
        )
        other = replace(other, blend=model.blend, bend=model.bend)
        changed += [one.surer for one in ask.errors(other, [drive])]
    return replace(model, scores=_kept([_prior_scores(BELIEVED), *changed]))


def _middle(rows: Ints, most: int) -> Ints:
    start = max(0, len(rows) - most) // 2
    return rows[start : start + most]


def _groups(conditions: Sequence[str] | None, count: int) -> list[Ints]:
    """Rows of each condition, if there are several, and each has enough images; else all rows."""
    if conditions is not None:
        named = np.array(conditions, dtype=str)
        groups = [np.flatnonzero(named == name) for name in dict.fromkeys(named.tolist())]
        groups = [own for own in groups if len(own) >= FEWEST]
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
    """The model, with a prior for what errors of other visits tell."""
    at = landmarks.places.positions
    steps = _steps(landmarks, descriptors, positions, visit, along)
    some = evenly(len(positions), TRIED)
    looks = look_at(landmarks.store, descriptors[some])
    rows = looks.rows
    away = np.linalg.norm(at[rows] - positions[some][:, None], axis=2)
    apart = away if visit is None else np.abs(visit.images[some][:, None] - visit.landmarks[rows])
    radius = max(PLACE * spacing, steps.reach(APART))
    changed = apart < steps.reach(CHANGED)
    hidden, gap = (np.zeros_like(changed), 0.0) if visit is None else (changed, steps.reach(CHANGED))
    if elsewhere is None:
        absent = _without(looks, hidden | (away <= gap + CLEAR * steps.reach(0.7)))
    else:
        absent = look_at(landmarks.store, elsewhere)
    seen = _without(looks, hidden).contrast
    allowed = [seen, _without(looks, changed).contrast] if elsewhere is None else [seen]
    ratios = first_to_second(absent, at, radius) if len(absent.rows) else np.ones(1)
    return DriveModel(
        images=len(positions),
        steps=steps,
        radius=radius,
        **_sharpness(looks, away, apart, steps, radius),
        presence=_presence(np.concatenate(allowed), absent.contrast),
        seen_presence=_presence(seen, absent.contrast),
        clear_ratio=float(np.quantile(ratios, false_accepts, method="lower")),
        sure=SURE,
        deviation=BETWEEN * spacing + BLUR * radius,
        blend=BLENDS[-1],
        bend=BENDS[0],
        covariance_factor=1.0,
        covariance_deviation=BETWEEN * spacing + BLUR * radius,
        scores=_kept([_prior_scores(BELIEVED)]),
        seen_scores=(),
        usual_contrast=0.0,
    )


def _steps(
    landmarks: Map, descriptors: Floats32, positions: Floats, visit: OneVisit | None, along: Floats | None
) -> Steps:
    """Steps along visits: of images and landmarks together, or of either alone, whichever tells shorter steps."""
    if visit is None:
        plain = Steps.fit(descriptors, positions)
        finer = None if along is None else _steps_along(landmarks, along)
        return finer if finer is not None and finer.metres[1] < plain.metres[1] else plain
    taken, first = np.unique(np.concatenate([visit.images, visit.landmarks]), return_index=True)
    rows = first[evenly(len(taken), 2 * TRIED)]
    images, others = rows[rows < len(positions)], rows[rows >= len(positions)] - len(positions)
    described = np.concatenate([descriptors[images], landmarks.store.take(others)])
    at = np.concatenate([positions[images], landmarks.places.positions[others]])
    order = np.argsort(np.concatenate([visit.images[images], visit.landmarks[others]]), kind="stable")
    return Steps.fit(described[order], at[order])


def _steps_along(landmarks: Map, along: Floats) -> Steps | None:
    order = np.argsort(along, kind="stable")[evenly(len(along), 2 * TRIED)]
    try:
        return Steps.fit(landmarks.store.take(order), landmarks.places.positions[order])
    except UncalibratedError:  # too few landmarks
        return None


def _sharpness(looks: Looks, away: Floats, apart: Floats, steps: Steps, radius: float) -> dict[str, tuple[float, ...]]:
    """Sharpness by contrast: landmarks `apart` (n, c) from images by less and less are hidden, so contrast grows.

    Each is the sharpness that makes the right places likeliest, with a prior.
    """
    found = {}
    for share in HIDDEN:
        gap = steps.reach(share) if share else 0.0
        hidden, near = apart < gap, away <= gap + radius
        seen = np.flatnonzero((near & ~hidden).any(1))
        if len(seen) < FEWEST / 2:
            continue
        nearer = ((looks.usual[:, None] - looks.squared) / looks.deviation[:, None])[seen]
        nearer[hidden[seen]] = -np.inf
        found[float(np.median(nearer.max(1)))] = _sharpest(nearer, near[seen])
    if not found:
        return {"contrasts": (0.0,), "sharpness": (SHARPNESS,)}
    contrasts = sorted(found)
    rising = isotonic_regression([found[one] for one in contrasts]).x
    return {"contrasts": tuple(contrasts), "sharpness": tuple(rising.tolist())}


def _sharpest(nearer: Floats, near: Bools) -> float:
    best, found = -np.inf, SHARPNESS
    for sharpness in SHARPNESSES:
        logs = sharpness * nearer
        likely = np.exp(logs - logs.max(1, keepdims=True))
        right = (likely * near).sum(1) / likely.sum(1)
        prior = CERTAINTY * np.square(np.log(sharpness / SHARPNESS))
        score = float(np.log((1 - BLIND) * right + BLIND * near.mean()).sum() - prior)
        if score > best:
            best, found = score, sharpness
    return found


def _presence(here: Floats, absent: Floats) -> Odds:
    """The odds that an image is on the map: by contrasts of images that are, and of others that are not."""
    usual = EVEN + np.linspace(-2, 2, EXAMPLES) * 2 / SLOPE
    chance = 1 / (1 + np.exp(-SLOPE * (usual - EVEN)))
    numbers = np.concatenate([here, absent, usual, usual])
    holds = np.concatenate([np.ones(len(here)), np.zeros(len(absent)), np.ones(EXAMPLES), np.zeros(EXAMPLES)])
    weights = np.concatenate(
        [np.full(len(here), 1.0), np.full(len(absent), len(here) / max(1, len(absent))), chance, 1 - chance]
    )
    return Odds.fit(numbers[:, None], holds.astype(bool), weights=weights)


def _without(looks: Looks, hidden: Bools) -> Looks:
    """The same images, without the `hidden` (n, c) landmarks; images that keep none are left out."""
    kept = np.flatnonzero(~hidden.all(1))
    count = int((~hidden[kept]).sum(1).min()) if len(kept) else 0
    squared = np.where(hidden[kept], np.inf, looks.squared[kept])
    order = np.argsort(squared, axis=1, kind="stable")[:, :count]
    rows, squared = (np.take_along_axis(one, order, 1) for one in (looks.rows[kept], squared))
    return Looks(rows, squared, looks.usual[kept], looks.deviation[kept])


@dataclass(frozen=True)
class _Errors:
    """Of the images (n,) of one drive: scores, their deviations, and of those at the right place errors and spreads."""

    scores: Floats
    deviations: Floats
    off: Floats  # (n, k) of all images
    right: Bools
    spread: Floats  # (n, k, k)

    @property
    def surer(self) -> Floats:
        """The scores of the surer half: the others are covered anyway, and would make intervals narrow."""
        return self.scores[self.deviations <= np.median(self.deviations)]


@dataclass(frozen=True)
class _Asked:
    """Images (n, D) of other visits than the landmarks', at positions (n, k), and what it takes to locate them."""

    landmarks: Map
    descriptors: Floats32
    positions: Floats
    between: Between
    temperature: float
    layout: Layout

    def errors(self, model: DriveModel, drives: Sequence[Ints]) -> list[_Errors]:
        """Errors along drives (rows each): each drive whole, and thinned."""
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

    def choose(self, model: DriveModel, drives: Sequence[Ints]) -> DriveModel:
        """The model with the blend and the bend that bring images closest to where they are."""
        thinned = [drive[::stride] for drive in drives for stride in STRIDES]
        found = [(drive, *self.followed(model, drive)) for drive in thinned]

        def median(choice: DriveModel) -> float:
            offs = [self._errors(choice, *one).off for one in found]
            return float(np.median(np.linalg.norm(np.concatenate(offs), axis=1)))

        return min((replace(model, blend=blend, bend=bend) for bend in BENDS for blend in BLENDS), key=median)


def _with_errors(model: DriveModel, asked: _Asked, drives: Sequence[Ints]) -> DriveModel:
    """The model with errors along `drives`, beside the prior."""
    model = asked.choose(model, drives)
    errors = asked.errors(model, drives)
    surer = [one.surer for one in errors]
    contrast = look_at(asked.landmarks.store, asked.descriptors[np.concatenate(list(drives))]).contrast
    model = replace(
        model,
        scores=_kept([_prior_scores(BELIEVED), *surer]),
        seen_scores=_kept([_prior_scores(BELIEVED_SEEN), *surer]),
        usual_contrast=float(np.quantile(contrast, USUAL_CONTRAST)),
    )
    off, spread = (np.concatenate([getattr(one, name)[one.right] for one in errors]) for name in ("off", "spread"))
    if len(off) < ENOUGH:
        return model
    factor, deviation = fit_deviations(spread, off)
    return replace(model, covariance_factor=factor, covariance_deviation=deviation)


def _prior_scores(images: int) -> Floats:
    return USUAL_SCORE * _half_normal(images)


def _kept(scores: Sequence[Floats]) -> tuple[float, ...]:
    """Scores in order; of many, some evenly."""
    together = np.sort(np.concatenate(scores))
    return tuple(together[evenly(len(together), KEPT)].tolist())


def _half_normal(count: int) -> Floats:
    """Quantiles (count,) of the absolute value of a normal number."""
    levels = (np.arange(count) + 0.5) / count
    return np.array([NormalDist().inv_cdf(0.5 + level / 2) for level in levels])
