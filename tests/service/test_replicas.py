"""Several servers on one Milvus map behind nginx: no accepted request is lost if one of them is killed."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.maps import Landmarks
from milvus_server import Server

pytestmark = pytest.mark.cluster

REQUESTS, CLIENTS, KILLED_AFTER = 400, 4, 100
SERVE = """
import sys
from mappable.cli import main
from mappable.features import backbones
backbones.__path__.append(sys.argv.pop())
sys.argv[0] = "mappable"
main()
"""
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def serve(backbones_folder: Path) -> Iterator[Callable[..., Any]]:
    """Start `mappable serve MAP` on a port; return the process when it is ready."""
    started = []

    def begin(folder: Path, port: int) -> "subprocess.Popen[str]":
        command = [
            sys.executable,
            "-c",
            SERVE,
            "serve",
            str(folder),
            "--port",
            str(port),
            "--device",
            "cpu",
        ]
        running = subprocess.Popen(
            [*command, str(backbones_folder)], stdout=subprocess.PIPE, text=True
        )
        started.append(running)
        assert running.stdout is not None
        text = ""
        while "serving at" not in text:
            line = running.stdout.readline()
            assert line, text
            text += line
        return running

    yield begin
    for running in started:
        running.terminate()
        running.communicate(timeout=60)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Callable[..., int]]:
    """Start nginx with the example of a page, after some replacements; return its port."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert nginx, "nginx is not installed: scripts/system-packages python3 balancer"
    running: list[subprocess.Popen[bytes]] = []

    def begin(page: str, listen: str, **replaced: str) -> int:
        port = free_port()
        (shown,) = re.findall(r"```nginx\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
        for written, own in {listen: f"listen 127.0.0.1:{port};", **replaced}.items():
            assert written in shown
            shown = shown.replace(written, own)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "".join(f"{kind}_temp_path {tmp_path};" for kind in kinds)
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; pid {tmp_path}/pid; worker_processes 1;\nevents {{}}\n"
            f"http {{ access_log off; {folders}\n{shown} }}\n"
        )
        command = [
            nginx,
            "-p",
            str(tmp_path),
            "-c",
            "nginx.conf",
            "-e",
            str(tmp_path / "error.log"),
        ]
        running.append(subprocess.Popen(command))
        ends = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return port
            except OSError:
                assert time.monotonic() < ends, (tmp_path / "error.log").read_text()
                time.sleep(0.1)

    yield begin
    for one in running:
        one.terminate()
        one.wait(timeout=20)


@pytest.fixture
def balance(proxy: Callable[..., int]) -> Callable[[int, int], int]:
    """Start nginx with the configuration of docs/scale.md, in front of servers at two ports."""

    def begin(first: int, second: int) -> int:
        servers = {"first:8000": f"127.0.0.1:{first}", "second:8000": f"127.0.0.1:{second}"}
        return proxy("scale.md", "listen 80;", **servers)

    return begin


def test_slow_clients_are_the_work_of_the_proxy(
    map_folder: Path,
    images: list[tuple[str, bytes]],
    serve: Callable[..., Any],
    proxy: Callable[..., int],
    new_client: Callable[[int], Any],
) -> None:
    """The example of docs/serve.md, without TLS and with timeouts of one second."""
    own = free_port()
    serve(map_folder, own)
    replaced = {
        "client_body_timeout 20s": "client_body_timeout 1s",
        "127.0.0.1:8000": f"127.0.0.1:{own}",
    }
    replaced |= {"client_header_timeout 20s": "client_header_timeout 1s"}
    replaced |= dict.fromkeys(
        ("ssl_certificate     /etc/ssl/maps.pem;", "ssl_certificate_key /etc/ssl/maps.key;"), ""
    )
    client = new_client(proxy("serve.md", "listen 443 ssl;", **replaced))
    data = images[0][1]
    head = (
        "POST /mappable/locate HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nContent-Length:"
        f" {len(data)}\r\n"
    )
    with client.socket() as slow, client.socket() as slower:
        slow.sendall(f"{head}\r\n".encode() + data[:100])
        slower.sendall(head.encode())
        assert client.post("/mappable/locate", data).status == 200
        assert slow.recv(1) == b""  # closed
        assert slower.recv(1) == b""  # closed
    assert new_client(own).get("/health").json["queue"] == 0


def test_no_request_is_lost_if_a_replica_is_killed(
    map_folder: Path,
    images: list[tuple[str, bytes]],
    serve: Callable[..., Any],
    balance: Callable[[int, int], int],
    new_client: Callable[[int], Any],
    tmp_path: Path,
) -> None:
    server = Server(tmp_path / "milvus")
    try:
        for copy in ("first", "second"):  # as on two machines
            shutil.copytree(map_folder, tmp_path / copy)
            Landmarks.open(tmp_path / copy).upload(server.uri).save(tmp_path / copy)
        ports = free_port(), free_port()
        first, _ = (
            serve(tmp_path / copy, port)
            for copy, port in zip(("first", "second"), ports, strict=True)
        )
        client, direct = new_client(balance(*ports)), new_client(ports[1])
        expected = {
            name: direct.post("/locate", data).json["positions"][0] for name, data in images
        }
        answers: list[tuple[int, bool]] = []

        def agrees(found: dict[str, Any], name: str) -> bool:
            near = np.allclose(found["coordinates"], expected[name]["coordinates"], atol=1e-3)
            return near and found["landmark"] == expected[name]["landmark"]

        def ask(number: int) -> None:
            for request in range(number, REQUESTS, CLIENTS):
                name, data = images[request % len(images)]
                answer = client.post("/locate", data)
                answers.append(
                    (
                        answer.status,
                        answer.status == 200 and agrees(answer.json["positions"][0], name),
                    )
                )

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        while len(answers) < KILLED_AFTER:
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join(timeout=120)
        assert answers == [(200, True)] * REQUESTS
        log = (tmp_path / "error.log").read_text()
        assert "upstream" in log, "no request failed over"
        located = r'mappable_requests_total{path="/locate",status="200"} (\d+)'
        (served,) = map(int, re.findall(located, direct.get("/metrics").body.decode()))
        # The other replica answered until it was killed.
        assert REQUESTS // 2 < served < REQUESTS + len(images)
    finally:
        server.kill()


def test_sessions_reach_their_server_and_a_new_one_replaces_a_lost_one(
    map_folder: Path,
    images: list[tuple[str, bytes]],
    serve: Callable[..., Any],
    balance: Callable[[int, int], int],
    new_client: Callable[[int], Any],
) -> None:
    ports = free_port(), free_port()
    servers = [serve(map_folder, port) for port in ports]
    client = new_client(balance(*ports))

    def update(session: str, number: int) -> int:
        return int(
            client.post(f"/sessions/{session}/update?time={number}", images[number][1]).status
        )

    session = client.post("/sessions", b"", None).json["id"]
    assert [update(session, number) for number in range(6)] == [200] * 6
    holders = [new_client(port).get(f"/sessions/{session}/events").status == 200 for port in ports]
    assert sorted(holders) == [False, True]
    servers[holders.index(True)].send_signal(signal.SIGKILL)
    assert update(session, 6) in (404, 502)  # nginx does not repeat an update
    assert update(session, 7) == 404
    again = client.post("/sessions", b"", None).json["id"]
    assert update(again, 8) == 200
