"""Time of a query on a CPU, from one image to its descriptor, with torch and with onnxruntime.

    python benchmarks/backends.py

The same encoder, VGG-16 and NetVLAD with 64 clusters, describes the same images in turn. torch runs in float32.
`FastEncoder` runs in the default precision: bfloat16 if the CPU supports it. onnxruntime runs the exported file in
float32 and in int8. Descriptors are compared with those of torch in float32. On a machine that does other work, trust
only the CPU time with `--threads 1`.
"""

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from PIL import Image

from mappable.arrays import Pixels
from mappable.features.embedding import actual_precision, backbone_precision
from mappable.features.encoder import Encoder
from mappable.features.fast_encoder import FastEncoder
from mappable.features.onnx_encoder import OnnxEncoder
from mappable.features.onnx_export import to_onnx
from mappable.features.onnx_int8 import to_int8
from mappable.places.images import Size

SIZES: tuple[Size, ...] = ((240, 180), (160, 120))
IMAGES = 20

Way = Callable[[Pixels], NDArray[np.float32]]


def make_images(count: int, size: Size) -> Pixels:
    """Smooth colors with patches on them."""
    random = np.random.default_rng(0)
    layers = []
    for cells, resampling in ((6, Image.Resampling.BICUBIC), (20, Image.Resampling.NEAREST)):
        coarse = [Image.fromarray(random.integers(0, 256, (cells, cells, 3), dtype=np.uint8)) for _ in range(count)]
        layers.append(np.stack([np.asarray(one.resize(size, resampling)) for one in coarse]))
    mixed: Pixels = layers[0] // 2 + layers[1] // 2
    return mixed


def ways_of(encoder: Encoder, images: Pixels, folder: Path) -> dict[str, Way]:
    """The functions that describe one image (1, height, width, 3), by name."""
    exported = to_onnx(encoder)
    (folder / "float32.onnx").write_bytes(exported)
    (folder / "int8.onnx").write_bytes(to_int8(exported, images))
    fast = FastEncoder(encoder)

    @torch.no_grad()
    def eager(image: Pixels) -> NDArray[np.float32]:
        with backbone_precision("cpu", "float32"):
            descriptors: NDArray[np.float32] = encoder(torch.from_numpy(image)).numpy()
        return descriptors

    def by_onnx(name: str) -> Way:
        opened = OnnxEncoder(folder / name, providers=["CPUExecutionProvider"])
        return lambda image: opened.embed(image, progress=False)

    return {
        "torch, float32": eager,
        f"torch, {actual_precision(torch.device('cpu'), 'auto')} (our default)": fast.embed,
        "onnxruntime, float32": by_onnx("float32.onnx"),
        "onnxruntime, int8": by_onnx("int8.onnx"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help=f"times that each describes {IMAGES} images")
    parser.add_argument("--weights-file", type=Path, help="VGG-16's weights, if they are not to be fetched")
    parser.add_argument("--threads", type=int, help="default: as many as torch takes")
    given = parser.parse_args()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    libraries = f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}"
    print(f"{platform.machine()}, {torch.get_num_threads()} threads, {libraries}")
    for size in SIZES:
        images = make_images(IMAGES, size)
        encoder = Encoder.create(weights_file=given.weights_file, size=size)
        encoder.initialize(images)
        with TemporaryDirectory() as folder:
            report(ways_of(encoder, images, Path(folder)), images, given.rounds)


def report(ways: dict[str, Way], images: Pixels, rounds: int) -> None:
    """Print a table of medians over all rounds; all methods take turns for each image."""
    described = {name: np.concatenate([way(image[None]) for image in images]) for name, way in ways.items()}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for image in images:
            for name, way in ways.items():
                start = time.perf_counter(), time.process_time()
                way(image[None])
                taken[name].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    first = next(iter(ways))
    medians = {name: 1000 * np.median(times, axis=0) for name, times in taken.items()}
    print(f"\n{images.shape[2]}x{images.shape[1]}: medians of {rounds * len(images)} queries, in milliseconds")
    print(f"{'':34}{'time':>8}{'ratio':>8}{'on CPU':>8}{'ratio':>8}{'apart':>10}")
    for name, (wall, cpu) in medians.items():
        ratios = medians[first] / medians[name]
        apart = np.linalg.norm(described[name] - described[first], axis=1).max()
        print(f"{name:34}{wall:8.1f}{ratios[0]:8.2f}{cpu:8.1f}{ratios[1]:8.2f}{apart:10.1e}")


if __name__ == "__main__":
    main()
