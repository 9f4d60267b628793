"""Runs every command of the documentation: all `sh` blocks of the README and of docs/, page by page, in their order.

The Python between the commands runs, too, on the pages that PYTHON names. The Python of other pages
has its own tests.

Each page starts in an empty folder. If a command reads something that no earlier command of the
page has made, MAKERS puts it there under the name that the page uses. Commands run as shown, except
for what QUICK, WORDS, WORLDS and the fixture `workshop` change to make them cheap. Commands in
UNRUN do not run, for the reason given there, but what they name must exist. A program that no table
here knows fails the test. So does an unknown option, also in running text.

`make test-long` runs the pages that begin with a simulated town once more, at full length: see
FULL_PAGES.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import typer.testing
from PIL import Image
from typer.testing import CliRunner

from bag_writer import START, BagWriter
from mappable.cli.app import app
from mappable.evaluation import report, sets
from mappable.features import onnx_export
from mappable.maps.landmarks import Landmarks
from mappable.places.files import save_places
from mappable.places.frames import Frame
from mappable.places.table import Places
from mappable.readers.registry import find_reader, reader_names
from mappable_worlds.entry import DrawnWorld
from mappable_worlds.presets import PRESETS
from simulated_ranges import NOISES, measure, route

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]

# A network of two layers that takes one step.
SMALL = [
    *(
        "backbone=small",
        "weights=random",
        "clusters=8",
        "size=64x48",
        "epochs=none",
        "iterations=1",
        "init_images=8",
    ),
    *("positives=2", "negatives=2", "hard_negatives=1", "landmarks=20", "yaw_limit=none"),
    *("positive_radius=10", "negative_radius=25"),
]
SET = [word for setting in SMALL for word in ("--set", setting)]
# By the first words of a command, and an option that it has: what is appended to it. Of options the
# last one counts.
QUICK = {
    "simulate": ["--every", "60"],
    "train": SET,
    "reproduce": [*SET, "--rows", "triplet", "--seeds", "0", "--protocols", "table1"],
    "evaluate": ["--protocols", "table1"],
    "export --int8": ["--tolerate", "100"],
}
# Words that stand for others: a device that is here, folders of the user, and what the reader is to
# fill in.
WORDS = {
    "cuda": "cpu",
    "/data/nordland": "nordland",
    "READER": "manifest",
    "ROOT": "my_images",
    "OUT": "my_places",
}
# What `simulate` draws instead: one run through a small world.
STREET = "street-v1-3d"
WORLDS = {"street-v1": STREET, "street-v1-demo": STREET, "rooms-v1": STREET}
# By their first words: what is not run, and why.
UNRUN = {
    "make": "sets an environment up from nothing: the target must exist",
    "torchrun": (
        "several processes, which tests/learning/test_distributed.py has: parsed as `mappable` is"
    ),
    "mappable start": (
        "trains for minutes, tests/cli/test_start.py has it with a small network: parsed"
    ),
    "mappable demo": "tests/cli/test_demo.py has it, with one model and few images: parsed",
    "mappable reproduce oxford": (
        "its images are not ours to pass on, tests/evaluation has a few like them: parsed"
    ),
    "mappable reproduce boreas": (
        "hundreds of GB to download, tests/evaluation has a few images like them: parsed"
    ),
    "mappable encoders vgg16-caffe": (
        "reads a file of 553 MB, tests/evaluation/test_as_printed.py makes one up: parsed"
    ),
    "mappable convert pittsburgh": (
        "its images are not ours to pass on, the same test makes a few up: parsed"
    ),
    "mappable encoders vgg16-v1": "fetches 64 MB, or reads a file of 528: parsed",
    "mappable embed --on": "needs Ray, tests/features/test_on_ray.py has a cluster: parsed",
    "mappable map upload": "needs Milvus, tests/maps/test_milvus.py has a server: parsed",
    "pip": "needs a package index: the extra must exist",
    ".": "activates an environment",
}
RUN = {"mappable", "curl", "openssl"}
# Pages that also run at full length. The others begin with images that only their reader has, or
# need a GPU.
FULL_PAGES = [f"docs/{name}.md" for name in ("quick-start", "recover", "train")]
# By their first words: what is not run at full length either, and why.
UNRUN_IN_FULL = {"mappable train town big-model": "hours without a GPU"}
# What a full-length page makes by a documented command, once for all pages.
FULL_MAKERS = {
    "demo": "demo demo",
    "town": "simulate street-v1-demo town",
    "model": "train town model --preset street-laptop",
}
# Pages whose Python runs here, between the commands, and what replaces its expensive parts.
PYTHON = {"README.md"} | {
    f"docs/{name}.md"
    for name in ("quick-start", "maps", "drives", "exchange", "evaluate", "photos", "serve")
}
CHEAPER = {
    "landmarks=200": "landmarks=20",
    'load_settings("street-laptop")': f'load_settings("street-laptop", overrides={SMALL})',
}
ROBOT = "docs/serve.md"  # its Python runs where there is no PyTorch
OWN_READER = "robot_log"  # which the guide writes, and tests/test_docs.py runs


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and the text of all blocks of commands, and of Python where that is run here."""
    languages = "sh|python" if page in PYTHON else "sh"
    pattern = rf"^ *```({languages})\n(.*?)^ *```"
    return re.findall(pattern, (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)


def commands_of(text: str) -> list[tuple[str, list[str]]]:
    """All commands, each as its line and as words, without comments; those that `&&` or `;` join
    one by one.
    """
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=";&")
        words.whitespace_split = True
        command: list[str] = []
        for word in [*words, ";"]:
            if word not in (";", "&&"):
                command.append(word)
            elif command:
                found.append((line, command))
                command = []
    return found


