"""Fit the model of drives to images of known position, in the order in which they were taken."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import isotonic_regression

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly
from mappable.maps.between import Between
from mappable.maps.drive_errors import (
    BEND_CHOICES,
    BLEND_CHOICES,
    SCORE_WEIGHT,
    Queries,
    kept_scores,
    middle_of,
    prior_scores,
    with_errors,
)
from mappable.maps.drive_model import BLIND, DriveModel
from mappable.maps.errors import UncalibratedError
from mappable.maps.looks import Looks, first_to_second, look_at
from mappable.maps.map import Map
from mappable.maps.odds import Odds
from mappable.maps.place_filter import Layout
from mappable.maps.steps import Steps

MOST_FITTED = 600  # largest number of images that the model is fitted to
MOST_PER_CONDITION = 400  # largest number of images per condition that errors are measured on, if there are several

# The constants from here on were chosen by the tables of studies/drives, on all three of its data sets. So figures
# on these sets are not blind. Most of the constants are priors.
VISIT_CHANGE = 0.5  # how much another visit differs, as a share of the growth of feature distances along one visit
SHARPNESS, SHARPNESS_WEIGHT = 3.0, 10.0  # usual sharpness, and weight of this prior in images
HIDDEN_SHARES = (0.0, 0.1, 0.25, 0.5, 0.7, 0.85)  # landmarks are hidden up to these shares of the growth
SHARPNESS_CHOICES = tuple(np.geomspace(0.5, 10.0, 25).tolist())
EVEN_CONTRAST, CONTRAST_SLOPE = 3.0, 1.5  # contrast at even odds of being on the map, and slope of the log odds
PRESENCE_WEIGHT = 10  # weight of this prior, in images
SURE_PROBABILITY = 0.85  # an image of a drive is confident if its place has at least this probability
LEAST_RADIUS = 1.5  # smallest radius of a place, in spacings of the landmarks
RADIUS_GROWTH = 0.5  # a place extends to this share of the growth of feature distances
# Standard deviation of a position whose place is certain: the sum of a part of the spacing and a part of the radius.
POSITION_SPACINGS, POSITION_RADII = 0.25, 0.05
FEWEST_IMAGES = 15  # smallest number of images for a condition of its own; half of it is enough to fit a sharpness
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
    yaw: Floats | None = None,
    false_accepts: float = 0.05,
) -> DriveModel:
    """Fit the model to images (n, D) at positions (n, k), in the order taken.

    `visit` is given if images and landmarks come from the same visit. Landmarks near each image are then hidden, so
    that the remaining ones look as different as another visit would. `along` (m,) is the path length at which
    landmarks were taken. `elsewhere` (e, D) are images that are not on the map. `between` and the `temperature` of
    its points refine positions. With several `conditions` (n,), each is left out in turn. This shows how wide
    intervals must be in a condition that calibration did not see. `yaw` (n,) are the headings, NaN if unknown.
    """
    yaw = np.full(len(positions), np.nan) if yaw is None else yaw
    given = landmarks, descriptors, positions, yaw, between.spacing
    model = _without_errors(*given, visit, along, elsewhere, false_accepts)
    if visit is not None:
        return model  # errors on the landmarks' own visit are too small to learn from
    layout = Layout(between.positions, between.spacing)
    queries = Queries(landmarks, descriptors, positions, yaw, between, temperature, layout)
    groups = _groups(conditions, len(positions))
    drives = [middle_of(own, max(MOST_FITTED // len(groups), MOST_PER_CONDITION)) for own in groups]
    model = with_errors(model, queries, drives)
    if len(groups) == 1:
        return model
    changed = []
    for own, drive in zip(groups, drives, strict=True):
        rest = np.setdiff1d(np.arange(len(positions)), own)
        other = _without_errors(
            landmarks,
            descriptors[rest],
            positions[rest],
            yaw[rest],
            between.spacing,
            None,
            along,
            elsewhere,
            false_accepts,
        )
        other = replace(other, blend=model.blend, bend=model.bend)
        changed += [one.surer for one in queries.errors(other, [drive])]
    return replace(model, scores=kept_scores([prior_scores(SCORE_WEIGHT), *changed]))


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
    yaw: Floats,
    spacing: float,
    visit: OneVisit | None,
    along: Floats | None,
    elsewhere: Floats32 | None,
    false_accepts: float,
) -> DriveModel:
    """The model with priors for everything that only errors on other visits can show."""
    at = landmarks.places.positions
    steps = _steps(landmarks, descriptors, positions, yaw, visit, along)
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
        scores=kept_scores([prior_scores(SCORE_WEIGHT)]),
        seen_scores=(),
        usual_contrast=0.0,
    )


def _steps(
    landmarks: Map,
    descriptors: Floats32,
    positions: Floats,
    yaw: Floats,
    visit: OneVisit | None,
    along: Floats | None,
) -> Steps:
    """Fit steps along visits: to images and landmarks of one visit, or to whichever of the two has shorter steps."""
    if visit is None:
        plain = Steps.fit(descriptors, positions, yaw)
        finer = None if along is None else _steps_along(landmarks, along)
        return finer if finer is not None and finer.metres[1] < plain.metres[1] else plain
    taken, first = np.unique(np.concatenate([visit.images, visit.landmarks]), return_index=True)
    rows = first[evenly(len(taken), 2 * MOST_FITTED)]
    images, others = rows[rows < len(positions)], rows[rows >= len(positions)] - len(positions)
    described = np.concatenate([descriptors[images], landmarks.store.take(others)])
    at = np.concatenate([positions[images], landmarks.places.positions[others]])
    turned = np.concatenate([yaw[images], landmarks.places.yaw[others]])
    order = np.argsort(np.concatenate([visit.images[images], visit.landmarks[others]]), kind="stable")
    return Steps.fit(described[order], at[order], turned[order])


def _steps_along(landmarks: Map, along: Floats) -> Steps | None:
    order = np.argsort(along, kind="stable")[evenly(len(along), 2 * MOST_FITTED)]
    try:
        return Steps.fit(landmarks.store.take(order), landmarks.places.positions[order], landmarks.places.yaw[order])
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
