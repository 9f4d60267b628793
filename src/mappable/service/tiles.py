"""Map tiles below the plots of the viewer: from a folder that the server reads, or from an address that pages ask."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from mappable.arrays import Floats
from mappable.errors import BadInputError, shown
from mappable.files import reading
from mappable.places import geodesy
from mappable.places.frames import Frame

TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}
PLACEHOLDERS = ("{z}", "{x}", "{y}")
ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:\d+)?")  # goes into a header, so nothing else may be in it
OWN = "tiles/{z}/{x}/{y}"  # address of a folder's tiles on this server
LARGEST_ZOOM = 19  # of addresses; those of a folder are its subfolders
TIES = 9  # points per side of the grid between which the page interpolates
MARGIN = 0.5  # of the map's extent, around the grid


@dataclass(frozen=True)
class Tiles:
    """Tiles in Web Mercator, numbered from the northwest as usual: `folder`/Z/X/Y.png, or addresses."""

    address: str  # with {z}, {x} and {y}, as the page asks for it
    folder: Path | None
    zooms: tuple[int, int]  # smallest and largest
    credit: str

    @property
    def origin(self) -> str:
        """Scheme and host of the tiles; "" for this server."""
        found = ORIGIN.match(self.address)
        return found[0] if found else ""

    def read(self, zoom: int, x: int, y: int) -> tuple[bytes, str] | None:
        """A tile of the folder, and its content type; None if there is no folder or no such tile."""
        if self.folder is None:
            return None
        for suffix, kind in TYPES.items():
            file = self.folder / str(zoom) / str(x) / f"{y}{suffix}"
            if file.is_file():
                return file.read_bytes(), kind
        return None


def tiles_of(given: str, frame: Frame, credit: str = "") -> Tiles:
    """Tiles at an address with {z}, {x} and {y}, or in a folder of files Z/X/Y.png, for a map in `frame`."""
    if frame.crs is None:
        raise BadInputError(f"--tiles needs a place on Earth, but the map's frame {shown(frame.name)} has no CRS")
    if "://" in given:
        split = urlsplit(given)
        if not ORIGIN.fullmatch(f"{split.scheme}://{split.netloc}") or any(one not in given for one in PLACEHOLDERS):
            raise BadInputError(
                f"--tiles {shown(given)}: not an address of tiles; expected one such as "
                "https://tiles.example.org/{z}/{x}/{y}.png, or a folder"
            )
        return Tiles(given, None, (0, LARGEST_ZOOM), credit)
    folder = Path(given)
    if not folder.is_dir():
        raise BadInputError(f"--tiles {shown(given)}: neither a folder nor an address that begins with https://")
    with reading(folder):
        zooms = sorted(int(one.name) for one in folder.iterdir() if one.name.isdecimal() and one.is_dir())
    if not zooms:
        raise BadInputError(f"--tiles {shown(given)}: no tiles; expected files Z/X/Y.png, such as 17/65078/43505.png")
    return Tiles(OWN, folder, (zooms[0], zooms[-1]), credit)


def grid_of(frame: Frame, positions: Floats) -> dict[str, Any]:
    """A grid in Web Mercator around positions (n, k), with the coordinates of its points in the frame.

    Web Mercator is in shares of the world: 0 to 1 from west to east, and from north to south.
    """
    latitude, longitude = frame.to_latlon(positions)
    across, down = (longitude + 180) / 360, (1 - np.arcsinh(np.tan(np.deg2rad(latitude))) / np.pi) / 2
    extent = max(float(np.ptp(across)), float(np.ptp(down)), 1e-7)  # 4 m at the equator
    axes = [np.linspace(one.min() - MARGIN * extent, one.max() + MARGIN * extent, TIES) for one in (across, down)]
    u, v = np.meshgrid(*axes)
    north = np.rad2deg(np.arctan(np.sinh(np.pi * (1 - 2 * v.ravel()))))
    east, up = geodesy.project(north, 360 * u.ravel() - 180, str(frame.crs))
    points = frame.from_original(np.column_stack([east, up]))[:, :2].reshape(TIES, TIES, 2)
    return {"across": axes[0].tolist(), "down": axes[1].tolist(), "points": points.tolist()}
