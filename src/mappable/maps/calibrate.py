"""Fitting a calibration to images of known position."""

from dataclasses import replace
from math import log

import numpy as np
from scipy.optimize import isotonic_regression, minimize
from scipy.spatial import KDTree

from mappable.arrays import Floats, Ints
from mappable.errors import BadInputError
from mappable.maps.between import Between, find
from mappable.maps.calibration import SURE, Calibration, Look, Source, between_of, look
from mappable.maps.evidence import weigh
from mappable.maps.map import Map
from mappable.maps.odds import Odds
from mappable.maps.response import Response
from mappable.maps.spread import Spread
from mappable.maps.store import Floats32, squared_between

FEWEST = 100  # images
SAMPLE = 512  # landmarks whose distances to all images are looked at
PAIRED = 1000  # images of which every two are a pair
NEIGHBOURS = 64  # landmarks that are looked at for one image, at least
CLEAR = 1.5  # reaches: landmarks that far from an image know nothing of it
TEMPERATURES = (0.0125, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2)  # of the way from floor to plateau
TRIED = 1000  # images by which the temperature is chosen
TRIMMED = 0.05  # share of the worst positions that do not count for the covariance
WINDOW = 200  # pairs of like feature distance that are judged together
LOST = 0.2  # share of pairs out of reach from which on feature distances tell no range


def calibrate(
    landmarks: Map,
    descriptors: Floats32,
    positions: Floats,
    *,
    source: Source = "calibration",
    coverage: float = 0.9,
    false_accepts: float = 0.05,
    elsewhere: Floats32 | None = None,
) -> Calibration:
    """Measure what feature distances mean on images at known positions (n, k), none of which is a landmark.

    `source` says which split they are of: on images that the encoder was trained on intervals come out too narrow.
    `elsewhere` (e, D) are descriptors of images that are not on the map; they set the threshold of rejection to a share
    of `false_accepts`. Without them each image stands for one from elsewhere once, the landmarks near it left out.
    """
    _check(landmarks, descriptors, positions, coverage, false_accepts)
    at = landmarks.places.positions
    response = Response.fit(*_pairs(landmarks, descriptors, positions))
    crowd = KDTree(at).query_ball_point(at, response.reach, return_length=True).mean()
    neighbours = min(len(at), max(NEIGHBOURS, int(4 * crowd)))
    rows, squared = landmarks.store.nearest(descriptors, min(len(at), 4 * neighbours))
    between = between_of(landmarks, response)
    truly = np.linalg.norm(at[rows[:, 0]] - positions, axis=1)
    right = truly <= response.reach
    if np.count_nonzero(right) < FEWEST / 2:
        raise BadInputError(
            f"of {len(positions):,} images to calibrate by, only {np.count_nonzero(right):,} have a nearest landmark "
            f"within {response.reach:.1f} {landmarks.unit}: the map, or the encoder, does not tell places apart"
        )
    temperature = _temperature(between, rows[right], squared[right], positions[right], response)
    found = find(between, rows[:, 0], rows, squared, temperature)
    factor, deviation = _deviations(found.spread[right], (found.position - positions)[right])
    evidence = weigh(at, rows, squared, response.reach)
    place = Odds.fit((evidence.rival_squared - found.matched)[:, None], right, even_at_zero=True)
    plain = float(np.sqrt(np.square(truly[right]).mean() / at.shape[1]))
    feature = np.sqrt(evidence.nearest)
    pairs, pairs_valid = _between_images(descriptors, positions, response.reach)
    retrieved = Spread.fit(feature, truly)
    draft = Calibration(
        source=source,
        images=len(positions),
        coverage=coverage,
        false_accepts=false_accepts,
        elsewhere=0 if elsewhere is None else len(elsewhere),
        landmarks=len(at),
        spacing=between.spacing,
        neighbours=neighbours,
        response=response,
        temperature=temperature,
        spread_factor=factor,
        deviation=deviation,
        plain_deviation=plain,
        presence=Odds(0.0, (0.0, 0.0)),
        background=float(np.median(evidence.background[right])),
        threshold=0.0,
        place=place,
        confident=retrieved,
        doubtful=retrieved,
        retrieved=retrieved,
        pairs=pairs,
        pairs_valid=pairs_valid,
    )
    here = look(at, between, rows, squared, draft)
    left_out = _presence(_left_out(at, between, rows, squared, positions, here, draft))
    numbers = np.concatenate([_presence(here)[right], left_out])
    presence = Odds.fit(numbers, np.arange(len(numbers)) < np.count_nonzero(right))
    absent = left_out
    if elsewhere is not None:
        absent = _presence(look(at, between, *landmarks.store.nearest(elsewhere, neighbours), draft))
    threshold = float(np.quantile(presence.log(absent), 1 - false_accepts))
    draft = replace(draft, presence=presence, threshold=threshold)
    here = look(at, between, rows, squared, draft)
    sure, beyond = here.confident(draft), truly - here.metres
    every = np.ones_like(sure)  # takes the place of a group that is too small
    groups = [which if np.count_nonzero(which) >= FEWEST / 2 else every for which in (sure, ~sure)]
    confident, doubtful = (Spread.fit(feature[which], beyond[which]) for which in groups)
    return replace(draft, confident=confident, doubtful=doubtful)


