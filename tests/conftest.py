"""Fixtures that several rooms share."""

import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, reduce, wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
import typer.testing
from hypothesis import settings
from PIL import Image

from mappable.arrays import Floats, Pixels
from mappable.places.files import TABLE, save_places
from mappable.places.frames import Frame
from mappable.places.packing import pack_images
from mappable.places.table import Places
from small_training import BACKBONE

# Tests run in parallel, one per core: threads within a test, and in its child processes, would
# compete for cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell that starts the tests in the background makes them ignore Ctrl-C, but some tests send it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# A busy machine is not a failure. In CI, the examples are the same in every run; elsewhere, every
# run tries others.
settings.register_profile("tests", deadline=None, max_examples=50, derandomize="CI" in os.environ)
settings.load_profile("tests")

# Typer builds all commands for each one that runs, which takes 20 ms. Here a thousand run in one
# process.
typer.main.get_command = typer.testing._get_command = cache(typer.main.get_command)
# Searching all loaded modules for garbage takes half a second: never while they load, and never
# again after that.
gc.disable()

# The toy world: a line of 80 m, and images along it whose look changes smoothly with the position.
WIDTH, HEIGHT = 64, 48
PIXELS_PER_METRE = 4  # images 16 m apart have nothing in common
# Split, first place and distance from one to the next in metres, light, color of the light, noise
# in gray levels.
DRIVES = {
    "sun": ("train", 0.0, 4.0, 1.0, (1.0, 1.0, 0.9), 4.0),
    "dusk": ("train", 2.0, 4.0, 0.5, (1.0, 0.8, 0.9), 8.0),
    "rain": ("calibration", 1.0, 8.0, 0.7, (0.8, 0.9, 1.0), 8.0),
    "fog": ("test", 5.0, 8.0, 0.8, (0.9, 0.9, 0.9), 12.0),
}
LENGTH = 80.0

# Three speeds (docs/house.md): a test without a mark is quick, and must do nothing of this list.
HEAVY_EVENTS = {"subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn"}
HEAVY = {
    "multiprocessing.process:BaseProcess.start": "starts a process",
    "socket:socket.listen": "starts a server",
    "matplotlib.figure:Figure.savefig": "draws a figure",
    "mappable_worlds.rendering.renderer:Renderer.render": "draws a world",
    "mappable.learning.trainer:_Run.go": "trains",
    "mappable.features.backbones.vgg16:VGG16.__init__": "builds VGG-16",
}
# A test that uses such a fixture, or is in such a folder, is medium without a mark.
HEAVY_FIXTURES = {"client", "draw_runs", "start", "vgg16_v1"}
HEAVY_FOLDERS = {"gpu"}
# The other modules need PyTorch, which takes seconds to load. They are guarded from the first test
# after they load. A run of all tests loads them before the first test, because pytest collects
# their doctests.
LIGHT = ("matplotlib.figure", "multiprocessing.process", "socket")
guarded: set[str] = set()
running: list[str] = []  # the quick test that runs now, if one does


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.path.parent.name in HEAVY_FOLDERS or HEAVY_FIXTURES.intersection(
        getattr(item, "fixturenames", ())
    ):
        item.add_marker("medium")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool, bool]:
    for name, does in HEAVY.items():
        module, _, path = name.partition(":")
        if name not in guarded and module in sys.modules:
            guarded.add(name)
            *owners, method = path.split(".")
            owner = reduce(getattr, owners, sys.modules[module])
            setattr(owner, method, guard(getattr(owner, method), does))
    if not any(item.get_closest_marker(name) for name in ("medium", "long", "cluster")):
        running.append(item.nodeid)
    try:
        return (yield)
    finally:
        running.clear()


def guard(function: Callable[..., Any], does: str) -> Callable[..., Any]:
    """Wrap a function so that it fails a quick test that calls it."""

    @wraps(function)
    def guarded_function(*positional: Any, **named: Any) -> Any:
        fail_quick(does)
        return function(*positional, **named)

    return guarded_function


def fail_quick(does: str) -> None:
    """Fail the running test if it is quick."""
    if running:
        pytest.fail(f"a quick test {does}: mark {running[0]} with @pytest.mark.medium")


def audit(event: str, _: tuple[object, ...]) -> None:
    """Python calls this function for every audit event (PEP 578)."""
    if event in HEAVY_EVENTS:
        fail_quick("starts a process")


sys.addaudithook(audit)
for light in LIGHT:
    import_module(light)


