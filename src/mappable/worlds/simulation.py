"""Simulation: a preset becomes a table of places and images, in memory or in a folder."""

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mappable.arrays import Bools, Pixels
from mappable.errors import BadInputError
from mappable.files import write_atomically
from mappable.places.files import TABLE, save_places
from mappable.places.images import Size, check_settings, load_image
from mappable.places.packing import pack_images
from mappable.places.table import Places
from mappable.places.world_record import IMAGES, RECORD, SHEET, read_record, write_record
from mappable.progress import track
from mappable.worlds.contact_sheet import contact_sheet
from mappable.worlds.drives import Drive, Keep, draw, plan, table
from mappable.worlds.presets import Preset, find_preset
from mappable.worlds.scene import World
from mappable.worlds.statistics import statistics

DRAWING = (".", "rendering", "street", "rooms")  # folders of the code that draws, but for these files:
AFTERWARDS = ("presets.py", "simulation.py", "statistics.py", "contact_sheet.py")


@dataclass(frozen=True)
class Simulated:
    """A preset that was drawn: the table, its images (n, height, width, 3) in row order, and where they come from."""

    places: Places
    pixels: Pixels
    preset: Preset
    world: World

    @property
    def image_hash(self) -> str:
        """What `world.json` calls so in the folder of the same world: equal if all images are."""
        return image_hash(self.places, self.pixels)


def simulate(
    name: str,
    *,
    parts: Sequence[str] | None = None,
    size: Size | None = None,
    device: str = "cpu",
    every: int = 1,
) -> Simulated:
    """Draw the preset of that name into memory: its `parts` (default: all) at `size` (width, height).

    `every` keeps each k-th image of each run. Images of a GPU (`device="cuda"`) differ by rounding.
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
    """As `simulate`, into the folder `out`: images, table, contact sheet and, with `pixels`, the packed images.

    Stopped at any moment and run again, it goes on, and what comes out is the same (on a GPU, but for rounding). An
    `out` that holds anything else is refused; another simulated world gives way to this one if `overwrite` says so.
    """
    out, preset = Path(out), find_preset(name)
    size = size or preset.size
    _check(size, device, every)
    world, drives = plan(preset, parts, every)
    places = table(preset, drives, out / IMAGES)
    identity = _identity(preset, drives, size, device, every)
    _claim(out, identity, overwrite)
    digests = [b""] * len(places)

    def keep(row: int, image: Pixels) -> None:
        digests[row] = hashlib.sha256(image.tobytes()).digest()

    def save(row: int, image: Pixels) -> None:
        write = partial(Image.fromarray(image).save, format="PNG", compress_level=1)
        write_atomically(places.root / places.path[row], write)
        keep(row, image)

    missing = _keep_existing(places, size, keep)
    draw(preset, world, drives, missing, save, size=size, device=device)
    sequences = {part: list(runs) for part, runs in identity["parts"].items()}
    contact_sheet(places, lambda row: load_image(places[row].files[0], size), out / SHEET, groups=sequences)
    if pixels:
        pack_images(places, out, size=size)
    save_places(places, out / TABLE)
    protocol = {
        name: getattr(preset, name)
        for name in ("frame", "dimensions", "landmarks", "positive_radius", "negative_radius", "yaw_limit")
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
    """The table of a folder that holds all of a preset as `write_simulated` left it, on whatever device; else None.

    Its images must be there, but are not looked at again: that takes a while.
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
    """SHA-256 over the ids of the places and the SHA-256 of their images (height, width, 3), in row order."""
    return _combined(places, [hashlib.sha256(image.tobytes()).digest() for image in pixels])


def _check(size: Size, device: str, every: int) -> None:
    """Refuse what cannot be drawn before anything is written."""
    check_settings(size, "crop")
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise BadInputError(f"every is {every!r}, but must be a whole number from 1 on: each image, each second, ...")
    if device not in ("cpu", "cuda"):
        raise BadInputError(f"device is {device!r}, but must be cpu or cuda")
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise BadInputError("device is 'cuda', but PyTorch finds no such device here")


def _combined(places: Places, digests: Sequence[bytes], sequences: Sequence[str] | None = None) -> str:
    total = hashlib.sha256()
    for place_id, sequence, digest in zip(places.place_id, places.sequence, digests, strict=True):
        if sequences is None or sequence in sequences:
            total.update(place_id.encode() + b"\0" + digest)
    return total.hexdigest()


def _identity(preset: Preset, drives: Sequence[Drive], size: Size, device: str, every: int) -> dict[str, Any]:
    """All that decides what the images of a folder look like, as `world.json` keeps it."""
    parts: dict[str, dict[str, Any]] = {}
    for drive in drives:
        fields = asdict(drive.run) | {"images": len(drive.images)}
        parts.setdefault(drive.run.part, {})[drive.run.name] = fields
    found = {"preset": preset.name, "seed": preset.seed, "size": size, "every": every, "device": device}
    libraries = {package: version(package) for package in ("numpy", "torch")}  # others may round differently
    found |= {"parts": parts, "drawing_code": _drawing_code(), "libraries": libraries}
    identity: dict[str, Any] = json.loads(json.dumps(found))
    return identity


@cache
def _drawing_code() -> str:
    """A digest of the code that draws, so that images of two versions of it never stand side by side."""
    digest, here = hashlib.sha256(), resources.files("mappable.worlds")
    for folder in DRAWING:
        for file in sorted((here / folder).iterdir(), key=lambda file: file.name):
            if file.name.endswith(".py") and file.name not in AFTERWARDS:
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _claim(out: Path, identity: dict[str, Any], overwrite: bool) -> None:
    """Make sure that `out` holds nothing, or the beginning of this very world."""
    if not (out / RECORD).exists():
        for name in (IMAGES, TABLE, "pixels", SHEET):
            if (out / name).exists():
                raise BadInputError(f"{out / name}: there is no {RECORD} that tells what it is; choose another folder")
    else:
        found = _something_else(out, identity)
        if found is None:
            return
        if not overwrite:
            raise BadInputError(f"{found}; choose another folder, or overwrite it (--overwrite)")
        for file in (out / TABLE, out / SHEET):  # first: without its table nobody takes the rest for a whole world
            file.unlink(missing_ok=True)
        for folder in (out / IMAGES, out / "pixels"):
            if folder.exists():
                shutil.rmtree(folder)
    write_record(out, identity)


def _something_else(out: Path, identity: dict[str, Any]) -> str | None:
    """What `out` holds if it is not what `identity` describes."""
    before = read_record(out)  # a folder that only looks like ours is refused here, and nothing in it is deleted
    differing = [key.replace("_", " ") for key, value in identity.items() if before.get(key) != value]
    return f"{out}: holds {before.get('preset')}, with another {', '.join(differing)}" if differing else None


def _keep_existing(places: Places, size: Size, keep: Keep) -> Bools:
    """Give the images that an earlier run has drawn to `keep`; True for the rows that are still to be drawn."""
    files, missing = places.files, np.ones(len(places), dtype=bool)
    for folder in {file.parent for file in files}:
        for unfinished in folder.glob(".*.png.*"):
            unfinished.unlink(missing_ok=True)
    present = [row for row, file in enumerate(files) if file.exists()]
    for row in track(present, "checking images", len(present)):
        try:
            with Image.open(files[row]) as image:
                image.verify()  # all checksums, which loading alone does not compare
            keep(row, load_image(files[row], size))
            missing[row] = False
        except Exception:  # noqa: S112 - Pillow promises no closed set; whatever is wrong with it, it is drawn again
            continue
    return missing
