"""What strangers cannot do: use another host name, guess tokens, or see pictures outside the map's folder."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from mappable.cli.app import app
from mappable.errors import BadInputError
from mappable.maps import Landmarks
from mappable.maps.encoders import encoder_of
from mappable.places import Places
from mappable.service.guard import Hosts

Start = Callable[..., Any]
EVERY_ADDRESS = "0.0.0.0"


@pytest.mark.parametrize("host", ["localhost", "LocalHost:8000", "127.0.0.1:80", "[::1]:8000", "localhost.", "[::1]"])
def test_a_server_answers_to_this_machine(host: str) -> None:
    assert Hosts().allow(host)
    assert Hosts("::1").allow(host)


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
    for host in ("robot.local:8000", "maps.example.org", "MAPS.example.org.", "192.0.2.7:1", "[2001:db8::1]:1"):
        assert hosts.allow(host)
    assert not hosts.allow("192.0.2.8")
    assert not hosts.allow("example.org")


def test_a_server_on_every_address_answers_to_addresses_but_not_to_names() -> None:
    assert Hosts(EVERY_ADDRESS).allow("192.0.2.7:8000")
    assert Hosts("::").allow("[2001:db8::1]:8000")
    assert not Hosts(EVERY_ADDRESS).allow("evil.example")


@pytest.mark.parametrize("name", ["", "*", "http://maps.example.org", "maps.example.org:80", "a b", "x" * 300 + "/"])
def test_an_allowed_host_is_a_name(name: str) -> None:
    with pytest.raises(BadInputError, match=r"--allowed-host is .*expected a host name") as refused:
        Hosts(others=[name])
    assert len(str(refused.value)) < 200


ROUTES = ("/", "/viewer/main.js", "/map", "/health", "/metrics", "/openapi.json", "/nowhere")


def test_every_route_checks_the_host(client: Any) -> None:
    for host in ("evil.example", "evil.example:8000", "localhost.evil.example"):
        for path in ROUTES:
            answer = client.ask("GET", path, headers={"Host": host})
            assert answer.status == 421, path
            assert "--allowed-host" in answer.error
    assert client.ask("POST", "/locate", b"", {"Host": "evil.example"}).status == 421
    assert client.ask("GET", "/health", headers={"Host": "localhost"}).status == 200


def test_a_host_can_be_allowed(start: Start, map_folder: Path) -> None:
    client = start(map_folder, hosts=Hosts(others=["maps.example.org"]))
    assert client.ask("GET", "/map", headers={"Host": "maps.example.org"}).status == 200
    assert client.ask("GET", "/map", headers={"Host": "evil.example"}).status == 421


def test_no_response_may_be_interpreted_as_another_type(client: Any) -> None:
    landmark = client.get("/map").json["places"][0]
    answers = [client.get(path) for path in (*ROUTES, landmark["image"], "/landmarks/none/image")]
    answers.append(client.post("/locate", b"bad"))
    answers.append(client.ask("DELETE", "/map"))
    answers.append(client.ask("GET", "/", headers={"Host": "evil.example"}))
    assert {answer.status for answer in answers} >= {200, 404, 405, 421, 422}
    for answer in answers:
        named = [value for name, value in answer.headers.items() if name.lower() == "x-content-type-options"]
        assert named == ["nosniff"]


@pytest.fixture
def foreign(map_folder: Path, tmp_path: Path) -> Path:
    """A map whose folder has an image, and a symbolic link to an image elsewhere."""
    opened, folder = Landmarks.open(map_folder), tmp_path / "map"
    names = ["inside.png", "link.png"]
    places = opened.places[:2].replace(path=names, place_id=names, root=folder / "images")
    built = Landmarks.build(places, opened.store.take(np.arange(2)), opened.encoder, about=opened.about)
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


def test_pictures_in_a_folder_that_the_user_names_are_shown(
    start: Start, foreign: Path, map_folder: Path, wall: Places
) -> None:
    address = client_address(Landmarks.open(map_folder))
    assert start(map_folder, images=[]).get(address).status == 403
    assert start(map_folder, images=[wall.root / "calibration"]).get(address).status == 403
    assert start(map_folder, images=[wall.root]).get(address).status == 200
    assert start(foreign, images=[wall.root]).get("/landmarks/link.png/image").status == 200


def client_address(opened: Landmarks) -> str:
    return f"/landmarks/{opened.places.place_id[0]}/image"


def test_the_command_says_which_folder_to_name(map_folder: Path, foreign: Path, wall: Places, tmp_path: Path) -> None:
    unreachable = ["--host", "192.0.2.1", "--port", "0"]

    def told(folder: Path, *more: str) -> str:
        return CliRunner().invoke(app, ["serve", str(folder), *unreachable, *more]).output

    assert f"--images {wall.root}" in told(map_folder)
    assert "--images" not in told(map_folder, "--images", str(wall.root))
    assert "--images" not in told(foreign)
    for option, value in (("--images", str(tmp_path / "none")), ("--allowed-host", "http://x")):
        result = CliRunner().invoke(app, ["serve", str(map_folder), option, value])
        assert isinstance(result.exception, BadInputError)
        assert value in str(result.exception)
