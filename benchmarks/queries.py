"""Time of a query on a GPU, from an image on the host to its nearest of 200 landmarks on the host.

    python benchmarks/queries.py

`FastEncoder` is compared with the same encoder called step by step, and with a plain first version. That version uses
the network in float32 and a KD-tree on the CPU, as in the paper. All methods take turns on the same queries, and their
answers are compared.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import KDTree

from mappable.arrays import Pixels
from mappable.features.embedding import backbone_precision
from mappable.features.encoder import Encoder
from mappable.features.fast_encoder import FastEncoder

LANDMARKS, QUERIES, ROUNDS = 200, 50, 20
SIZE = (240, 180)


def make_images(count: int, seed: int) -> Pixels:
    """Colored patches."""
    patches = np.random.default_rng(seed).integers(0, 256, (count, SIZE[1] // 20, SIZE[0] // 20, 3), dtype=np.uint8)
    return patches.repeat(20, axis=1).repeat(20, axis=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights-file", type=Path, help="VGG-16's weights, if they are not to be fetched")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("this benchmark needs a CUDA device; none was found")
        return
    encoder = Encoder.create(weights_file=given.weights_file, size=SIZE).to("cuda")
    scenes = make_images(LANDMARKS, seed=0)
    encoder.initialize(scenes)
    landmarks = encoder.embed(scenes, progress=False)
    on_gpu, tree, fast = torch.from_numpy(landmarks).cuda(), KDTree(landmarks), FastEncoder(encoder, landmarks)
    noise = np.random.default_rng(1).integers(-20, 21, (QUERIES, SIZE[1], SIZE[0], 3))
    queries = np.clip(scenes[:QUERIES] + noise, 0, 255).astype(np.uint8)

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
    for _ in range(ROUNDS):
        for name, way in ways.items():
            for image in queries:
                start = time.perf_counter()
                way(image)
                taken[name].append(1000 * (time.perf_counter() - start))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: {SIZE[0]}x{SIZE[1]}, {LANDMARKS} landmarks")
    print(f"of {landmarks.shape[1]:,} numbers; milliseconds of {ROUNDS * QUERIES:,} queries")
    print(f"{'':30}{'p50':>8}{'p99':>8}{'ratio':>8}{'same answer':>14}")
    best = np.percentile(taken["FastEncoder"], 50)
    for name, times in taken.items():
        p50, p99 = np.percentile(times, [50, 99])
        same = 100 * np.mean(np.array(answers[name]) == np.array(answers["FastEncoder"]))
        print(f"{name:30}{p50:8.3f}{p99:8.3f}{p50 / best:8.1f}{same:12.0f} %")
    apart = worst_difference(fast.embed(queries), encoder.embed(queries, progress=False, precision="float32"))
    print(f"the descriptors differ from those in float32 by {apart:.4f} at most (length of the difference)")


def worst_difference(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    return float(np.linalg.norm(first - second, axis=1).max())


if __name__ == "__main__":
    main()
