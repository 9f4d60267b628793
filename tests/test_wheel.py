"""Wheels built in a fresh clone, installed in an empty environment, run the main commands and the page.

With MAPPABLE_DIST, a folder that `make release` made, these tests use the wheels and the sdist in
it.
"""

import email
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import tomllib
import urllib.error
import urllib.request
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).parent.parent
DIST = os.environ.get("MAPPABLE_DIST", "")
PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
CONSTRAINED = ["install", "--constraint", ROOT / "locks/constraints.txt"]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of this checkout that git does not ignore, so without plotly.js."""
    folder = tmp_path_factory.mktemp("clone") / "mappable"
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0")[:-1]:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(clone: Path) -> Path:
    """The wheel that `pip wheel .` builds in the clone, or the wheel of a release."""
    if DIST:
        return released("mappable-*.whl")
    assert not (clone / "src/mappable/service/viewer/vendor").exists()
    subprocess.run(
        [sys.executable, *PIP, "wheel", clone, "--no-deps", "--wheel-dir", clone.parent], check=True
    )
    (built,) = clone.parent.glob("mappable-*.whl")
    return built


@pytest.fixture(scope="module")
def worlds(clone: Path) -> Path:
    """The wheel of the simulated worlds."""
    if DIST:
        return released("mappable_worlds-*.whl")
    subprocess.run(
        [sys.executable, *PIP, "wheel", clone / "worlds", "--no-deps", "--wheel-dir", clone.parent],
        check=True,
    )
    (built,) = clone.parent.glob("mappable_worlds-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that holds nothing but the wheel and its dependencies."""
    programs = new_environment(tmp_path_factory.mktemp("installed"))
    subprocess.run(
        [programs / "python", *PIP, *CONSTRAINED, "torch"], check=True
    )  # first and alone, as in the Makefile
    subprocess.run([programs / "python", *PIP, *CONSTRAINED, f"{wheel}[serve]"], check=True)
    return programs


def released(pattern: str) -> Path:
    """The only such file of the release."""
    (found,) = Path(DIST).glob(pattern)
    return found.resolve()


def new_environment(folder: Path) -> Path:
    """Create an environment with nothing but pip; return its `bin` folder."""
    venv.create(folder, with_pip=True)
    return folder / "bin"


def environment() -> dict[str, str]:
    """Environment variables without the path to the checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_the_wheel_contains_every_file_of_the_package(clone: Path, wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = clone / "src/mappable"
    assert {
        f"mappable/{file.relative_to(package)}" for file in package.rglob("*") if file.is_file()
    } <= names
    assert names >= {
        f"mappable/service/viewer/vendor/{name}" for name in ("plotly.min.js", "plotly-LICENSE.txt")
    }
    assert "mappable/py.typed" in names
    assert any(name.startswith("mappable/presets/") for name in names)
    assert not [name for name in names if not name.startswith(("mappable/", "mappable-"))]


def test_the_wheel_says_what_pyproject_toml_says(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_string(archive.read(name).decode())
    assert (metadata["Name"], metadata["Version"]) == (project["name"], project["version"])
    assert metadata["License-Expression"] == project["license"]
    assert metadata.get_payload() == (ROOT / "README.md").read_text("utf-8")


def test_an_sdist_contains_what_a_wheel_needs(clone: Path, wheel: Path, tmp_path: Path) -> None:
    python = new_environment(tmp_path / "builder") / "python"
    subprocess.run([python, *PIP, *CONSTRAINED, "hatchling"], check=True)
    build = [python, "-m", "hatchling", "build", "--directory", tmp_path, "--target"]
    if DIST:
        packed = released("mappable-*.tar.gz")
    else:
        subprocess.run([*build, "sdist"], cwd=clone, check=True)
        (packed,) = tmp_path.glob("mappable-*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    # Without a package index: plotly.js comes from the sdist.
    offline = environment() | {
        "PIP_NO_INDEX": "1",
        "PIP_INDEX_URL": "http://127.0.0.1:9",
        "PIP_FIND_LINKS": "",
    }
    subprocess.run(
        [*build, "wheel"],
        cwd=tmp_path / packed.name.removesuffix(".tar.gz"),
        env=offline,
        check=True,
    )
    (again,) = tmp_path.glob("mappable-*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_the_core_alone_starts_locates_and_serves_and_names_what_the_demo_needs(
    wheel: Path, worlds: Path, installed: Path, geotagged: Callable[..., list[Path]], tmp_path: Path
) -> None:
    def run(line: str) -> "subprocess.CompletedProcess[str]":
        words = [installed / "mappable", *line.split()]
        return subprocess.run(
            words, cwd=tmp_path, env=environment(), capture_output=True, text=True
        )

    def mappable(line: str) -> str:
        done = run(line)
        assert done.returncode == 0, f"mappable {line}\n{done.stdout}{done.stderr}"
        return done.stdout

    assert mappable("--version").strip() == f"mappable {wheel.name.split('-')[1]}"
    geotagged(tmp_path / "walk", 40)
    mappable("start walk started --minutes 0.1 --no-serve")
    assert "0003.jpg" in mappable("locate started/map walk/0003.jpg")
    assert_served(installed, tmp_path, "started/map")
    for line in ("demo", "simulate street-v1-demo town", "reproduce street-v1"):
        done = run(line)
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert done.stderr.endswith("pip install 'mappable[demo]'\n")
    assert mappable("train walk model --preset oxford --show-settings")
    # With the worlds.
    subprocess.run([installed / "python", *PIP, "install", "--no-deps", worlds], check=True)
    mappable("simulate street-v1-demo town --every 20 --size 64x48")
    mappable(
        "train town model --preset street-laptop --set iterations=2 --set size=64x48 --set"
        " init_images=10"
    )
    mappable("map build town map --encoder model --landmarks 10")
    photo = next((tmp_path / "town/images").rglob("*.*"))
    assert photo.name in mappable(f"locate map {photo}")


def assert_served(installed: Path, folder: Path, place_map: str) -> None:
    """The installed server serves the page, plotly.js and the other files that the page loads."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen(
        [installed / "mappable", "serve", place_map, "--port", address.rpartition(":")[2]],
        cwd=folder,
        env=environment(),
    )
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                page = urllib.request.urlopen(address, timeout=30).read().decode()
                break
            except (urllib.error.URLError, TimeoutError):  # it listens before it answers
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert "plotly.min.js" in page
        library = urllib.request.urlopen(
            f"{address}/viewer/vendor/plotly.min.js", timeout=30
        ).read()
        assert len(library) > 1_000_000
        assert urllib.request.urlopen(f"{address}/viewer/main.js", timeout=30).status == 200
    finally:
        server.terminate()
        server.wait(30)
