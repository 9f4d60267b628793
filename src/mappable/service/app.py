"""The HTTP interface: the addresses, their parameters and their errors."""

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from mappable.errors import MappableError
from mappable.maps.errors import DamagedMapError
from mappable.maps.landmarks import Landmarks
from mappable.service.bodies import (
    IMAGES,
    MULTIPART,
    NPY,
    SentImage,
    kind_of,
    known_positions,
    read_descriptors,
    read_form,
    sentence_of,
)
from mappable.service.engine import Engine
from mappable.service.guard import Guard, Hosts, answer
from mappable.service.limits import Budget, RefusedError
from mappable.service.metrics import CONTENT_TYPE
from mappable.service.page import PICTURE, File, add_page, facts_of
from mappable.service.pictures import picture
from mappable.service.responses import (
    IMAGE_ERRORS,
    JSON,
    Error,
    Health,
    KnownPosition,
    Positions,
    Trajectory,
    WholeMap,
    adapter,
    refusals,
    respond,
    whole_map,
)
from mappable.service.session_requests import add_session_requests
from mappable.service.sessions import Sessions

MOST_CANDIDATES = 100
TopK = Annotated[
    int,
    Query(
        ge=1,
        le=MOST_CANDIDATES,
        description="Number of candidate landmarks per image.",
        examples=[3],
    ),
]
AsSequence = Annotated[
    bool,
    Query(
        description="The images are one drive, in order, and are located together.", examples=[True]
    ),
]
Coverage = Annotated[
    float | None,
    Query(
        gt=0,
        lt=1,
        description="Share of intervals with the true distance (default: the map's).",
        examples=[0.95],
    ),
]
Dimensions = Annotated[
    int, Query(ge=2, le=3, description="Number of coordinates of the trajectory.", examples=[3])
]
Ordered = Annotated[
    bool,
    Query(
        description=(
            "The images are one drive, in order. A usual step is assumed where no range connects"
            " two."
        ),
        examples=[False],
    ),
]
EncoderName = Annotated[
    str,
    Query(
        description=(
            "Fingerprint or name of the encoder that made the descriptors; GET /map returns the"
            " map's."
        ),
        examples=["0f3c9a51d2b7e684"],
    ),
]


def create_app(
    engine: Engine,
    *,
    token: str | None = None,
    images: Sequence[Path] = (),
    hosts: Hosts | None = None,
    ready: Callable[[], None] = lambda: None,
) -> ASGIApp:
    """The application that serves the map of `engine`; it calls `ready` when it is up.

    Pictures come only from the folder of the map, and from the folders `images`. The application
    answers to `hosts` (default: this machine).
    """
    settings, metrics = engine.settings, engine.metrics
    memory = Budget(settings.memory, "memory", "too many bytes are being received at once")
    sessions = Sessions(engine.opened, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        ready()
        yield
        await asyncio.to_thread(sessions.close)
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
    metrics.gauges = {
        ("mappable_queue_images", "Images in progress or waiting."): lambda: engine.queue.taken,
        ("mappable_received_bytes", "Bytes of requests in memory."): lambda: memory.taken,
    }
    closed = APIRouter(dependencies=[Depends(_token_check(token))])
    _add_image_requests(closed, engine)
    _add_descriptor_requests(closed, engine)
    add_session_requests(closed, engine, sessions)
    _add_map_requests(closed, engine, picture_folders(engine.map, images))
    app.include_router(closed)

    @app.get("/health")
    def health() -> Health:
        """Whether the server responds. This address needs no token."""
        return Health("ok", len(engine.map), engine.queue.taken, engine.map_changed())

    add_page(app.router)
    _add_errors(app, engine)
    return Guard(app, settings=settings, memory=memory, metrics=metrics, hosts=hosts or Hosts())


def picture_folders(landmarks: Landmarks, images: Sequence[Path]) -> list[Path]:
    """The folders that pictures may come from: that of the map, and those that the user names."""
    return [*([] if landmarks.origin is None else [landmarks.origin.folder]), *images]


def _token_check(token: str | None) -> Callable[..., None]:
    """What raises if a request does not have the token."""

    def check(
        given: Annotated[
            HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))
        ],
    ) -> None:
        sent = "" if given is None else given.credentials
        if token is not None and not hmac.compare_digest(sent.encode(), token.encode()):
            raise RefusedError(
                401, "token", "the token is missing or wrong: send Authorization: Bearer TOKEN"
            )

    return check


def _add_image_requests(app: APIRouter, engine: Engine) -> None:
    """Add the addresses that receive images: `/locate` and `/recover`."""

    @app.post(
        "/locate",
        response_model=Positions,
        responses={
            207: {"model": Positions, "description": "Some of the images cannot be used."},
            **refusals(*IMAGE_ERRORS),
            422: {
                "model": Positions | Error,
                "description": "An option is wrong, or no image can be used.",
            },
        },
        openapi_extra=_body(PICTURE | _form()),
    )
    async def locate(
        request: Request, top_k: TopK = 5, sequence: AsSequence = False, coverage: Coverage = None
    ) -> Response:
        """Find where images were taken. Send one image as the body, or several as parts with file
        names.
        """
        if kind_of(request, (*IMAGES, MULTIPART)) == MULTIPART:
            images, _ = await read_form(request, engine.settings.queue)
        else:
            images = [SentImage("image", await request.body())]
        found = await engine.locate(images, top_k=top_k, sequence=sequence, coverage=coverage)
        failed = sum(outcome.error is not None for outcome in found.positions)
        return respond(found, 200 if not failed else 207 if failed < len(images) else 422)

    @app.post(
        "/recover",
        response_model=Trajectory,
        responses=refusals(*IMAGE_ERRORS),
        openapi_extra=_body(
            _form(known={"type": "string", "description": "Known positions as JSON"})
        ),
    )
    async def recover(
        request: Request, dimensions: Dimensions = 2, ordered: Ordered = True
    ) -> Response:
        """Recover the trajectory of images from the distances between them.

        If some positions are `known`, the trajectory is in the coordinates of the map.
        """
        kind_of(request, (MULTIPART,))
        images, fields = await read_form(request, engine.settings.queue, ("known",))
        known = known_positions(fields.get("known", "[]"))
        return respond(await engine.recover(images, known, dimensions=dimensions, ordered=ordered))


