"""Fitting a calibration to images of known position."""

from dataclasses import replace
from math import log

import numpy as np
from scipy.optimize import isotonic_regression, minimize
from scipy.spatial import KDTree

from mappable.arrays import Floats, Floats32, Ints, evenly
from mappable.errors import BadInputError
from mappable.maps.between import Between, interpolate, spacing_of
from mappable.maps.calibration import SURE, Calibration, Look, Source, between_of, look, neighbours_of
from mappable.maps.conformal import in_folds
from mappable.maps.errors import UncalibratedError
from mappable.maps.evidence import gather_evidence
from mappable.maps.map import Map
from mappable.maps.odds import Odds
from mappable.maps.response import Response
from mappable.maps.spread import Spread
from mappable.maps.store import squared_between

FEWEST = 100  # images
SAMPLE = 512  # landmarks, and the nearest to each image, whose distances are looked at
NEAREST, BLOCK = 16, 64  # landmarks near an image; images at a time
PAIRED = 700  # images of one stretch, and as many of all of it, of which every two are a pair
PAIRS = 20_000  # of these pairs at most, of all feature distances, by which metres between images are known
BESIDE = 0.02  # reaches: landmarks no farther apart are at one place
CLEAR = 1.5  # reaches: landmarks that far from an image know nothing of it
TEMPERATURES = (0.0125, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2)  # of the way from floor to plateau
TRIED = 1000  # images by which response and temperature are found
TRIMMED = 0.05  # share of the worst positions that do not count for the covariance
WINDOW = 200  # pairs of like feature distance that are judged together
TURNED_AWAY = 0.05  # share of images on the map, at least, where none from elsewhere are known
LOST = 0.2  # share of pairs out of reach from which on feature distances tell no range


