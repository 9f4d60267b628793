"""Fit what a map knows about whole drives, to images of known position in the order taken."""

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from mappable.arrays import Bools, Floats, Floats32, evenly
from mappable.maps.between import Between
from mappable.maps.deviations import fit_deviations
from mappable.maps.drive_model import (
    BLIND,
    DriveModel,
    Looks,
    coordinates_of,
    deviations_of,
    find_places,
    follow,
    look_at,
)
from mappable.maps.errors import UncalibratedError
from mappable.maps.map import Map
from mappable.maps.odds import Odds
from mappable.maps.place_filter import Layout
from mappable.maps.steps import Steps

TRIED = 600  # images at most that are looked at
CHANGED = 0.5  # of the way from near to far: how much another visit differs from one; this and what follows is a
# prior, chosen by the tables of scripts/real.py on all of its three sets: figures on these are not blind
SHARPNESS, CERTAINTY = 3.0, 10.0  # the usual one, and by how many images it is believed
SHARPNESSES = tuple(np.geomspace(0.5, 10.0, 25).tolist())
USUAL_SCORE, BELIEVED = 1.15, 30  # deviation of scores, and by how many images it is believed
EVEN, SLOPE, EXAMPLES = 3.0, 1.5, 10  # contrast of even odds to be on the map, their slope, and believed by how many
SURE = 0.85  # probability of the place
PLACE, APART = 1.5, 0.5  # radius of a place: spacings at least, and share of the growth of feature distances
BETWEEN, BLUR = 0.25, 0.05  # deviation of positions whose place is certain: spacings, and radii of a place
STRIDES = (1, 4)  # the images of calibration as drives: all, and thinned
KEPT, ENOUGH = 400, 50  # scores that are kept, and images at the right place that tell covariances
BLENDS = (0.0, 0.25, 0.5)  # how much a position is the mean of its place; the last where nothing tells
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
) -> DriveModel:
    """Fit to images (n, D) at positions (n, k), in the order taken.

    Where they are of the `visit` of the landmarks, the landmarks near each are left out, until the next ones look as
    another visit would. `along` (m,) is how far along their visits landmarks were taken. `elsewhere` (e, D) are images
    that are not on the map. `between`, and the `temperature` of its points, refine positions.
    """
    spacing = between.spacing
    at = landmarks.places.positions
    steps = _steps(landmarks, descriptors, positions, visit, along)
    some = evenly(len(positions), TRIED)
    looks = look_at(landmarks.store, descriptors[some])
    rows = looks.rows
    away = np.linalg.norm(at[rows] - positions[some][:, None], axis=2)
    radius = max(PLACE * spacing, steps.reach(APART))
    hidden, gap = np.zeros(rows.shape, dtype=bool), 0.0
    if visit is not None:
        gap = steps.reach(CHANGED)
        hidden = np.abs(visit.images[some][:, None] - visit.landmarks[rows]) < gap
    draft = DriveModel(
        images=len(positions),
        steps=steps,
        radius=radius,
        sharpness=_sharpness(looks, away <= gap + radius, hidden),
        presence=_presence(landmarks, looks, away, hidden, gap + CLEAR * steps.reach(0.7), elsewhere),
        sure=SURE,
        deviation=BETWEEN * spacing + BLUR * radius,
        blend=BLENDS[-1],
        covariance_factor=1.0,
        covariance_deviation=BETWEEN * spacing + BLUR * radius,
        scores=tuple((USUAL_SCORE * _half_normal(BELIEVED)).tolist()),
    )
    if visit is not None:
        return draft  # the visit of the landmarks is too easy: nothing about errors is learned from it
    return _with_errors(draft, landmarks, descriptors, positions, between, temperature)


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


def _sharpness(looks: Looks, near: Bools, hidden: Bools) -> float:
    """That which makes the right places likeliest, with a prior."""
    seen = np.flatnonzero((near & ~hidden).any(1))
    nearer = ((looks.usual[:, None] - looks.squared) / looks.deviation[:, None])[seen]
    best, found = -np.inf, SHARPNESS
    for sharpness in SHARPNESSES:
        logs = np.where(hidden[seen], -np.inf, sharpness * nearer)
        likely = np.exp(logs - logs.max(1, keepdims=True))
        right = (likely * near[seen]).sum(1) / likely.sum(1)
        prior = CERTAINTY * np.square(np.log(sharpness / SHARPNESS))
        score = float(np.log((1 - BLIND) * right + BLIND * near[seen].mean()).sum() - prior)
        if score > best:
            best, found = score, sharpness
    return found


