"""Download a file, and compare its SHA-256."""

import hashlib
import socket
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from mappable.errors import BadInputError
from mappable.files import reading
from mappable.progress import progress_bar

TIMEOUT_SECONDS = 10  # for connecting, and for each read
MEGABYTE = 1_000_000


def fetch(url: str, target: Path, sha256: str = "") -> None:
    """Download `url` to the file `target`. The hash of its content must begin with the digits
    `sha256`.
    """
    request = Request(url, headers={"User-Agent": "mappable"})  # noqa: S310 - the program, not a file, has the address
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as response, target.open("wb") as stream:  # noqa: S310
            length = int(response.headers.get("Content-Length") or 0)
            with progress_bar(f"{url.rpartition('/')[2]}, MB", -(-length // MEGABYTE)) as advance:
                while chunk := response.read(MEGABYTE):
                    stream.write(chunk)
                    advance(1)
    except (OSError, ValueError, HTTPException) as error:
        raise BadInputError(
            f"{url}: cannot be downloaded ({getattr(error, 'reason', None) or error})"
        ) from None
    found = sha256_of(target)
    if not found.startswith(sha256.lower()):
        raise BadInputError(
            f"{url}: another file, or incomplete: its SHA-256 is {found}, expected {sha256}"
        )


def is_reachable(url: str, seconds: float = 2.0) -> bool:
    """True if the host of an address accepts a connection now."""
    address = urlsplit(url)
    try:
        port = address.port or (443 if address.scheme == "https" else 80)
        socket.create_connection((str(address.hostname), port), timeout=seconds).close()
    except OSError:
        return False
    return True


def sha256_of(file: Path) -> str:
    """The file's SHA-256 as 64 hex digits."""
    with reading(file), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
