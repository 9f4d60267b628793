"""Mapillary images with JSON: answers of its API, or a side file per image.

    ROOT/
      images.json                answers of the API: {"data": [{"id": …, "geometry": …}, …]}, or a list of images
      498763468214164.jpg        an image; the name is its id. It may also lie in a subfolder
      498763468214164.jpg.json   instead: the same fields of one image

Fields of an image:

- `id`
- `computed_geometry` or else `geometry`: `coordinates` has longitude and latitude
- `computed_compass_angle` or else `compass_angle`: degrees clockwise from north
- `computed_altitude` or else `altitude`: metres
- `captured_at`: milliseconds since 1970
- `sequence` or `sequence_id`

Fields of the API before 2021 work, too: `lat` and `lon`, `ca` (the compass angle), `key` and
`skey`. A side file `NAME.jpg.json` belongs to `NAME.jpg`, whatever its `key` is.

The computed values come from Mapillary's own reconstruction. A note counts images that have only
those of the GPS. `--source gps` takes the GPS for all images.

Images without a file or without a position are left out and listed. All images share one UTM frame.

Written from the description of the API; not tried on real files.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from mappable.containers import read_json
from mappable.errors import BadInputError, shown
from mappable.places.angles import yaw_from_compass
from mappable.places.frames import frame_from_latlon
from mappable.places.notes import Findings
from mappable.places.table import NO_TIME, Places
from mappable.readers.toolkit import below, image_files, join, walk

LAYOUT = ("*.jpg.json", "*/*.jpg.json", "*.json")
MAX_BYTES = 2**28  # of one JSON file
# Names before 2021.
OLD = {"ca": "compass_angle", "key": "id", "alt": "altitude", "skey": "sequence"}
LATEST = 9 * 10**12  # milliseconds; int64 nanoseconds overflow shortly after this
Source = Literal["computed", "gps"]
Record = dict[str, Any]


def read(
    root: Path,
    found: Findings,
    *,
    source: Annotated[
        Source, "positions and directions: Mapillary's own if there are some, or those of the GPS"
    ] = "computed",
) -> Places:
    records = _records(root, "computed_" if source == "computed" else "")
    if not records:
        raise BadInputError(f"{root}: no JSON file of Mapillary with images")
    by_name = {
        name: below(root, file)
        for file in image_files(root)
        for name in (file.stem, below(root, file))
    }
    files = {
        key: by_name.get(record["beside"], by_name.get(key, "")) for key, record in records.items()
    }
    found.note("images have no JSON", sorted({*by_name.values()} - {*files.values()}))
    found.note(
        "images of the JSON have no file (left out)",
        sorted(key for key, file in files.items() if not file),
    )
    there = [key for key, file in files.items() if file]
    degrees = {key: _position(records[key]) for key in there}
    ids = [key for key, place in degrees.items() if place is not None]
    found.note("images have no position (left out)", (key for key in there if degrees[key] is None))
    if not ids:
        raise BadInputError(f"{root}: no image has both a file and a position")
    longitude, latitude = np.array([degrees[key] for key in ids], dtype=np.float64).T
    frame, x, y = frame_from_latlon(latitude, longitude)
    kept = [records[key] for key in ids]
    if source == "computed":
        plain = (key for key in ids if not isinstance(records[key].get("computed_geometry"), dict))
        found.note("images have only the position of the GPS", plain)
    stamps = [record.get("captured_at") for record in kept]
    return Places(
        path=[files[key] for key in ids],
        place_id=ids,
        root=root,
        frames=frame,
        x=x,
        y=y,
        z=[_number(record, "altitude") for record in kept],
        yaw=yaw_from_compass(np.deg2rad([_number(record, "compass_angle") for record in kept])),
        time=[
            stamp * 10**6 if type(stamp) is int and 0 < stamp < LATEST else NO_TIME
            for stamp in stamps
        ],
        sequence=[
            str(record.get("sequence") or record.get("sequence_id") or "") for record in kept
        ],
    )


def _records(root: Path, computed: str) -> dict[str, Record]:
    """The images in all JSON files by id.

    `label` names one in errors; `beside` is the image next to a side file; `best` has the prefixes
    of names of values.
    """
    records: dict[str, Record] = {}
    paths = (join(folder, name) for folder, _, names in walk(root) for name in names)
    for path in (path for path in paths if path.lower().endswith(".json")):
        content = read_json(root / path, MAX_BYTES)
        if isinstance(content, dict) and isinstance(content.get("data"), list):
            content = content["data"]
        for record in content if isinstance(content, list) else [content]:
            record = _in_new_names(record) if isinstance(record, dict) else {}
            if "geometry" in record or "computed_geometry" in record:
                key = str(record.get("id") or path.rpartition("/")[2].partition(".")[0])
                about = {
                    "label": f"{root / path}, image {shown(key)}",
                    "beside": path[: -len(".json")],
                }
                records[key] = record | about | {"best": list(dict.fromkeys((computed, "")))}
    return records


def _in_new_names(record: Record) -> Record:
    """The fields of an image by the names of today's API."""
    renamed = {OLD[name]: value for name, value in record.items() if name in OLD}
    if "lat" in record and "lon" in record:
        renamed["geometry"] = {"coordinates": [record["lon"], record["lat"]]}
    return renamed | record


def _position(record: Record) -> tuple[float, float] | None:
    """Longitude and latitude in degrees."""
    for key in (f"{prefix}geometry" for prefix in record["best"]):
        place = record.get(key)
        coordinates = place.get("coordinates") if isinstance(place, dict) else None
        if coordinates is None:
            continue
        pair = coordinates[:2] if isinstance(coordinates, list) else []
        if (
            len(pair) < 2
            or not all(_is_number(one) for one in pair)
            or abs(pair[0]) > 180
            or abs(pair[1]) > 90
        ):
            expected = "expected [longitude, latitude] in degrees"
            raise BadInputError(f"{record['label']}: {key} is {shown(coordinates)}, {expected}")
        if pair[0] or pair[1]:  # at 0, 0 there was no fix
            return float(pair[0]), float(pair[1])
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9


def _number(record: Record, name: str) -> float:
    values: list[Any] = [record.get(f"{prefix}{name}") for prefix in record["best"]]
    return next((float(value) for value in values if _is_number(value)), float("nan"))
