"""Operating the server: map, pictures, health, metrics, tokens, a full queue, a lost map, a stop."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.features.fast_encoder import FastEncoder
from mappable.localization.map import Map
from mappable.maps import Landmarks
from mappable.maps.errors import DamagedMapError
from mappable.places import Places
from mappable.service.limits import Settings

pytestmark = pytest.mark.medium

Images = list[tuple[str, bytes]]
Start = Callable[..., Any]


def test_the_map_is_told(client: Any, map_folder: Path, wall: Places) -> None:
    told, opened = client.get("/map").json, Landmarks.open(map_folder)
    assert (told["frame"], told["unit"], told["crs"], told["dimensions"]) == (
        "oxford",
        "m",
        "EPSG:32630",
        2,
    )
    assert told["encoder"] == opened.encoder
    assert told["calibration"]["images"] == len(wall.where(split="calibration"))
    assert [one["id"] for one in told["places"]] == opened.places.place_id.tolist()
    np.testing.assert_allclose(
        [one["coordinates"] for one in told["places"]], opened.places.positions
    )
    latitude, _ = opened.frame.to_latlon(opened.places.positions)
    np.testing.assert_allclose([one["latitude"] for one in told["places"]], latitude)


def counted(client: Any) -> dict[str, float]:
    """The metrics by their names."""
    lines = client.get("/metrics").body.decode().splitlines()
    return {
        name: float(value)
        for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")
    }


def test_metrics_count_what_happens(client: Any, images: Images) -> None:
    before = counted(client)
    client.post("/locate", images[0][1])
    client.post("/locate", b"bad")
    client.get("/somewhere")
    after = counted(client)
    for name, more in {
        'mappable_requests_total{path="/locate",status="200"}': 1,
        'mappable_requests_total{path="/locate",status="422"}': 1,
        'mappable_errors_total{reason="not_an_image"}': 1,
        'mappable_requests_total{path="other",status="404"}': 1,
        'mappable_request_seconds_bucket{path="/locate",le="+Inf"}': 2,
        "mappable_batch_images_count": 1,
    }.items():
        assert after[name] - before.get(name, 0) == more, name
    assert after["mappable_queue_images"] == 0


def test_a_token_is_asked_for(start: Start, map_folder: Path, images: Images) -> None:
    client = start(map_folder, token="s3cret")
    assert client.post("/locate", images[0][1]).status == 200
    for stranger in (
        replace(client, headers=headers) for headers in ({}, {"Authorization": "Bearer s3creT"})
    ):
        for answer in (
            stranger.get("/map"),
            stranger.get("/metrics"),
            stranger.post("/locate", images[0][1]),
        ):
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "s3cret" not in answer.error
        assert stranger.get("/health").status == 200


@pytest.fixture
def hindered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], None]]:
    """A function that new encoders call before they describe images: it does nothing, unless a test
    replaces it.
    """
    before, embed = {"embed": lambda: None}, FastEncoder.embed

    def later(self: FastEncoder, pixels: Any) -> Any:
        before["embed"]()
        return embed(self, pixels)

    monkeypatch.setattr(FastEncoder, "embed", later)
    return before


def test_a_full_queue_sends_clients_away_and_loses_none(
    start: Start, map_folder: Path, images: Images, hindered: dict[str, Callable[[], None]]
) -> None:
    client = start(map_folder, Settings(queue=4, timeout=10))
    hindered["embed"] = lambda: time.sleep(0.1)
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda one: client.post("/locate", one[1]), images[:12]))
    assert {answer.status for answer in answers} == {200, 503}
    for answer in answers:
        if answer.status == 503:
            assert answer.error == "the queue is full: 4 images are waiting"
            assert answer.headers["retry-after"] == "1"
    assert client.get("/health").json["queue"] == 0


def test_bytes_of_all_requests_together_are_limited(
    start: Start, map_folder: Path, images: Images
) -> None:
    client = start(map_folder, Settings(memory=len(images[0][1]) + 2000, timeout=10))
    assert client.post("/locate", images[0][1]).status == 200
    answer = client.post_files("/locate", images[:2])
    assert (answer.status, answer.error) == (503, "too many bytes are being received at once")
    assert client.post("/locate", images[0][1]).status == 200


def test_a_late_answer_is_given_up(
    start: Start, map_folder: Path, images: Images, hindered: dict[str, Callable[[], None]]
) -> None:
    client, free = start(map_folder, Settings(timeout=0.5)), threading.Event()
    hindered["embed"] = lambda: free.wait(20) and None
    answer = client.post("/locate", images[0][1])
    assert answer.status == 503
    assert answer.error == "the response took longer than 0.5 s"
    assert client.get("/map").status == 200
    free.set()
    assert client.post("/locate", images[0][1]).status == 200


def test_damage_that_a_search_finds_is_told_without_a_path(
    start: Start, map_folder: Path, images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_damage(*_: Any, **__: Any) -> None:
        raise DamagedMapError(Path("/home/me/map/descriptors.npy"))

    client = start(map_folder)
    monkeypatch.setattr(Map, "locate_all", find_damage)
    answer = client.post("/locate", images[0][1])
    assert answer.status == 500
    assert "damaged" in answer.error
    assert "/home/me" not in answer.error


def test_concurrent_requests_are_answered_in_batches_each_with_its_own(
    start: Start, map_folder: Path, images: Images, hindered: dict[str, Callable[[], None]]
) -> None:
    # Whatever the number of images, so that batches pay.
    hindered["embed"] = lambda: time.sleep(0.01)
    client = start(map_folder)
    alone = [client.post("/locate", data).json["positions"][0] for _, data in images[:16]]
    with ThreadPoolExecutor(16) as pool:
        together = [
            one.json["positions"][0]
            for one in pool.map(lambda one: client.post("/locate", one[1]), images[:16])
        ]
    for one, other in zip(alone, together, strict=True):
        assert one["landmark"] == other["landmark"]
        np.testing.assert_allclose(one["coordinates"], other["coordinates"], atol=1e-3)
    metrics = counted(client)
    assert metrics["mappable_batch_images_sum"] == 32
    assert metrics["mappable_batch_images_count"] < 32


@pytest.fixture
def command(backbones_folder: Path) -> list[str]:
    """`mappable` in a separate process."""
    known = (
        "from mappable.features import backbones;"
        f" backbones.__path__.append({str(backbones_folder)!r}); "
    )
    return [sys.executable, "-c", f"{known}from mappable.cli import main; main()"]


def accepts(port: int) -> bool:
    """Whether a new client can connect."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_stop_finishes_what_has_begun(
    command: list[str], map_folder: Path, wall: Places, images: Images
) -> None:
    run = [*command, "serve", str(map_folder), "--port", "0", "--images", str(wall.root)]
    with subprocess.Popen(
        run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines[0] == "40 landmarks, frame oxford (m)\n"
        assert "images/s" in lines[1]
        assert lines[2].startswith("serving at http://127.0.0.1:")
        port = int(lines[2].rsplit(":", 1)[1])
        data = images[0][1]
        head = "POST /locate HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"
        head += f"Content-Length: {len(data)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(head.encode() + data[:100])
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            while accepts(port):
                time.sleep(0.1)
            connection.sendall(data[100:])
            told = b"".join(iter(lambda: connection.recv(10_000), b""))
        assert told.startswith(b"HTTP/1.1 200 ")
        assert json.loads(told.partition(b"\r\n\r\n")[2])["positions"][0]["landmark"]
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, rest, errors) == (0, "stopped\n", "")
