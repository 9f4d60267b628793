"""Simulate a preset: make a table of places and their images, in memory or in a folder."""

import ast
import hashlib
import io
import json
import shutil
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mappable.arrays import Bools, Pixels
from mappable.errors import BadInputError
from mappable.files import writing
from mappable.places.files import TABLE, save_places
from mappable.places.images import Size, check_settings, load_image
from mappable.places.packing import pack_images
from mappable.places.table import Places
from mappable.places.world_record import IMAGES, RECORD, SHEET, read_record, write_record
from mappable.progress import track
from mappable_worlds.contact_sheet import contact_sheet
from mappable_worlds.drives import Drive, Keep, draw, plan, table
from mappable_worlds.presets import Preset, find_preset
from mappable_worlds.scene import World
from mappable_worlds.statistics import statistics

# Folders of the code that decides what images look like.
DRAWING = (".", "rendering", "street", "rooms")
NOT_DRAWING = (
    "entry.py",
    "presets.py",
    "simulation.py",
    "statistics.py",
    "contact_sheet.py",
)  # files in them that do not


@dataclass(frozen=True)
class Simulated:
    """A drawn preset: the table, its images (n, height, width, 3) in row order, and the world they
    show.
    """

    places: Places
    pixels: Pixels
    preset: Preset
    world: World

    @property
    def image_hash(self) -> str:
        """Return the `image_hash` of `world.json`: equal hashes mean equal images."""
        return image_hash(self.places, self.pixels)


def simulate(
    name: str,
    *,
    parts: Sequence[str] | None = None,
    size: Size | None = None,
    device: str = "cpu",
    every: int = 1,
) -> Simulated:
    """Draw a preset into memory: its `parts` (default: all) at `size` (width, height; default: the
    preset's).

    `every` keeps every k-th image of each run. Images drawn on a GPU (`device="cuda"`) differ by
    rounding.
    """
    preset = find_preset(name)
    size = size or preset.size
    _check(size, device, every)
    world, drives = plan(preset, parts, every)
    places = table(preset, drives)
    pixels = np.empty((len(places), size[1], size[0], 3), dtype=np.uint8)

    def keep(row: int, image: Pixels) -> None:
        pixels[row] = image

    draw(preset, world, drives, np.ones(len(places), dtype=bool), keep, size=size, device=device)
    return Simulated(places, pixels, preset, world)


def write_simulated(
    name: str,
    out: Path | str,
    *,
    parts: Sequence[str] | None = None,
    size: Size | None = None,
    device: str = "cpu",
    overwrite: bool = False,
    pixels: bool = True,
    every: int = 1,
) -> Places:
    """Draw a preset into the folder `out`: images, table, contact sheet and, with `pixels`, the
    packed images.

    See `simulate` for the other arguments. If a run is stopped, the next call continues it with the
    same result (on a GPU, except for rounding). If `out` contains anything else, this raises. With
    `overwrite`, another simulated world in `out` is replaced.
    """
    out, preset = Path(out), find_preset(name)
    size = size or preset.size
    _check(size, device, every)
    world, drives = plan(preset, parts, every)
    places = table(preset, drives, out / IMAGES)
    identity = _identity(preset, drives, size, device, every)
    _claim(out, identity, overwrite)
    digests = [b""] * len(places)
    files = places.files

    def keep(row: int, image: Pixels) -> None:
        digests[row] = hashlib.sha256(image.tobytes()).digest()

    def save(row: int, image: Pixels) -> None:
        file = files[row]
        with writing(file):
            Image.fromarray(image).save(file, compress_level=1)
        keep(row, image)

    for folder in {file.parent for file in files}:
        folder.mkdir(parents=True, exist_ok=True)
    missing = _keep_existing(files, size, keep)
    draw(preset, world, drives, missing, save, size=size, device=device)
    sequences = {part: list(runs) for part, runs in identity["parts"].items()}
    contact_sheet(
        places, lambda row: load_image(places[row].files[0], size), out / SHEET, groups=sequences
    )
    if pixels:
        pack_images(places, out, size=size)
    save_places(places, out / TABLE)
    protocol = {
        name: getattr(preset, name)
        for name in (
            "frame",
            "dimensions",
            "landmarks",
            "positive_radius",
            "negative_radius",
            "yaw_limit",
        )
    }
    hashes = {part: _combined(places, digests, names) for part, names in sequences.items()}
    comparable = preset.image_hashes and size == preset.size and device == "cpu" and every == 1
    found: dict[str, Any] = {
        "places": len(places),
        "image_hash": _combined(places, digests),
        "image_hashes": hashes,
        "frozen": hashes.items() <= preset.image_hashes.items() if comparable else None,
        "statistics": asdict(statistics(places, preset, world, every=every)),
        "aliases": [asdict(alias) for alias in world.aliases],
        "version_of_mappable": version("mappable"),
    }
    write_record(out, identity | protocol | found)
    return places


def find_simulated(name: str, out: Path | str, *, every: int = 1) -> Places | None:
    """Return the table of a folder with a complete preset from `write_simulated`, drawn on any
    device; else None.

    The image files must exist, but are not read again, because that takes long.
    """
    out, preset = Path(out), find_preset(name)
    if not (out / RECORD).exists() or not (out / TABLE).exists():
        return None
    record, (_, drives) = read_record(out), plan(preset, None, every)
    identity = _identity(preset, drives, preset.size, str(record.get("device")), every)
    if "image_hash" not in record or _something_else(out, identity) is not None:
        return None
    places = table(preset, drives, out / IMAGES)
    return places if all(file.exists() for file in places.files) else None


