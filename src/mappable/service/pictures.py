"""Read pictures of places for a browser, from folders that the user trusts.

Their files may change or vanish while a map is served. Somebody else may have written the table
with their paths.
"""

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from PIL import Image

from mappable.places.images import ORIENTATION, TURNED, load_image, read_bytes
from mappable.places.table import Places
from mappable.service.limits import RefusedError

TYPES = {"JPEG": "image/jpeg", "MPO": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}


def is_inside(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a path is in one of the folders, after all symbolic links are followed."""
    real = path.resolve()
    return any(real.is_relative_to(folder.resolve()) for folder in folders)


def picture(places: Places, row: int, folders: Sequence[Path]) -> tuple[bytes, str]:
    """The image file of a landmark, and its content type; a format that browsers do not show
    becomes a PNG.

    Raises if the file is not in one of the `folders`, also if only a symbolic link leads out of
    them.
    """
    name, file, decoding = (
        str(places.place_id[row]),
        (places.root / places.path[row]).resolve(),
        places.decoding,
    )
    if not is_inside(file, folders):
        sentence = (
            "its image is not in the folder of the map; to show it, restart the server with"
            " --images"
        )
        raise RefusedError(403, "landmark_folder", f"landmark {name!r}: {sentence}")
    if not _is_file(file):
        raise RefusedError(
            410, "landmark_image", f"landmark {name!r}: its image file no longer exists"
        )
    shown = io.BytesIO()
    try:
        data = read_bytes(file)
        with Image.open(io.BytesIO(data)) as image:
            turned = image.getexif().get(ORIENTATION) in TURNED
            size, kind = image.size[::-1] if turned else image.size, TYPES.get(image.format or "")
        if kind and decoding is None:
            return data, kind
        Image.fromarray(load_image(file, size, "stretch", decoding)).save(shown, "PNG")
    except Exception:  # decoders promise no closed set of errors
        raise RefusedError(
            410, "landmark_image", f"landmark {name!r}: its image file can no longer be read"
        ) from None
    return shown.getvalue(), "image/png"


def _is_file(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # for example, its name is too long
        return False
