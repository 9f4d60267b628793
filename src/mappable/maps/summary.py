"""Summarize a map in numbers and notes."""

from dataclasses import dataclass

from mappable.maps.calibration import Calibration
from mappable.maps.choosing import spacing_of
from mappable.maps.landmarks import Landmarks


@dataclass(frozen=True)
class CalibrationSummary:
    """The calibration of a map in short; distances are in the unit of the map."""

    calibrated_on: str  # own visit, other visits, or a drive
    images: int
    elsewhere: int
    landmarks: int
    coverage: float
    radius: float  # of a place
    sure: float  # least probability of the place of a confident single image
    width: float  # factor of the intervals of single images
    reach: float  # largest distance of two images that their descriptors show; 0 if none
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


def summarize_map(landmarks: Landmarks) -> MapSummary:
    """Summarize a map; this reads the map's table only."""
    positions, calibration = landmarks.places.positions, landmarks.calibration
    notes = [str(note) for note in landmarks.places.notes]
    if calibration is not None:
        notes += [calibration.note] if calibration.note else []
        if calibration.landmarks != len(landmarks):
            notes.append(
                f"calibrated with {calibration.landmarks:,} landmarks; renew it: mappable map"
                " calibrate"
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
        calibration=None if calibration is None else _calibration(calibration),
        notes=tuple(notes),
    )


def _calibration(calibration: Calibration) -> CalibrationSummary:
    return CalibrationSummary(
        calibrated_on=calibration.calibrated_on,
        images=calibration.images,
        elsewhere=calibration.elsewhere,
        landmarks=calibration.landmarks,
        coverage=calibration.coverage,
        radius=calibration.radius,
        sure=calibration.sure["single"],
        width=calibration.width["single"],
        reach=calibration.growth.reach if calibration.growth else 0.0,
        note=calibration.note,
    )
