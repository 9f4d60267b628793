"""Summarize a map in numbers and notes."""

from dataclasses import dataclass

import numpy as np

from mappable.maps.between import spacing_of
from mappable.maps.calibration import Calibration, whole_range
from mappable.maps.map import Map


@dataclass(frozen=True)
class CalibrationSummary:
    """The calibration of a map in short; distances are in the unit of the map."""

    source: str
    images: int
    elsewhere: int
    landmarks: int
    coverage: float
    false_accepts: float
    reach: float
    valid: float  # largest feature distance in calibration
    confident: float  # share of the calibration images that are confident
    width: float  # mean width of the intervals of confident images
    note: str  # a warning for the user; "" if there is nothing to warn about


@dataclass(frozen=True)
class MapSummary:
    """A map in short."""

    landmarks: int
    estimated: int
    spacing: float
    frame: str
    unit: str
    dimensions: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    encoder: str
    encoder_kept: bool
    foreign: dict[str, str]  # name, code version and license of an encoder of others; {} for ours
    descriptor: int  # numbers per descriptor
    storage: str
    recall: dict[str, float]  # recall of approximate search; {} if search is exact
    calibration: CalibrationSummary | None
    notes: tuple[str, ...]


def summarize_map(landmarks: Map) -> MapSummary:
    """Summarize a map; this reads the map's table only."""
    positions, calibration = landmarks.places.positions, landmarks.calibration
    notes = [str(note) for note in landmarks.places.notes]
    if calibration is not None:
        notes += [calibration.note] if calibration.note else []
        if calibration.landmarks != len(landmarks):
            notes.append(
                f"calibrated with {calibration.landmarks:,} landmarks; build the map again to renew the calibration"
            )
    return MapSummary(
        landmarks=len(landmarks),
        estimated=int(landmarks.estimated.sum()),
        spacing=spacing_of(positions),
        frame=landmarks.frame.name,
        unit=landmarks.unit,
        dimensions=landmarks.dimensions,
        low=tuple(positions.min(axis=0).tolist()),
        high=tuple(positions.max(axis=0).tolist()),
        encoder=landmarks.encoder,
        encoder_kept="encoder" in landmarks.files,
        foreign={} if landmarks.about is None else dict(landmarks.about.foreign),
        descriptor=landmarks.store.dimensions,
        storage=landmarks.storage,
        recall=dict(getattr(landmarks.store, "recall", {})),
        calibration=None if calibration is None else _calibration(calibration, landmarks),
        notes=tuple(notes),
    )


def _calibration(calibration: Calibration, landmarks: Map) -> CalibrationSummary:
    spread = calibration.confident
    _, low, high = spread.predict(np.array(spread.feature), calibration.coverage)
    widths = np.minimum(high - low, whole_range(landmarks.places.positions, calibration.response.reach))
    return CalibrationSummary(
        source=calibration.source,
        images=calibration.images,
        elsewhere=calibration.elsewhere,
        landmarks=calibration.landmarks,
        coverage=calibration.coverage,
        false_accepts=calibration.false_accepts,
        reach=calibration.response.reach,
        valid=calibration.retrieved.furthest,
        confident=calibration.share_confident,
        width=float(np.average(widths, weights=spread.counts)),
        note=calibration.note,
    )
