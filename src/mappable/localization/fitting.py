"""Calibrate the place model of a map: on its own visits, or on a drive at known positions."""

from collections.abc import Sequence

import numpy as np

from mappable.arrays import Floats, Floats32, evenly
from mappable.errors import BadInputError
from mappable.localization.answers import Answers
from mappable.localization.numbers import NUMBERS
from mappable.localization.place_model import PlaceModel, Posterior
from mappable.localization.states import States
from mappable.maps.calibration import CalibratedOn, Calibration, conformal_quantile
from mappable.maps.choosing import visits_of
from mappable.maps.growth import Growth
from mappable.maps.landmarks import Landmarks
from mappable.places.angles import wrap
from mappable.places.table import Places

FEWEST = 15  # smallest number of images of a visit that calibrates
MOST_VISITS = 4  # visits that are left out in turn; of more visits, evenly chosen ones
MOST_IMAGES = 200  # consecutive images of a visit that calibrate
MOST_COPIED = 2**28  # numbers of descriptors that may be copied to leave out a visit
WRONG = 0.02  # share of wrong answers among the confident ones that calibration allows
NARROWEST, WIDEST = 0.25, 10.0  # limits of the width of intervals
SURE = np.array([NUMBERS.sure, 0.95, 0.98, 0.99, 0.995, 0.999])  # thresholds to choose from
UNKNOWN_RADIUS = 2.0  # radius of a place without an encoder's, in spacings
MOST_HEADINGS = 400  # errors of headings that the calibration keeps


def calibrate(
    landmarks: Landmarks,
    drive: tuple[Places, Floats32] | None = None,
    *,
    coverage: float = 0.9,
    elsewhere: Floats32 | None = None,
    false_accepts: float = 0.05,
) -> Calibration:
    """Calibrate a map on a `drive`: places at known positions and their descriptors (n, D).

    Without a drive, the visits of the map calibrate it: each is located in a map of the others.
    Visits that trained the encoder cannot, and a single visit shows nothing of what another one
    changes. Then only the metres between images are fitted.

    No more than a share `false_accepts` of the descriptors from `elsewhere` (e, D) may be
    confident.
    """
    _check(landmarks, drive, coverage, false_accepts, elsewhere)
    radius = place_radius(landmarks)
    trials = _trials(landmarks, drive, radius)
    on: CalibratedOn = "a drive" if drive is not None else "other visits" if trials else "own visit"
    places, descriptors = drive if drive is not None else _sample(landmarks)
    sure = {
        way: _sure([one for one in trials if one.way == way], radius)
        for way in ("single", "live", "drive")
    }
    width = {
        way: _width([one for one in trials if one.way == way], coverage)
        for way in ("single", "live", "drive")
    }
    if elsewhere is not None:
        sure["single"] = max(sure["single"], _rejects(landmarks, elsewhere, radius, false_accepts))
    errors = np.sort(np.concatenate([one.headings for one in trials])) if trials else np.empty(0)
    if not trials and np.isfinite(landmarks.places.yaw).any():
        errors = _turns(landmarks.places)
    return Calibration(
        calibrated_on=on,
        images=sum(len(one.errors) for one in trials if one.way == "single") or len(descriptors),
        landmarks=len(landmarks),
        coverage=coverage,
        radius=radius,
        sure=sure,
        width=width,
        growth=Growth.fit(descriptors, places.positions),
        headings=(
            tuple(errors[evenly(len(errors), MOST_HEADINGS)].tolist())
            if len(errors) >= FEWEST
            else ()
        ),
        elsewhere=0 if elsewhere is None else len(elsewhere),
    )


def calibrate_or_say(
    landmarks: Landmarks,
    places: Places,
    descriptors: Floats32,
    *,
    coverage: float = 0.9,
    elsewhere: Floats32 | None = None,
    false_accepts: float = 0.05,
) -> tuple[Landmarks, str]:
    """The map, calibrated on a drive, or on its own visits if the drive is too short; and why, if
    it is.

    The drive may have no images.
    """
    drive = (places, descriptors) if len(places) >= FEWEST else None
    why = (
        f"{len(places):,} images of the split `calibration` are too few; use {FEWEST} or more"
        if len(places)
        else ""
    )
    fitted = calibrate(
        landmarks, drive, coverage=coverage, elsewhere=elsewhere, false_accepts=false_accepts
    )
    return landmarks.with_calibration(fitted), "" if drive else why


def place_radius(landmarks: Landmarks) -> float:
    """The radius of a place: the encoder's positive radius, or the spacing of the landmarks if that
    is larger.
    """
    spacing = States(landmarks.places.positions, visits_of(landmarks.places)).spacing
    known = None if landmarks.about is None else landmarks.about.positive_radius
    return max(spacing, known or UNKNOWN_RADIUS * spacing)


class Trial:
    """A visit at known positions, located one way: errors, half widths of intervals, and
    probabilities of places.
    """

    def __init__(
        self, way: str, found: Answers, places: Places, coverage: float, yaw: Floats
    ) -> None:
        self.way = way
        self.errors: Floats = np.linalg.norm(found.positions - places.positions, axis=1)
        self.half: Floats = found.intervals(coverage)
        self.mass = found.mass
        turned = wrap(found.headings(yaw) - places.yaw) if way == "drive" else np.empty(0)
        self.headings: Floats = np.abs(turned[np.isfinite(turned)])