def commands(page: str) -> list[tuple[str, list[str]]]:
    return commands_of("\n".join(text for language, text in blocks(page) if language == "sh"))


def why_not_run(words: list[str], full: bool = False) -> str | None:
    """Why a command is not run; None if it is."""
    assert words[0] in RUN or words[0] in UNRUN, f"no table here knows {words[0]!r}"
    unrun = UNRUN | UNRUN_IN_FULL if full else UNRUN
    return next(
        (why for first, why in unrun.items() if f"{' '.join(words)} ".startswith(f"{first} ")), None
    )


def quick(words: list[str]) -> list[str]:
    """The words after `mappable`, made cheap."""
    words = [WORDS.get(word, word) for word in words[1:]]
    if words[0] == "simulate":
        words = [WORLDS.get(word, word) for word in words]
    for first, more in QUICK.items():
        verb, *options = first.split(" --")
        if " ".join(words).startswith(verb) and all(f"--{option}" in words for option in options):
            return [*words, *more]
    return words


@cache
def program(of: typer.Typer) -> Any:
    return typer.main.get_command(of)


def parse(words: list[str]) -> dict[str, Any]:
    """What the command line makes of the words after `mappable`, without running it; an unknown
    option is refused.
    """
    command = program(app)
    context = None
    while True:
        try:
            context = command.make_context(command.name, list(words), parent=context)
        except typer.Exit:  # an option that prints something, and no more
            return {}
        if not hasattr(command, "resolve_command") or not (
            words := [*context._protected_args, *context.args]
        ):
            return dict(context.params)
        _, command, words = command.resolve_command(context, words)


def check_mention(text: str) -> None:
    """Refuse a command in running text, which may be a part of one, if its verb or an option does
    not exist.
    """
    words = [WORDS.get(word, word) for word in shlex.split(text)[1:]]
    command = program(app)
    context = command.context_class(command, info_name="mappable")
    for number, word in enumerate(words):
        if not hasattr(command, "list_commands") or word.startswith("-"):
            break
        if word not in command.list_commands(context):
            assert number, f"`{text}`: there is no {word}"
            assert command.name == "convert" or word.isupper(), f"`{text}`: there is no {word}"
            break
        command = command.get_command(context, word)
    below = [command.get_command(context, name) for name in getattr(command, "commands", {})]
    known = {
        name
        for one in (command, *below)
        for option in one.params
        for name in (*option.opts, *option.secondary_opts)
    }
    known |= {"--help", "-h"}
    asked = {word.split("=")[0] for word in words if word.startswith("-")}
    assert asked <= known, f"`{text}`: there is no {asked - known}"


# What pages take for granted


