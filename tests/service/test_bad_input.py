"""Bad requests: each client gets one sentence that says what is wrong, and all other clients are served as before."""

import os
import struct
import time
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

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
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
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
        (
            b'--wall\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--wall--\r\n',
            "unknown field 'a'",
        ),
    ],
)
def test_a_broken_form_is_refused(client: Any, body: bytes, part: str) -> None:
    answer = client.post("/locate", body, "multipart/form-data; boundary=wall")
    assert answer.status == 400
    assert part in answer.error


@pytest.mark.parametrize(
    ("known", "status", "part"),
    [
        ("[" * 100_000, 422, "invalid json"),
        ('[{"point": 0}]', 422, "coordinates"),
        (
            '[{"point": 0, "coordinates": [1e300, 0]}]',
            422,
            "0 coordinates 0: input should be less than or equal to 10",
        ),
        (
            '[{"point": 0, "coordinates": [0, NaN]}]',
            422,
            "0 coordinates 1: input should be a finite number",
        ),
        (
            '[{"point": 0, "coordinates": [0, 0], "sigma": 1e-300}]',
            422,
            "0 sigma: input should be greater than",
        ),
        (
            '[{"point": 1e30, "coordinates": [0, 0]}]',
            422,
            "0 point: unable to parse input string as an integer",
        ),
    ],
)
def test_known_positions_that_nobody_can_mean_are_refused(
    client: Any, images: Images, known: str, status: int, part: str
) -> None:
    answer = client.post_files("/recover", images[:3], known=known)
    assert answer.status == status
    assert answer.error.startswith("field known: ")
    assert part in answer.error


def test_a_long_body_is_refused_before_it_comes(client: Any) -> None:
    with client.socket() as connection:
        connection.sendall(
            f"{HEAD}Content-Length: 200000000\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        answer = client.answer_on(connection)
    assert answer.status == 413
    assert answer.error == "the body is longer than the limit of 1,000,000 bytes"


def test_clients_that_hang_up_leave_nothing_behind(client: Any, images: Images) -> None:
    whole = f"{HEAD}Content-Length: {len(images[0][1])}\r\n\r\n".encode() + images[0][1]
    for part in (whole[:20], whole[:200], whole):
        with client.socket() as connection:
            connection.sendall(part)
    time.sleep(0.2)