def _check(landmarks: Map, descriptors: Floats32, positions: Floats, coverage: float, false_accepts: float) -> None:
    for name, value in (("coverage", coverage), ("false_accepts", false_accepts)):
        if not 0 < value < 1:
            raise BadInputError(f"{name} is {value}, but must be between 0 and 1")
    if positions.shape != (len(descriptors), landmarks.places.positions.shape[1]):
        raise BadInputError(f"there are {len(descriptors):,} descriptors, but positions of shape {positions.shape}")
    if len(descriptors) < FEWEST:
        raise BadInputError(f"{len(descriptors):,} images are too few to calibrate by; {FEWEST} would do")


def _pairs(landmarks: Map, descriptors: Floats32, positions: Floats) -> tuple[Floats, Floats]:
    """Squared feature distances and metres of all images and some landmarks."""
    some = np.unique(np.linspace(0, len(landmarks.places) - 1, SAMPLE).astype(np.int64))
    squared = squared_between(descriptors, landmarks.store.take(some))
    metres = np.linalg.norm(positions[:, None] - landmarks.places.positions[some], axis=2)
    return squared.ravel().astype(np.float64), metres.ravel()


def _temperature(between: Between, rows: Ints, squared: Floats32, positions: Floats, response: Response) -> float:
    """That which brings images closest to where they are."""
    some = np.unique(np.linspace(0, len(rows) - 1, TRIED).astype(np.int64))
    errors = []
    choices = [share * (response.plateau - response.floor) for share in TEMPERATURES]
    for temperature in choices:
        found = find(between, rows[some, 0], rows[some], squared[some], temperature)
        errors.append(np.linalg.norm(found.position - positions[some], axis=1).mean())
    return choices[int(np.argmin(errors))]


def _deviations(spread: Floats, off: Floats) -> tuple[float, float]:
    """The factor and the deviation that make `off` (n, k) likeliest, the worst left out, as covariances' size."""
    k = off.shape[1]
    length = np.linalg.norm(off, axis=1)
    kept = length <= np.quantile(length, 1 - TRIMMED)
    values, axes = np.linalg.eigh(spread[kept])
    along = np.square(np.einsum("nij,ni->nj", axes, off[kept]))
    start = log(np.square(off[kept]).mean() + 1e-12)

    def cost(parameters: Floats) -> float:
        variance = np.exp(parameters[0]) * np.maximum(values, 0.0) + np.exp(parameters[1])
        return float((np.log(variance) + along / variance).sum() / (k * len(along)))

    found = minimize(cost, [0.0, start], method="L-BFGS-B", bounds=[(-7.0, 5.0), (start - 10, start + 3)]).x
    return float(np.exp(found[0])), float(np.exp(0.5 * found[1]))


def _left_out(
    at: Floats, between: Between, rows: Ints, squared: Floats32, positions: Floats, here: Look, draft: Calibration
) -> Look:
    """Images as if from elsewhere: those of places that look like no other, without the landmarks near them."""
    far = np.linalg.norm(at[rows] - positions[:, None], axis=2) > CLEAR * draft.response.reach
    kept = far.any(1) & (here.place >= SURE)
    if np.count_nonzero(kept) < FEWEST / 2:
        raise BadInputError(
            "the map is too small to tell how images from elsewhere look in it: give some that are not on the map"
        )
    return look(at, between, rows[kept], squared[kept], draft, allowed=far[kept])


def _presence(seen: Look) -> Floats:
    return np.column_stack([seen.found.matched, seen.evidence.background])


def _between_images(descriptors: Floats32, positions: Floats, reach: float) -> tuple[Spread, float]:
    """Metres between two images within reach by feature distance, and up to which of these few are out of reach."""
    some = np.unique(np.linspace(0, len(positions) - 1, PAIRED).astype(np.int64))
    i, j = np.triu_indices(len(some), 1)
    feature = np.sqrt(squared_between(descriptors[some], descriptors[some])[i, j]).astype(np.float64)
    metres = np.linalg.norm(positions[some[i]] - positions[some[j]], axis=1)
    order = np.argsort(feature, kind="stable")
    feature, metres = feature[order], metres[order]
    windows = np.array_split(np.arange(len(order)), max(1, len(order) // WINDOW))
    lost = isotonic_regression([float((metres[rows] > reach).mean()) for rows in windows]).x
    last = windows[max(int(np.searchsorted(lost, LOST, side="right")) - 1, 0)][-1]
    kept = np.flatnonzero(metres[: last + 1] <= reach)
    if not len(kept):
        raise BadInputError("no two images to calibrate by are of one place: their ranges cannot be calibrated")
    return Spread.fit(feature[kept], metres[kept]), float(feature[last])
