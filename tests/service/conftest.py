"""Fixtures for tests of the server: a painted wall, a map of it, and a server that runs in a thread."""

import http.client
import io
import json
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mappable.features import Encoder
from mappable.localization import build_map
from mappable.maps import Landmarks
from mappable.maps.encoders import encoder_of
from mappable.places import Frame, Places
from mappable.service.app import create_app
from mappable.service.engine import Engine
from mappable.service.guard import Hosts
from mappable.service.limits import Settings
from mappable.service.metrics import Metrics
from mappable.service.server import bind, server_of
from walls import HEIGHT, WIDTH, draw_wall

# Split, first place and distance from one to the next in metres, light.
DRIVES = {
    "train": ("train", 0.0, 4.0, 1.0),
    "calibration": ("calibration", 0.5, 1.5, 1.0),
    "test": ("test", 2.0, 2.0, 1.0),
}
OXFORD = Frame("oxford", crs="EPSG:32630", origin=(620_000.0, 5_734_000.0, 0.0))
SETTINGS = Settings(
    body=1_000_000, pixels=1_000_000, queue=100, timeout=30, connections=300, memory=50_000_000
)
BOUNDARY = "wall"


@pytest.fixture(scope="session")
def wall(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Images along a wall in Oxford, in a folder."""
    return draw_wall(tmp_path_factory.mktemp("served") / "wall", DRIVES, 160.0, OXFORD)


@pytest.fixture(scope="session")
def map_folder(small_backbone: str, wall: Places, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a map of the wall, with its encoder; a test that changes it must copy it first."""
    encoder = Encoder.create(
        weights="random", size=(WIDTH, HEIGHT), clusters=32, backbone=small_backbone
    )
    encoder.initialize(wall.where(split="train"))
    folder = tmp_path_factory.mktemp("served-map")
    encoder.save(folder / "encoder.safetensors")
    build_map(wall, encoder=encoder, landmarks=40).save(folder / "map")
    return folder / "map"


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The sentence of an error, without a traceback."""
        told: str = self.json["error"]
        assert "\n" not in told
        assert "Traceback" not in told
        return told


@dataclass(frozen=True)
class Client:
    """A client of a server."""

    port: int
    headers: Mapping[str, str]

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, body: Any, kind: str | None = "image/png", **headers: str) -> Answer:
        return self.ask(
            "POST", path, body, ({} if kind is None else {"Content-Type": kind}) | headers
        )

    def post_files(self, path: str, files: Sequence[tuple[str, bytes]], **fields: str) -> Answer:
        return self.post(path, form(files, **fields), f"multipart/form-data; boundary={BOUNDARY}")

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, {**self.headers, **(headers or {})})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def answer_on(self, connection: socket.socket) -> Answer:
        """What comes back to a client that writes HTTP by itself."""
        response = http.client.HTTPResponse(connection)
        response.begin()
        return Answer(response.status, dict(response.getheaders()), response.read())

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


def form(files: Sequence[tuple[str, bytes]], **fields: str) -> bytes:
    """A multipart body."""
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; name="
    parts = [f'{head}"{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
    for name, data in files:
        parts.append(
            f'{head}"images"; filename="{name}"\r\nContent-Type: image/png\r\n\r\n'.encode()
            + data
            + b"\r\n"
        )
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def as_file(pixels: Any, kind: str = "PNG", **options: Any) -> bytes:
    """The bytes of an image file."""
    out = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(out, kind, **options)
    return out.getvalue()


Start = Callable[..., Client]


def stacks() -> str:
    """The stack of each thread, to see why a server does not stop."""
    return "\n\n".join(
        "".join(traceback.format_stack(frame)) for frame in sys._current_frames().values()
    )


@pytest.fixture(scope="session")
def start(small_backbone: str) -> Iterator[Start]:
    """Serve the map of a folder, in a thread, with settings and optionally a token."""
    servers = []

    def run(
        folder: Path,
        settings: Settings = SETTINGS,
        token: str | None = None,
        images: Sequence[Path] | None = None,
        hosts: Hosts | None = None,
    ) -> Client:
        opened = Landmarks.open(folder)
        encoder = None if opened.encoder_file is None else encoder_of(opened, device="cpu")
        engine = Engine(opened, encoder, settings, Metrics())
        bound, up = bind("127.0.0.1", 0), threading.Event()
        shown = [opened.places.root] if images is None else images
        app = create_app(engine, token=token, images=shown, hosts=hosts, ready=up.set)
        server = server_of(app, settings)
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        servers.append((server, thread))
        assert up.wait(30)
        return Client(
            bound.getsockname()[1], {} if token is None else {"Authorization": f"Bearer {token}"}
        )

    yield run
    for server, _ in servers:
        server.should_exit = True
    for server, thread in servers:
        thread.join((server.config.timeout_graceful_shutdown or 0) + 30)  # longer on a busy machine
        assert not thread.is_alive(), stacks()


@pytest.fixture(scope="session")
def client(start: Start, map_folder: Path) -> Client:
    """A client of a server that all tests share."""
    return start(map_folder)


@pytest.fixture
def new_client() -> Callable[[int], Client]:
    """Make a client of a server on this port."""
    return lambda port: Client(port, {})


@pytest.fixture(scope="session")
def images(wall: Places) -> list[tuple[str, bytes]]:
    """The test drive: names and bytes of its files, in order."""
    return [(file.name, file.read_bytes()) for file in wall.where(split="test").files]


@pytest.fixture(scope="session", name="as_file")
def _as_file() -> Callable[..., bytes]:
    return as_file
