"""What strangers cannot do: use another host name, guess tokens, or see pictures outside the map's folder."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.maps import Landmarks
from mappable.maps.encoders import encoder_of
from mappable.service.guard import Hosts

Start = Callable[..., Any]
EVERY_ADDRESS = "0.0.0.0"


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[::1].evil.example",
        "[::1]evil.example:80",
        "192.0.2.7",
        "[",
        ":",
    ],
)
def test_a_server_does_not_answer_to_other_names(host: str) -> None:
    assert not Hosts().allow(host)


def test_a_server_answers_to_its_own_address_and_to_allowed_names() -> None:
    hosts = Hosts("Robot.local", ["maps.example.org", "192.0.2.7", "2001:db8::1"])
    for host in (
        "robot.local:8000",
        "maps.example.org",
        "MAPS.example.org.",
        "192.0.2.7:1",
        "[2001:db8::1]:1",
    ):
        assert hosts.allow(host)
    assert not hosts.allow("192.0.2.8")
    assert not hosts.allow("example.org")


def test_a_server_on_every_address_answers_to_addresses_but_not_to_names() -> None:
    assert Hosts(EVERY_ADDRESS).allow("192.0.2.7:8000")
    assert Hosts("::").allow("[2001:db8::1]:8000")
    assert not Hosts(EVERY_ADDRESS).allow("evil.example")


ROUTES = ("/", "/viewer/main.js", "/map", "/health", "/metrics", "/openapi.json", "/nowhere")


def test_every_route_checks_the_host(client: Any) -> None:
    for host in ("evil.example", "evil.example:8000", "localhost.evil.example"):
        for path in ROUTES:
            answer = client.ask("GET", path, headers={"Host": host})
            assert answer.status == 421, path
            assert "--allowed-host" in answer.error
    assert client.ask("POST", "/locate", b"", {"Host": "evil.example"}).status == 421
    assert client.ask("GET", "/health", headers={"Host": "localhost"}).status == 200


def test_no_response_may_be_interpreted_as_another_type(client: Any) -> None:
    landmark = client.get("/map").json["places"][0]
    answers = [client.get(path) for path in (*ROUTES, landmark["image"], "/landmarks/none/image")]
    answers.append(client.post("/locate", b"bad"))
    answers.append(client.ask("DELETE", "/map"))
    answers.append(client.ask("GET", "/", headers={"Host": "evil.example"}))
    assert {answer.status for answer in answers} >= {200, 404, 405, 421, 422}
    for answer in answers:
        named = [
            value
            for name, value in answer.headers.items()
            if name.lower() == "x-content-type-options"
        ]
        assert named == ["nosniff"]


@pytest.fixture
def foreign(map_folder: Path, tmp_path: Path) -> Path:
    """A map whose folder has an image, and a symbolic link to an image elsewhere."""
    opened, folder = Landmarks.open(map_folder), tmp_path / "map"
    names = ["inside.png", "link.png"]
    places = opened.places[:2].replace(path=names, place_id=names, root=folder / "images")
    built = Landmarks.build(
        places, opened.store.take(np.arange(2)), opened.encoder, about=opened.about
    )
    built.save(folder, encoder_of(opened, device="cpu"))
    (folder / "images").mkdir()
    shutil.copy(opened.places.files[0], folder / "images/inside.png")
    (folder / "images/link.png").symlink_to(opened.places.files[1])
    return folder


def test_pictures_outside_the_folder_of_the_map_are_not_shown(start: Start, foreign: Path) -> None:
    client = start(foreign, images=[])
    assert client.get("/landmarks/inside.png/image").status == 200
    hidden = client.get("/landmarks/link.png/image")
    assert hidden.status == 403
    assert "--images" in hidden.error
    assert str(foreign.parent) not in hidden.error
