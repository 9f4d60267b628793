"""The viewer: its files, and what it shows besides the map, compressed and ready to send."""

import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response

from mappable.maps.calibration import Calibration
from mappable.maps.map import Map
from mappable.service.body import IMAGES
from mappable.service.limits import RefusedError
from mappable.service.tiles import Tiles, grid_of

FOLDER = Path(__file__).parent / "viewer"
LIBRARY = FOLDER / "vendor/plotly.min.js"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
JSON = "application/json"
PICTURE = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in IMAGES}  # for OpenAPI
HEADERS = {
    # Allow nothing from other addresses, and only scripts in files. plotly.js adds its own <style>.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
CURVE_POINTS = 60  # of the plot of the calibration


@dataclass(frozen=True)
class File:
    """Bytes that do not change while the server runs; browsers cache them, and check each time that they are valid."""

    data: bytes
    kind: str

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.data, 6)

    @cached_property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.data).hexdigest()[:16]}"'

    def answer(self, request: Request, **more: str) -> Response:
        headers = HEADERS | more | {"ETag": self.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.packed, media_type=self.kind, headers=headers | {"Content-Encoding": "gzip"})
        return Response(self.data, media_type=self.kind, headers=headers)


def missing() -> str | None:
    """What the viewer lacks and how to get it, in one sentence; None if it is complete."""
    if LIBRARY.is_file():
        return None
    return "the viewer is not installed (plotly.js is missing): run packaging/vendor in a source checkout"


def is_open(path: str) -> bool:
    """True for paths of the page itself, which need no token: the page has no data, and asks the user for the token."""
    return path == "/" or path.startswith("/viewer/")


def add_page(app: FastAPI, landmarks: Map, *, encoder: bool, tiles: Tiles | None) -> None:
    """Add the viewer of a map at `/`, and what it shows besides `/map` at `/page`.

    Only with `tiles` of another host may the page load anything from there: pictures.
    """
    policy = HEADERS["Content-Security-Policy"]
    if tiles is not None and tiles.origin:
        policy = policy.replace("img-src ", f"img-src {tiles.origin} ")
    facts = File(json.dumps(_facts(landmarks, encoder=encoder, tiles=tiles)).encode(), JSON)
    files = {} if missing() else {str(file.relative_to(FOLDER)): _read(file) for file in sorted(FOLDER.rglob("*.*"))}

    @app.get("/", include_in_schema=False)
    def page(request: Request) -> Response:
        late = "the viewer was installed after the server started; restart the server"
        index = _found(files, "index.html", missing() or late)
        return index.answer(request, **{"Content-Security-Policy": policy})

    @app.get("/page", include_in_schema=False)
    def the_facts(request: Request) -> Response:
        """The map's name, the curve of its calibration, whether it has an encoder, and where its tiles are."""
        return facts.answer(request)

    @app.get("/tiles/{zoom}/{x}/{y}", include_in_schema=False)
    def tile(zoom: int, x: int, y: int) -> Response:
        """A map tile from the folder of tiles; empty if it has no such tile."""
        found = None if tiles is None else tiles.read(zoom, x, y)
        if found is None:
            return Response(status_code=204)
        return Response(found[0], media_type=found[1], headers={"Cache-Control": "private, max-age=3600"})

    @app.get("/viewer/{name:path}", include_in_schema=False)
    def part(request: Request, name: str) -> Response:
        return _found(files, name, f"the viewer has no file {name!r}").answer(request)


def _facts(landmarks: Map, *, encoder: bool, tiles: Tiles | None) -> dict[str, Any]:
    known = landmarks.calibration
    return {
        "name": landmarks.name,
        "encoder": encoder,
        "calibration": None if known is None else _curve(known),
        "tiles": None
        if tiles is None
        else {
            "address": tiles.address,
            "own": tiles.folder is not None,
            "zooms": tiles.zooms,
            "credit": tiles.credit,
            "grid": grid_of(landmarks.frame, landmarks.places.positions),
        },
    }


def _curve(known: Calibration) -> dict[str, Any]:
    """The distance to the nearest landmark by feature distance: median and interval. None for infinite ends."""
    feature = np.linspace(0.0, known.retrieved.furthest, CURVE_POINTS)
    ends = [np.where(np.isfinite(one), one.round(3), None).tolist() for one in known.predict(feature)]  # type: ignore[call-overload]
    return {"feature": feature.tolist()} | dict(zip(("middle", "low", "high"), ends, strict=True))


def _read(file: Path) -> File:
    return File(file.read_bytes(), TYPES.get(file.suffix, "text/plain"))


def _found(files: Mapping[str, File], name: str, otherwise: str) -> File:
    if name not in files:
        raise RefusedError(404, "address", otherwise)
    return files[name]
