"""Time of search among descriptors, compared with FAISS flat and the KD-trees of scipy (the paper's) and scikit-learn.

    python benchmarks/search.py             # some minutes, 12 GB of memory, 3 GB in the temporary folder
    python benchmarks/search.py --quick     # the small ones only

Descriptors are synthetic: waves of many lengths over a plane and over six other ways in which
images differ, plus noise. Queries are made in the same way, about 3 m from a landmark. Each peer
takes turns with ours in one process, with many calls and its default number of threads; the table
has medians. All methods must find the same landmarks, except those that are equally near up to
rounding. Large trees answer single queries only. scikit-learn is optional.
"""

import argparse
import importlib
import importlib.util
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import faiss
import numpy as np
import scipy
from scipy.spatial import cKDTree

from mappable.arrays import Floats32, Ints
from mappable.maps.approximate import Approximate
from mappable.maps.exact import Exact
from mappable.maps.store import Store

SMALL, LARGE = ((200, 32_768), (10_000, 512)), ((10_000, 32_768), (1_000_000, 512))
QUERIES, BATCH = 64, 64
TURNS, CALLS, SECONDS = 5, 64, 1.0  # turns of either; most calls and seconds per turn
# Ways in which images differ besides position; noise per number, for waves of height 1.
OTHER_WAYS, NOISE = 6, 0.7
LARGE_TREE = 2**24  # numbers
NOT_BUILT = ("scikit-learn KDTree", 1_000_000)  # takes three minutes
FIRST = 5  # times that a file is opened

Search = Callable[[Floats32, int], Ints]


class World:
    """The source of descriptors."""

    def __init__(self, landmarks: int, dimensions: int) -> None:
        self.rng = np.random.default_rng(0)
        self.side = 5 * np.sqrt(landmarks)  # metres
        lengths = np.exp(self.rng.uniform(np.log(10), np.log(300), dimensions))  # metres / (2 pi)
        waves = self.rng.standard_normal((2 + OTHER_WAYS, dimensions))
        waves[:2] /= lengths
        waves[2:] *= 0.35
        self.waves = waves.astype(np.float32)
        self.shifts = self.rng.uniform(0, 2 * np.pi, dimensions).astype(np.float32)
        where = self.rng.uniform(0, self.side, (landmarks, 2))
        self.landmarks = np.empty((landmarks, dimensions), dtype=np.float32)
        for start in range(0, landmarks, 1000):
            self.landmarks[start : start + 1000] = self.describe(where[start : start + 1000])
        near = where[self.rng.integers(landmarks, size=QUERIES)]
        self.queries = self.describe(near + 3 * self.rng.standard_normal(near.shape) / np.sqrt(2))

    def describe(self, where: Any) -> Floats32:
        ways = np.hstack([where, self.rng.standard_normal((len(where), OTHER_WAYS))]).astype(
            np.float32
        )
        numbers: Floats32 = np.cos(ways @ self.waves + self.shifts)
        numbers += np.float32(NOISE) * self.rng.standard_normal(numbers.shape, dtype=np.float32)
        numbers /= np.linalg.norm(numbers, axis=1, keepdims=True)
        return numbers


def ours(store: Store) -> Search:
    return lambda queries, count: store.nearest(queries, count)[0]


def faiss_flat(landmarks: Floats32) -> Search:
    index: Any = faiss.IndexFlatL2(landmarks.shape[1])
    index.add(landmarks)
    return lambda queries, count: index.search(queries, count)[1]


def scipy_tree(landmarks: Floats32) -> Search:
    tree = cKDTree(landmarks)
    return lambda queries, count: tree.query(queries, k=range(1, count + 1))[1]


def sklearn_tree(landmarks: Floats32) -> Search:
    tree = importlib.import_module("sklearn.neighbors").KDTree(landmarks)
    return lambda queries, count: tree.query(queries, k=count, return_distance=False)


PEERS = {"FAISS flat": faiss_flat, "scipy cKDTree": scipy_tree, "scikit-learn KDTree": sklearn_tree}


