"""Time of one query with VGG-16 and NetVLAD: an image to its descriptor on a CPU, and to its landmark on a GPU.

    python benchmarks/query.py               # the CPU; with a CUDA device also the GPU

All methods take turns on the same images, and their answers are compared.

- On the CPU: torch in float32, `FastEncoder` in the default precision (bfloat16 if the CPU supports
  it), and onnxruntime with the exported file in float32 and in int8. On a machine that does other
  work, trust only the CPU time with `--threads 1`.
- On the GPU: `FastEncoder`, the same encoder called step by step, and the network in float32 with a
  KD-tree on the CPU, as in the paper.
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
from scipy.spatial import KDTree

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
GPU_LANDMARKS, GPU_QUERIES, GPU_ROUNDS = 200, 50, 20

Way = Callable[[Pixels], NDArray[np.float32]]


def make_images(count: int, size: Size) -> Pixels:
    """Smooth colors with patches on them."""
    random = np.random.default_rng(0)
    layers = []
    for cells, resampling in ((6, Image.Resampling.BICUBIC), (20, Image.Resampling.NEAREST)):
        coarse = [
            Image.fromarray(random.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
            for _ in range(count)
        ]
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help=f"times that each describes {IMAGES} images on the CPU",
    )
    parser.add_argument(
        "--weights-file", type=Path, help="VGG-16's weights, if they are not to be fetched"
    )
    parser.add_argument(
        "--threads", type=int, help="threads on the CPU (default: as many as torch takes)"
    )
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
    if torch.cuda.is_available():
        on_gpu(given.weights_file, SIZES[0])
    else:
        print("\nno CUDA device was found, so the GPU was not measured")


def report(ways: dict[str, Way], images: Pixels, rounds: int) -> None:
    """Print a table of medians over all rounds; all methods take turns for each image."""
    described = {
        name: np.concatenate([way(image[None]) for image in images]) for name, way in ways.items()
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for image in images:
            for name, way in ways.items():
                start = time.perf_counter(), time.process_time()
                way(image[None])
                taken[name].append((time.perf_counter() - start[0], time.process_time() - start[1]))
    first = next(iter(ways))
    medians = {name: 1000 * np.median(times, axis=0) for name, times in taken.items()}
    print(
        f"\n{images.shape[2]}x{images.shape[1]}: medians of {rounds * len(images)} queries, in"
        " milliseconds"
    )
    print(f"{'':34}{'time':>8}{'ratio':>8}{'on CPU':>8}{'ratio':>8}{'apart':>10}")
    for name, (wall, cpu) in medians.items():
        ratios = medians[first] / medians[name]
        apart = np.linalg.norm(described[name] - described[first], axis=1).max()
        print(f"{name:34}{wall:8.1f}{ratios[0]:8.2f}{cpu:8.1f}{ratios[1]:8.2f}{apart:10.1e}")


def on_gpu(weights_file: Path | None, size: Size) -> None:
    """Print a table of the time from an image on the host to its nearest landmark on the host."""
    encoder = Encoder.create(weights_file=weights_file, size=size).to("cuda")
    scenes = make_images(GPU_LANDMARKS, size)
    encoder.initialize(scenes)
    landmarks = encoder.embed(scenes, progress=False)
    on_gpu, tree, fast = (
        torch.from_numpy(landmarks).cuda(),
        KDTree(landmarks),
        FastEncoder(encoder, landmarks),
    )
    noise = np.random.default_rng(1).integers(-20, 21, (GPU_QUERIES, size[1], size[0], 3))
    queries = np.clip(scenes[:GPU_QUERIES] + noise, 0, 255).astype(np.uint8)

    @torch.no_grad()
    def plain(image: Pixels) -> int:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            descriptor = encoder(torch.from_numpy(image[None]).cuda())
        return int(tree.query(descriptor.cpu().numpy())[1][0])

    @torch.no_grad()
    def step_by_step(image: Pixels) -> int:
        with backbone_precision("cuda", "auto"):
            descriptor = encoder(torch.from_numpy(image[None]).cuda())
        return int((on_gpu @ descriptor[0]).argmax())

    def recorded(image: Pixels) -> int:
        return int(fast.nearest(image[None])[0][0, 0])

    ways: dict[str, Callable[[Pixels], int]] = {
        "float32, KD-tree on the CPU": plain,
        "step by step": step_by_step,
        "FastEncoder": recorded,
    }
    answers = {name: [way(image) for image in queries] for name, way in ways.items()}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(GPU_ROUNDS):
        for name, way in ways.items():
            for image in queries:
                start = time.perf_counter()
                way(image)
                taken[name].append(1000 * (time.perf_counter() - start))
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}: {size[0]}x{size[1]},"
        f" {GPU_LANDMARKS} landmarks"
    )
    print(
        f"of {landmarks.shape[1]:,} numbers; milliseconds of {GPU_ROUNDS * GPU_QUERIES:,} queries"
    )
    print(f"{'':30}{'p50':>8}{'p99':>8}{'ratio':>8}{'same answer':>14}")
    best = np.percentile(taken["FastEncoder"], 50)
    for name, times in taken.items():
        p50, p99 = np.percentile(times, [50, 99])
        same = 100 * np.mean(np.array(answers[name]) == np.array(answers["FastEncoder"]))
        print(f"{name:30}{p50:8.3f}{p99:8.3f}{p50 / best:8.1f}{same:12.0f} %")
    exact = encoder.embed(queries, progress=False, precision="float32")
    apart = np.linalg.norm(fast.embed(queries) - exact, axis=1).max()
    print(
        f"the descriptors differ from those in float32 by {apart:.4f} at most (length of the"
        " difference)"
    )


if __name__ == "__main__":
    main()
