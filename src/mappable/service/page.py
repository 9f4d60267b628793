"""The viewer: its files and its data, kept ready to send."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response

from mappable.service.body import IMAGES
from mappable.service.disk import picture
from mappable.service.limits import RefusedError

if TYPE_CHECKING:
    from mappable.service.study import StudyView

FOLDER = Path(__file__).parent / "viewer"
LIBRARY = FOLDER / "vendor/plotly.min.js"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
JSON = "application/json"
PICTURE = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in IMAGES}  # for OpenAPI
HEADERS = {
    # nothing of another address, and no script but the files here; plotly.js brings its styles in a <style> of its own
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
MOST_PIXELS = 640  # width and height of a picture of the study


@dataclass(frozen=True)
class File:
    """Bytes that do not change while the server runs; browsers keep them, but ask whether they are still right."""

    data: bytes
    kind: str

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.data, 6)

    @cached_property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.data).hexdigest()[:16]}"'

    def answer(self, request: Request) -> Response:
        headers = HEADERS | {"ETag": self.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.packed, media_type=self.kind, headers=headers | {"Content-Encoding": "gzip"})
        return Response(self.data, media_type=self.kind, headers=headers)


def missing() -> str | None:
    """What the page lacks, in one sentence that says how to get it."""
    if LIBRARY.is_file():
        return None
    return "there is no viewer here, for want of plotly.js: scripts/vendor of the source fetches it"


def is_open(path: str) -> bool:
    """Whether a path needs no token: those of the page itself, which asks for it and knows nothing without."""
    return path == "/" or path.startswith("/viewer/")


def add_page(app: FastAPI) -> None:
    """The viewer at `/`."""
    files = {} if missing() else {str(file.relative_to(FOLDER)): _read(file) for file in sorted(FOLDER.rglob("*.*"))}

    @app.get("/", include_in_schema=False)
    def page(request: Request) -> Response:
        return _found(files, "index.html", missing() or "restart the server: the viewer was not there").answer(request)

    @app.get("/viewer/{name:path}", include_in_schema=False)
    def part(request: Request, name: str) -> Response:
        return _found(files, name, f"the viewer has no file {name!r}").answer(request)


def add_study(app: FastAPI, study: "StudyView | None") -> None:
    """What the viewer shows of a study, as docs/serve.md says; without one there is only that there is none."""
    overview = File(b'{"study":%b}' % (study.overview if study else b"null"), JSON)
    models, matrices = ({name: File(data, JSON) for name, data in of.items()} for of in _both(study))

    @app.get("/study", include_in_schema=False)
    def the_study(request: Request) -> Response:
        """The test images, where they were taken, the landmarks, and how good each model is; null without a study."""
        return overview.answer(request)

    @app.get("/study/models/{name}", include_in_schema=False)
    def model(request: Request, name: str) -> Response:
        """What one model made of each test image, a trajectory that it recovered, and how far its intervals hold."""
        return _found(models, name, f"the study has no model {name!r}").answer(request)

    @app.get("/study/matrices/{name}", include_in_schema=False)
    def matrix(request: Request, name: str) -> Response:
        """Geometric and feature distances between two drives, in 256 steps each."""
        return _found(matrices, name, f"the study has no matrices of a model {name!r}").answer(request)

    @app.get("/study/images/{name:path}", include_in_schema=False)
    def image(name: str) -> Response:
        """The picture of a place of the study, made smaller if it is large."""
        if study is None or name not in study.rows:
            raise RefusedError(404, "study", f"the study has no image {name!r}")
        data, kind = picture(study.places, study.rows[name], "image", MOST_PIXELS)
        return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


def _both(study: "StudyView | None") -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
    return (study.models, study.matrices) if study else ({}, {})


def _read(file: Path) -> File:
    return File(file.read_bytes(), TYPES.get(file.suffix, "text/plain"))


def _found(files: Mapping[str, File], name: str, otherwise: str) -> File:
    if name not in files:
        raise RefusedError(404, "address", otherwise)
    return files[name]
