"""Soak a real server with good and bad requests: good answers equal the offline ones, and memory stays flat."""

import http.client
import json
import math
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trust.counters import Counters
from trust.fuzz import FORM, mutated
from trust.processes import Running, run, start
from trust.tiny import use_small_backbone

TOLERANCE = 1e-4  # metres and feature distances: batches of another size round differently
BOUNDARY = "wall"
SUBSETS = 6  # of images that are located together
CLIENTS = 2  # that ask at the same time
FOLLOWED = 6  # images of a session


@contextmanager
def serving(base: Path, work: Path, served: str = "big-map") -> Iterator[tuple[int, Running]]:
    """A real `mappable serve` of the made-up map, and its port."""
    work.mkdir(parents=True, exist_ok=True)
    output = work / "serve.txt"
    output.unlink(missing_ok=True)
    words = ["serve", base / served, "--images", base / "images", "--port", "0", "--device", "cpu"]
    running = start(words, base, output, before=lambda: use_small_backbone(base))
    try:
        deadline = time.monotonic() + 60
        while "serving at" not in (text := output.read_text() if output.exists() else ""):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server does not start: {text}")
            time.sleep(0.05)
        yield int(text.rsplit(":", 1)[1]), running
    finally:
        os.kill(running.pid, signal.SIGTERM)
        os.waitpid(running.pid, 0)
        os.close(running.events)


def ask_server(
    port: int,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, bytes]:
    """One request on its own connection: status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def form(images: list[Path], boundary: str = BOUNDARY) -> bytes:
    """A multipart body with these images."""
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="images"; filename='
    parts = [
        f'{head}"{image.name}"\r\nContent-Type: image/png\r\n\r\n'.encode() + image.read_bytes()
        for image in images
    ]
    return b"\r\n".join(parts) + f"\r\n--{boundary}--\r\n".encode()


def same(first: Any, second: Any) -> bool:
    """True if two JSON values are equal up to rounding."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, float) and isinstance(second, int | float):
        return math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(first == second)


class Client:
    """Sends requests, and knows the right answers from `mappable locate --json` and `mappable
    recover`.
    """

    def __init__(self, base: Path, work: Path, port: int, served: str) -> None:
        self.port, self.base, self.served = port, base, served
        self.images = sorted((base / "images/wednesday").iterdir())
        self.alone = [self._offline(work, image)[0] for image in self.images]
        draw = random.Random(0)  # images of one request share what their visit adds to all of them
        self.some = [
            draw.sample(self.images, draw.randint(2, min(12, len(self.images))))
            for _ in range(SUBSETS)
        ]
        self.shared = [self._offline(work, *images) for images in self.some]
        self.together = self._offline(work, base / "images/wednesday", "--sequence")
        self.map = ask_server(port, "GET", "/map")[1]
        self.landmarks = [landmark["id"] for landmark in json.loads(self.map)["places"]]
        self.first: dict[str, bytes] = {}
        self.estimates: dict[int, Any] = {}

    def _offline(self, work: Path, *words: object) -> list[Any]:
        ended = run(
            ["locate", self.base / self.served, *words, "--device", "cpu", "--json"],
            self.base,
            work / "offline.txt",
            before=lambda: use_small_backbone(self.base),
        )
        if ended.status:
            raise RuntimeError(ended.output)
        found: list[Any] = json.loads(ended.output[ended.output.index("[\n") :])
        return [record | {"image": Path(record["image"]).name} for record in found]

    def locate_one(self, draw: random.Random) -> str:
        number = draw.randrange(len(self.images))
        status, body = self._post("/locate", self.images[number].read_bytes(), "image/png")
        return self._judge(status, body, [self.alone[number] | {"image": "image"}])

    def locate_some(self, draw: random.Random) -> str:
        number = draw.randrange(SUBSETS)
        status, body = self._post("/locate", form(self.some[number]))
        return self._judge(status, body, self.shared[number])

    def locate_drive(self, draw: random.Random) -> str:
        status, body = self._post("/locate?sequence=true", form(self.images))
        return self._judge(status, body, self.together)

    def recover(self, draw: random.Random) -> str:
        """The same request must give the same trajectory each time."""
        status, body = self._post("/recover", form(self.images[:12]))
        return self._repeats("recover", status, body)

    def follow(self, draw: random.Random) -> str:
        """A session must give the same estimates each time."""
        status, body = ask_server(self.port, "POST", "/sessions")
        if status == 503:
            return ""
        session = json.loads(body)["id"]
        for number, image in enumerate(self.images[:FOLLOWED]):
            status, body = self._post(
                f"/sessions/{session}/update?time={number}", image.read_bytes(), "image/png"
            )
            estimate = json.loads(body)
            if status != 200 or not same(self.estimates.setdefault(number, estimate), estimate):
                return f"image {number} of a session: status {status}: {body[:200]!r}"
        status, body = ask_server(self.port, "DELETE", f"/sessions/{session}")
        return "" if status == 200 else f"DELETE /sessions: {status} {body[:100]!r}"

    def read_map(self, draw: random.Random) -> str:
        status, body = ask_server(self.port, "GET", "/map")
        return "" if status == 200 and body == self.map else f"GET /map: {status}"

    def health(self, draw: random.Random) -> str:
        status, body = ask_server(self.port, "GET", "/health")
        return (
            ""
            if status == 200 and json.loads(body)["landmarks"] == len(self.landmarks)
            else f"GET /health: {status} {body[:100]!r}"
        )

    def picture(self, draw: random.Random) -> str:
        status, body = ask_server(self.port, "GET", f"/landmarks/{self.landmarks[0]}/image")
        return self._repeats("picture", status, body)

    def bad(self, draw: random.Random) -> str:
        """A bad request: any answer will do but a failure of the server, or an error that is not
        JSON.
        """
        status, body = self._bad(draw)
        if status >= 500 and status != 503:
            return f"status {status}: {body[:200]!r}"
        if (
            status >= 400
            and status not in (404, 405)
            and not isinstance(json.loads(body).get("error"), str | type(None))
        ):
            return f"status {status} without an error: {body[:200]!r}"
        return ""

    def _bad(self, draw: random.Random) -> tuple[int, bytes]:
        image = draw.choice(self.images).read_bytes()
        match draw.randrange(8):
            case 0:
                return self._post("/locate", mutated(image, draw), "image/png")
            case 1:
                return self._post("/locate", mutated(FORM.encode(), draw))
            case 2:
                return self._post(
                    "/locate?top_k=" + draw.choice(["-1", "x", "9" * 50, "1e3", "%00"]),
                    image,
                    "image/png",
                )
            case 3:
                return ask_server(
                    self.port, draw.choice(["PUT", "DELETE", "PATCH", "OPTIONS"]), "/locate", b"x"
                )
            case 4:
                return ask_server(
                    self.port,
                    "GET",
                    "/landmarks/" + draw.choice(["../map.json", "%2e%2e/x", "x"]) + "/image",
                )
            case 5:
                return self._post("/recover", mutated(form(self.images[:3]), draw))
            case 6:
                return self._post("/locate", bytes(draw.randrange(200_000)), "image/jpeg")
            case _:
                with socket.create_connection(("127.0.0.1", self.port), timeout=30) as raw:
                    raw.sendall(
                        mutated(
                            b"GET /map HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
                            draw,
                        )
                    )
                    raw.shutdown(socket.SHUT_WR)
                    try:
                        answer = raw.recv(1 << 16)
                    except OSError:
                        answer = b""
                return (500 if b" 500 " in answer[:20] else 200), answer

    def _post(
        self, path: str, body: bytes, kind: str = f"multipart/form-data; boundary={BOUNDARY}"
    ) -> tuple[int, bytes]:
        return ask_server(self.port, "POST", path, body, {"Content-Type": kind})

    def _judge(self, status: int, body: bytes, expected: list[Any]) -> str:
        if status != 200:
            return f"status {status}: {body[:200]!r}"
        found = json.loads(body)["positions"]
        return (
            ""
            if same(expected, found)
            else f"differs: {json.dumps(found)[:300]}, expected {json.dumps(expected)[:300]}"
        )

    def _repeats(self, name: str, status: int, body: bytes) -> str:
        if status == 503:
            return ""
        known = self.first.setdefault(name, body)
        return (
            ""
            if status in (200, 422) and known == body
            else f"{name}: status {status}, another answer than before"
        )