def image_hash(places: Places, pixels: Iterable[Pixels]) -> str:
    """Return the SHA-256 over the ids of the places and the SHA-256 of their images (height, width,
    3), by row.
    """
    return _combined(places, [hashlib.sha256(image.tobytes()).digest() for image in pixels])


def _check(size: Size, device: str, every: int) -> None:
    """Raise for bad settings before anything is written."""
    check_settings(size, "crop")
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise BadInputError(f"every must be an integer of 1 or more, got {every!r}")
    if device not in ("cpu", "cuda"):
        raise BadInputError(f"device must be cpu or cuda, got {device!r}")
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise BadInputError("device is 'cuda', but PyTorch finds no CUDA device: use cpu")


def _combined(
    places: Places, digests: Sequence[bytes], sequences: Sequence[str] | None = None
) -> str:
    total = hashlib.sha256()
    for place_id, sequence, digest in zip(places.place_id, places.sequence, digests, strict=True):
        if sequences is None or sequence in sequences:
            total.update(place_id.encode() + b"\0" + digest)
    return total.hexdigest()


def _identity(
    preset: Preset, drives: Sequence[Drive], size: Size, device: str, every: int
) -> dict[str, Any]:
    """Return everything that decides what the images of a folder look like, as stored in
    `world.json`.
    """
    parts: dict[str, dict[str, Any]] = {}
    for drive in drives:
        fields = asdict(drive.run) | {"images": len(drive.images)}
        parts.setdefault(drive.run.part, {})[drive.run.name] = fields
    found = {
        "preset": preset.name,
        "seed": preset.seed,
        "size": size,
        "every": every,
        "device": device,
    }
    # Other versions may round differently.
    libraries = {package: version(package) for package in ("numpy", "torch")}
    found |= {"parts": parts, "drawing_code": _drawing_code(), "libraries": libraries}
    identity: dict[str, Any] = json.loads(json.dumps(found))
    return identity


@cache
def _drawing_code() -> str:
    """Return a digest of the code that draws, so that a folder never mixes images of two versions.

    Comments, docstrings and blank lines do not count. Any other edit does, even one that leaves all
    images the same.
    """
    digest, here = hashlib.sha256(), resources.files("mappable_worlds")
    for folder in DRAWING:
        for file in sorted((here / folder).iterdir(), key=lambda file: file.name):
            if file.name.endswith(".py") and file.name not in NOT_DRAWING:
                digest.update(code_only(file.read_text("utf-8")).encode())
    return digest.hexdigest()[:16]


def code_only(source: str) -> str:
    """Return Python source without comments, docstrings and blank lines.

    The text is cut instead of printing its syntax tree anew, because the printed tree depends on
    the Python version.
    """
    lines = source.encode().splitlines()  # ast counts columns in bytes
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start  # tokenize counts columns in characters
            lines[row - 1] = lines[row - 1].decode()[:column].encode()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node) is None:
            continue
        docstring = node.body[0]
        first, last = docstring.lineno - 1, (docstring.end_lineno or docstring.lineno) - 1
        if first == last:
            lines[first] = (
                lines[first][: docstring.col_offset] + lines[first][docstring.end_col_offset :]
            )
        else:
            lines[first] = lines[first][: docstring.col_offset]
            lines[last] = lines[last][docstring.end_col_offset :]
            lines[first + 1 : last] = [b""] * (last - first - 1)
    return "".join(f"{line.decode().rstrip()}\n" for line in lines if line.strip())


def _claim(out: Path, identity: dict[str, Any], overwrite: bool) -> None:
    """Raise unless `out` is empty, contains the beginning of this world, or may be overwritten."""
    if not (out / RECORD).exists():
        for name in (IMAGES, TABLE, "pixels", SHEET):
            if (out / name).exists():
                raise BadInputError(
                    f"{out / name}: exists, but the folder has no {RECORD} of a simulated world:"
                    " choose another folder"
                )
    else:
        found = _something_else(out, identity)
        if found is None:
            return
        if not overwrite:
            raise BadInputError(f"{found}: choose another folder, or overwrite it (--overwrite)")
        # First, because a folder without its table is not a complete world.
        for file in (out / TABLE, out / SHEET):
            file.unlink(missing_ok=True)
        for folder in (out / IMAGES, out / "pixels"):
            if folder.exists():
                shutil.rmtree(folder)
    write_record(out, identity)


def _something_else(out: Path, identity: dict[str, Any]) -> str | None:
    """Describe what `out` contains if it is not the world of `identity`; else return None."""
    before = read_record(out)  # raises for a folder that is not ours, so nothing in it is deleted
    differing = [
        key.replace("_", " ") for key, value in identity.items() if before.get(key) != value
    ]
    if not differing:
        return None
    return f"{out}: the folder has {before.get('preset')} with a different {', '.join(differing)}"


def _keep_existing(files: Sequence[Path], size: Size, keep: Keep) -> Bools:
    """Pass images that an earlier run has drawn to `keep`; return True (n,) for rows that are still
    to be drawn.
    """
    missing = np.ones(len(files), dtype=bool)
    present = [row for row, file in enumerate(files) if file.exists()]
    for row in track(present, "checking images", len(present)):
        try:
            with Image.open(files[row]) as image:
                # Checks all checksums, which loading alone does not, and finds what a stopped run
                # left.
                image.verify()
            keep(row, load_image(files[row], size))
            missing[row] = False
        except Exception:  # noqa: S112 - Pillow can raise any exception; a bad image is drawn again
            continue
    return missing
