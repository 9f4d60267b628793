"""Estimate what a map will do on another visit: leave out each visit, and locate it in a map of the others."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.spatial import KDTree
from scipy.special import stdtrit

from mappable.arrays import Bools, Floats, Floats32, Ints, evenly
from mappable.errors import BadInputError
from mappable.features.descriptors import Described
from mappable.localization.build import build_map_of, usual_landmarks
from mappable.localization.location import Location
from mappable.localization.map import Map
from mappable.maps.calibration import CalibratedOn as Source
from mappable.places.table import Places
from mappable.progress import track

MOST_VISITS = 6  # visits that are left out in turn; of more visits, evenly chosen ones
FEWEST_QUERIES = 10  # images of a visit that other visits saw too; a visit with fewer says nothing
PROBABILITY = 0.9  # that the value of another visit is in the interval
# Deviation between visits before any is seen, and its weight in visits. The deviation of errors is
# logarithmic. studies/start chose both on the walks and the street, and checked them on the race
# track and the rooms.
PRIOR_DEVIATION = {"found": 0.15, "found in a drive": 0.07, "median error": 0.5, "coverage": 0.05}
PRIOR_VISITS = 3.0
SHARES = ("found", "found in a drive", "coverage")
SMALLEST_ERROR = 1e-3
STATED = 0.9  # coverage that a map states for its intervals, by default
# On which visits deviate, and back.
Scale = tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]
LINEAR: Scale = (lambda x: x, lambda y: np.clip(y, 0.0, 1.0))
LOG: Scale = (lambda x: np.log(np.maximum(x, SMALLEST_ERROR)), np.exp)


@dataclass(frozen=True)
class Visit:
    """What a map of the other visits did on this one: shares from 0 to 1, and lengths in the unit
    of the frame.
    """

    name: str
    queries: int
    found: float  # share of single images within the radius
    found_in_a_drive: float  # the same, if the images of the visit are located together
    median_error: float  # of single images
    confident: float  # share of single images
    right: float  # share of confident images that are within the radius
    coverage: float  # share of intervals that contain the true distance
    width: float  # median of intervals
    source: Source  # what calibrated the map of the other visits


@dataclass(frozen=True)
class Expected:
    """A value to expect on another visit; it is in the interval with probability PROBABILITY."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """What to expect of a map on another visit, and what the left-out visits gave.

    `source` says what calibrated the map of all visits.
    """

    radius: float
    unit: str
    visits: tuple[Visit, ...]
    expected: tuple[Expected, ...]
    source: Source

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Estimate":
        """The inverse of `dataclasses.asdict`."""
        visits = tuple(Visit(**one) for one in fields["visits"])
        values = tuple(Expected(**one) for one in fields["expected"])
        return cls(fields["radius"], fields["unit"], visits, values, fields["source"])


def estimate(
    described: Described, radius: float, asked: Ints | None = None, encoder: str | None = None
) -> Estimate:
    """Leave out each visit in turn. An image counts if another visit was within `radius`.

    `asked` are the rows that may be queries (default: all). For a trained encoder they must be rows
    that did not train. `encoder` names the encoder if the descriptors record none.
    """
    places = described.places
    visits = places.sequences()
    allowed = (
        np.ones(len(places), dtype=bool)
        if asked is None
        else np.isin(np.arange(len(places)), asked)
    )
    names = [name for name, rows in visits.items() if allowed[rows].any()]
    results = []
    chosen = [names[number] for number in evenly(len(names), MOST_VISITS)] if names else []
    for name in track(chosen, "locating each visit in a map of the others", len(chosen)):
        rows = visits[name]
        others = np.setdiff1d(np.arange(len(places)), rows)
        given = radius, encoder
        one = (
            None
            if not len(others)
            else locate_visit(described, others, rows[allowed[rows]], *given)
        )
        results += [] if one is None else [one]
    if len(visits) < 2 or not results:
        raise BadInputError(
            "an estimate needs two visits of the same places; visit the route again"
        )
    count = usual_landmarks(described.about, places)
    source = build_map_of(described, encoder, landmarks=count).calibration.calibrated_on
    return Estimate(radius, places.unit, tuple(results), expected(results, source), source)


def locate_visit(
    described: Described,
    known: Ints,
    asked: Ints,
    radius: float,
    encoder: str | None = None,
) -> Visit | None:
    """Build a map of the rows `known`, and locate the rows `asked` of one visit in it; None if too
    few were seen.
    """
    places = described.places
    part = replace(
        described,
        places=places[known].replace(split="", role=""),
        descriptors=described.descriptors[known],
    )
    asked = asked[seen_before(places[known], places[asked], radius)]
    if len(asked) < FEWEST_QUERIES:
        return None
    count = usual_landmarks(described.about, part.places)
    built = build_map_of(part, encoder, landmarks=count)
    return judge(built, places[asked], described.descriptors[asked], radius)


def seen_before(known: Places, asked: Places, radius: float) -> Bools:
    """True for each place asked that is within `radius` of a known one."""
    near: Bools = KDTree(known.positions).query(asked.positions)[0] <= radius
    return near


def judge(built: Map, places: Places, seen: Floats32, radius: float) -> Visit:
    """What a calibrated map does on the `places` of one visit, from their descriptors `seen` (n,
    dim).
    """
    truth, known = places.positions, built.landmarks.places
    single, drive = built.locate_all(seen), built.locate_drive(seen)
    number = {name: row for row, name in enumerate(known.place_id)}
    off = _errors(single, truth)
    landmark = np.linalg.norm(
        known.positions[[number[one.landmark] for one in single]] - truth, axis=1
    )
    low, high = (
        np.array([np.nan if end is None else end for end in ends]) for ends in _ends(single)
    )
    stated, sure = np.isfinite(low), np.array([one.confident for one in single])
    held = (low <= landmark) & (landmark <= high)
    return Visit(
        name=str(places.sequence[0]),
        queries=len(places),
        found=float((off <= radius).mean()),
        found_in_a_drive=float((_errors(drive, truth) <= radius).mean()),
        median_error=float(np.median(off)),
        confident=float(sure.mean()),
        right=float((off[sure] <= radius).mean()) if sure.any() else math.nan,
        coverage=float(held[stated].mean()) if stated.any() else math.nan,
        width=float(np.median((high - low)[stated])) if stated.any() else math.nan,
        source=built.calibration.calibrated_on,
    )


def expected(visits: Sequence[Visit], source: Source) -> tuple[Expected, ...]:
    """The values to expect on another visit, with intervals, from those of some visits.

    `source` says what calibrated the map of all visits.
    """
    each = {name: values_of(visits, name, source) for name in PRIOR_DEVIATION}
    return tuple(
        Expected(name, *predict(values, name)) for name, values in each.items() if len(values)
    )


def values_of(visits: Sequence[Visit], name: str, source: Source) -> Floats:
    """What the left-out visits say about the value `name` of a map that `source` calibrated.

    A map of one visit has far wider intervals than a map that calibrated on another visit. So the
    coverage of the one says nothing about the other. Without a visit of the same kind, the coverage
    that maps state counts as one visit.
    """
    if name == "coverage":
        visits = [one for one in visits if (one.source == "own visit") == (source == "own visit")]
        if not visits:
            return np.array([STATED])
    values = np.array([getattr(one, name.replace(" ", "_")) for one in visits])
    kept: Floats = values[np.isfinite(values)]
    return kept


def predict(
    values: Floats,
    name: str,
    deviation: float | None = None,
    weight: float = PRIOR_VISITS,
    scale: Scale | None = None,
) -> tuple[float, float, float]:
    """Value and interval of another visit: a Student t prediction, on a linear scale for shares,
    and a log scale else.

    With few visits, their deviation is unknown. The prior counts like `weight` visits of a known
    `deviation`.
    """
    deviation = PRIOR_DEVIATION[name] if deviation is None else deviation
    forth, back = (scale or LINEAR) if name in SHARES else LOG
    scaled = forth(values)
    freedom = weight + len(scaled) - 1
    variance = (weight * deviation**2 + ((scaled - scaled.mean()) ** 2).sum()) / freedom
    width = float(stdtrit(freedom, (1 + PROBABILITY) / 2)) * math.sqrt(
        variance * (1 + 1 / len(scaled))
    )
    value, low, high = (float(end) for end in back(scaled.mean() + np.array([0.0, -width, width])))
    return value, low, high


def _errors(found: Sequence[Location], truth: Floats) -> Floats:
    errors: Floats = np.linalg.norm(np.array([one.coordinates for one in found]) - truth, axis=1)
    return errors


def _ends(found: Sequence[Location]) -> tuple[list[float | None], list[float | None]]:
    return [one.low for one in found], [one.high for one in found]
