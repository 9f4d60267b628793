"""Watch a map's files, which may change or vanish while the map is served."""

import io

from PIL import Image

from mappable.places.images import ORIENTATION, TURNED, load_image, read_bytes
from mappable.places.table import Places
from mappable.service.limits import RefusedError

TYPES = {"JPEG": "image/jpeg", "MPO": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}


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
