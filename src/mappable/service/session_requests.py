"""The addresses of sessions: create one, update it with images, stream its estimates, delete it."""

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from mappable.localization.localizer import Estimate
from mappable.odometry import Odometry
from mappable.service.bodies import IMAGES, SentImage, kind_of, read_json, unit_vectors
from mappable.service.engine import Described, Engine
from mappable.service.limits import RefusedError
from mappable.service.page import PICTURE
from mappable.service.responses import JSON, Deleted, NewSession, refusals, respond
from mappable.service.sessions import Sessions

EVENTS = "text/event-stream"
LARGEST = 1e12  # of times and motions in requests
_ID = Annotated[
    str, Path(description="Id of the session.", examples=["9f86d081884c7d659a2feaa0c55ad015"])
]
_DESCRIPTOR: dict[str, Any] = {
    JSON: {
        "schema": {
            "type": "object",
            "required": ["descriptor"],
            "properties": {"descriptor": {"type": "array", "items": {"type": "number"}}},
        }
    }
}


def _number(description: str, example: float) -> Any:
    return Query(
        ge=-LARGEST, le=LARGEST, allow_inf_nan=False, description=description, examples=[example]
    )


def add_session_requests(app: APIRouter, engine: Engine, sessions: Sessions) -> None:
    """Add the addresses below `/sessions`."""
    settings = engine.settings

    @app.post("/sessions", responses=refusals(401, 422, 503))
    async def create() -> NewSession:
        """Create a session, which follows one camera."""
        return NewSession(*await sessions.create(), settings.session_timeout)

    @app.post(
        "/sessions/{session}/update",
        response_model=Estimate,
        responses=refusals(400, 401, 404, 413, 415, 422, 503),
        openapi_extra={"requestBody": {"required": True, "content": PICTURE | _DESCRIPTOR}},
    )
    async def update(
        request: Request,
        session: _ID,
        time: Annotated[
            float,
            _number("Time of the image, in seconds; later than that of the image before.", 12.3),
        ],
        forward: Annotated[
            float | None, _number("Odometry: motion ahead since the update before, in metres.", 0.8)
        ] = None,
        left: Annotated[
            float | None, _number("Odometry: motion to the left, in metres.", 0.0)
        ] = None,
        turn: Annotated[
            float | None, _number("Odometry: turn in radians, counter-clockwise.", 0.02)
        ] = None,
        covariance: Annotated[
            list[float] | None,
            Query(
                min_length=9,
                max_length=9,
                description="Covariance of forward, left and turn: nine numbers, row by row.",
                examples=[[0.01, 0, 0, 0, 0.01, 0, 0, 0, 0.001]],
            ),
        ] = None,
    ) -> Response:
        """Take an image, or its descriptor, and return where the camera is."""
        odometry = _odometry(forward, left, turn, covariance)
        kind = kind_of(request, (*IMAGES, JSON))
        sessions.find(session)
        described = await _described(request, kind, engine)
        return respond(await sessions.update(session, described, time, odometry))

    @app.get(
        "/sessions/{session}/events",
        response_class=Response,
        responses={200: {"content": {EVENTS: {}}}, **refusals(401, 404)},
    )
    async def events(request: Request, session: _ID) -> Response:
        """Stream the estimates as Server-Sent Events; `Last-Event-ID` continues after an estimate."""
        sessions.find(session)
        last = request.headers.get("last-event-id", "")
        after = int(last) if last.isascii() and last.isdecimal() and len(last) < 16 else 0
        stream = sessions.events(session, after, settings.timeout / 2)
        return StreamingResponse(stream, media_type=EVENTS, headers={"Cache-Control": "no-store"})

    @app.delete("/sessions/{session}", responses=refusals(401, 404))
    async def delete(session: _ID) -> Deleted:
        """Delete a session."""
        sessions.remove(session)
        return Deleted(deleted=session)


def _odometry(
    forward: float | None, left: float | None, turn: float | None, covariance: list[float] | None
) -> Odometry | None:
    if forward is None and left is None and turn is None and covariance is None:
        return None
    if forward is None or left is None or turn is None:
        raise RefusedError(
            422, "option", "odometry needs forward, left and turn: give all of them, or none"
        )
    rows = None if covariance is None else np.reshape(covariance, (3, 3)).tolist()
    return Odometry(forward, left, turn, rows)


async def _described(request: Request, kind: str, engine: Engine) -> Described:
    """The descriptor of the image that was sent, or the descriptor that was sent."""
    if kind != JSON:
        return await engine.describe(SentImage("image", await request.body()))
    sent = await read_json(request)
    if not isinstance(sent, dict) or not isinstance(sent.get("descriptor"), list):
        sentence = 'the body is not a descriptor; send JSON such as {"descriptor": [0.1, ...]}'
        raise RefusedError(400, "descriptor", sentence)
    return unit_vectors([sent["descriptor"]], engine.map.store.dimensions)[0]  # type: ignore[no-any-return]
