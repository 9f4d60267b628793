"""A study as the viewer shows it: its queries and each model's answers, as small JSON."""

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

MOST = 4000  # queries that are shown
DECIMALS = 3
WAYS = {"anchored": "between known positions", "recovered": "from distances alone", "mds": "the paper's way"}


@dataclass(frozen=True)
class StudyView:
    """What is shown of a study: an overview; and by the name of a model what it found, and its distance matrices.

    All three are JSON. `rows` are those of `places` by their ids.
    """

    places: Places
    rows: Mapping[str, int]
    overview: bytes
    models: Mapping[str, bytes]
    matrices: Mapping[str, bytes]


def open_study(folder: Path, frame: str | None = None) -> StudyView:
    """What `mappable reproduce` or `mappable demo` left in a folder; its positions must be in that `frame`."""
    homes = sorted(file.parent for file in (folder / RESULTS).glob(f"*/{RESULT}"))
    loaded = {home.name: Result.load(home) for home in homes}
    found = {name: (one, accuracy) for name, one in loaded.items() if (accuracy := one.get(Accuracy))}
    if not found:
        raise BadInputError(f"{folder}: no study here (no result in {RESULTS} has the protocol table1)")
    models = dict(sorted(found.items(), key=lambda item: item[1][1].positive[0]))
    places = load_places(folder / PLACES)
    rows = {str(name): row for row, name in enumerate(places.place_id)}
    first, accuracy = next(iter(models.values()))
    if frame is not None and first.frame != frame:
        raise BadInputError(f"{folder}: its positions are in the frame {first.frame}, those of the map in {frame}")
    for name, (result, own) in models.items():
        _check_rows(folder / RESULTS / name, places, result, own)
        if result.setup != first.setup or places.place_id[own.queries].tolist() != result.ids.tolist():
            raise BadInputError(f"{folder / RESULTS / name}: of other images or radii than the rest of the study")
    shown = evenly(len(accuracy.queries), MOST, nearest=True)
    landmarks = np.unique(np.concatenate([own.landmarks for _, own in models.values()]))
    matrices = {name: one.get(Matrices) for name, (one, _) in models.items()}
    return StudyView(
        places,
        rows,
        _overview(places, models, accuracy.queries[shown], landmarks),
        {name: _model(places, *one, shown, landmarks) for name, one in models.items()},
        {name: _matrices(places, one) for name, one in matrices.items() if one},
    )


def _check_rows(home: Path, places: Places, result: Result, accuracy: Accuracy) -> None:
    """Refuse a result with rows that the table does not have, or with two lists of queries that differ."""
    said, drive, matrices = result.get(Localization), result.get(MapRecovery), result.get(Matrices)
    rows = [accuracy.queries, accuracy.landmarks, accuracy.retrieved]
    rows += [drive.images] if drive else []
    rows += [matrices.references, matrices.queries] if matrices else []
    last = int(np.concatenate(rows).max(initial=-1))
    if last >= len(places):
        has = f"the table in {PLACES} has {len(places):,} images, and this result names image {last + 1:,}"
        raise BadInputError(f"{home}: {has}; evaluate again")
    if said and not np.array_equal(said.queries, accuracy.queries):
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
    """For each query shown: which landmark was retrieved, how far off that is, and what was said about it."""
    found: dict[str, Any] = {
        "retrieved": np.searchsorted(landmarks, accuracy.retrieved[shown]).tolist(),
        "error": _numbers(accuracy.errors[shown]),
    }
    said = result.get(Localization)
    for name in ("refined", "distance", "low", "high"):
        found[name] = said and _numbers(getattr(said, name)[shown])
    found["confident"] = said and said.confident[shown].tolist()
    found["calibration"] = said and _calibration(said, result.conditions)
    found["trajectory"] = _trajectory(places, result.get(MapRecovery))
    return _json(found)


def _calibration(said: Localization, conditions: Strings) -> dict[str, Any]:
    """What all intervals together come to."""
    covered, width = said.covered()
    groups = {str(name) or "unnamed": np.flatnonzero(conditions == name) for name in sorted(set(conditions))}
    return {
        "coverage": said.coverage,
        "covered": covered,
        "width": width,
        "confident": said.calibrated(said.confident),
        "by_condition": {
            name: {"covered": said.covered(own)[0], "confident": said.calibrated(said.confident[own])}
            for name, own in groups.items()
        },
        "note": said.note or None,
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
            for name, title in WAYS.items()
            if name in found.positions
        ],
    }


def _matrices(places: Places, found: Matrices) -> bytes:
    """Both matrices in 256 steps, and the images of their rows and columns."""
    return _json(
        {
            "reference": found.reference_sequence,
            "queries": found.query_sequence,
            "pearson": found.pearson,
            "spearman": found.spearman,
            "shape": list(found.distances.shape),
            "rows": places.place_id[found.references].tolist(),
            "columns": places.place_id[found.queries].tolist(),
            "distances": _quantised(found.distances),
            "feature": _quantised(found.feature),
        }
    )


def _quantised(distances: Floats32) -> dict[str, Any]:
    values = distances.astype(np.float64)
    most = float(values.max()) or 1.0
    return {"most": most, "steps": base64.b64encode(_bytes(values / most)).decode()}


def _bytes(shares: Floats) -> bytes:
    return np.round(shares * 255).astype(np.uint8).tobytes()


def _columns(places: Places, rows: Ints) -> dict[str, Any]:
    at = places.positions[rows]
    return {"id": places.place_id[rows].tolist(), "x": _numbers(at[:, 0]), "y": _numbers(at[:, 1])}


def _numbers(values: Floats) -> list[Any]:
    """Lists of short numbers; None where there is none."""
    rounded = np.round(values.astype(np.float64), DECIMALS)
    found: list[Any] = np.where(np.isfinite(rounded), rounded, None).tolist()  # type: ignore[call-overload]
    return found


def _json(values: Mapping[str, Any] | Sequence[Any]) -> bytes:
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()
