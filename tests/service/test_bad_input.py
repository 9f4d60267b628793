"""Bad requests: each client gets one sentence that says what is wrong, and all other clients are served as before."""

import os
import struct
import time
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mappable.places.images import load_image

Images = list[tuple[str, bytes]]
HEAD = "POST /locate HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"


@pytest.fixture(autouse=True)
def still_answering(client: Any, images: Images) -> Any:
    """After each of these tests the server responds as before."""
    yield
    assert client.post("/locate", images[0][1]).status == 200
    assert client.get("/health").json["queue"] == 0


def noise(*shape: int, kind: Any = np.uint8) -> Any:
    return np.random.default_rng(0).integers(0, np.iinfo(kind).max, shape).astype(kind)


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header declares a large image."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def encoded(as_file: Any) -> dict[str, tuple[bytes, str]]:
    rgb = Image.fromarray(noise(48, 64, 3))
    animated = {"save_all": True, "append_images": [Image.new("RGB", (64, 48))]}
    jpeg = as_file(rgb, "JPEG")
    return {
        "jpeg": (jpeg, "ok"),
        "webp": (as_file(rgb, "WEBP"), "ok"),
        "gray": (as_file(rgb.convert("L")), "ok"),
        "palette": (as_file(rgb.convert("P")), "ok"),
        "transparent": (as_file(rgb.convert("RGBA")), "ok"),
        "16-bit": (as_file(noise(48, 64, kind=np.uint16)), "ok"),
        "CMYK": (as_file(rgb.convert("CMYK"), "JPEG"), "ok"),
        "two pictures": (as_file(rgb, "MPO", **animated), "ok"),
        "tall": (as_file(noise(900, 2, 3)), "ok"),
        "empty": (b"", "empty (0 bytes)"),
        "text": (b"hello, world", "not a JPEG, PNG or WebP image"),
        "GIF": (as_file(rgb.convert("P"), "GIF"), "not a JPEG, PNG or WebP image"),
        "random": (os.urandom(5000), "not a JPEG, PNG or WebP image"),
        "cut JPEG": (jpeg[: len(jpeg) // 2], "damaged or unreadable"),
        "cut PNG": (as_file(rgb)[:2000], "damaged or unreadable"),
        "cut in its header": (jpeg[:30], "its header is truncated or damaged"),
        "cut behind its header": (as_file(rgb)[:33], "truncated or damaged"),
        "a WAV": (b"RIFF\0\0\0\0WAVEfmt ", "not a JPEG, PNG or WebP image"),
        "animated PNG": (as_file(rgb, "PNG", **animated), "animated, with 2 frames"),
        "animated WebP": (as_file(rgb, "WEBP", **animated), "animated, with 2 frames"),
        "too many pixels": (
            as_file(Image.new("L", (1100, 1000))),
            "1100x1000 pixels, more than the limit of 1,000,000",
        ),
        "a bomb": (bomb(9000, 9000), "9000x9000 pixels, more than the limit"),
        "a huge bomb": (bomb(60_000, 60_000), "more than 1,000,000 pixels"),
    }


def test_every_kind_of_image_is_located_or_refused(client: Any, as_file: Any) -> None:
    for name, (data, outcome) in encoded(as_file).items():
        answer = client.post("/locate", data)
        if outcome == "ok":
            assert answer.status == 200, (name, answer)
        else:
            assert answer.status == (413 if "pixels" in outcome else 422), (name, answer)
            assert answer.error.startswith("image: "), name
            assert outcome in answer.error, (name, answer.error)


def test_16_bit_images_are_scaled_not_clipped(client: Any, wall: Any, as_file: Any, images: Images) -> None:
    gray = np.asarray(Image.fromarray(load_image(wall.where(split="test").files[9], (64, 48))).convert("L"))
    fine = as_file(gray.astype(np.uint16) << 8)
    (coarse,), (found,) = (client.post("/locate", data).json["positions"] for data in (as_file(gray), fine))
    assert found == coarse


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "image/gif", "application/x-www-form-urlencoded", "application/json"]
)
def test_the_content_type_must_be_one_that_is_taken(client: Any, images: Images, kind: str | None) -> None:
    answer = client.post("/locate", images[0][1], kind)
    assert answer.status == 415
    assert (repr(kind) if kind else "none") in answer.error
    assert "image/jpeg, image/png, image/webp or multipart/form-data" in answer.error
    assert client.post("/recover", images[0][1], "image/png").status == 415


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"", "ends before its last boundary"),
        (b"no parts at all", "ends before its last boundary"),
        (b"--wall--\r\n", ""),
        (
            b'--wall\r\nContent-Disposition: form-data; name="a"; filename="a.png"\r\n\r\ncut',
            "ends before its last boundary",
        ),
        (b'--wall\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--wall--\r\n', "unknown field 'a'"),
    ],
)
def test_a_broken_form_is_refused(client: Any, body: bytes, part: str) -> None:
    answer = client.post("/locate", body, "multipart/form-data; boundary=wall")
    assert answer.status == 400
    assert part in answer.error


