"""A map's files, which may change or vanish while it is served from memory."""

import io
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from mappable.arrays import evenly
from mappable.maps.folder import MAP
from mappable.maps.map import Map
from mappable.places.images import ORIENTATION, TURNED, load_image, read_bytes
from mappable.places.table import Places
from mappable.service.limits import RefusedError

TYPES = {"JPEG": "image/jpeg", "MPO": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}
SAMPLE = 100  # landmarks whose images are looked for


def picture(places: Places, row: int, what: str = "landmark", most: int | None = None) -> tuple[bytes, str]:
    """The image file of a place, and its content type; what browsers do not show is made a PNG.

    One that is wider or higher than `most` pixels is made smaller, and a JPEG. `what` is what the place is called.
    """
    name, file, decoding = str(places.place_id[row]), places.root / places.path[row], places.decoding
    if not file.is_file():
        raise RefusedError(410, f"{what}_image", f"the image of {what} {name!r} is not where it was")
    shown = io.BytesIO()
    try:
        data = read_bytes(file)
        with Image.open(io.BytesIO(data)) as image:
            turned = image.getexif().get(ORIENTATION) in TURNED
            size, kind = image.size[::-1] if turned else image.size, TYPES.get(image.format or "")
        large = most is not None and max(size) > most
        if kind and decoding is None and not large:
            return data, kind
        upright = Image.fromarray(load_image(file, size, "stretch", decoding))
        if most is not None:
            upright.thumbnail((most, most))
        upright.save(shown, "JPEG" if large else "PNG")
    except Exception:  # decoders promise no closed set of errors
        raise RefusedError(410, f"{what}_image", f"the image of {what} {name!r} can no longer be read") from None
    return shown.getvalue(), "image/jpeg" if large else "image/png"


def notes_on(landmarks: Map, folder: Path) -> Callable[[], list[str]]:
    """What says, in sentences, how the files of the map differ from what was opened."""
    opened = _description(folder)
    rows = evenly(len(landmarks), SAMPLE)
    files = [landmarks.places.root / landmarks.places.path[row] for row in rows]

    def notes() -> list[str]:
        said, now = [], _description(folder)
        if now is None:
            said.append("the map is gone from the disk; it is served from memory")
        elif now != opened:
            said.append("the map on the disk has changed; restart to serve it")
        missing = sum(not file.is_file() for file in files)
        if missing:
            said.append(f"of {len(files)} landmarks that were looked at, {missing} have no image file")
        return said

    return notes


def _description(folder: Path) -> bytes | None:
    try:
        return (folder / MAP).read_bytes()
    except OSError:
        return None