def calibrating(kept: Ints, references: Ints, landmarks: Ints) -> tuple[Ints, Source]:
    """Rows to calibrate by: those `kept` for it, or if there are none, references that are no landmarks."""
    return (kept, "calibration") if len(kept) else (np.setdiff1d(references, landmarks), "train")


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
    of `false_accepts`. Without them each image stands for one from elsewhere once, the landmarks near it left out; but
    an encoder tells places apart best that it was trained on, so that such a threshold may let far more through, and
    a few of the images that are found are turned away as well.
    """
    _check(landmarks, descriptors, positions, coverage, false_accepts, elsewhere)
    at = landmarks.places.positions
    response = Response.fit(*_pairs(landmarks, descriptors, positions))
    neighbours = neighbours_of(at, response.reach)
    rows, squared = landmarks.store.nearest(descriptors, min(len(at), 4 * neighbours))
    between = between_of(landmarks, response, spacing_of(at, BESIDE * response.reach))
    truly = np.linalg.norm(at[rows[:, 0]] - positions, axis=1)
    right = truly <= response.reach
    if np.count_nonzero(right) < FEWEST / 2:
        raise UncalibratedError(
            f"of {len(positions):,} images to calibrate by, only {np.count_nonzero(right):,} have a nearest landmark "
            f"within {response.reach:.1f} {landmarks.unit}: the map, or the encoder, does not tell places apart"
        )
    temperature = _temperature(between, rows[right], squared[right], positions[right], response)
    found = interpolate(between, rows[:, 0], rows, squared, temperature)
    factor, deviation = _deviations(found.spread[right], (found.position - positions)[right])
    evidence = gather_evidence(at, rows, squared, response.reach)
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
        threshold=0.0,
        place=place,
        share_confident=0.0,
        confident=retrieved,
        doubtful=None,
        retrieved=retrieved,
        pairs=pairs,
        pairs_valid=pairs_valid,
    )
    here = look(at, between, rows, squared, draft)
    if elsewhere is not None:
        absent, highest = look(at, between, *landmarks.store.nearest(elsewhere, neighbours), draft), np.inf
    else:
        absent = _left_out(at, between, rows, squared, positions, here, draft)
        highest = float(np.quantile(here.matched[right], 1 - TURNED_AWAY))
    threshold = float(np.quantile(absent.matched, false_accepts, method="lower"))
    draft = replace(draft, threshold=min(threshold, highest))
    sure, beyond = here.confident(draft), truly - here.metres
    enough = [np.count_nonzero(which) >= FEWEST / 2 for which in (sure, ~sure)]
    which = sure if enough[0] else np.ones_like(sure)
    return replace(
        draft,
        share_confident=float(sure.mean()),
        confident=Spread.fit(feature[which], beyond[which]),
        doubtful=Spread.fit(feature[~sure], beyond[~sure]) if enough[1] else None,
    )


def _check(
    landmarks: Map,
    descriptors: Floats32,
    positions: Floats,
    coverage: float,
    false_accepts: float,
    elsewhere: Floats32 | None,
) -> None:
    for name, value in (("coverage", coverage), ("false_accepts", false_accepts)):
        if not 0 < value < 1:
            raise BadInputError(f"{name} is {value}, but must be between 0 and 1")
    if positions.shape != (len(descriptors), landmarks.places.positions.shape[1]):
        raise BadInputError(f"there are {len(descriptors):,} descriptors, but positions of shape {positions.shape}")
    for name, values in (
        ("position", positions),
        ("descriptor", descriptors),
        ("descriptor from elsewhere", elsewhere),
    ):
        if values is not None and not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
            raise BadInputError(f"{name} {row} to calibrate by holds something that is not a number")
    for given in (descriptors, elsewhere):
        if given is not None and given.shape[1:] != (landmarks.store.dimensions,):
            raise BadInputError(
                f"the map's descriptors have {landmarks.store.dimensions} numbers, those to calibrate by {given.shape}"
            )
    if elsewhere is not None and len(elsewhere) < 1 / false_accepts:
        raise BadInputError(
            f"{len(elsewhere):,} images from elsewhere are too few to accept a share of {false_accepts:g} of them"
        )
    if len(descriptors) < FEWEST:
        raise UncalibratedError(f"{len(descriptors):,} images are too few to calibrate by; {FEWEST} would do")


def _pairs(landmarks: Map, descriptors: Floats32, positions: Floats) -> tuple[Floats, Floats]:
    """Squared feature distances and metres of images, each with the landmarks nearest in the world, and with others.

    The nearest show how distances grow, and the others where that ends; so the map may be of any length.
    """
    at = landmarks.places.positions
    some = evenly(len(positions), TRIED)
    near = KDTree(at).query(positions[some], min(len(at), NEAREST))[1].reshape(len(some), -1)
    squared, metres = [], []
    for start in range(0, len(some), BLOCK):
        images, rows = some[start : start + BLOCK], np.unique(near[start : start + BLOCK])
        squared.append(squared_between(descriptors[images], landmarks.store.take(rows)).ravel())
        metres.append(np.linalg.norm(positions[images][:, None] - at[rows], axis=2).ravel())
    far = evenly(len(at), SAMPLE)
    squared.append(squared_between(descriptors[some], landmarks.store.take(far)).ravel())
    metres.append(np.linalg.norm(positions[some][:, None] - at[far], axis=2).ravel())
    return np.concatenate(squared).astype(np.float64), np.concatenate(metres)


def _temperature(between: Between, rows: Ints, squared: Floats32, positions: Floats, response: Response) -> float:
    """That which brings images closest to where they are."""
    some = evenly(len(rows), TRIED)
    errors = []
    choices = [share * (response.plateau - response.floor) for share in TEMPERATURES]
    for temperature in choices:
        found = interpolate(between, rows[some, 0], rows[some], squared[some], temperature)
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
        raise UncalibratedError(
            "the map is too small to tell how images from elsewhere look in it: give some that are not on the map"
        )
    return look(at, between, rows[kept], squared[kept], draft, allowed=far[kept])


def _between_images(descriptors: Floats32, positions: Floats, reach: float) -> tuple[Spread | None, float]:
    """Metres between two images within reach by feature distance, and up to which of these few are out of reach."""
    stretch = (
        np.arange(min(PAIRED, len(positions))) + max(0, len(positions) - PAIRED) // 2
    )  # a part of the drive, whole
    some = np.unique(np.concatenate([stretch, evenly(len(positions), PAIRED)]))
    i, j = np.triu_indices(len(some), 1)
    feature = np.sqrt(squared_between(descriptors[some], descriptors[some])[i, j]).astype(np.float64)
    metres = np.linalg.norm(positions[some[i]] - positions[some[j]], axis=1)
    order = np.argsort(feature, kind="stable")
    feature, metres = feature[order], metres[order]
    windows = np.array_split(np.arange(len(order)), max(1, len(order) // WINDOW))
    lost = isotonic_regression([float((metres[rows] > reach).mean()) for rows in windows]).x
    last = windows[max(int(np.searchsorted(lost, LOST, side="right")) - 1, 0)][-1]
    kept = np.flatnonzero(metres[: last + 1] <= reach)
    kept = kept[evenly(len(kept), PAIRS)]
    folds = in_folds(len(some))[i[order[kept]]]  # by image: the pairs of one image err alike
    return Spread.fit(feature[kept], metres[kept], folds) if len(kept) else None, float(feature[last])