def _trials(
    landmarks: Landmarks, drive: tuple[Places, Floats32] | None, radius: float
) -> list[Trial]:
    """All visits that calibrate, located in a map that does not know them."""
    places = landmarks.places
    if drive is not None:
        return [one for part in _parts(*drive) for one in _located(landmarks, *part, radius)]
    about = landmarks.about
    trained = () if about is None or about.settings.get("iterations") == 0 else about.sequences
    visits = [rows for rows in visits_of(places) if places.sequence[rows[0]] not in trained]
    if len(set(places.sequence)) < 2 or len(landmarks) * landmarks.store.dimensions > MOST_COPIED:
        return []
    trials = []
    for number in evenly(len(visits), MOST_VISITS):
        rows = visits[number][:MOST_IMAGES]
        others = np.setdiff1d(np.arange(len(places)), visits[number])
        if min(len(rows), len(others)) < FEWEST:
            continue
        rest = Landmarks.build(places[others], landmarks.store.take(others), landmarks.encoder)
        seen = places[rows]
        apart = np.linalg.norm(seen.positions[:, None] - rest.places.positions[None], axis=2).min(1)
        near = np.flatnonzero(apart <= radius)
        if len(near) >= FEWEST:
            trials += _located(rest, seen[near], landmarks.store.take(rows[near]), radius)
    return trials


def _parts(places: Places, descriptors: Floats32) -> list[tuple[Places, Floats32]]:
    parts = [rows[:MOST_IMAGES] for rows in visits_of(places)]
    return [(places[rows], descriptors[rows]) for rows in parts]


def _located(
    landmarks: Landmarks, places: Places, descriptors: Floats32, radius: float
) -> list[Trial]:
    model = model_of(landmarks)
    live = model.live()
    steps = [live.update(image) for image in descriptors]
    ways = {
        "single": model.single(descriptors),
        "live": Posterior.join(steps),
        "drive": model.drive(descriptors),
    }
    yaw, coverage = landmarks.places.yaw, 0.9
    return [
        Trial(way, Answers(model, found, radius), places, coverage, yaw)
        for way, found in ways.items()
    ]


def model_of(landmarks: Landmarks) -> PlaceModel:
    """The place model of a map."""
    return PlaceModel(landmarks.store, landmarks.places.positions, visits_of(landmarks.places))


def _sure(trials: Sequence[Trial], radius: float) -> float:
    """The least probability of a place at which few confident answers are wrong."""
    if not trials:
        return NUMBERS.sure
    mass, wrong = (
        np.concatenate(part)
        for part in zip(*((one.mass, one.errors > radius) for one in trials), strict=True)
    )
    for level in SURE:
        confident = mass >= level
        if wrong[confident].sum() <= WRONG * max(confident.sum(), 1):
            return float(level)
    return float(SURE[-1])


def _width(trials: Sequence[Trial], coverage: float) -> float:
    """The factor of intervals that holds the truth on the worst visit."""
    factors = [
        conformal_quantile(one.errors / one.half, coverage)
        for one in trials
        if len(one.errors) >= FEWEST
    ]
    return float(np.clip(max(factors), NARROWEST, WIDEST)) if factors else 1.0


def _rejects(
    landmarks: Landmarks, elsewhere: Floats32, radius: float, false_accepts: float
) -> float:
    """The probability of a place that only a share of images from elsewhere reaches."""
    model = model_of(landmarks)
    mass = Answers(model, model.single(elsewhere), radius).mass
    return float(min(np.quantile(mass, 1 - false_accepts) + 1e-9, 1.0))


def _sample(landmarks: Landmarks) -> tuple[Places, Floats32]:
    """The landmarks of the longest visit."""
    rows = max(visits_of(landmarks.places), key=len)[: 2 * MOST_IMAGES]
    return landmarks.places[rows], landmarks.store.take(rows)


def _turns(places: Places) -> Floats:
    """How much headings differ from one landmark to the next: what a single visit shows of errors
    of headings.
    """
    turns = [np.abs(wrap(np.diff(places.yaw[rows]))) for rows in visits_of(places)]
    both = np.concatenate(turns)
    return np.sort(both[np.isfinite(both)])


def _check(
    landmarks: Landmarks,
    drive: tuple[Places, Floats32] | None,
    coverage: float,
    false_accepts: float,
    elsewhere: Floats32 | None,
) -> None:
    for name, value in (("coverage", coverage), ("false_accepts", false_accepts)):
        if not 0 < value < 1:
            raise BadInputError(f"{name} must be between 0 and 1, got {value}")
    given = [("elsewhere", elsewhere)] + ([("the drive", drive[1])] if drive is not None else [])
    for name, descriptors in given:
        if descriptors is None:
            continue
        if descriptors.shape[1:] != (landmarks.store.dimensions,):
            wanted = f"n x {landmarks.store.dimensions}"
            raise BadInputError(
                f"calibration: descriptors of {name} have shape {descriptors.shape}, expected"
                f" {wanted}"
            )
        bad = np.flatnonzero(~np.isfinite(descriptors).all(axis=1))
        if len(bad):
            raise BadInputError(
                f"calibration: descriptor {bad[0]} of {name} has a value that is not a finite"
                " number"
            )
    if drive is not None and len(drive[1]) < FEWEST:
        raise BadInputError(
            f"{len(drive[1]):,} images are too few to calibrate on; use {FEWEST} or more"
        )