class Workshop:
    """A folder in which the things that pages begin with are made, each when it is first asked for,
    and once.
    """

    def __init__(self, folder: Path, full: bool = False) -> None:
        self.folder, self.full = folder, full
        self.done: dict[str, Path] = {}

    def put(self, name: str) -> None:
        """Put a copy of the thing into the current folder, if it is known and not there."""
        if name not in MAKERS or Path(name).exists():
            return
        if not (self.folder / name).exists():
            with chdir(self.folder):
                if self.full and name in FULL_MAKERS:
                    self.run(FULL_MAKERS[name])
                else:
                    MAKERS[name](self, Path(name))
        if Path.cwd() != self.folder:
            _copy(self.folder / name, Path(name))

    def prepare(self, words: list[str]) -> list[str]:
        """The quick arguments of a command, with all that it reads put into the current folder."""
        arguments = [WORDS.get(word, word) for word in words[1:]] if self.full else quick(words)
        out = str(parse(arguments).get("out"))
        for name in dict.fromkeys(re.split("[/:]", word)[0] for word in arguments):
            if name != out:
                self.put(name)
        return [
            str(Landmarks.open("map").places.place_id[0]) if word == "ID..." else word
            for word in arguments
        ]

    def run(self, line: str | list[str]) -> None:
        """Run a command in the current folder."""
        arguments = self.prepare(line if isinstance(line, list) else ["mappable", *line.split()])
        if self.full:
            made = next(
                (name for name, made_by in FULL_MAKERS.items() if arguments == made_by.split()),
                None,
            )
            if made is not None and Path.cwd() != self.folder:
                self.put(made)
            else:
                _invoke(arguments)
        elif arguments[0] == "simulate" and (out := parse(arguments).get("out")) is not None:
            self._draw(arguments, str(out))
        elif arguments[0] == "reproduce" and "nordland" not in arguments:
            _copy(self._once(arguments), Path())
        else:
            _invoke(arguments)

    def _once(self, arguments: list[str], before: Iterable[str] = ()) -> Path:
        """The folder in which a command that reads nothing was run, now or for another page."""
        key = f"{arguments[0]} {sorted(parse(arguments).items())}"
        if key not in self.done:
            self.done[key] = self.folder / f"{arguments[0]}-{len(self.done)}"
            self.done[key].mkdir()
            with chdir(self.done[key]):
                for line in before:
                    self.run(line)
                _invoke(arguments)
        return self.done[key]

    def _draw(self, arguments: list[str], out: str) -> None:
        """Draw a world: too few images to make a map of, so that pages go on with another where
        they say `town`.
        """
        drawn = self._once(["drawn" if word == out else word for word in arguments]) / "drawn"
        if out in MAKERS:
            self.put(out)
        else:
            _copy(drawn, Path(out))