def _presence(
    landmarks: Map, looks: Looks, away: Floats, hidden: Bools, clear: float, elsewhere: Floats32 | None
) -> Odds:
    """The odds that an image is on the map, by its contrast: images as they are, beside those without their place."""

    def contrast(without: Bools) -> Floats:
        kept = ~without
        nearest = looks.squared[np.arange(len(kept)), kept.argmax(1)]
        found: Floats = ((looks.usual - nearest) / looks.deviation)[kept.any(1)]
        return found

    here = contrast(hidden)
    without = contrast(hidden | (away <= clear))
    absent = without if elsewhere is None else look_at(landmarks.store, elsewhere).contrast
    usual = EVEN + np.linspace(-2, 2, EXAMPLES) * 2 / SLOPE
    chance = 1 / (1 + np.exp(-SLOPE * (usual - EVEN)))
    numbers = np.concatenate([here, absent, usual, usual])
    holds = np.concatenate([np.ones(len(here)), np.zeros(len(absent)), np.ones(EXAMPLES), np.zeros(EXAMPLES)])
    weights = np.concatenate(
        [np.full(len(here), 1.0), np.full(len(absent), len(here) / max(1, len(absent))), chance, 1 - chance]
    )
    return Odds.fit(numbers[:, None], holds.astype(bool), weights=weights)


def _with_errors(
    model: DriveModel,
    landmarks: Map,
    descriptors: Floats32,
    positions: Floats,
    between: Between,
    temperature: float,
) -> DriveModel:
    """The model with errors of images of other visits than the landmarks', as a drive and thinned; beside the prior."""
    start = max(0, len(positions) - TRIED) // 2
    drive = np.arange(start, min(len(positions), start + TRIED))
    layout = Layout(between.positions, between.spacing)
    drives, found = [drive[::stride] for stride in STRIDES], []
    for own in drives:
        looks = look_at(landmarks.store, descriptors[own])
        followed = follow(model, layout, looks, descriptors[own])
        found.append((looks, find_places(followed.beliefs, layout.positions, model.radius), followed))

    def off(blend: float) -> list[Floats]:
        blended = replace(model, blend=blend)
        return [
            coordinates_of(blended, between, temperature, looks, places, followed) - positions[own]
            for own, (looks, places, followed) in zip(drives, found, strict=True)
        ]

    blend = min(BLENDS, key=lambda one: np.median(np.linalg.norm(np.concatenate(off(one)), axis=1)))
    offs, scores, spreads = off(blend), [np.array(model.scores)], []
    for number, (own, (_, places, followed)) in enumerate(zip(drives, found, strict=True)):
        at = layout.positions[places.landmark]
        truly = np.linalg.norm(at - positions[own], axis=1)
        stated = np.linalg.norm(at - positions[own] - offs[number], axis=1)
        deviations = deviations_of(model, places, followed)
        surer = deviations <= np.median(deviations)  # the others are covered anyway, and would make intervals narrow
        scores.append((np.abs(truly - stated) / deviations)[surer])
        right = truly <= model.radius
        spreads.append(places.covariance[right])
        offs[number] = offs[number][right]
    together = np.sort(np.concatenate(scores))
    made = replace(model, blend=blend, scores=tuple(together[evenly(len(together), KEPT)].tolist()))
    errors = np.concatenate(offs)
    if len(errors) < ENOUGH:
        return made
    factor, deviation = fit_deviations(np.concatenate(spreads), errors)
    return replace(made, covariance_factor=factor, covariance_deviation=deviation)


def _half_normal(count: int) -> Floats:
    """Quantiles (count,) of the absolute value of a normal number."""
    levels = (np.arange(count) + 0.5) / count
    return np.array([NormalDist().inv_cdf(0.5 + level / 2) for level in levels])