@pytest.fixture
def gtsam() -> Any:
    """Skip a test where GTSAM is not installed: there is none for Windows."""
    return pytest.importorskip("gtsam")


@pytest.fixture
def draw() -> Callable[..., Path]:
    """Write a small image file (format by suffix), create its folders; each file name gives other
    pixels.
    """

    def write(file: Path, size: tuple[int, int] = (64, 48), **save_options: Any) -> Path:
        seed = np.frombuffer(file.name.encode(), dtype=np.uint8)
        coarse = np.random.default_rng(seed).integers(0, 255, (6, 8, 3), dtype=np.uint8)
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(file, **save_options)
        return file

    return write


@pytest.fixture(scope="session")
def rewrite() -> Callable[[Path, dict[str, Any]], None]:
    """Write other values to a JSON file of ours, with a correct checksum: for what is checked after
    the checksum.
    """
    from mappable.checksums import UNSEALED, seal

    def write(file: Path, values: dict[str, Any]) -> None:
        file.write_bytes(seal(json.dumps(values | {"checksum": UNSEALED}).encode()))

    return write


@pytest.fixture
def full_disk() -> Callable[[int], AbstractContextManager[None]]:
    """In this context no file can be longer than this many bytes; writing more fails as on a full
    disk.
    """
    resource = pytest.importorskip("resource", reason="Windows cannot limit the length of files")

    @contextmanager
    def limited(room: int) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture
def geotagged(draw: Callable[..., Path]) -> Callable[..., list[Path]]:
    """Write photos of a walk north in Oxford as a phone does: one every 4 m and 3 s, looking north."""

    def write(
        folder: Path, count: int, start: datetime = datetime(2026, 5, 1, 12, tzinfo=UTC)
    ) -> list[Path]:
        files = []
        for number in range(count):
            exif = Image.Exif()
            north = 51.752 + number * 4.0 / 111_250  # metres per degree
            exif.get_ifd(0x8825).update(
                {1: "N", 2: _degrees(north), 3: "W", 4: _degrees(1.2577), 16: "T", 17: 0.0}
            )
            moment = (start + timedelta(seconds=3 * number)).strftime("%Y:%m:%d %H:%M:%S")
            exif.get_ifd(0x8769).update({0x9003: moment, 0x9011: "+00:00"})
            files.append(draw(folder / f"{number:04d}.jpg", exif=exif))
        return files

    return write


def _degrees(value: float) -> tuple[float, float, float]:
    """Degrees, minutes and seconds, as in the EXIF data of photos."""
    minutes = value % 1 * 60
    return float(int(value)), float(int(minutes)), round(minutes % 1 * 60, 6)


@pytest.fixture(scope="session")
def toy() -> tuple[Places, Pixels]:
    """60 places in metres, and their images (60, 48, 64, 3): 40 to train on, 2 m apart, 10 to
    calibrate, 10 to test.

    The training split has two drives along the whole line, one in sun and one at dusk, with 4 m
    between images. All images look along +x. This is only the table, without files: see
    `toy_folder`.
    """
    random = np.random.default_rng(0)
    # Broad colors make images differ slowly with distance; fine ones make each image unique.
    wall: Floats = 0.6 * _paint(random, (3, 8)) + 0.4 * _paint(random, (6, 48))
    names, splits, along, images = [], [], [], []
    for name, (split, first, step, light, color, noise) in DRIVES.items():
        for x in np.arange(first, LENGTH, step):
            left = int(x * PIXELS_PER_METRE)
            clear: Floats = wall[:, left : left + WIDTH] * light * color
            images.append(
                np.clip(clear + random.normal(0, noise, clear.shape), 0, 255).astype(np.uint8)
            )
            names.append(name)
            splits.append(split)
            along.append(float(x))
    places = Places(
        path=[f"images/{name}/{x:04.0f}m.png" for name, x in zip(names, along, strict=True)],
        x=along,
        y=[0.0] * len(along),
        yaw=[0.0] * len(along),
        time=[int(x * 1e9) for x in along],
        sequence=names,
        condition=names,
        split=splits,
        frames=Frame("toy"),
    )
    return places, np.stack(images)


def _paint(random: np.random.Generator, cells: tuple[int, int]) -> Floats:
    """A wall (height, width, 3) along the whole line, with `cells` random colors in height and
    width.
    """
    size = (WIDTH + int(LENGTH * PIXELS_PER_METRE), HEIGHT)
    colors = Image.fromarray(random.integers(0, 256, (*cells, 3), dtype=np.uint8))
    return np.asarray(colors.resize(size, Image.Resampling.BICUBIC), dtype=np.float64)


