"""Fitting a calibration to images of known position."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly
from mappable.errors import BadInputError
from mappable.maps.between import FAR, Between, interpolate, spacing_of
from mappable.maps.calibrate_drive import OneVisit, fit_drive
from mappable.maps.calibration import SURE, Calibration, Look, Source, between_of, look, neighbors_of
from mappable.maps.conformal import in_folds
from mappable.maps.deviations import fit_deviations
from mappable.maps.errors import UncalibratedError
from mappable.maps.evidence import gather_evidence
from mappable.maps.map import Map
from mappable.maps.odds import Odds
from mappable.maps.response import Response
from mappable.maps.spread import Spread
from mappable.maps.store import squared_between

FEWEST = 15  # images
ENOUGH = 50  # images that get intervals of their own
OWN = 1.5  # spacings: landmarks of an image's own visit that near to it are left out where it is a landmark itself
SAMPLE = 512  # landmarks, and the nearest to each image, whose distances are looked at
NEAREST, BLOCK = 16, 64  # landmarks near an image; images at a time
PAIRED = 700  # images of one stretch, and as many of all of it, of which every two are a pair
PAIRS = 20_000  # of these pairs at most, of all feature distances, by which metres between images are known
BESIDE = 0.02  # reaches: landmarks no farther apart are at one place
CLEAR = 1.5  # reaches: landmarks that far from an image know nothing of it
TEMPERATURES = (0.0125, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2)  # of the way from floor to plateau
TRIED = 1000  # images by which response and temperature are found
WINDOW = 200  # pairs of like feature distance that are judged together
TURNED_AWAY = 0.05  # share of images on the map, at least, where none from elsewhere are known
USUAL = 0.95  # share of images whose feature distances are usual
LOST = 0.2  # share of pairs out of reach from which on feature distances tell no range


def calibrating(kept: Ints, references: Ints, landmarks: Ints) -> tuple[Ints, Source]:
    """Rows to calibrate by: those `kept` for it; or references that are no landmarks; or, if few, all references."""
    if len(kept):
        return kept, "calibration"
    others = np.setdiff1d(references, landmarks)
    return (others if len(others) >= FEWEST else references), "train"


def calibrate(
    landmarks: Map,
    descriptors: Floats32,
    positions: Floats,
    *,
    source: Source = "calibration",
    coverage: float = 0.9,
    false_accepts: float = 0.05,
    elsewhere: Floats32 | None = None,
    visit: OneVisit | None = None,
    along: Floats | None = None,
    conditions: Sequence[str] | None = None,
) -> Calibration:
    """Measure what feature distances mean on images at known positions (n, k).

    `source` says which split they are of: on images that the encoder was trained on intervals come out too narrow.
    `elsewhere` (e, D) are descriptors of images that are not on the map; they set the threshold of rejection to a share
    of `false_accepts`. Without them each image stands for one from elsewhere once, the landmarks near it left out; but
    an encoder tells places apart best that it was trained on, so that such a threshold may let far more through, and
    a few of the images that are found are turned away as well. The images are in the order taken. If they are of the
    `visit` of the landmarks, the model of drives allows for what another visit changes; and they may be landmarks
    themselves: each is looked at without itself, and without the landmarks taken just before and after it. `along`
    (m,) says how far along their visits landmarks were taken, which shows how feature distances grow along a visit.
    With several `conditions` (n,) each is left out in turn, so that intervals allow for one that is not among them.
    """
    _check(landmarks, descriptors, positions, coverage, false_accepts, elsewhere)
    at = landmarks.places.positions
    spacing = spacing_of(at)
    own = None if visit is None or not _shared(visit) else OWN * spacing
    response = Response.fit(*_pairs(landmarks, descriptors, positions, apart=own is not None))
    neighbors = neighbors_of(at, response.reach)
    rows, squared = landmarks.store.nearest(descriptors, min(len(at), 4 * neighbors))
    if own is not None and visit is not None:
        rows, squared = _without_own(rows, squared, np.abs(visit.images[:, None] - visit.landmarks[rows]) < own)
    between = between_of(landmarks, response, spacing_of(at, BESIDE * response.reach))
    truly = np.linalg.norm(at[rows[:, 0]] - positions, axis=1)
    right = truly <= response.reach
    if np.count_nonzero(right) < max(FEWEST / 2, len(right) / 10):
        raise UncalibratedError(
            f"of {len(positions):,} images to calibrate by, only {np.count_nonzero(right):,} have a nearest landmark "
            f"within {response.reach:.1f} {landmarks.unit}: the map, or the encoder, does not tell places apart"
        )
    temperature = _temperature(between, rows[right], squared[right], positions[right], response)
    found = interpolate(between, rows[:, 0], rows, squared, temperature)
    factor, deviation = fit_deviations(found.spread[right], (found.position - positions)[right])
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
        neighbors=neighbors,
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
        drive=fit_drive(
            landmarks,
            descriptors,
            positions,
            between,
            temperature,
            visit=visit,
            along=along,
            elsewhere=elsewhere,
            conditions=conditions,
            false_accepts=false_accepts,
        ),
        usual_feature=float(np.quantile(feature, USUAL)),
    )
    here = look(at, between, rows, squared, draft)
    if elsewhere is not None:
        absent: Look | None = look(at, between, *landmarks.store.nearest(elsewhere, neighbors), draft)
        highest = np.inf
    else:
        absent = _left_out(at, between, rows, squared, positions, here, draft)
        highest = float(np.quantile(here.matched[right], 1 - TURNED_AWAY))
    threshold = np.inf if absent is None else float(np.quantile(absent.matched, false_accepts, method="lower"))
    draft = replace(draft, threshold=min(threshold, highest))
    sure, beyond = here.confident(draft), truly - here.metres
    enough = [np.count_nonzero(which) >= ENOUGH for which in (sure, ~sure)]
    which = sure if enough[0] else np.ones_like(sure)
    return replace(
        draft,
        share_confident=float(sure.mean()),
        confident=Spread.fit(feature[which], beyond[which], _folds(conditions, which)),
        doubtful=Spread.fit(feature[~sure], beyond[~sure], _folds(conditions, ~sure)) if enough[1] else None,
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
        raise UncalibratedError(
            f"{len(descriptors):,} images are too few to calibrate by; take {FEWEST} or more, at best of another visit "
            "(`mappable places split`)"
        )


def _folds(conditions: Sequence[str] | None, which: Bools) -> Ints | None:
    """A number per condition of some images (n,), if there are several conditions; None if not, or if one has few.

    An interval is then as wide as it must be for images of a condition that the others did not see.
    """
    if conditions is None:
        return None
    names, folds, counts = np.unique(np.array(conditions, dtype=str)[which], return_inverse=True, return_counts=True)
    return folds if len(names) > 1 and counts.min() >= ENOUGH else None


def _shared(visit: OneVisit) -> bool:
    """Whether images are landmarks themselves."""
    return bool(np.isin(visit.images, visit.landmarks).any())


def _without_own(rows: Ints, squared: Floats32, own: Bools) -> tuple[Ints, Floats32]:
    """Landmarks (n, c) of images in their order, the `own` ones last, as if far away."""
    hidden = np.where(own, np.float32(FAR), squared)
    order = np.argsort(hidden, axis=1, kind="stable")
    return np.take_along_axis(rows, order, 1), np.take_along_axis(hidden, order, 1)


def _pairs(landmarks: Map, descriptors: Floats32, positions: Floats, *, apart: bool = False) -> tuple[Floats, Floats]:
    """Squared feature distances and metres of images, each with the landmarks nearest in the world, and with others.

    The nearest show how distances grow, and the others where that ends; so the map may be of any length. With `apart`
    pairs at one place are left out.
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
    all_squared, all_metres = np.concatenate(squared).astype(np.float64), np.concatenate(metres)
    kept = all_metres > 0 if apart else slice(None)
    return all_squared[kept], all_metres[kept]


def _temperature(between: Between, rows: Ints, squared: Floats32, positions: Floats, response: Response) -> float:
    """That which brings images closest to where they are."""
    some = evenly(len(rows), TRIED)
    errors = []
    choices = [share * (response.plateau - response.floor) for share in TEMPERATURES]
    for temperature in choices:
        found = interpolate(between, rows[some, 0], rows[some], squared[some], temperature)
        errors.append(np.linalg.norm(found.position - positions[some], axis=1).mean())
    return choices[int(np.argmin(errors))]


def _left_out(
    at: Floats, between: Between, rows: Ints, squared: Floats32, positions: Floats, here: Look, draft: Calibration
) -> Look | None:
    """Images as if from elsewhere: those of places that look like no other, without the landmarks near them.

    None if the map is too small for that.
    """
    far = np.linalg.norm(at[rows] - positions[:, None], axis=2) > CLEAR * draft.response.reach
    kept = far.any(1) & (here.place >= SURE)
    if np.count_nonzero(kept) < FEWEST / 2:
        return None
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
