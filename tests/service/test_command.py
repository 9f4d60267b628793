"""`mappable serve`: errors before the server starts."""

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mappable.cli.app import app
from mappable.errors import BadInputError
from mappable.service.limits import Settings
from mappable.service.server import bind


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["serve", *map(str, arguments)])
    assert isinstance(result.exception, BadInputError), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_a_folder_without_a_map_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path)
    assert str(tmp_path) in said
    assert "map.json" in said


@pytest.mark.medium
def test_an_address_that_is_taken_is_named(map_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = refused(map_folder, "--port", port)
    assert f"127.0.0.1, port {port}" in said


@pytest.mark.medium
def test_an_address_is_taken_while_its_server_still_starts(map_folder: Path) -> None:
    with bind("127.0.0.1", 0) as starting:
        port = starting.getsockname()[1]
        said = refused(map_folder, "--port", port)
    assert f"127.0.0.1, port {port}" in said


def test_an_address_that_is_not_ours_is_named(map_folder: Path) -> None:
    assert refused(map_folder, "--host", "192.0.2.1", "--port", 0).count("192.0.2.1, port 0") == 1


@pytest.mark.parametrize("content", ["", "two words", "größer", "\n"])
def test_a_token_is_one_word(map_folder: Path, tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    assert refused(map_folder, "--token-file", file).startswith(f"{file}: ")


def test_a_token_can_be_read(map_folder: Path, tmp_path: Path) -> None:
    assert str(tmp_path / "b") in refused(map_folder, "--token-file", tmp_path / "b")
    (tmp_path / "b").write_bytes(b"\xff\xfe")
    assert str(tmp_path / "b") in refused(map_folder, "--token-file", tmp_path / "b")


def test_settings_are_shown_and_read(map_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text("queue: 5\n")
    shown = CliRunner().invoke(app, ["serve", "--settings", str(file), "--show-settings"])
    assert shown.exit_code == 0
    again = tmp_path / "again.yaml"
    again.write_text(shown.stdout)
    assert Settings.read(again) == Settings(queue=5)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("queues: 5", "queues: extra inputs are not permitted; the settings are body, pixels"),
        ("queue: many", "queue: input should be a valid integer"),
        ("queue: true", "queue: input should be a valid integer"),
        ("timeout: 0", "timeout: input should be greater than 0"),
        ("- a", "the file: "),
        ("a: [", "not YAML"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(map_folder: Path, tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(text)
    said = refused(map_folder, "--settings", file)
    assert said.startswith(f"{file}: ")
    assert problem in said