def memory_of(pid: int) -> float:
    """Resident memory of a process in MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def run_soak(
    base: Path,
    work: Path,
    counters: Counters,
    seconds: float,
    pause: float = 0.0,
    served: str = "big-map",
) -> None:
    """Send good and bad requests for some seconds; the counters hold requests, wrong answers and
    memory.
    """
    with serving(base, work, served) as (port, running):
        client = Client(base, work, port, served)
        kinds: dict[str, tuple[int, Callable[[random.Random], str]]] = {
            "locate one image": (6, client.locate_one),
            "locate several images": (3, client.locate_some),
            "locate a drive": (1, client.locate_drive),
            "recover": (1, client.recover),
            "follow a camera": (1, client.follow),
            "map": (1, client.read_map),
            "health": (1, client.health),
            "picture": (1, client.picture),
            "bad request": (6, client.bad),
        }
        names, weights = list(kinds), [weight for weight, _ in kinds.values()]
        begin, samples, lock = time.monotonic(), [], threading.Lock()

        def sample() -> None:
            samples.append((round(time.monotonic() - begin), round(memory_of(running.pid), 1)))
            counters.of("memory")["samples"] = samples
            counters.of("memory")["seconds"] = round(time.monotonic() - begin)
            counters.save()

        def ask(draw: random.Random) -> None:
            number = 0
            while time.monotonic() - begin < seconds:
                name = draw.choices(names, weights)[0]
                try:
                    wrong = kinds[name][1](draw)
                except (OSError, http.client.HTTPException) as error:
                    wrong = "" if name == "bad request" else f"{type(error).__name__}: {error}"
                except ValueError as error:
                    wrong = f"not JSON: {error}"
                with lock:
                    counters.add(name, "tried")
                    if wrong:
                        counters.fail(name, wrong)
                    number += 1
                    if number % 100 == 0:
                        sample()
                time.sleep(pause)

        seed = counters.total("tried")
        clients = [
            threading.Thread(target=ask, args=(random.Random(seed + one),))
            for one in range(CLIENTS)
        ]
        for asking in clients:
            asking.start()
        for asking in clients:
            asking.join()
        sample()


def growth(samples: list[list[float]]) -> float:
    """How much the memory grew, in MB: the median of the last quarter minus the median of the
    second quarter.
    """
    values = [megabytes for _, megabytes in samples]
    quarter = max(1, len(values) // 4)
    early, late = sorted(values[quarter : 2 * quarter] or values), sorted(values[-quarter:])
    return late[len(late) // 2] - early[len(early) // 2]
