"""Fit a calibration to images of known position."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly
from mappable.errors import BadInputError
from mappable.maps.between import FAR, Between, interpolate, spacing_of
from mappable.maps.calibrate_drive import OneVisit, fit_drive
from mappable.maps.calibration import SURE_LOG_ODDS, Calibration, Look, Source, between_of, look, neighbors_of
from mappable.maps.conformal import in_folds
from mappable.maps.deviations import fit_deviations
from mappable.maps.drive_model import DriveModel
from mappable.maps.errors import UncalibratedError
from mappable.maps.evidence import gather_evidence
from mappable.maps.headings import angle_errors, headings_at
from mappable.maps.map import Map
from mappable.maps.odds import Odds
from mappable.maps.response import Response
from mappable.maps.spread import Spread
from mappable.maps.store import squared_between

FEWEST = 15  # smallest number of images that a map can be calibrated on
ENOUGH_FOR_INTERVALS = 50  # images that a group (confident, not confident, one condition) needs for its own intervals
# For an image that is itself a landmark, landmarks of its own visit within this distance are ignored; in spacings.
OWN_RADIUS = 1.5
MOST_HEADINGS = 400  # largest number of errors of headings that the map keeps
FAR_SAMPLE = 512  # number of landmarks, spread evenly, that show the feature distances of unrelated places
NEAREST = 16  # number of landmarks nearest in the world that show how feature distances grow
BATCH = 64  # images per batch
PAIRED_IMAGES = 700  # images of one stretch, and as many spread over the whole set; every two form a pair
MOST_PAIRS = 20_000  # largest number of pairs, spread over all feature distances, that fit metres between images
SAME_POSITION = 0.02  # landmarks within this distance of each other count as one position; in reaches
UNRELATED = 1.5  # landmarks farther than this from an image show nothing of its place; in reaches
# Temperatures to choose from, as shares of the way from the floor to the plateau of squared feature distances.
TEMPERATURES = (0.0125, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2)
MOST_FITTED = 1000  # largest number of images that the response and the temperature are fitted to
PAIRS_PER_WINDOW = 200  # pairs of similar feature distance that are judged together
MOST_REJECTED = 0.05  # without images from elsewhere, the threshold rejects at least this share of images on the map
USUAL_SHARE = 0.95  # share of images whose feature distance to the nearest landmark counts as usual
MOST_OUT_OF_REACH = 0.2  # largest share of pairs out of reach at which a feature distance still gives a range


def calibrating(kept: Ints, references: Ints, landmarks: Ints) -> tuple[Ints, Source]:
    """Rows to calibrate on: the `kept` ones, or references that are not landmarks, or, if few, all references."""
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
    yaw: Floats | None = None,
    drive: DriveModel | None = None,
) -> Calibration:
    """Measure what feature distances mean in metres, on images (n, D) at known positions (n, k) in the order taken.

    `source` is the split of the images. Intervals come out too narrow on images that the encoder was trained on.

    `elsewhere` (e, D) are descriptors of images that are not on the map. They set the rejection threshold, which
    accepts a share `false_accepts` of them. Without them, each image stands for one from elsewhere, with the landmarks
    near it left out. Such a threshold may accept far more images: an encoder separates the places best that it was
    trained on. It also rejects a few of the images that are found.

    `visit` is given if images and landmarks come from the same visit. The model of drives then allows for what another
    visit would change. The images may then be landmarks themselves. In that case each image is located without itself,
    and without the landmarks taken just before and after it.

    `along` (m,) is the path length at which landmarks were taken along their visits. It shows how feature distances
    grow along a visit. With several `conditions` (n,), each condition is left out in turn. Intervals then allow for a
    condition that calibration did not see. `yaw` (n,) are the headings of the images, in radians. `drive` is the model
    of drives (default: fitted to the images).
    """
    _check(landmarks, descriptors, positions, coverage, false_accepts, elsewhere)
    at = landmarks.places.positions
    spacing = spacing_of(at)
    own = None if visit is None or not _shared(visit) else OWN_RADIUS * spacing
    response = Response.fit(*_pairs(landmarks, descriptors, positions, apart=own is not None))
    neighbors = neighbors_of(at, response.reach)
    rows, squared = landmarks.store.nearest(descriptors, min(len(at), 4 * neighbors))
    if own is not None and visit is not None:
        rows, squared = _without_own(rows, squared, np.abs(visit.images[:, None] - visit.landmarks[rows]) < own)
    between = between_of(landmarks, response, spacing_of(at, SAME_POSITION * response.reach))
    truly = np.linalg.norm(at[rows[:, 0]] - positions, axis=1)
    right = truly <= response.reach
    if np.count_nonzero(right) < max(FEWEST / 2, len(right) / 10):
        raise UncalibratedError(
            f"only {np.count_nonzero(right):,} of {len(positions):,} images have a nearest landmark by feature within "
            f"{response.reach:.1f} {landmarks.unit}: the map, or its encoder, does not tell places apart"
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
        drive=drive
        or fit_drive(
            landmarks,
            descriptors,
            positions,
            between,
            temperature,
            visit=visit,
            along=along,
            elsewhere=elsewhere,
            conditions=conditions,
            yaw=yaw,
            false_accepts=false_accepts,
        ),
        usual_feature=float(np.quantile(feature, USUAL_SHARE)),
    )
    here = look(at, between, rows, squared, draft)
    if elsewhere is not None:
        absent: Look | None = look(at, between, *landmarks.store.nearest(elsewhere, neighbors), draft)
        highest = np.inf
    else:
        absent = _left_out(at, between, rows, squared, positions, here, draft)
        highest = float(np.quantile(here.matched[right], 1 - MOST_REJECTED))
    threshold = np.inf if absent is None else float(np.quantile(absent.matched, false_accepts, method="lower"))
    draft = replace(draft, threshold=min(threshold, highest))
    sure, beyond = here.confident(draft), truly - here.metres
    headings: tuple[float, ...] = ()
    if yaw is not None:
        given = {"radius": draft.drive.radius, "temperature": temperature}
        found_yaw = headings_at(landmarks.places.yaw, at, rows[right], squared[right], positions[right], **given)
        errors = np.sort(angle_errors(found_yaw, yaw[right]))
        headings = tuple(errors[evenly(len(errors), MOST_HEADINGS)].tolist()) if len(errors) >= FEWEST else ()
    enough = [np.count_nonzero(which) >= ENOUGH_FOR_INTERVALS for which in (sure, ~sure)]
    which = sure if enough[0] else np.ones_like(sure)
    return replace(
        draft,
        headings=headings,
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
            raise BadInputError(f"{name} must be between 0 and 1, got {value}")
    if positions.shape != (len(descriptors), landmarks.places.positions.shape[1]):
        wanted = (len(descriptors), landmarks.places.positions.shape[1])
        raise BadInputError(f"calibration: positions have shape {positions.shape}, expected {wanted}")
    for name, values in (
        ("position", positions),
        ("descriptor", descriptors),
        ("descriptor from elsewhere", elsewhere),
    ):
        if values is not None and not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
            raise BadInputError(f"calibration: {name} {row} has a value that is not a finite number")
    for given in (descriptors, elsewhere):
        if given is not None and given.shape[1:] != (landmarks.store.dimensions,):
            raise BadInputError(
                f"calibration: descriptors have shape {given.shape}, expected n x {landmarks.store.dimensions}"
            )
    if elsewhere is not None and len(elsewhere) < 1 / false_accepts:
        raise BadInputError(
            f"{len(elsewhere):,} images from elsewhere are too few for a share of false accepts of {false_accepts:g}; "
            f"use at least {math.ceil(1 / false_accepts):,}"
        )
    if len(descriptors) < FEWEST:
        raise UncalibratedError(
            f"{len(descriptors):,} images are too few to calibrate on; use {FEWEST} or more, if possible from another "
            "visit (`mappable places split`)"
        )


def _folds(conditions: Sequence[str] | None, which: Bools) -> Ints | None:
    """One fold per condition of the images `which` (n,); None with a single condition, or if one has few images.

    Leaving out a condition at a time makes intervals wide enough for a condition that calibration did not see.
    """
    if conditions is None:
        return None
    names, folds, counts = np.unique(np.array(conditions, dtype=str)[which], return_inverse=True, return_counts=True)
    return folds if len(names) > 1 and counts.min() >= ENOUGH_FOR_INTERVALS else None


def _shared(visit: OneVisit) -> bool:
    """Whether some images are landmarks themselves."""
    return bool(np.isin(visit.images, visit.landmarks).any())


def _without_own(rows: Ints, squared: Floats32, own: Bools) -> tuple[Ints, Floats32]:
    """The landmarks (n, c) of images, nearest first; the `own` ones come last, as if they were far away."""
    hidden = np.where(own, np.float32(FAR), squared)
    order = np.argsort(hidden, axis=1, kind="stable")
    return np.take_along_axis(rows, order, 1), np.take_along_axis(hidden, order, 1)


def _pairs(landmarks: Map, descriptors: Floats32, positions: Floats, *, apart: bool = False) -> tuple[Floats, Floats]:
    """Squared feature distances and metres of pairs: images with the landmarks nearest in the world, and with others.

    The nearest landmarks show how feature distances grow. The others show where the growth ends. So the map may have
    any length. `apart` leaves out pairs at the same position.
    """
    at = landmarks.places.positions
    some = evenly(len(positions), MOST_FITTED)
    near = KDTree(at).query(positions[some], min(len(at), NEAREST))[1].reshape(len(some), -1)
    squared, metres = [], []
    for start in range(0, len(some), BATCH):
        images, rows = some[start : start + BATCH], np.unique(near[start : start + BATCH])
        squared.append(squared_between(descriptors[images], landmarks.store.take(rows)).ravel())
        metres.append(np.linalg.norm(positions[images][:, None] - at[rows], axis=2).ravel())
    far = evenly(len(at), FAR_SAMPLE)
    squared.append(squared_between(descriptors[some], landmarks.store.take(far)).ravel())
    metres.append(np.linalg.norm(positions[some][:, None] - at[far], axis=2).ravel())
    all_squared, all_metres = np.concatenate(squared).astype(np.float64), np.concatenate(metres)
    kept = all_metres > 0 if apart else slice(None)
    return all_squared[kept], all_metres[kept]


def _temperature(between: Between, rows: Ints, squared: Floats32, positions: Floats, response: Response) -> float:
    """The temperature with the smallest mean error of refined positions."""
    some = evenly(len(rows), MOST_FITTED)
    errors = []
    choices = [share * (response.plateau - response.floor) for share in TEMPERATURES]
    for temperature in choices:
        found = interpolate(between, rows[some, 0], rows[some], squared[some], temperature)
        errors.append(np.linalg.norm(found.position - positions[some], axis=1).mean())
    return choices[int(np.argmin(errors))]


def _left_out(
    at: Floats, between: Between, rows: Ints, squared: Floats32, positions: Floats, here: Look, draft: Calibration
) -> Look | None:
    """Images that stand for images from elsewhere: the landmarks near them are left out.

    Only images of places that look like no other place count. None if the map is too small.
    """
    far = np.linalg.norm(at[rows] - positions[:, None], axis=2) > UNRELATED * draft.response.reach
    kept = far.any(1) & (here.place >= SURE_LOG_ODDS)
    if np.count_nonzero(kept) < FEWEST / 2:
        return None
    return look(at, between, rows[kept], squared[kept], draft, allowed=far[kept])


def _between_images(descriptors: Floats32, positions: Floats, reach: float) -> tuple[Spread | None, float]:
    """Metres between two images within reach, by feature distance; and the largest distance that gives a range."""
    # A stretch in the middle of the drive, with all its images.
    stretch = np.arange(min(PAIRED_IMAGES, len(positions))) + max(0, len(positions) - PAIRED_IMAGES) // 2
    some = np.unique(np.concatenate([stretch, evenly(len(positions), PAIRED_IMAGES)]))
    i, j = np.triu_indices(len(some), 1)
    feature = np.sqrt(squared_between(descriptors[some], descriptors[some])[i, j]).astype(np.float64)
    metres = np.linalg.norm(positions[some[i]] - positions[some[j]], axis=1)
    order = np.argsort(feature, kind="stable")
    feature, metres = feature[order], metres[order]
    windows = np.array_split(np.arange(len(order)), max(1, len(order) // PAIRS_PER_WINDOW))
    lost = isotonic_regression([float((metres[rows] > reach).mean()) for rows in windows]).x
    last = windows[max(int(np.searchsorted(lost, MOST_OUT_OF_REACH, side="right")) - 1, 0)][-1]
    kept = np.flatnonzero(metres[: last + 1] <= reach)
    kept = kept[evenly(len(kept), MOST_PAIRS)]
    folds = in_folds(len(some))[i[order[kept]]]  # by image, because the pairs of one image have similar errors
    return Spread.fit(feature[kept], metres[kept], folds) if len(kept) else None, float(feature[last])