def test_a_form_without_a_boundary_is_refused(client: Any) -> None:
    assert client.post("/locate", b"--x--", "multipart/form-data").status == 400


@pytest.mark.parametrize(
    ("known", "status", "part"),
    [
        ("[" * 100_000, 422, "invalid json"),
        ('[{"point": 0}]', 422, "coordinates"),
        ('[{"point": 0, "coordinates": [1e300, 0]}]', 422, "0 coordinates 0: input should be less than or equal to 10"),
        ('[{"point": 0, "coordinates": [0, NaN]}]', 422, "0 coordinates 1: input should be a finite number"),
        ('[{"point": 0, "coordinates": [0, 0], "sigma": 1e-300}]', 422, "0 sigma: input should be greater than"),
        ('[{"point": 1e30, "coordinates": [0, 0]}]', 422, "0 point: unable to parse input string as an integer"),
    ],
)
def test_known_positions_that_nobody_can_mean_are_refused(
    client: Any, images: Images, known: str, status: int, part: str
) -> None:
    answer = client.post_files("/recover", images[:3], known=known)
    assert answer.status == status
    assert answer.error.startswith("field known: ")
    assert part in answer.error


def test_too_many_images_are_refused(client: Any, images: Images) -> None:
    answer = client.post_files("/locate", [(f"{n}.png", b"") for n in range(101)])
    assert answer.status == 413
    assert answer.error == "the request has 101 images, more than the limit of 100"


def test_a_long_body_is_refused_before_it_comes(client: Any) -> None:
    with client.socket() as connection:
        connection.sendall(f"{HEAD}Content-Length: 200000000\r\nExpect: 100-continue\r\n\r\n".encode())
        answer = client.answer_on(connection)
    assert answer.status == 413
    assert answer.error == "the body is longer than the limit of 1,000,000 bytes"


def test_200_megabytes_are_refused_and_not_kept(client: Any) -> None:
    """A client that does not declare the length of its body."""
    sent, block = 0, b"%x\r\n" % 2**20 + bytes(2**20) + b"\r\n"
    with client.socket() as connection:
        connection.sendall(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
        try:
            while sent < 200 * 2**20:
                connection.sendall(block)
                sent += 2**20
            connection.sendall(b"0\r\n\r\n")
        except (ConnectionResetError, BrokenPipeError):
            assert sent > 2**20  # it may be cut off when it has been told for a second
        else:
            assert client.answer_on(connection).status == 413
    gauges = dict(
        line.split() for line in client.get("/metrics").body.decode().splitlines() if "received_b" in line[:20]
    )
    assert gauges["mappable_received_bytes"] == "0"


@pytest.mark.parametrize("request_line", ["GET /nothing", "GET /locate", "POST /map", "DELETE /landmarks/x/image"])
def test_an_address_that_does_not_exist_is_named(client: Any, request_line: str) -> None:
    method, path = request_line.split()
    answer = client.ask(method, path)
    assert answer.status in (404, 405)
    assert answer.error.startswith(request_line)


def test_clients_that_hang_up_leave_nothing_behind(client: Any, images: Images) -> None:
    whole = f"{HEAD}Content-Length: {len(images[0][1])}\r\n\r\n".encode() + images[0][1]
    for part in (whole[:20], whole[:200], whole):
        with client.socket() as connection:
            connection.sendall(part)
    time.sleep(0.2)


def test_too_many_connections_are_told_to_come_back(client: Any) -> None:
    waiting = [client.socket() for _ in range(300)]
    try:
        time.sleep(0.1)
        answer = client.get("/map")
        assert answer.status == 503
    finally:
        for connection in waiting:
            connection.close()
    time.sleep(0.2)
