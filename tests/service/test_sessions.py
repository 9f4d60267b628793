"""Sessions: a camera that is followed over HTTP."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.localization import Localizer, Odometry, open_map
from mappable.places import Places
from mappable.service.limits import Settings

Images = list[tuple[str, bytes]]
UNKNOWN = "0" * 32


def update(
    client: Any, session: str, data: Any, when: float, kind: str = "image/png", **odometry: float
) -> Any:
    more = "".join(f"&{name}={value}" for name, value in odometry.items())
    return client.post(f"/sessions/{session}/update?time={when}{more}", data, kind)


def same(told: Any, found: Any) -> None:
    """The same estimate, whatever the batch in which the image was described."""
    expected = json.loads(json.dumps(asdict(found)))
    assert (told["state"], told["trusted"], told["landmark"]) == (
        expected["state"],
        expected["trusted"],
        expected["landmark"],
    )
    np.testing.assert_allclose(told["position"], expected["position"], atol=0.01)
    np.testing.assert_allclose(told["covariance"], expected["covariance"], rtol=0.01, atol=1e-3)


@pytest.fixture
def localizer(small_backbone: str, map_folder: Path) -> Localizer:
    return Localizer(open_map(map_folder))


def odometry(n: int) -> dict[str, float]:
    return {} if n == 0 else {"forward": 2.0, "left": 0.0, "turn": 0.0}


@pytest.mark.medium
def test_a_session_says_what_a_localizer_says(
    client: Any, images: Images, localizer: Localizer, wall: Places
) -> None:
    session = client.post("/sessions", b"", None).json
    assert session["revision"] == localizer.revision
    files = wall.where(split="test").files
    for n, (_, data) in enumerate(images[:12]):
        answer = update(client, session["id"], data, float(n), **odometry(n))
        assert answer.status == 200, answer.body
        same(
            answer.json,
            localizer.update(files[n], float(n), Odometry(2.0, 0.0, 0.0) if n else None),
        )
    assert answer.json["trusted"]
    descriptor = localizer.map.describe(files[12])
    sent = json.dumps({"descriptor": descriptor.tolist()})
    same(
        update(client, session["id"], sent, 12.0, "application/json").json,
        localizer.update(descriptor, 12.0),
    )
    assert client.ask("DELETE", f"/sessions/{session['id']}").json == {"deleted": session["id"]}
    assert update(client, session["id"], data, 99.0).status == 404


@pytest.mark.medium
def test_estimates_are_streamed_from_any_number_on(
    start: Callable[..., Any], map_folder: Path, images: Images
) -> None:
    client = start(map_folder, settings(timeout=2.0))
    session = client.post("/sessions", b"", None).json["id"]
    told = [update(client, session, data, float(n)).json for n, (_, data) in enumerate(images[:4])]
    answer = client.get(f"/sessions/{session}/events")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    streamed = events(answer.body)
    clouds = [one.pop("cloud") for one in streamed.values()]
    assert streamed == dict(enumerate(told, 1))
    assert clouds[:-1] == [None] * 3  # only the last one is kept
    near = [chance for x, y, chance in clouds[-1] if np.hypot(x - told[-1]["position"][0], y) < 100]
    assert 0.5 < sum(near) <= 1.01
    later = client.ask("GET", f"/sessions/{session}/events", headers={"Last-Event-ID": "2"})
    assert list(events(later.body)) == [3, 4]
    assert client.get(f"/sessions/{UNKNOWN}/events").status == 404


def settings(**values: Any) -> Settings:
    return Settings(**{"queue": 100, "connections": 300, "timeout": 10.0, **values})


def events(body: bytes) -> dict[int, Any]:
    found = {}
    for event in body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in event.splitlines())
        if "id" in lines:
            found[int(lines["id"])] = json.loads(lines["data"])
    return found


@pytest.mark.medium
def test_a_bad_update_is_one_sentence_and_the_session_goes_on(client: Any, images: Images) -> None:
    session, data = client.post("/sessions", b"", None).json["id"], images[0][1]
    assert update(client, session, data, 5.0).status == 200
    for path, body, kind, status, words in [
        (
            f"/sessions/{session}/update?time=4",
            data,
            "image/png",
            422,
            "time is 4.000, expected later than 5.000",
        ),
        (f"/sessions/{session}/update?time=5", data, "image/png", 422, "expected later"),
        (f"/sessions/{session}/update?time=nan", data, "image/png", 422, "time"),
        (f"/sessions/{session}/update", data, "image/png", 422, "time"),
        (
            f"/sessions/{session}/update?time=6&forward=1",
            data,
            "image/png",
            422,
            "forward, left and turn",
        ),
        (
            f"/sessions/{session}/update?time=6&forward=nan&left=0&turn=0",
            data,
            "image/png",
            422,
            "forward",
        ),
        (f"/sessions/{session}/update?time=6", b"bad", "image/png", 422, "not a JPEG, PNG or WebP"),
        (f"/sessions/{session}/update?time=6", b"bad", "application/json", 400, "not JSON"),
        (
            f"/sessions/{session}/update?time=6",
            b'{"descriptor": [1]}',
            "application/json",
            422,
            "shape (1, 1)",
        ),
        (f"/sessions/{session}/update?time=6", b"bad", "text/plain", 415, "content type"),
        (
            f"/sessions/{UNKNOWN}/update?time=6",
            data,
            "image/png",
            404,
            "does not exist, or it expired",
        ),
        ("/sessions/..%2f..%2fetc/update?time=6", data, "image/png", 404, ""),
    ]:
        answer = client.post(path, body, kind)
        assert (answer.status, words in answer.error) == (status, True), (path, answer.body)
    assert update(client, session, images[1][1], 6.0).status == 200


@pytest.mark.medium
def test_sessions_are_limited(start: Callable[..., Any], map_folder: Path) -> None:
    client = start(map_folder, settings(sessions=2))
    first = client.post("/sessions", b"", None).json["id"]
    assert client.post("/sessions", b"", None).status == 200
    full = client.post("/sessions", b"", None)
    assert full.status == 503
    assert "2 sessions already" in full.error
    client.ask("DELETE", f"/sessions/{first}")
    assert client.post("/sessions", b"", None).status == 200


@pytest.mark.medium
def test_sessions_expire(start: Callable[..., Any], map_folder: Path) -> None:
    client = start(map_folder, settings(session_timeout=0.5))
    session = client.post("/sessions", b"", None).json["id"]
    assert (
        client.ask("DELETE", f"/sessions/{client.post('/sessions', b'', None).json['id']}").status
        == 200
    )
    time.sleep(0.6)
    assert client.ask("DELETE", f"/sessions/{session}").status == 404


@pytest.mark.medium
def test_a_killed_server_forgets_sessions_and_says_so(
    backbones_folder: Path, map_folder: Path, images: Images, client: Any
) -> None:
    known = (
        "from mappable.features import backbones;"
        f" backbones.__path__.append({str(backbones_folder)!r}); "
    )
    run = [
        sys.executable,
        "-c",
        f"{known}from mappable.cli import main; main()",
        "serve",
        str(map_folder),
    ]

    @contextmanager
    def serving() -> Iterator[Any]:
        with subprocess.Popen([*run, "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                address = next(line for line in process.stdout if line.startswith("serving at "))
                yield replace(client, port=int(address.rsplit(":", 1)[1])), process
            finally:
                process.kill()

    with serving() as (first, process):
        session = first.post("/sessions", b"", None).json["id"]
        assert update(first, session, images[0][1], 0.0).status == 200
        process.kill()
    with serving() as (second, _):
        lost = update(second, session, images[1][1], 1.0)
        assert (lost.status, "create a new one" in lost.error) == (404, True)
        again = second.post("/sessions", b"", None).json["id"]
        assert update(second, again, images[1][1], 1.0).status == 200


@pytest.mark.medium
def test_sessions_need_the_token(start: Callable[..., Any], map_folder: Path) -> None:
    client = start(map_folder, token="secret")
    session = client.post("/sessions", b"", None).json["id"]
    stranger = replace(client, headers={})
    assert stranger.post("/sessions", b"", None).status == 401
    assert stranger.get(f"/sessions/{session}/events").status == 401
    assert stranger.ask("DELETE", f"/sessions/{session}").status == 401


@pytest.mark.medium
def test_a_large_update_is_refused_before_it_is_parsed(
    start: Callable[..., Any], map_folder: Path
) -> None:
    """Lists in lists need eighty times their text in memory, and parsing them blocks all others."""
    client = start(map_folder, settings(body=60_000_000, memory=500_000_000))
    session, began = client.post("/sessions", b"", None).json["id"], time.perf_counter()
    nested = b'{"descriptor": [' + b"[]," * 10_000_000 + b"0]}"
    answer = update(client, session, nested, 1.0, "application/json")
    assert answer.status == 503
    assert time.perf_counter() - began < 5
    assert client.get("/health").status == 200