def _invoke(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, (
        f"mappable {shlex.join(arguments)}\n{result.output}{result.exception!r}"
    )


def _copy(made: Path, to: Path) -> None:
    if made.is_dir():
        shutil.copytree(made, to, dirs_exist_ok=True)
    else:
        shutil.copy(made, to)


# First place, and metres to the next: 54 images to train on, and the hundred that a calibration
# needs.
DRIVES = {"train": (0.0, 3.0), "calibration": (0.5, 1.5), "test": (2.0, 4.0)}
LENGTH, WIDTH, HEIGHT, PIXELS_PER_METRE = 160.0, 64, 48, 4


@cache
def wall() -> Image.Image:
    size = WIDTH + int(LENGTH * PIXELS_PER_METRE), HEIGHT
    coarse = Image.fromarray(
        np.random.default_rng(0).integers(0, 256, (4, size[0] // 24, 3), dtype=np.uint8)
    )
    return coarse.resize(size, Image.Resampling.BICUBIC)


def look(x: float) -> Image.Image:
    """What a camera sees x metres along a painted wall."""
    left = int(x * PIXELS_PER_METRE)
    return wall().crop((left, 0, left + WIDTH, HEIGHT))


def drive(split: str) -> Iterator[tuple[float, Image.Image]]:
    first, step = DRIVES[split]
    return ((float(x), look(x)) for x in np.arange(first, LENGTH, step))


def town(folder: Path, splits: Iterable[str] = DRIVES, prefix: str = "", **columns: Any) -> Places:
    """Drives along the wall, in a folder with their table; their names are those of runs of
    street-v1.
    """
    rows = [(split, x, image) for split in splits for x, image in drive(split)]
    for split, x, image in rows:
        (folder / f"{prefix}{split}").mkdir(parents=True, exist_ok=True)
        image.save(folder / f"{prefix}{split}" / f"{10 * x:05.0f}.jpg", quality=95)
    known: dict[str, Any] = {
        "path": [f"{prefix}{split}/{10 * x:05.0f}.jpg" for split, x, _ in rows],
        "x": [x for _, x, _ in rows],
        "y": [20 * np.sin(x / 40) for _, x, _ in rows],
        "time": [int(x * 1e9) for _, x, _ in rows],
        "sequence": [f"{split}-overcast" for split, _, _ in rows],
        "condition": "overcast",
        "split": [split for split, _, _ in rows],
        "frames": Frame("wall"),
    }
    places = Places(**(known | columns), root=folder)
    save_places(places, folder / "places.parquet")
    return places


def images(folder: Path, split: str) -> None:
    """A drive along the wall without positions."""
    folder.mkdir(parents=True)
    for number, (_, image) in enumerate(drive(split)):
        image.save(folder / f"{number:04d}.jpg", quality=95)


def manifest(folder: Path) -> None:
    """The town as images and a CSV file, as a user might have them."""
    save_places(town(folder), folder / "places.csv")
    (folder / "places.parquet").unlink()


def walks(folder: Path, geotagged: Callable[..., list[Path]]) -> None:
    """Photos of two days."""
    geotagged(folder / "monday", 24)
    geotagged(folder / "tuesday", 24, datetime(2026, 5, 2, 12, tzinfo=UTC))


def robot(folder: Path) -> None:
    """The same as a robot's log, and a run without positions."""
    manifest(folder)
    images(folder / "camera/run4", "test")


def bags(folder: Path) -> None:
    """Two bags along the wall, with raw images every 2 m and half a second."""
    for name in ("monday", "tuesday"):
        writer = BagWriter("mcap")
        for number in range(20):
            time, pixels = START + number * 500_000_000, np.asarray(look(2 * number).convert("RGB"))
            writer.add_pose("/amcl_pose", time, (2 * number, 0, 0))
            writer.add_image("/camera/image_raw", time, pixels.tobytes(), "rgb8", (WIDTH, HEIGHT))
        writer.write(folder, name)


def scan(folder: Path) -> None:
    """A model of cameras along the wall, as COLMAP writes it as text."""
    images(folder / "images", "train")
    rows = [
        f"{n} 0.7071067811865476 0.7071067811865476 0 0 {-n} 0 0 1 {file.name}\n"
        for n, file in photos_in(folder)
    ]
    (folder / "sparse/0").mkdir(parents=True)
    (folder / "sparse/0/images.txt").write_text("\n".join(rows) + "\n")
    (folder / "known.csv").write_text("path,x,y\n0000.jpg,0,0\n0010.jpg,40,0\n")


def matrices(folder: Path) -> None:
    """A drive along the wall with a matrix per image, as 7-Scenes has them."""
    folder.mkdir()
    for number, (_, image) in enumerate(drive("train")):
        pose = np.eye(4)
        pose[0, 3] = number
        image.save(folder / f"frame-{number:06d}.color.png")
        np.savetxt(folder / f"frame-{number:06d}.pose.txt", pose)


def phone(folder: Path) -> None:
    images(folder / "images", "train")
    turn = [[1, 0, 0], [0, 0, -1], [0, 1, 0]]
    frames = [
        {
            "file_path": f"images/{file.name}",
            "transform_matrix": (
                [[*row, n * (axis == 0)] for axis, row in enumerate(turn)] + [[0, 0, 0, 1]]
            ),
        }
        for n, file in photos_in(folder)
    ]
    (folder / "transforms.json").write_text(json.dumps({"frames": frames}))


def photos_in(folder: Path) -> list[tuple[int, Path]]:
    return list(enumerate(sorted((folder / "images").iterdir())))


def dashcam(folder: Path) -> None:
    """Two videos along the wall, a frame every 2 m and half a second, each with a track beside it."""
    folder.mkdir()
    for day, name in enumerate(("monday", "tuesday"), 1):
        start = datetime(2026, 5, day, 12, tzinfo=UTC)
        times = [start + timedelta(seconds=number / 2) for number in range(80)]
        with av.open(str(folder / f"{name}.mp4"), "w") as container:
            container.metadata["creation_time"] = start.isoformat()
            stream = container.add_stream("libx264", rate=2, options={"preset": "ultrafast"})
            stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
            for number in range(len(times)):
                frame = av.VideoFrame.from_image(look(2 * number))
                frame.pts, frame.time_base = number, Fraction(1, 2)
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
        points = [
            f'<trkpt lat="{51.752 + 2 * number / 111_250}"'
            f' lon="-1.2577"><time>{time.isoformat()}</time></trkpt>'
            for number, time in enumerate(times)
        ]
        track = f"<trk><trkseg>{''.join(points)}</trkseg></trk>"
        gpx = f'<gpx xmlns="http://www.topografix.com/GPX/1/1" version="1.1">{track}</gpx>'
        (folder / f"{name}.gpx").write_text(gpx)


def study(shop: Workshop, folder: Path) -> None:
    """What `make demo` leaves."""
    shop.run(f"reproduce street-v1-demo {folder}")
    shop.run(f"map build {folder}/places {folder}/map --encoder {folder}/models/triplet-seed0")


def ranges() -> None:
    truth = route("loop", 30, seed=0)
    measured = measure(truth, NOISES["mid"], seed=0)
    rows = zip(measured.i, measured.j, measured.metres, measured.sigma, strict=True)
    lines = [f"{i},{j},{metres},{sigma}" for i, j, metres, sigma in rows]
    points = [f"{number},{x},{y}" for number, (x, y) in enumerate(truth)]
    Path("ranges.csv").write_text("\n".join(["i,j,metres,sigma", *lines]))
    Path("truth.csv").write_text("\n".join(["point,x,y", *points]))
    Path("known.csv").write_text("\n".join(["point,x,y", *points[::6]]))
    np.save("matrix.npy", ((truth[:, None] - truth) ** 2).sum(axis=2))


def odometry(file: Path) -> None:
    """Poses of the route of `ranges`."""
    truth = route("loop", 30, seed=0)
    ways = np.diff(truth, axis=0, append=truth[:1])
    halves = np.arctan2(ways[:, 1], ways[:, 0]) / 2
    rows = zip(truth, np.sin(halves), np.cos(halves), strict=True)
    file.write_text(
        "\n".join(
            f"{n} {x} {y} 0 0 0 {sine} {cosine}" for n, ((x, y), sine, cosine) in enumerate(rows)
        )
    )


def graph(shop: Workshop, file: Path) -> None:
    shop.run("recover ranges.csv graph --odometry drive.tum")
    next(Path("graph").glob("*.g2o")).rename(file)


def nordland(folder: Path) -> None:
    lines = ["path,sequence,condition,x,y,split"]
    for season in ("summer", "winter"):
        (folder / season).mkdir(parents=True)
        for frame in range(90):
            path = f"{season}/{frame:05d}.jpg"
            look(frame).save(folder / path)
            lines.append(f"{path},{season},{season},{frame},0,{'train' if frame < 60 else 'test'}")
    (folder / "places.csv").write_text("\n".join(lines))


def tiles(folder: Path) -> None:
    (folder / "17/65078").mkdir(parents=True)
    wall().resize((256, 256)).save(folder / "17/65078/43505.png")


Maker = Callable[[Workshop, Path], object]
MAKERS: dict[str, Maker] = {
    "town": lambda shop, path: town(path),
    "model": lambda shop, path: shop.run("train town model --preset street-laptop"),
    "map": lambda shop, path: shop.run("map build town map --encoder model"),
    "city": lambda shop, path: town(
        path, frames=Frame("oxford", crs="EPSG:32630", origin=(620_000.0, 5_734_000.0, 0.0))
    ),
    "city_map": lambda shop, path: shop.run("map build city city_map --encoder model"),
    "tiles": lambda shop, path: tiles(path),
    "encoder.onnx": lambda shop, path: shop.run("export model encoder.onnx"),
    "new_wing": lambda shop, path: town(path, ["test"], "new-", split="train"),
    "another_wing": lambda shop, path: town(path, ["calibration"], "another-", split="train"),
    "another_drive": lambda shop, path: town(path, ["calibration"], "again-"),
    "other_map": lambda shop, path: shop.run(
        "map build another_wing other_map --encoder model --all"
    ),
    "demo": study,
    "other": lambda shop, path: shop.run("evaluate map town other --name other"),
    "photo.jpg": lambda shop, path: look(40).save(path),
    "frame0001.jpg": lambda shop, path: look(40).save(path),
    "frame0002.jpg": lambda shop, path: look(42).save(path),
    "1.jpg": lambda shop, path: look(44).save(path),
    "2.jpg": lambda shop, path: look(48).save(path),
    "3.jpg": lambda shop, path: look(52).save(path),
    "drive": lambda shop, path: images(path, "test"),
    "unposed_drive": lambda shop, path: images(path, "test"),
    "unposed_photos": lambda shop, path: images(path, "test"),
    "my_images": lambda shop, path: manifest(path),
    "my_places": lambda shop, path: shop.run("convert manifest my_images my_places"),
    "new.jpg": lambda shop, path: look(40).save(path),
    "dashcam": lambda shop, path: dashcam(path),
    "bags": lambda shop, path: bags(path),
    "scan": lambda shop, path: scan(path),
    "first_places": lambda shop, path: shop.run("convert matrices second_scan first_places"),
    "second_scan": lambda shop, path: matrices(path),
    "phone": lambda shop, path: phone(path),
    "robot": lambda shop, path: robot(path),
    "nordland": lambda shop, path: nordland(path),
    "studies": lambda shop, path: path.symlink_to(ROOT / "studies"),
    "drive.tum": lambda shop, path: odometry(path),
    "slam.g2o": graph,
    **dict.fromkeys(
        ("ranges.csv", "known.csv", "truth.csv", "matrix.npy"), lambda shop, path: ranges()
    ),
}


class Town(DrawnWorld):
    """A world whose images are those of the town."""

    def draw(self, out: Path, **_: Any) -> Places:
        return town(out)


@pytest.fixture(scope="session")
def empty_workshop(small_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture(scope="session")
def full_workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("full-workshop"), full=True)


@pytest.fixture
def workshop(empty_workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """The workshop, while some of what takes its time takes less."""
    monkeypatch.setenv("MAPPABLE_CACHE", str(empty_workshop.folder / "cache"))
    # one run is drawn, and a study takes the town for what it would draw
    monkeypatch.setitem(PRESETS, STREET, replace(PRESETS[STREET], runs=PRESETS[STREET].runs[:1]))
    monkeypatch.setattr(sets, "find_world", lambda name: Town(PRESETS[name]))
    # reports have no figures
    monkeypatch.setattr(report, "drawings", list)
    # the command line is put together once, and the same encoder traced once
    monkeypatch.setattr(typer.testing, "_get_command", program)
    monkeypatch.setattr(
        onnx_export, "to_onnx", lambda encoder, trace=onnx_export.to_onnx: traced(encoder, trace)
    )
    return empty_workshop


TRACED: dict[str, bytes] = {}


def traced(encoder: Any, trace: Callable[[Any], bytes]) -> bytes:
    """The ONNX file of an encoder, by its fingerprint."""
    if encoder.fingerprint not in TRACED:
        TRACED[encoder.fingerprint] = trace(encoder)
    return TRACED[encoder.fingerprint]


# The commands


@pytest.mark.medium
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_every_command_of_a_page_runs(
    page: str,
    workshop: Workshop,
    geotagged: Callable[..., list[Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("my_photos", "walks", "later"):
        monkeypatch.setitem(MAKERS, name, lambda shop, path: walks(path, geotagged))
    questions = iter(asked(page))
    names: dict[str, Any] = {}
    for language, text in blocks(page):
        if language == "python":
            run_python(workshop, text, None if page == ROBOT else names)
        else:
            run_block(workshop, text, questions)


@pytest.mark.long
@pytest.mark.parametrize("page", FULL_PAGES)
def test_every_command_of_a_page_runs_at_full_length(
    page: str, full_workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    questions = iter(asked(page))
    for language, text in blocks(page):
        if language == "sh":
            run_block(full_workshop, text, questions)


def asked(page: str) -> list[list[str]]:
    """What a page asks with curl, by the servers that it starts."""
    groups: list[list[str]] = []
    for line, words in commands(page):
        if words[:2] == ["mappable", "serve"]:
            groups.append([])
        elif words[0] == "curl":
            groups[-1].append(line)
    return groups


def run_block(workshop: Workshop, text: str, questions: Iterator[list[str]]) -> None:
    for line, words in commands_of(text):
        if why_not_run(words, workshop.full) is not None:
            continue
        if words[0] == "openssl":
            subprocess.run(["bash", "-c", line], check=True)
        elif words[:2] == ["mappable", "serve"]:
            curls = next(questions)
            for name in re.findall(r"@(\S+)", " ".join(curls)):
                workshop.put(name)
            serve_and_ask(workshop.prepare(words), curls)
        elif words[0] == "mappable":
            workshop.run(words)


def run_python(workshop: Workshop, text: str, names: dict[str, Any] | None) -> None:
    """Run a block of Python after those before it, or where there are no `names` in a process
    without PyTorch.
    """
    for name in re.findall(r'"([\w.]+)[/"]', text):
        workshop.put(name)
    for expensive, cheap in CHEAPER.items():
        text = text.replace(expensive, cheap)
    if names is not None:
        exec(text, names)
        return
    hidden = "import sys; sys.modules['torch'] = None\n"
    done = subprocess.run([sys.executable, "-c", hidden + text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert " True " in done.stdout  # confident


def serve_and_ask(arguments: list[str], requests: list[str]) -> None:
    """Serve at a port that is free, ask what the page asks, and stop the server as its owner would."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    failures: list[str] = []
    ended = threading.Event()

    def ask() -> None:
        while not ended.wait(0.02):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30).close()
            except urllib.error.URLError:
                continue
            for text in requests:
                line = re.sub(
                    r"https?://[\w.]+(:8000)?(/mappable)?/", f"http://127.0.0.1:{port}/", text
                )
                line = line.replace("curl ", "curl --silent --show-error --fail-with-body ", 1)
                asked = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
                if asked.returncode:
                    failures.append(f"{text}\n{asked.stdout}{asked.stderr}")
            os.kill(os.getpid(), signal.SIGTERM)
            return

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        result = CliRunner().invoke(app, [*arguments, "--port", str(port)])
    finally:
        ended.set()
        asking.join()
    assert result.exit_code == 0, (
        f"mappable {shlex.join(arguments)}\n{result.output}{result.exception!r}"
    )
    assert result.output.endswith("stopped\n")
    assert not failures


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_what_is_not_run_names_what_exists(page: str) -> None:
    for line, words in commands(page):
        if why_not_run(words) is not None:
            check_unrun(line, words)


def test_every_reason_is_needed() -> None:
    needed = {why_not_run(words) for page in PAGES for _, words in commands(page)}
    assert {first for first, why in UNRUN.items() if why not in needed} == set()


def check_unrun(line: str, words: list[str]) -> None:
    if words[0] == "mappable":
        parse(words[1:])
    elif words[0] == "torchrun":
        parse(words[words.index("mappable") + 1 :])
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), (
            line
        )
    elif words[0] == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
            "optional-dependencies"
        ]
        asked = [extra for group in re.findall(r"\[(.*?)\]", line) for extra in group.split(",")]
        assert set(asked) <= extras.keys(), line


OF_OTHER_PROGRAMS = {"--build-arg", "--no-deps", "--nnodes", "--max-restarts"}


@cache
def all_options() -> set[str]:
    """The options of all commands and readers."""
    commands = [program(app)]
    for command in commands:
        commands += [command.get_command(None, name) for name in getattr(command, "commands", {})]
    commands.append(program(app).commands["convert"].get_command(None, "manifest"))
    options = {name for command in commands for option in command.params for name in option.opts}
    options |= {
        name for command in commands for option in command.params for name in option.secondary_opts
    }
    of_readers = {
        option.name.replace("_", "-")
        for name in reader_names()
        for option in find_reader(name).options
    }
    return {
        "--help",
        *options,
        *(f"--{name}" for name in of_readers),
        *(f"--no-{name}" for name in of_readers),
    }


@pytest.mark.parametrize("page", PAGES)
def test_options_in_the_text_exist(page: str) -> None:
    mentioned = set(re.findall(r"`(--[a-z][a-z0-9-]*)", (ROOT / page).read_text()))
    assert mentioned <= all_options() | OF_OTHER_PROGRAMS


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    spans = re.findall(r"`(mappable [a-z][^`]*)`", text.replace("\n", " "))
    lines = re.findall(r"^(?:\$ |\S*=?\S*/bin/)(mappable .*)$", text, flags=re.MULTILINE)
    for mention in [*spans, *lines]:
        if "…" not in mention and OWN_READER not in mention:
            check_mention(mention)
