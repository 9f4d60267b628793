"""The viewer: its files, and what it reads of a study, each kept ready to be sent."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from pydantic import Field

from mappable.service.answers import Model, refusals
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


class Columns(Model):
    """Places of a study, in columns."""

    id: list[str]
    x: list[float]
    y: list[float]


class Queries(Columns):
    """The test images that are shown."""

    condition: list[str]
    drive: list[str]


class ModelOverview(Model):
    """A model of a study; the shares of test images within both radii are in %."""

    name: str
    title: str
    seed: int | None
    encoder: str
    positive: float
    negative: float
    median: float
    matrices: bool
    trajectory: bool


class StudyOverview(Model):
    """What a study was made of, and how good its models are."""

    set: str
    frame: str
    unit: str
    positive_radius: float
    negative_radius: float
    models: list[ModelOverview]
    queries: Queries
    landmarks: Columns


class StudyAnswer(Model):
    """The study, if there is one."""

    study: StudyOverview | None


class Way(Model):
    """Positions that one way of recovering gave."""

    title: str
    anchored: bool
    positions: list[list[float | None]]


class Drive(Model):
    """A drive as it was, and as it was recovered."""

    drive: str
    length: float
    known: int = Field(description="Positions that were given.")
    images: list[str]
    truth: list[list[float]]
    ways: list[Way]


class StudyCalibration(Model):
    """How far intervals hold; shares are in %, but for the coverage that was asked for."""

    coverage: float
    covered: float | None
    width: float | None
    confident: float | None
    by_condition: dict[str, dict[str, float | None]] | None
    note: str | None


class StudyModel(Model):
    """What a model made of each test image, in the order of the overview."""

    retrieved: list[int] = Field(description="Numbers of landmarks of the overview.")
    error: list[float | None] = Field(description="Metres from there to the truth.")
    refined: list[float | None] | None = Field(description="The same of refined positions.")
    distance: list[float | None] | None = Field(description="Stated distance to the retrieved landmark.")
    low: list[float | None] | None
    high: list[float | None] | None
    confident: list[bool] | None
    calibration: StudyCalibration | None
    trajectory: Drive | None


class Steps(Model):
    """A matrix, row by row, in bytes: 255 stands for `most`."""

    most: float
    steps: str = Field(description="Base64.")


class StudyMatrices(Model):
    """Distances between the images of two drives, in the world and of descriptors."""

    reference: str
    queries: str
    pearson: float | None
    spearman: float | None
    shape: list[int]
    rows: list[str]
    columns: list[str]
    metres: Steps
    feature: Steps


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
    """What the viewer shows of a study; without one there is only that there is none."""
    overview = File(b'{"study":%b}' % (study.overview if study else b"null"), JSON)
    models, matrices = ({name: File(data, JSON) for name, data in of.items()} for of in _both(study))

    @app.get("/study", response_model=StudyAnswer, responses=refusals(401))
    def the_study(request: Request) -> Response:
        """The test images, where they were taken, the landmarks, and how good each model is; null without a study."""
        return overview.answer(request)

    @app.get("/study/models/{name}", response_model=StudyModel, responses=refusals(401, 404))
    def model(request: Request, name: str) -> Response:
        """What one model made of each test image, a trajectory that it recovered, and how far its intervals hold."""
        return _found(models, name, f"the study has no model {name!r}").answer(request)

    @app.get("/study/matrices/{name}", response_model=StudyMatrices, responses=refusals(401, 404))
    def matrix(request: Request, name: str) -> Response:
        """Geometric and feature distances between two drives, in 256 steps each."""
        return _found(matrices, name, f"the study has no matrices of a model {name!r}").answer(request)

    @app.get(
        "/study/images/{name:path}",
        response_class=Response,
        responses={200: {"content": PICTURE}, **refusals(401, 404, 410)},
    )
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
