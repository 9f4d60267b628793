"""The HTTP interface: the addresses, their parameters and their errors."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from mappable.errors import MappableError
from mappable.maps.errors import DamagedMapError
from mappable.maps.map import Map
from mappable.service.answers import (
    Error,
    Health,
    KnownPosition,
    MapAnswer,
    Positions,
    Trajectory,
    describe_map,
    refusals,
)
from mappable.service.body import (
    IMAGES,
    MULTIPART,
    NPY,
    Form,
    SentDescriptors,
    SentImage,
    kind_of,
    memory_of,
    parse_descriptors,
    parse_form,
    read_body,
)
from mappable.service.body import JSON as JSON_BODY
from mappable.service.connections import Connections
from mappable.service.disk import picture
from mappable.service.engine import Engine
from mappable.service.following import Following
from mappable.service.guard import Guard, answer
from mappable.service.hosts import Hosts
from mappable.service.limits import Budget, RefusedError, Reserve
from mappable.service.metrics import CONTENT_TYPE, Metrics
from mappable.service.page import JSON, PICTURE, File, add_page
from mappable.service.session_requests import add_session_requests
from mappable.service.sessions import SessionsInMemory, SessionStore
from mappable.service.tiles import Tiles

MOST_CANDIDATES = 100
KNOWN = TypeAdapter(list[KnownPosition])
_FILES: dict[str, Any] = {
    MULTIPART: {
        "schema": {
            "type": "object",
            "properties": {"images": {"type": "array", "items": {"type": "string", "format": "binary"}}},
        }
    }
}
_KNOWN = {
    "type": "string",
    "description": "Known positions as JSON; sigma is their standard deviation in metres",
    "example": '[{"point": 0, "coordinates": [12.0, 3.5], "sigma": 0.5}]',
}
_DESCRIPTORS: dict[str, Any] = {
    JSON_BODY: {
        "schema": {
            "type": "object",
            "required": ["descriptors"],
            "additionalProperties": False,
            "properties": {
                "descriptors": {
                    "type": "array",
                    "items": {"type": "array", "items": {"type": "number"}},
                    "description": "One row per image, with as many numbers as the map's descriptors",
                },
                "images": {"type": "array", "items": {"type": "string"}, "description": "Names of the images"},
            },
        },
        "example": {"descriptors": [[0.6, 0.8, 0.0], [0.0, 0.6, 0.8]], "images": ["0001.jpg", "0002.jpg"]},
    },
    NPY: {"schema": {"type": "string", "format": "binary", "description": "A .npy file of shape (n, D)"}},
}
TopK = Annotated[
    int, Query(ge=1, le=MOST_CANDIDATES, description="Number of candidate landmarks per image.", examples=[3])
]
AsSequence = Annotated[
    bool, Query(description="The images are one drive, in order, and are located together.", examples=[True])
]
Coverage = Annotated[
    float | None,
    Query(
        gt=0,
        lt=1,
        description="Share of intervals that contain the true distance (default: the map's).",
        examples=[0.95],
    ),
]
Dimensions = Annotated[int, Query(ge=2, le=3, description="Number of coordinates of the trajectory.", examples=[3])]
Ordered = Annotated[
    bool,
    Query(
        description="The images are one drive, in order. A usual step is assumed where no range connects two.",
        examples=[False],
    ),
]
EncoderName = Annotated[
    str,
    Query(
        description="Fingerprint or name of the encoder that made the descriptors; GET /map returns the map's.",
        examples=["0f3c9a51d2b7e684"],
    ),
]
_IMAGE_ERRORS = (400, 401, 408, 413, 415, 422, 503)  # statuses of a failed request with images


def create_app(
    engine: Engine,
    connections: Connections,
    *,
    token: str | None = None,
    images: Sequence[Path] = (),
    hosts: Hosts | None = None,
    sessions: SessionStore | None = None,
    tiles: Tiles | None = None,
) -> ASGIApp:
    """The application that serves the map of `engine`.

    Pictures come only from the folder of the map, and from the folders `images`. The application answers to `hosts`
    (default: this machine). Sessions are kept in `sessions` (default: in memory). The page shows map `tiles` below its
    plots (default: none).
    """
    folders = picture_folders(engine.map, images)
    limits, metrics = engine.limits, engine.metrics
    following = Following(engine.map, sessions or SessionsInMemory(limits.sessions, limits.session_timeout))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(following.close)
        await asyncio.to_thread(engine.close)

    app = FastAPI(
        title="Mappable",
        description="Find where images were taken, in metres, and how reliable each position is.",
        version="1",
        docs_url=None,  # that page would load files from another server
        redoc_url=None,
        responses=refusals("default"),  # replaces FastAPI's own format of errors
        lifespan=lifespan,
    )
    memory = Budget(limits.memory, "memory", "too many bytes are being received at once")
    metrics.gauges = {
        ("mappable_queue_images", "Images in progress or waiting."): lambda: engine.queue.taken,
        ("mappable_connections", "Open connections."): lambda: connections.open,
        ("mappable_received_bytes", "Bytes of requests in memory."): lambda: memory.taken,
    }
    _add_image_requests(app, engine, memory)
    _add_descriptor_requests(app, engine, memory)
    add_session_requests(app, engine, following, memory)
    _add_map_requests(app, engine, folders)
    add_page(app, engine.map, encoder=engine.batch_size is not None, tiles=tiles)
    _add_errors(app, metrics)
    _describe_token(app, needed=token is not None)
    return Guard(app, limits=limits, connections=connections, metrics=metrics, token=token, hosts=hosts or Hosts())


def picture_folders(landmarks: Map, images: Sequence[Path]) -> list[Path]:
    """The folders that pictures may come from: that of the map, and those that the user names."""
    own = [] if landmarks.origin is None else [landmarks.origin.folder]
    return [*own, *images]


def _add_image_requests(app: FastAPI, engine: Engine, memory: Budget) -> None:
    """Add the addresses that receive images: `/locate` and `/recover`."""
    limits, metrics = engine.limits, engine.metrics

    @app.post(
        "/locate",
        responses={
            207: {"model": Positions, "description": "Some of the images cannot be used."},
            **refusals(*_IMAGE_ERRORS),
            422: {"model": Positions | Error, "description": "An option is wrong, or no image can be used."},
        },
        openapi_extra={"requestBody": {"required": True, "content": PICTURE | _FILES}},
    )
    async def locate(
        request: Request,
        response: Response,
        top_k: TopK = 5,
        sequence: AsSequence = False,
        coverage: Coverage = None,
    ) -> Positions:
        """Find where images were taken. Send one image as the body, or several as parts with file names."""
        kind = kind_of(request, (*IMAGES, MULTIPART))
        with memory.reserving() as reserve:
            body = await read_body(request, limits, reserve)
            if kind == MULTIPART:
                images = (await engine.run(parse_form, body, request.headers["content-type"])).images
            else:
                images = [SentImage("image", body)]
            del body
            positions, refusals = await engine.locate(images, top_k=top_k, sequence=sequence, coverage=coverage)
        if refusals and len(images) == 1:
            raise refusals[0]
        for one in refusals:
            metrics.error(one.reason)
        response.status_code = 200 if not refusals else 207 if len(refusals) < len(images) else 422
        return positions

    @app.post(
        "/recover",
        responses=refusals(*_IMAGE_ERRORS),
        openapi_extra={"requestBody": {"required": True, "content": _with_known()}},
    )
    async def recover(
        request: Request,
        dimensions: Dimensions = 2,
        ordered: Ordered = True,
    ) -> Trajectory:
        """Recover the trajectory of images from the distances between them.

        If some positions are `known`, the trajectory is in the coordinates of the map.
        """
        kind_of(request, (MULTIPART,))
        with memory.reserving() as reserve:
            body = await read_body(request, limits, reserve)
            form: Form = await engine.run(parse_form, body, request.headers["content-type"], ("known",))
            del body
            known = _known(_parsed(form.fields.get("known", b"[]")))
            return await engine.recover(form.images, known, dimensions=dimensions, ordered=ordered)


def _add_descriptor_requests(app: FastAPI, engine: Engine, memory: Budget) -> None:
    """Add the addresses that receive descriptors instead of images."""

    async def received(request: Request, reserve: Reserve) -> SentDescriptors:
        kind = kind_of(request, (JSON_BODY, NPY))
        body = await read_body(request, engine.limits, reserve)
        reserve(memory_of(body, kind))
        return await engine.run(parse_descriptors, body, kind, engine.map.store.dimensions)

    @app.post(
        "/locate/descriptors",
        responses=refusals(*_IMAGE_ERRORS),
        openapi_extra={"requestBody": {"required": True, "content": _DESCRIPTORS}},
    )
    async def locate_descriptors(
        request: Request,
        encoder: EncoderName,
        top_k: TopK = 5,
        sequence: AsSequence = False,
        coverage: Coverage = None,
    ) -> Positions:
        """Find where images were taken, by descriptors that the client computed. They are scaled to length one."""
        with memory.reserving() as reserve:
            sent = await received(request, reserve)
            if sent.known:
                raise RefusedError(422, "known", "known: only /recover/descriptors takes known positions")
            return await engine.locate_descriptors(sent, encoder, top_k=top_k, sequence=sequence, coverage=coverage)

    @app.post(
        "/recover/descriptors",
        responses=refusals(*_IMAGE_ERRORS),
        openapi_extra={"requestBody": {"required": True, "content": _descriptors_with_known()}},
    )
    async def recover_descriptors(
        request: Request, encoder: EncoderName, dimensions: Dimensions = 2, ordered: Ordered = True
    ) -> Trajectory:
        """Recover the trajectory of images from their descriptors. JSON may contain `known` positions."""
        with memory.reserving() as reserve:
            sent = await received(request, reserve)
            known = _known(sent.known)
            return await engine.recover_descriptors(sent, encoder, known, dimensions=dimensions, ordered=ordered)


def _add_map_requests(app: FastAPI, engine: Engine, folders: Sequence[Path]) -> None:
    """Add the addresses that only read: the map, pictures of landmarks, health and metrics."""
    described = describe_map(engine.map, lambda name: f"/landmarks/{quote(name)}/image")
    map_json = File(described.model_dump_json().encode(), JSON)

    @app.get("/map", response_model=MapAnswer, responses=refusals(401))
    def the_map(request: Request) -> Response:
        """Frame, calibration and landmarks of the map."""
        return map_json.answer(request)

    @app.get(
        "/landmarks/{landmark:path}/image",
        response_class=Response,
        responses={200: {"content": PICTURE}, **refusals(401, 403, 404, 410)},
    )
    def image(landmark: str) -> Response:
        """The picture of a landmark."""
        if landmark not in engine.rows:
            raise RefusedError(404, "landmark", f"the map has no landmark {landmark!r}")
        data, kind = picture(engine.map.places, engine.rows[landmark], folders)
        return Response(data, media_type=kind)

    @app.get("/health")
    def health() -> Health:
        """Whether the server responds. This address needs no token."""
        return Health(status="ok", landmarks=len(engine.map), queue=engine.queue.taken)

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **refusals(401)})
    async def the_metrics() -> Response:
        """Counters in the text format of Prometheus."""
        return Response(engine.metrics.text(), media_type=CONTENT_TYPE)


def _add_errors(app: FastAPI, metrics: Metrics) -> None:
    """Turn every exception into a JSON error."""

    @app.exception_handler(RefusedError)
    async def refused(request: Request, refusal: RefusedError) -> JSONResponse:
        metrics.error(refusal.reason)
        return answer(refusal)

    @app.exception_handler(MappableError)
    async def bad_input(request: Request, error: MappableError) -> JSONResponse:
        return await refused(request, RefusedError(422, "bad_input", str(error)))

    @app.exception_handler(DamagedMapError)
    async def damaged(request: Request, error: DamagedMapError) -> JSONResponse:
        sentence = "a file of the map is damaged; `mappable map verify` on the server names it"
        return await refused(request, RefusedError(500, "damaged", sentence))

    @app.exception_handler(RequestValidationError)
    async def bad_option(request: Request, error: RequestValidationError) -> JSONResponse:
        return await refused(request, RefusedError(422, "option", _sentence(error.errors()[0])))

    @app.exception_handler(HTTPException)
    async def no_such(request: Request, error: HTTPException) -> JSONResponse:
        what = f"{request.method} {request.url.path}: {error.detail.lower()}"
        return await refused(request, RefusedError(error.status_code, "address", what))

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> JSONResponse:
        return await refused(request, RefusedError(400, "disconnected", "the body is incomplete"))

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        return await refused(
            request, RefusedError(500, "failure", "internal error of the server; its log has the details")
        )


def _describe_token(app: FastAPI, *, needed: bool) -> None:
    """Describe the token in the OpenAPI document, so that generated clients can send it."""
    without_token = app.openapi

    def with_token() -> dict[str, Any]:
        document = without_token()
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}] if needed else [{}, {"token": []}]
        document["paths"]["/health"]["get"]["security"] = []
        return document

    app.openapi = with_token  # type: ignore[method-assign]


def _with_known() -> dict[str, Any]:
    schema = _FILES[MULTIPART]["schema"]
    return {MULTIPART: {"schema": schema | {"properties": schema["properties"] | {"known": _KNOWN}}}}


def _descriptors_with_known() -> dict[str, Any]:
    schema = _DESCRIPTORS[JSON_BODY]["schema"]
    example = {"descriptors": [[0.6, 0.8, 0.0], [0.0, 0.6, 0.8]], "known": [{"point": 0, "coordinates": [12.0, 3.5]}]}
    known = {"type": "array", "items": KnownPosition.model_json_schema()}
    return _DESCRIPTORS | {
        JSON_BODY: {"schema": schema | {"properties": schema["properties"] | {"known": known}}, "example": example}
    }


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RefusedError(400, "known", "field known: not JSON, or nested too deeply") from None


def _known(values: Any) -> list[KnownPosition]:
    try:
        return KNOWN.validate_python(values)
    except ValidationError as error:
        raise RefusedError(422, "known", f"field known: {_sentence(error.errors()[0])}") from None


def _sentence(error: Any) -> str:
    where = " ".join(str(part) for part in error["loc"] if part != "query")
    return f"{where}: {error['msg'].lower()}" if where else error["msg"].lower()