def taking_turns(
    first: Search, second: Search, queries: Floats32, size: int, count: int
) -> tuple[float, float]:
    """Median milliseconds per call of both."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(TURNS):
        for search, times in zip((first, second), taken, strict=True):
            ends = time.perf_counter() + SECONDS
            for call in range(CALLS):
                start = call * size % QUERIES
                before = time.perf_counter()
                search(queries[start : start + size], count)
                after = time.perf_counter()
                times.append(1000 * (after - before))
                if after > ends:
                    break
    return statistics.median(taken[0]), statistics.median(taken[1])


def compare(world: World) -> None:
    landmarks, queries = world.landmarks, world.queries
    exact = Exact(landmarks)
    own = ours(exact)
    for name, build in PEERS.items():
        title = f"{len(landmarks):>9,} x {landmarks.shape[1]:<7,}{name:21}"
        if (name, len(landmarks)) == NOT_BUILT:
            print(f"{title}   not built: it takes minutes")
            continue
        if build is sklearn_tree and importlib.util.find_spec("sklearn") is None:
            print(f"{title}   left out: scikit-learn is not installed")
            continue
        begun = time.perf_counter()
        peer = build(landmarks)
        built = time.perf_counter() - begun
        slow = build is not faiss_flat and landmarks.size > LARGE_TREE
        cells = ["-".rjust(26)] * 3
        for number, (size, count) in enumerate(
            ((1, 1), (BATCH, 1), (BATCH, 10))[: 1 if slow else 3]
        ):
            asked = queries[:4] if slow else queries
            check_same(exact, asked, own(asked, count), peer(asked, count))
            mine, its = taking_turns(own, peer, queries, size, count)
            cells[number] = f"{mine:9.2f}{its:9.2f}{its / mine:7.1f}x"
        print(f"{title}{''.join(cells)}{built:11.1f}", flush=True)
        del peer


def check_same(exact: Exact, queries: Floats32, own: Ints, its: Ints) -> None:
    """Check that rows are equal, or else that their distances are."""
    for query, one, other in zip(queries, own, np.asarray(its), strict=True):
        mine, others = (
            np.square(exact.take(rows).astype(float) - query).sum(axis=1) for rows in (one, other)
        )
        np.testing.assert_allclose(mine, others, rtol=1e-4, atol=1e-6)


def first_query(world: World) -> None:
    """Time from opening a file in the page cache to the first answer."""
    query = world.queries[:1]
    with TemporaryDirectory() as folder:
        array, index_file = Path(folder) / "descriptors.npy", str(Path(folder) / "flat.faiss")
        np.save(array, world.landmarks)
        index = faiss.IndexFlatL2(world.landmarks.shape[1])
        index.add(world.landmarks)
        faiss.write_index(index, index_file)
        del index

        def mapped() -> Any:
            return Exact(np.load(array, mmap_mode="r")).nearest(query, 1)[0]

        def read() -> Any:
            return faiss.read_index(index_file).search(query, 1)[1]

        def faiss_mapped() -> Any:
            return faiss.read_index(index_file, faiss.IO_FLAG_MMAP_IFC).search(query, 1)[1]

        ways = {
            "ours, mapped": mapped,
            "FAISS flat, read": read,
            "FAISS flat, mapped": faiss_mapped,
        }
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(FIRST):
            for name, way in ways.items():
                begun = time.perf_counter()
                answer = way()
                taken[name].append(1000 * (time.perf_counter() - begun))
                np.testing.assert_array_equal(answer, mapped())
        print(
            f"\nfirst answer after opening {len(world.landmarks):,} x {world.landmarks.shape[1]:,},"
            " file in memory, ms"
        )
        best = statistics.median(taken["ours, mapped"])
        for name, times in taken.items():
            print(
                f"  {name:21}{statistics.median(times):9.1f}{statistics.median(times) / best:7.1f}x"
            )


def approximate(world: World) -> None:
    """Compare the approximate index with exact search."""
    exact = Exact(world.landmarks)
    begun = time.perf_counter()
    index = Approximate.build(exact)
    built = time.perf_counter() - begun
    print(
        f"\napproximate, {len(exact):,} x {exact.dimensions:,}, built in {built:.0f} s; with exact"
        " search, in ms"
    )
    for size, count in ((1, 1), (1, 10), (BATCH, 1), (BATCH, 10)):
        mine, its = taking_turns(ours(index), ours(exact), world.queries, size, count)
        print(f"  {size:>3} queries, {count:>2} nearest{mine:9.2f}{its:9.2f}{its / mine:7.1f}x")
    shares = ", ".join(f"{name} {100 * share:.1f} %" for name, share in index.recall.items())
    print(f"  as measured when built, for landmarks left out of their own answer: {shares}")
    where = world.rng.uniform(0, world.side, (1000, 2))
    queries = world.describe(where)
    true, found = exact.nearest(queries, 10)[0], index.nearest(queries, 10)[0]
    ten = (true[:, :, None] == found[:, None]).any(axis=2).mean()
    first = (true[:, 0] == found[:, 0]).mean()
    print(
        f"  for {len(queries):,} queries anywhere: recall@1 {100 * first:.1f} %, recall@10"
        f" {100 * ten:.1f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the small ones only")
    given = parser.parse_args()
    versions = f"Python {sys.version.split()[0]}, NumPy {np.__version__}, SciPy {scipy.__version__}"
    print(f"{versions}, FAISS {faiss.__version__}; {os.cpu_count()} CPU cores")
    print("milliseconds per call: ours, the peer's, ratio")
    kinds = ("one query", f"{BATCH} queries", f"{BATCH}, 10 nearest")
    print(f"{'':40}{''.join(f'{kind:>26}' for kind in kinds)}  build, s")
    for shape in SMALL if given.quick else SMALL + LARGE:
        world = World(*shape)
        compare(world)
        if shape == LARGE[0]:
            kept = world
    if not given.quick:
        first_query(kept)
        del kept
        approximate(world)


if __name__ == "__main__":
    main()
