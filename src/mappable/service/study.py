"""A study for the viewer: its queries and the results of each model, as compact JSON."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mappable.arrays import Floats, Floats32, Ints, Strings, evenly
from mappable.errors import BadInputError
from mappable.evaluation.protocols.distance_matrices import Matrices
from mappable.evaluation.protocols.localization.compute import Localization
from mappable.evaluation.protocols.map_recovery.compute import MapRecovery
from mappable.evaluation.reproduce import RESULTS
from mappable.evaluation.result import RESULT, Accuracy, Result
from mappable.evaluation.sets import PLACES
from mappable.places.files import load_places
from mappable.places.table import Places

SHOWN_QUERIES = 4000  # at most
DECIMALS = 3
METHODS = {"anchored": "with known positions", "recovered": "from distances alone", "mds": "the paper's method"}


@dataclass(frozen=True)
class StudyView:
    """What the viewer shows of a study: an overview, and by model name the results and the distance matrices.

    All three are JSON. `rows` maps ids to rows of `places`.
    """

    folder: Path
    places: Places
    rows: Mapping[str, int]
    overview: bytes
    models: Mapping[str, bytes]
    matrices: Mapping[str, bytes]


def open_study(folder: Path, frame: str | None = None) -> StudyView:
    """A study from a folder that `mappable reproduce` or `mappable demo` wrote.

    Raises if its positions are not in `frame`.
    """
    homes = sorted(file.parent for file in (folder / RESULTS).glob(f"*/{RESULT}"))
    loaded = {home.name: Result.load(home) for home in homes}
    found = {name: (one, accuracy) for name, one in loaded.items() if (accuracy := one.get(Accuracy))}
    if not found:
        raise BadInputError(f"{folder}: not a study: no result in {RESULTS} has the protocol table1")
    models = dict(sorted(found.items(), key=lambda item: item[1][1].positive[0]))
    places = load_places(folder / PLACES)
    rows = {str(name): row for row, name in enumerate(places.place_id)}
    first, accuracy = next(iter(models.values()))
    if frame is not None and first.frame != frame:
        raise BadInputError(f"{folder}: has positions in frame {first.frame}, expected the map's frame {frame}")
    for name, (result, own) in models.items():
        _check_rows(folder / RESULTS / name, places, result, own)
        if result.setup != first.setup or places.place_id[own.queries].tolist() != result.ids.tolist():
            raise BadInputError(f"{folder / RESULTS / name}: has other images or radii than the rest of the study")
    shown = evenly(len(accuracy.queries), SHOWN_QUERIES, nearest=True)
    landmarks = np.unique(np.concatenate([own.landmarks for _, own in models.values()]))
    matrices = {name: one.get(Matrices) for name, (one, _) in models.items()}
    return StudyView(
        folder,
        places,
        rows,
        _overview(places, models, accuracy.queries[shown], landmarks),
        {name: _model(places, *one, shown, landmarks) for name, one in models.items()},
        {name: _matrices(places, one) for name, one in matrices.items() if one},
    )


def _check_rows(home: Path, places: Places, result: Result, accuracy: Accuracy) -> None:
    """Raise if a result has rows that the table lacks, or if two of its protocols have different queries."""
    located, drive, matrices = result.get(Localization), result.get(MapRecovery), result.get(Matrices)
    rows = [accuracy.queries, accuracy.landmarks, accuracy.retrieved]
    rows += [drive.images] if drive else []
    rows += [matrices.references, matrices.queries] if matrices else []
    last = int(np.concatenate(rows).max(initial=-1))
    if last >= len(places):
        problem = f"the table in {PLACES} has {len(places):,} images, but this result refers to image {last + 1:,}"
        raise BadInputError(f"{home}: {problem}; evaluate again")
    if located and not np.array_equal(located.queries, accuracy.queries):
        raise BadInputError(f"{home}: the protocol localization has other queries than table1; evaluate again")


def _overview(places: Places, results: Mapping[str, tuple[Result, Accuracy]], queries: Ints, landmarks: Ints) -> bytes:
    first, _ = next(iter(results.values()))
    models = [
        {
            "name": name,
            "title": one.title,
            "seed": one.seed,
            "encoder": one.encoder,
            "positive": accuracy.positive[0],
            "negative": accuracy.negative[0],
            "median": float(np.median(accuracy.errors)),
            "matrices": one.get(Matrices) is not None,
            "trajectory": one.get(MapRecovery) is not None,
        }
        for name, (one, accuracy) in results.items()
    ]
    return _json(
        {
            "set": first.set,
            "frame": first.frame,
            "unit": first.unit,
            "positive_radius": first.positive_radius,
            "negative_radius": first.negative_radius,
            "models": models,
            "queries": _columns(places, queries)
            | {"condition": places.condition[queries].tolist(), "drive": places.sequence[queries].tolist()},
            "landmarks": _columns(places, landmarks),
        }
    )


def _model(places: Places, result: Result, accuracy: Accuracy, shown: Ints, landmarks: Ints) -> bytes:
    """For each shown query: the retrieved landmark, its error, and the stated distance with its interval."""
    found: dict[str, Any] = {
        "retrieved": np.searchsorted(landmarks, accuracy.retrieved[shown]).tolist(),
        "error": _numbers(accuracy.errors[shown]),
    }
    located = result.get(Localization)
    for name in ("refined", "distance", "low", "high"):
        found[name] = located and _numbers(getattr(located, name)[shown])
    found["confident"] = located and located.confident[shown].tolist()
    found["calibration"] = located and _calibration(located, result.conditions)
    found["trajectory"] = _trajectory(places, result.get(MapRecovery))
    return _json(found)


def _calibration(located: Localization, conditions: Strings) -> dict[str, Any]:
    """Coverage and width of the intervals, for all queries and per condition."""
    covered, width = located.covered()
    groups = {str(name) or "unnamed": np.flatnonzero(conditions == name) for name in sorted(set(conditions))}
    return {
        "coverage": located.coverage,
        "covered": covered,
        "width": width,
        "confident": located.calibrated(located.confident),
        "by_condition": {
            name: {"covered": located.covered(own)[0], "confident": located.calibrated(located.confident[own])}
            for name, own in groups.items()
        },
        "note": located.note or None,
    }


def _trajectory(places: Places, found: MapRecovery | None) -> dict[str, Any] | None:
    """True and recovered positions of a drive."""
    if found is None:
        return None
    return {
        "drive": found.sequence,
        "length": found.length,
        "known": len(found.known),
        "images": places.place_id[found.images].tolist(),
        "truth": _numbers(found.truth[:, :2]),
        "ways": [
            {"title": title, "anchored": name == "anchored", "positions": _numbers(found.positions[name][:, :2])}
            for name, title in METHODS.items()
            if name in found.positions
        ],
    }


def _matrices(places: Places, found: Matrices) -> bytes:
    """Both matrices, quantized to 256 steps, and the images of their rows and columns."""
    return _json(
        {
            "reference": found.reference_sequence,
            "queries": found.query_sequence,
            "pearson": found.pearson,
            "spearman": found.spearman,
            "shape": list(found.distances.shape),
            "rows": places.place_id[found.references].tolist(),
            "columns": places.place_id[found.queries].tolist(),
            "distances": _quantized(found.distances),
            "feature": _quantized(found.feature),
        }
    )


def _quantized(distances: Floats32) -> dict[str, Any]:
    values = distances.astype(np.float64)
    most = float(values.max()) or 1.0
    return {"most": most, "steps": base64.b64encode(_bytes(values / most)).decode()}


def _bytes(shares: Floats) -> bytes:
    return np.round(shares * 255).astype(np.uint8).tobytes()


def _columns(places: Places, rows: Ints) -> dict[str, Any]:
    at = places.positions[rows]
    return {"id": places.place_id[rows].tolist(), "x": _numbers(at[:, 0]), "y": _numbers(at[:, 1])}


def _numbers(values: Floats) -> list[Any]:
    """Nested lists of rounded numbers; None replaces values that are not finite."""
    rounded = np.round(values.astype(np.float64), DECIMALS)
    found: list[Any] = np.where(np.isfinite(rounded), rounded, None).tolist()  # type: ignore[call-overload]
    return found


def _json(values: Mapping[str, Any] | Sequence[Any]) -> bytes:
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()