@pytest.fixture(scope="session")
def toy_folder(toy: tuple[Places, Pixels], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy world as `mappable convert` leaves a set: image files, the table, and the images
    packed at 64x48.

    A test that changes it makes a copy first.
    """
    folder = tmp_path_factory.mktemp("places") / "toy"
    places, pixels = toy[0].replace(root=folder), toy[1]
    for file, image in zip(places.files, pixels, strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    save_places(places, folder / TABLE)
    pack_images(places, folder, size=(WIDTH, HEIGHT))
    return folder


@pytest.fixture(scope="session")
def draw_runs() -> Callable[..., tuple[Places, Pixels]]:
    """Draw one in `every` images of some runs of a preset; other runs are not planned, because that
    takes long.
    """
    from mappable_worlds import drives
    from mappable_worlds.presets import find_preset

    def draw(
        name: str, runs: tuple[str, ...], every: int, size: tuple[int, int]
    ) -> tuple[Places, Pixels]:
        preset = replace(
            find_preset(name), runs=tuple(run for run in find_preset(name).runs if run.name in runs)
        )
        world, driven = drives.plan(preset, every=every)
        places = drives.table(preset, driven)
        pixels = np.empty((len(places), size[1], size[0], 3), dtype=np.uint8)
        everything = np.ones(len(places), dtype=bool)
        drives.draw(preset, world, driven, everything, pixels.__setitem__, size=size, device="cpu")
        return places, pixels

    return draw


@pytest.fixture(scope="session")
def backbones_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the file of the backbone `small`."""
    folder = tmp_path_factory.mktemp("backbones")
    (folder / "small.py").write_text(BACKBONE)
    return folder


@pytest.fixture(scope="session")
def small_backbone(backbones_folder: Path) -> Iterator[str]:
    """The name of a backbone, whose file is in a folder that the package also searches."""
    from mappable.features import backbones

    backbones.__path__.append(str(backbones_folder))
    yield "small"
    backbones.__path__.remove(str(backbones_folder))
    sys.modules.pop("mappable.features.backbones.small", None)


FOREIGN_YAML = """
size: [64, 48]
mean: [0.5, 0.5, 0.5]
std: [0.25, 0.25, 0.25]
layout: NCHW
colors: RGB
normalize: true
license: MIT
"""
HUBCONF = """
import torch

dependencies = ["torch"]


class Coarse(torch.nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.cell = cell

    def forward(self, images):
        return self.weight * torch.nn.functional.avg_pool2d(images, self.cell).flatten(1)


def coarse(cell=8):
    print("loading weights")  # not on standard output
    return Coarse(cell)
"""


@pytest.fixture(autouse=True)
def _no_consent() -> Iterator[None]:
    """Consent to foreign code ends with the test."""
    yield
    if hub := sys.modules.get("mappable.features.foreign.hub"):
        hub._trusted.clear()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("MAPPABLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def foreign_hub(tmp_path: Path) -> Path:
    """The description of a torch.hub model in a folder; a descriptor is a coarse image of 64x48
    pixels.
    """
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository/hubconf.py").write_text(HUBCONF)
    file = tmp_path / "hub.yaml"
    file.write_text(f"hub: ./repository:coarse\n{FOREIGN_YAML}")
    return file


@pytest.fixture
def foreign_onnx(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes an ONNX file with its description: the same network as `foreign_hub`."""
    from onnx import TensorProto, helper, save

    def write(name: str = "model", batch: int | str = "batch", **save_options: Any) -> Path:
        nodes = [
            helper.make_node(
                "AveragePool", ["images"], ["cells"], kernel_shape=[8, 8], strides=[8, 8]
            ),
            helper.make_node("Mul", ["cells", "weight"], ["scaled"]),
            helper.make_node("Flatten", ["scaled"], ["descriptors"]),
        ]
        ones = np.ones((3, 6, 8), np.float32)
        weight = helper.make_tensor(
            "weight", TensorProto.FLOAT, ones.shape, ones.tobytes(), raw=True
        )
        images = helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, 3, 48, 64])
        made = helper.make_tensor_value_info("descriptors", TensorProto.FLOAT, [batch, 144])
        graph = helper.make_graph(nodes, "coarse", [images], [made], [weight])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        save(model, tmp_path / f"{name}.onnx", **save_options)
        (tmp_path / f"{name}.yaml").write_text(FOREIGN_YAML)
        return tmp_path / f"{name}.onnx"

    return write
