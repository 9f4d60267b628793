"""A study, as the page shows it: its queries, and what each of its models made of them, as small JSON."""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from mappable.arrays import Bools, Floats, Ints, evenly
from mappable.errors import BadInputError
from mappable.evaluation.reproduce import RESULTS
from mappable.evaluation.result import RESULT, Result
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
    results = {name: one for name, one in loaded.items() if "table1" in one.scored}
    if not results:
        raise BadInputError(f"{folder}: no study here (no result in {RESULTS} has the protocol table1)")
    for name, result in results.items():
        _check_table(folder / RESULTS / name / RESULT, result)
    results = dict(sorted(results.items(), key=lambda item: _share(item[1])))
    places = load_places(folder / PLACES)
    rows = {str(name): row for row, name in enumerate(places.place_id)}
    first = next(iter(results.values()))
    if frame is not None and first.frame != frame:
        raise BadInputError(f"{folder}: its positions are in the frame {first.frame}, those of the map in {frame}")
    for name, result in results.items():
        if result.setup != first.setup or not set(result.ids) <= rows.keys():
            raise BadInputError(f"{folder / RESULTS / name}: of other images or radii than the rest of the study")
    queries = np.array([rows[name] for name in first.ids], dtype=np.int64)
    shown = evenly(len(queries), MOST, nearest=True)
    landmarks = np.unique(np.concatenate([one.arrays("table1")[which] for one in results.values() for which in _ROWS]))
    return StudyView(
        places,
        rows,
        _overview(places, results, queries[shown], landmarks),
        {name: _model(places, one, queries, shown, landmarks) for name, one in results.items()},
        {
            name: _matrices(places, one, queries)
            for name, one in results.items()
            if "metres" in one.arrays("distance-matrices")
        },
    )


_ROWS = ("landmarks", "retrieved")


def _check_table(file: Path, result: Result) -> None:
    """Refuse a result whose Table I is not all there."""
    values, arrays = result.scored["table1"].values, result.arrays("table1")
    try:
        numbers = (values["positive"][0], values["negative"][0], values["median"])
        whole = all(math.isfinite(one) for one in numbers) and "landmarks" in arrays
        whole &= all(len(arrays[name]) == len(result.ids) for name in ("errors", "retrieved"))
    except (LookupError, TypeError):
        whole = False
    if not whole:
        raise BadInputError(f"{file}: its protocol table1 lacks numbers; evaluate the model again")


def _share(result: Result) -> float:
    return float(result.scored["table1"].values["positive"][0])


def _overview(places: Places, results: Mapping[str, Result], queries: Ints, landmarks: Ints) -> bytes:
    first = next(iter(results.values()))
    models = [
        {
            "name": name,
            "title": one.title,
            "seed": one.seed,
            "encoder": one.encoder,
            "positive": one.scored["table1"].values["positive"][0],
            "negative": one.scored["table1"].values["negative"][0],
            "median": one.scored["table1"].values["median"],
            "matrices": "metres" in one.arrays("distance-matrices"),
            "trajectory": "truth" in one.arrays("map-recovery"),
        }
        for name, one in results.items()
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


def _model(places: Places, result: Result, queries: Ints, shown: Ints, landmarks: Ints) -> bytes:
    """For each query shown: which landmark was retrieved, how far off that is, and what was said about it."""
    table, said = result.arrays("table1"), result.arrays("localization")
    localized = result.values("localization")
    found: dict[str, Any] = {
        "retrieved": np.searchsorted(landmarks, table["retrieved"][shown]).tolist(),
        "error": _numbers(table["errors"][shown]),
    }
    for name in ("refined", "metres", "low", "high"):
        found[name] = _numbers(said[name][shown]) if name in said else None
    found["confident"] = said["confident"][shown].astype(bool).tolist() if "confident" in said else None
    found["calibration"] = localized and {
        name: localized.get(name) for name in ("coverage", "covered", "width", "confident", "by_condition", "note")
    }
    found["trajectory"] = _trajectory(places, result, queries)
    return _json(found)


def _trajectory(places: Places, result: Result, queries: Ints) -> dict[str, Any] | None:
    """True and recovered positions of a drive; its images are known by where they were taken."""
    arrays, values = result.arrays("map-recovery"), result.values("map-recovery")
    if values is None or "truth" not in arrays:
        return None
    own = queries[places.sequence[queries] == values["sequence"]]
    apart, nearest = KDTree(places.positions[own]).query(arrays["truth"])
    return {
        "drive": values["sequence"],
        "length": values["length"],
        "known": values["known"],
        "images": _ids(places, own[nearest], np.asarray(apart) < 1e-3),
        "truth": _numbers(arrays["truth"][:, :2]),
        "ways": [
            {"title": title, "anchored": name == "anchored", "positions": _numbers(arrays[f"positions_{name}"][:, :2])}
            for name, title in WAYS.items()
            if f"positions_{name}" in arrays
        ],
    }


def _matrices(places: Places, result: Result, queries: Ints) -> bytes:
    """Both matrices in 256 steps, and the images of their rows and columns."""
    arrays, values = result.arrays("distance-matrices"), result.scored["distance-matrices"].values
    metres, feature = arrays["metres"].astype(np.float64), arrays["feature"].astype(np.float64)
    own = queries[places.sequence[queries] == values["queries"]]
    columns = own[evenly(len(own), metres.shape[1], nearest=True)]
    rows, certain = _rows_by_distance(places, np.flatnonzero(places.sequence == values["reference"]), columns, metres)
    return _json(
        {
            "reference": values["reference"],
            "queries": values["queries"],
            "pearson": values["pearson"],
            "spearman": values["spearman"],
            "shape": list(metres.shape),
            "rows": _ids(places, rows, certain),
            "columns": _ids(places, columns, np.full(len(columns), bool(certain.any()))),
            "metres": _quantised(metres),
            "feature": _quantised(feature),
        }
    )


def _rows_by_distance(places: Places, among: Ints, columns: Ints, metres: Floats) -> tuple[Ints, Bools]:
    """Which images the rows of a matrix are: those that are as far from the images of its columns, and if any are."""
    at = places.positions
    if not len(among) or len(columns) != metres.shape[1]:
        return np.zeros(len(metres), dtype=np.int64), np.zeros(len(metres), dtype=bool)
    true = np.linalg.norm(at[among][:, None] - at[columns], axis=2)
    apart, nearest = KDTree(true).query(metres)
    return among[nearest], np.asarray(apart) < 1e-3 * (1.0 + np.linalg.norm(metres, axis=1))


def _quantised(values: Floats) -> dict[str, Any]:
    most = float(values.max()) or 1.0
    return {"most": most, "steps": base64.b64encode(_bytes(values / most)).decode()}


def _bytes(shares: Floats) -> bytes:
    return np.round(shares * 255).astype(np.uint8).tobytes()


def _ids(places: Places, rows: Ints, certain: Bools) -> list[str | None]:
    return [str(name) if sure else None for name, sure in zip(places.place_id[rows], certain, strict=True)]


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
