"""`mappable serve`: errors before the server starts."""

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mappable.cli.app import app
from mappable.errors import BadInputError


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
def test_settings_that_cannot_be_meant_are_refused(
    map_folder: Path, tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text(text)
    said = refused(map_folder, "--settings", file)
    assert said.startswith(f"{file}: ")
    assert problem in said
