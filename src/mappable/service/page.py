"""The viewer: its files, and what it shows besides the map, compressed and ready to send."""

import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from mappable.maps.growth import Growth
from mappable.maps.landmarks import Landmarks
from mappable.service.bodies import IMAGES
from mappable.service.limits import RefusedError
from mappable.service.responses import JSON

FOLDER = Path(__file__).parent / "viewer"
LIBRARY = FOLDER / "vendor/plotly.min.js"
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
# For OpenAPI.
PICTURE = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in IMAGES}
HEADERS = {
    # Allow nothing from other addresses, and only scripts in files. plotly.js adds its own <style>.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self'"
        " blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors"
        " 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
CURVE_POINTS = 60  # of the plot of the calibration


@dataclass(frozen=True)
class File:
    """Bytes that do not change while the server runs; browsers cache them, and check each time that
    they are valid.
    """

    data: bytes
    kind: str

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.data, 6)

    @cached_property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.data).hexdigest()[:16]}"'

    def answer(self, request: Request) -> Response:
        headers = HEADERS | {
            "ETag": self.tag,
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
        }
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                self.packed, media_type=self.kind, headers=headers | {"Content-Encoding": "gzip"}
            )
        return Response(self.data, media_type=self.kind, headers=headers)


def missing() -> str | None:
    """What the viewer lacks and how to get it, in one sentence; None if it is complete."""
    if LIBRARY.is_file():
        return None
    return (
        "the viewer is not installed (plotly.js is missing): run packaging/vendor in a source"
        " checkout"
    )


def add_page(app: APIRouter) -> None:
    """Add the viewer of a map at `/`. The page has no data, so it needs no token, and asks the user
    for the token.
    """
    files = (
        {}
        if missing()
        else {str(file.relative_to(FOLDER)): _read(file) for file in sorted(FOLDER.rglob("*.*"))}
    )

    @app.get("/", include_in_schema=False)
    def page(request: Request) -> Response:
        late = "the viewer was installed after the server started; restart the server"
        return _found(files, "index.html", missing() or late).answer(request)

    @app.get("/viewer/{name:path}", include_in_schema=False)
    def part(request: Request, name: str) -> Response:
        return _found(files, name, f"the viewer has no file {name!r}").answer(request)


def facts_of(landmarks: Landmarks, *, encoder: bool) -> File:
    """What the viewer shows besides `/map`: the map's name, the curve of its calibration, whether
    it has an encoder.
    """
    known = landmarks.calibration
    facts = {
        "name": landmarks.name,
        "encoder": encoder,
        "calibration": (
            None if known is None or known.growth is None else _curve(known.growth, known.coverage)
        ),
    }
    return File(json.dumps(facts).encode(), JSON)


def _curve(known: Growth, coverage: float) -> dict[str, Any]:
    """Metres between two images by feature distance: the median, and the interval of the map's
    coverage.
    """
    feature = np.linspace(0.0, known.valid, CURVE_POINTS)
    metres, deviation = known.predict(feature)
    half = NormalDist().inv_cdf((1 + coverage) / 2) * deviation
    ends = {"middle": metres, "low": np.maximum(metres - half, 0.0), "high": metres + half}
    return {"feature": feature.tolist()} | {
        name: values.round(3).tolist() for name, values in ends.items()
    }


def _read(file: Path) -> File:
    return File(file.read_bytes(), TYPES.get(file.suffix, "text/plain"))


def _found(files: Mapping[str, File], name: str, otherwise: str) -> File:
    if name not in files:
        raise RefusedError(404, "address", otherwise)
    return files[name]
