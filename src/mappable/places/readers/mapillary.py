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

The computed values come from Mapillary's own reconstruction. A note counts images that have only those of the GPS.
`--source gps` takes the GPS for all images.

Images without a file or without a position are left out and listed. All images share one UTM frame.

Written from the description of the API; not tried on real files.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from mappable.containers import read_json
from mappable.errors import BadInputError, shown
from mappable.places.angles import yaw_from_compass
from mappable.places.columns import no_fix
from mappable.places.frames import frame_from_latlon
from mappable.places.notes import Findings
from mappable.places.readers import image_files, join, walk
from mappable.places.table import NO_TIME, Places

MAX_BYTES = 2**28  # of one JSON file


def read(
    root: Path,
    *,
    source: Annotated[
        Literal["computed", "gps"], "positions and directions: Mapillary's own if there are some, or those of the GPS"
    ] = "computed",
) -> Places:
    found = Findings()
    files = {file.stem: file for file in image_files(root)}
    records: dict[str, dict[str, Any]] = {}
    labels: dict[str, str] = {}
    for folder, _, names in walk(root):
        for name in names:
            if name.lower().endswith(".json"):
                for record in _records(root / join(folder, name)):
                    key = str(record.get("id") or name.partition(".")[0])
                    records[key], labels[key] = record, f"{root / join(folder, name)}, image {shown(key)}"
    if not records:
        raise BadInputError(f"{root}: no JSON file of Mapillary with images")
    found["images have no JSON"] += sorted(files[stem].name for stem in files.keys() - records.keys())
    found["images of the JSON have no file (left out)"] += sorted(records.keys() - files.keys())
    ids = [one for one in records if one in files]
    known = {one: _position(labels[one], records[one], source) for one in ids}
    found["images have no position (left out)"] += [one for one in ids if known[one] is None]
    ids = [one for one in ids if known[one] is not None]
    if not ids:
        raise BadInputError(f"{root}: no image has both a file and a position")
    degrees = np.array([known[one] for one in ids], dtype=np.float64)
    if source == "computed":
        plain = [one for one in ids if not isinstance(records[one].get("computed_geometry"), dict)]
        found["images have only the position of the GPS"] += plain
    frame, x, y = frame_from_latlon(degrees[:, 1], degrees[:, 0])
    angle = [_number(records[one], "compass_angle", source) for one in ids]
    stamps = [records[one].get("captured_at") for one in ids]
    return Places(
        path=[files[one].relative_to(root).as_posix() for one in ids],
        place_id=ids,
        root=root,
        frames=frame,
        x=x,
        y=y,
        z=[_number(records[one], "altitude", source) for one in ids],
        yaw=yaw_from_compass(np.deg2rad(np.array(angle))),
        time=[stamp * 10**6 if type(stamp) is int and 0 < stamp < 9 * 10**12 else NO_TIME for stamp in stamps],
        sequence=[str(records[one].get("sequence") or records[one].get("sequence_id") or "") for one in ids],
        notes=found.notes(),
    )


def _records(file: Path) -> list[dict[str, Any]]:
    """The images in a JSON file: those of an answer, of a list, or the one that the file describes."""
    content = read_json(file, MAX_BYTES)
    content = content["data"] if isinstance(content, dict) and isinstance(content.get("data"), list) else content
    listed = content if isinstance(content, list) else [content]
    return [one for one in listed if isinstance(one, dict) and ("geometry" in one or "computed_geometry" in one)]


def _position(label: str, record: dict[str, Any], source: str) -> tuple[float, float] | None:
    for key in ("computed_geometry", "geometry") if source == "computed" else ("geometry",):
        place = record.get(key)
        coordinates = place.get("coordinates") if isinstance(place, dict) else None
        if coordinates is None:
            continue
        pair = coordinates[:2] if isinstance(coordinates, list) else []
        if len(pair) < 2 or not all(_is_number(one) for one in pair) or abs(pair[0]) > 180 or abs(pair[1]) > 90:
            raise BadInputError(f"{label}: {key} is {shown(coordinates)}, expected [longitude, latitude] in degrees")
        longitude, latitude = float(pair[0]), float(pair[1])
        if not no_fix(np.array([latitude]), np.array([longitude]))[0]:
            return longitude, latitude
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9


def _number(record: dict[str, Any], name: str, source: str) -> float:
    keys = (f"computed_{name}", name) if source == "computed" else (name,)
    return next((float(record[key]) for key in keys if _is_number(record.get(key))), float("nan"))