def _add_descriptor_requests(app: APIRouter, engine: Engine) -> None:
    """Add the addresses that receive descriptors instead of images."""

    @app.post(
        "/locate/descriptors",
        response_model=Positions,
        responses=refusals(*IMAGE_ERRORS),
        openapi_extra=_body(_descriptors()),
    )
    async def locate_descriptors(
        request: Request,
        encoder: EncoderName,
        top_k: TopK = 5,
        sequence: AsSequence = False,
        coverage: Coverage = None,
    ) -> Response:
        """Find where images were taken, by descriptors that the client computed. They are scaled to
        length one.
        """
        sent = await read_descriptors(request, engine.map.store.dimensions)
        if sent.known:
            raise RefusedError(
                422, "known", "known: only /recover/descriptors takes known positions"
            )
        options: dict[str, Any] = {"top_k": top_k, "sequence": sequence, "coverage": coverage}
        return respond(await engine.locate_descriptors(sent, encoder, **options))

    @app.post(
        "/recover/descriptors",
        response_model=Trajectory,
        responses=refusals(*IMAGE_ERRORS),
        openapi_extra=_body(
            _descriptors(known=adapter(list[KnownPosition]).json_schema()["items"])
        ),
    )
    async def recover_descriptors(
        request: Request, encoder: EncoderName, dimensions: Dimensions = 2, ordered: Ordered = True
    ) -> Response:
        """Recover the trajectory of images from their descriptors. JSON may contain `known`
        positions.
        """
        sent = await read_descriptors(request, engine.map.store.dimensions)
        return respond(
            await engine.recover_descriptors(sent, encoder, dimensions=dimensions, ordered=ordered)
        )


def _add_map_requests(app: APIRouter, engine: Engine, folders: Sequence[Path]) -> None:
    """Add the addresses that only read: the map, pictures of landmarks, and metrics."""
    described = whole_map(engine.map, lambda name: f"/landmarks/{quote(name)}/image")
    map_json = File(adapter(WholeMap).dump_json(described), JSON)
    facts = facts_of(engine.map, encoder=engine.batch_size is not None)

    @app.get("/map", response_model=WholeMap, responses=refusals(401))
    def the_map(request: Request) -> Response:
        """Frame, calibration and landmarks of the map."""
        return map_json.answer(request)

    @app.get("/page", include_in_schema=False)
    def the_facts(request: Request) -> Response:
        """What the viewer shows besides the map."""
        return facts.answer(request)

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

    @app.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, **refusals(401)},
    )
    async def the_metrics() -> Response:
        """Counters in the text format of Prometheus."""
        return Response(engine.metrics.text(), media_type=CONTENT_TYPE)


def _add_errors(app: FastAPI, engine: Engine) -> None:
    """Turn every exception into a JSON error."""

    def refused(request: Request, refusal: RefusedError) -> JSONResponse:
        engine.metrics.error(refusal.reason)
        return answer(refusal)

    def failed(request: Request, error: Exception) -> JSONResponse:
        return refused(request, _refusal_of(error, request))

    for kind in (
        MappableError,
        RequestValidationError,
        HTTPException,
        ClientDisconnect,
        RefusedError,
        Exception,
    ):
        app.add_exception_handler(kind, failed)


def _refusal_of(error: Exception, request: Request) -> RefusedError:
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, DamagedMapError):
        sentence = "a file of the map is damaged; `mappable map verify` on the server names it"
        return RefusedError(500, "damaged", sentence)
    if isinstance(error, MappableError):
        return RefusedError(422, "bad_input", str(error))
    if isinstance(error, RequestValidationError):
        return RefusedError(422, "option", sentence_of(error.errors()[0]))
    if isinstance(error, HTTPException):
        what = f"{request.method} {request.url.path}: {error.detail.lower()}"
        return RefusedError(error.status_code, "address", what)
    if isinstance(error, ClientDisconnect):
        return RefusedError(400, "disconnected", "the body is incomplete")
    return RefusedError(500, "failure", "internal error of the server; its log has the details")


def _body(content: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": content}}


def _form(**fields: Any) -> dict[str, Any]:
    files = {"type": "array", "items": {"type": "string", "format": "binary"}}
    return {MULTIPART: {"schema": {"type": "object", "properties": {"images": files, **fields}}}}


def _descriptors(known: Any = None) -> dict[str, Any]:
    vectors = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
    properties: dict[str, Any] = {
        "descriptors": (
            vectors
            | {"description": "One row per image, with as many numbers as the map's descriptors"}
        ),
        "images": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Names of the images",
        },
    }
    if known is not None:
        properties["known"] = {"type": "array", "items": known}
    schema = {
        "type": "object",
        "required": ["descriptors"],
        "additionalProperties": False,
        "properties": properties,
    }
    example = {
        "descriptors": [[0.6, 0.8, 0.0], [0.0, 0.6, 0.8]],
        "images": ["0001.jpg", "0002.jpg"],
    }
    binary = {"type": "string", "format": "binary", "description": "A .npy file of shape (n, D)"}
    return {JSON: {"schema": schema, "example": example}, NPY: {"schema": binary}}
