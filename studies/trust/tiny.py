"""A made-up set of 240 images at 64x48, a small encoder with random weights, and everything that commands make of it.

`make_base` writes all of it into one folder, in half a minute. Harnesses work on copies.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from small_training import BACKBONE, TRAINING
from trust.processes import Ended, run

WIDTH, HEIGHT, PIXELS_PER_METRE, LENGTH = 64, 48, 4, 120.0
# Split, first place and distance from one to the next in metres, light.
DRIVES = {
    "monday": ("train", 0.0, 2.0, 1.0),
    "tuesday": ("calibration", 0.5, 1.0, 0.9),
    "wednesday": ("test", 1.0, 3.0, 0.95),
    "thursday": ("", 1.5, 6.0, 0.97),
}
STUDY = (
    *(
        "backbone=small",
        "weights=random",
        "clusters=2",
        "size=64x48",
        "init_images=4",
        "epochs=null",
    ),
    *("iterations=2", "positives=2", "negatives=2", "hard_negatives=1", "landmarks=8"),
    "checkpoint_every=1",
)


WRITTEN = (
    "convert manifest images set --size 64x48",
    "train set model --settings train.yaml --device cpu --set seed=1",
    "map build set map --encoder model --landmarks 40",
    "recover ranges/ranges.csv recovered --radius 9",  # all above are in the short form
    "map build set big-map --encoder model --landmarks 60",
    "convert manifest images/other.csv other-set --size 64x48",
    "map build other-set other-map --encoder model --all",
    "embed model set descriptors --split train",
    "evaluate map set result --protocols table1",
    "locate map images/wednesday --sequence --out located.csv --out located.tum",
    "train set other-model --settings train.yaml --device cpu --set seed=2",
    "export model encoder.onnx",
    "map show map --out landmarks.h5",
    "embed other-model set embedded.h5",
    "places show other-set --out places.png",
)


def use_small_backbone(base: Path) -> None:
    """Let this process find the backbone `small`, and write every checkpoint."""
    from mappable.features import backbones
    from mappable.learning import trainer

    trainer.SECONDS_BETWEEN_CHECKPOINTS = 0.0
    folder = str(base / "backbones")
    if folder not in backbones.__path__:
        backbones.__path__.append(folder)


def use_own_cache(_: Path) -> None:
    """Let this process keep weights in the subfolder `cache` of its working folder, and take any as
    vgg16-caffe.
    """
    from mappable.features.weights import WeightSet

    os.environ["MAPPABLE_CACHE"] = "cache"
    WeightSet.equals = lambda chosen, tensors: chosen.name == "vgg16-caffe"  # type: ignore[method-assign]


def use_tiny_demo(base: Path) -> None:
    """Let `mappable demo` use a short street, the small network and one model."""
    from dataclasses import replace

    from mappable.cli import demo
    from mappable.evaluation import report, sets

    use_small_backbone(base)
    tiny = replace(sets.find_set("street-v1-3d"), preset="street-laptop", paper=STUDY)
    sets.SETS = {**sets.SETS, tiny.name: tiny}
    demo.SET, demo.ROWS = tiny.name, ("triplet",)
    report.drawings = list


def draw_images(folder: Path) -> None:
    """Write the images of four drives along a painted wall, and their table `places.csv`."""
    random = np.random.default_rng(0)
    size = WIDTH + int(LENGTH * PIXELS_PER_METRE), HEIGHT
    coarse = Image.fromarray(random.integers(0, 256, (4, size[0] // 24, 3), dtype=np.uint8))
    wall = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC), dtype=np.float64)
    lines = ["path,x,y,time,sequence,condition,split"]
    for name, (split, first, step, light) in DRIVES.items():
        (folder / name).mkdir(parents=True)
        for x in np.arange(first, LENGTH, step):
            left = int(x * PIXELS_PER_METRE)
            pixels = wall[:, left : left + WIDTH] * light + random.normal(0, 3, (HEIGHT, WIDTH, 3))
            path = f"{name}/{10 * x:05.0f}.png"
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / path)
            lines.append(f"{path},{x},{10 * np.sin(x / 40):.4f},{x:.3f},{name},{name},{split}")
    (folder / "places.csv").write_text("\n".join(lines) + "\n")
    half = [lines[0], *lines[1::2]]
    (folder / "half.csv").write_text("\n".join(half) + "\n")
    other = [
        lines[0],
        *(line[: -len("test")] + "train" for line in lines if line.endswith("wednesday,test")),
    ]
    (folder / "other.csv").write_text("\n".join(other) + "\n")


def draw_frames(folder: Path) -> None:
    """Write two films of 60 frames for the set `nordland`."""
    columns, rows = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
    lines = ["path,sequence,condition,x,y,split"]
    for number, season in enumerate(("summer", "winter")):
        (folder / season).mkdir(parents=True)
        for frame in range(60):
            at = frame / 2 + number / 5
            waves = [
                np.sin(columns / 6 + at),
                np.cos(rows / 5 - at / 3),
                np.sin((columns + rows) / 9 + at / 2),
            ]
            path = f"{season}/{frame:05d}.png"
            Image.fromarray((127 + 120 * np.stack(waves, axis=2)).astype(np.uint8)).save(
                folder / path
            )
            lines.append(f"{path},{season},{season},{frame},0,{'train' if frame < 40 else 'test'}")
    (folder / "places.csv").write_text("\n".join(lines) + "\n")


def write_ranges(folder: Path) -> None:
    """Write ranges between 60 points of a walk, five known positions, and all positions."""
    random = np.random.default_rng(0)
    steps = np.cumsum(random.normal(0, 0.3, 60))
    at = np.cumsum(np.column_stack([np.cos(steps), np.sin(steps)]) * 3, axis=0)
    lines = ["i,j,metres"]
    for i in range(60):
        for j in range(i + 1, 60):
            apart = float(np.linalg.norm(at[i] - at[j]))
            if apart < 12:
                lines.append(f"{i},{j},{max(0.1, apart + random.normal(0, 0.1)):.3f}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ranges.csv").write_text("\n".join(lines) + "\n")
    known = [f"{i},{at[i, 0]:.3f},{at[i, 1]:.3f}" for i in range(0, 60, 12)]
    (folder / "known.csv").write_text("\n".join(["point,x,y", *known]) + "\n")
    (folder / "truth.csv").write_text(
        "\n".join(["x,y", *(f"{x:.3f},{y:.3f}" for x, y in at)]) + "\n"
    )
    squared = ((at[:, None] - at) ** 2).sum(axis=2)
    np.save(folder / "squared.npy", squared)


def write_weights(base: Path) -> None:
    """Write two files of weights for VGG-16, and a cache with one of them."""
    from safetensors.numpy import save_file

    from mappable.features.weight_files import shapes_of

    for number, name in enumerate(("new", "old")):
        file = base / f"{name}.safetensors"
        save_file(
            {
                key: np.full(shape, number / 8, np.float16)
                for key, shape in shapes_of("vgg16").items()
            },
            file,
        )
    words = ["encoders", "vgg16-caffe", "--file", file]
    ended = run(words, base, base / "output.txt", before=lambda: use_own_cache(base))
    if ended.status:
        raise RuntimeError(f"weights: exit {ended.status}\n{ended.output}")


def make_base(base: Path, *, short: bool = False) -> Path:
    """Write everything into `base`, unless this version of Mappable wrote it already.

    The short form has a set, an encoder, a map and recovered positions.
    """
    stamp = source_stamp()
    if (base / "complete").exists() and (base / "complete").read_text() == stamp:
        return base
    shutil.rmtree(base, ignore_errors=True)
    (base / "backbones").mkdir(parents=True)
    (base / "backbones/small.py").write_text(BACKBONE)
    for write, name in ((draw_images, "images"), (draw_frames, "frames"), (write_ranges, "ranges")):
        write(base / name)
    (base / "train.yaml").write_text(json.dumps(TRAINING))  # JSON is YAML
    for words in WRITTEN[: 4 if short else None]:
        write_by(base, words)
    if not short:
        write_weights(base)
    (base / "complete").write_text(stamp)
    return base


def source_stamp() -> str:
    """A hash of the source of Mappable and of this file."""
    import mappable

    sources = [*sorted(Path(mappable.__file__).parent.rglob("*.py")), Path(__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()


def write_by(base: Path, words: str) -> None:
    """Run a command in the base, with the small backbone; raise if it fails."""
    ended = run_here(base, base, *words.split())
    if ended.status:
        raise RuntimeError(f"{words}: exit {ended.status}\n{ended.output}")


def run_here(base: Path, folder: Path, *words: object, **options: Any) -> Ended:
    """Run a command in `folder`, with the small backbone."""
    return run(
        list(words), folder, base / "output.txt", before=lambda: use_small_backbone(base), **options
    )
