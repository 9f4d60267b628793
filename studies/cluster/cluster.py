"""One machine as a cluster: Milvus next to exact search, Ray next to the plain loop, and training with two processes.

    python studies/cluster/cluster.py milvus 10000 100000    # numbers of landmarks; --data keeps the server's files
    python studies/cluster/cluster.py milvus 120000 --numbers 64
    python studies/cluster/cluster.py ray                    # 2,000 images at 64x48
    python studies/cluster/cluster.py train                  # one process with one and two threads, then two processes

It needs the packages of `make test-cluster`. The descriptors are those of benchmarks/search.py. The
encoder is VGG-16 with random weights, and the images are random.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from mappable.features.encoder import Encoder
from mappable.features.on_ray import embed_on_ray
from mappable.maps.approximate import WORTHWHILE, Approximate
from mappable.maps.exact import Exact
from mappable.maps.milvus import Milvus
from mappable.maps.store import Store
from mappable.places.files import save_places
from mappable.places.frames import Frame
from mappable.places.packing import pack_images
from mappable.places.table import Places
from milvus_server import Server
from search import BATCH, World, ours, taking_turns

NEAREST = 10
SIZE, DECODED, IMAGES = (64, 48), (640, 480), 2000
TRAINED = 200  # images
TRAINING = (
    *(
        "weights=random",
        "anchors=4",
        "positives=2",
        "negatives=2",
        "hard_negatives=1",
        "iterations=40",
    ),
    *(
        "positive_radius=5",
        "negative_radius=12",
        "yaw_limit=none",
        "cache_every=20",
        "cache_size=100",
    ),
    *("landmarks=0", "feature_scale_squared=1", "init_images=20", "precision=float32"),
)


def compare_milvus(folder: Path, counts: list[int], dimensions: int) -> None:
    """Start a server with its data in `folder`. Print a row per number of landmarks and peer."""
    server = Server(folder)
    try:
        _compare_milvus(server, counts, dimensions)
    finally:
        server.kill()


def _compare_milvus(server: Server, counts: list[int], dimensions: int) -> None:
    print(
        f"{os.cpu_count()} CPU cores; {dimensions} numbers, {NEAREST} nearest; milliseconds per"
        " call"
    )
    for count in counts:
        world = World(count, dimensions)
        exact = Exact(world.landmarks)
        peers: dict[str, Store] = {}
        begun = time.perf_counter()
        ids = np.array([f"place {row}" for row in range(count)], dtype=np.dtypes.StringDType())
        peers["Milvus"] = Milvus.load(server.uri, ids, exact)
        loaded = time.perf_counter() - begun
        if count > WORTHWHILE:
            peers["our index"] = Approximate.build(exact)
        print(
            f"{count:,} landmarks loaded into Milvus in {loaded:.1f} s;"
            f" {server.megabytes():,.0f} MB",
            flush=True,
        )
        for name, peer in peers.items():
            same = (
                exact.nearest(world.queries, NEAREST)[0][:, :, None]
                == peer.nearest(world.queries, NEAREST)[0][:, None]
            )
            print(f"  {name}: recall@{NEAREST} {100 * same.any(axis=2).mean():.1f} %")
            for size in (1, BATCH):
                mine, its = taking_turns(ours(exact), ours(peer), world.queries, size, NEAREST)
                print(
                    f"  {size:>3} queries: exact {mine:.2f}, {name} {its:.2f}, exact / {name}"
                    f" {mine / its:.2f}",
                    flush=True,
                )


def compare_ray() -> None:
    """Print images per second of the plain loop, and of Ray with and without its start."""
    with TemporaryDirectory() as name:
        folder, random = Path(name), np.random.default_rng(0)
        for number in range(IMAGES):
            coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8))
            coarse.resize(DECODED).save(folder / f"{number}.jpg")
        paths = [f"{number}.jpg" for number in range(IMAGES)]
        x = np.arange(IMAGES, dtype=float)
        places = Places(path=paths, x=x, y=0 * x, frames=Frame("map"), root=folder)
        encoder = Encoder.create(weights="random", size=SIZE, clusters=8)
        encoder.initialize(places[:50])
        encoder.save(folder / "encoder.safetensors")
        encoder.embed(places[:64], progress=False)
        begun = time.perf_counter()
        alone = encoder.embed(places, progress=False)
        plain = time.perf_counter() - begun
        print(f"plain loop: {plain:.1f} s, {IMAGES / plain:.1f} images/s", flush=True)
        started = time.time()
        described, _ = embed_on_ray(
            "local", encoder, folder / "encoder.safetensors", places, folder / "out"
        )
        whole = time.time() - started
        written = [file.stat().st_mtime for file in folder.glob("out/shards-*/[0-9]*.npy")]
        print(
            f"Ray: {whole:.1f} s, {IMAGES / whole:.1f} images/s with its start"
            f" ({100 * plain / whole:.0f} %)"
        )
        print(
            f"shards were written {', '.join(f'{at - started:.1f}' for at in sorted(written))} s"
            " after the start"
        )
        begun = time.perf_counter()
        embed_on_ray("local", encoder, folder / "encoder.safetensors", places[:1], folder / "one")
        start = time.perf_counter() - begun
        rate = IMAGES / (whole - start)
        print(f"Ray with one image: {start:.1f} s")
        print(f"Ray without that: {rate:.1f} images/s ({100 * plain * rate / IMAGES:.0f} %)")
        print(f"largest difference from the plain loop: {np.abs(described - alone).max():.1e}")


def compare_training() -> None:
    """Print images per second of training all layers, for numbers of processes and threads."""
    with TemporaryDirectory() as name:
        folder, random = Path(name), np.random.default_rng(0)
        pixels = random.integers(0, 256, (TRAINED, SIZE[1], SIZE[0], 3), dtype=np.uint8)
        for number, image in enumerate(pixels):
            Image.fromarray(image).save(folder / f"{number}.png")
        x = np.arange(TRAINED, dtype=float)
        paths = [f"{number}.png" for number in range(TRAINED)]
        places = Places(path=paths, x=x, y=0 * x, frames=Frame("map"), root=folder)
        save_places(places, folder / "places.parquet")
        pack_images(places, folder, size=SIZE)
        for processes, threads in ((1, 1), (1, 2), (2, 1)) * 2:
            out = folder / f"{processes} {threads} {time.time()}"
            command = [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node",
            ]
            command += [
                str(processes),
                "-m",
                "mappable",
                "train",
                str(folder),
                str(out),
                "--preset",
                "street",
            ]
            for setting in (*TRAINING, f"size={SIZE[0]}x{SIZE[1]}"):
                command += ["--set", setting]
            environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
            subprocess.run(command, env=environment, check=True, capture_output=True)
            lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            speed = statistics.median(line["images_per_second"] for line in lines if "loss" in line)
            print(
                f"{processes} processes, {threads} threads each: {speed:.1f} images/s", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("milvus", "ray", "train"))
    parser.add_argument("landmarks", nargs="*", type=int, default=[10_000, 100_000])
    parser.add_argument("--numbers", type=int, default=512, help="numbers per descriptor")
    parser.add_argument(
        "--data", type=Path, help="folder of the Milvus server, to continue a load that was stopped"
    )
    given = parser.parse_args()
    if given.part == "ray":
        compare_ray()
    elif given.part == "train":
        compare_training()
    elif given.data is not None:
        compare_milvus(given.data, given.landmarks, given.numbers)
    else:
        with TemporaryDirectory() as name:
            compare_milvus(Path(name), given.landmarks, given.numbers)


if __name__ == "__main__":
    main()
