"""A wheel, installed in an empty environment away from the checkout, does what the README shows."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).parent.parent
PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment that holds nothing but the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, *PIP, "wheel", ROOT, "--no-deps", "--wheel-dir", folder], check=True)
    (wheel,) = folder.glob("mappable-*.whl")
    venv.create(folder / "environment", with_pip=True)
    programs = folder / "environment/bin"
    install = [programs / "python", *PIP, "install", "--constraint", ROOT / "constraints.txt"]
    subprocess.run([*install, "torch"], check=True)  # first and by itself, as in the Makefile
    subprocess.run([*install, f"{wheel}[serve]"], check=True)
    return programs


def environment() -> dict[str, str]:
    """Ours, without the path to the checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_the_wheel_does_what_the_readme_shows(installed: Path, tmp_path: Path) -> None:
    def mappable(line: str) -> str:
        words = [installed / "mappable", *line.split()]
        done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True)
        assert done.returncode == 0, f"mappable {line}\n{done.stdout}{done.stderr}"
        return done.stdout

    assert mappable("--version").startswith("mappable ")
    mappable("simulate street-v1-demo town --every 20 --size 64x48")
    mappable("train town model --preset street-laptop --set iterations=2 --set size=64x48 --set init_images=10")
    mappable("map build town map --encoder model --landmarks 10")
    photo = next((tmp_path / "town/images").rglob("*.*"))
    assert photo.name in mappable(f"locate map {photo}")
    assert_served(installed, tmp_path)


def assert_served(installed: Path, folder: Path) -> None:
    """The installed server gives the page and the library that draws it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen(
        [installed / "mappable", "serve", "map", "--port", address.rpartition(":")[2]], cwd=folder, env=environment()
    )
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                page = urllib.request.urlopen(address, timeout=30).read().decode()
                break
            except urllib.error.URLError:
                assert server.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert "plotly.min.js" in page
        library = urllib.request.urlopen(f"{address}/viewer/vendor/plotly.min.js", timeout=30).read()
        assert len(library) > 1_000_000
    finally:
        server.terminate()
        server.wait(30)
