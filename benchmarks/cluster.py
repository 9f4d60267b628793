"""Milvus compared with exact search, and embedding through Ray compared with the plain loop, on one machine.

    python benchmarks/cluster.py milvus http://127.0.0.1:19530 10000 100000    # numbers of landmarks
    python benchmarks/cluster.py ray                                           # 2,000 images at 64x48

It needs the packages of `make test-cluster`. The descriptors are those of benchmarks/search.py, with 512 numbers. The
encoder is VGG-16 with random weights, and the images are random JPEG files.
"""

import argparse
import os
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
from mappable.places.frames import Frame
from mappable.places.table import Places
from search import BATCH, World, ours, taking_turns

DIMENSIONS, NEAREST = 512, 10
SIZE, DECODED, IMAGES = (64, 48), (640, 480), 2000


def compare_milvus(uri: str, counts: list[int]) -> None:
    """Print a row per number of landmarks and peer."""
    print(f"{os.cpu_count()} CPU cores; {DIMENSIONS} numbers, {NEAREST} nearest; milliseconds per call")
    for count in counts:
        world = World(count, DIMENSIONS)
        exact = Exact(world.landmarks)
        peers: dict[str, Store] = {}
        begun = time.perf_counter()
        ids = np.array([f"place {row}" for row in range(count)], dtype=np.dtypes.StringDType())
        peers["Milvus"] = Milvus.load(uri, ids, exact)
        loaded = time.perf_counter() - begun
        if count > WORTHWHILE:
            peers["our index"] = Approximate.build(exact)
        print(f"{count:,} landmarks loaded into Milvus in {loaded:.1f} s")
        for name, peer in peers.items():
            same = (
                exact.nearest(world.queries, NEAREST)[0][:, :, None] == peer.nearest(world.queries, NEAREST)[0][:, None]
            )
            print(f"  {name}: recall@{NEAREST} {100 * same.any(axis=2).mean():.1f} %")
            for size in (1, BATCH):
                mine, its = taking_turns(ours(exact), ours(peer), world.queries, size, NEAREST)
                print(
                    f"  {size:>3} queries: exact {mine:.2f}, {name} {its:.2f}, exact / {name} {mine / its:.2f}",
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
        files, _ = embed_on_ray("local", encoder, folder / "encoder.safetensors", places, folder / "out")
        whole = time.time() - started
        written = [file.stat().st_mtime for file in files]
        print(f"Ray: {whole:.1f} s, {IMAGES / whole:.1f} images/s with its start ({100 * plain / whole:.0f} %)")
        print(f"shards were written {', '.join(f'{at - started:.1f}' for at in sorted(written))} s after the start")
        begun = time.perf_counter()
        embed_on_ray("local", encoder, folder / "encoder.safetensors", places[:1], folder / "one")
        start = time.perf_counter() - begun
        rate = IMAGES / (whole - start)
        print(f"Ray with one image: {start:.1f} s")
        print(f"Ray without that: {rate:.1f} images/s ({100 * plain * rate / IMAGES:.0f} %)")
        print(f"largest difference from the plain loop: {np.abs(_read(files, alone.shape) - alone).max():.1e}")


def _read(files: list[Path], shape: tuple[int, ...]) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    import pyarrow.parquet

    parts = [pyarrow.parquet.read_table(file)["descriptor"].combine_chunks().flatten().to_numpy() for file in files]
    return np.concatenate(parts).reshape(shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("milvus", "ray"))
    parser.add_argument("uri", nargs="?", help="address of the Milvus server")
    parser.add_argument("landmarks", nargs="*", type=int)
    given = parser.parse_args()
    if given.part == "ray":
        compare_ray()
    elif given.uri is None:
        sys.exit("benchmarks/cluster.py: give the address of a Milvus server")
    else:
        compare_milvus(given.uri, given.landmarks or [10_000, 100_000])


if __name__ == "__main__":
    main()
