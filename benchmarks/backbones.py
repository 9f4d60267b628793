"""VGG-16 and ResNet-50 side by side: queries on a CPU, size of a map, and queries and training on a GPU.

    python benchmarks/backbones.py                               # the CPU; with a CUDA device also the GPU
    python benchmarks/backbones.py --only gpu --json             # machine-readable

An encoder is written as WEIGHTS/CLUSTERS, or WEIGHTS/CLUSTERS/NUMBERS with a projection to fewer numbers. All encoders
and methods take turns on the same synthetic images, and medians are shown. Landmarks and projections are random,
because their content does not change the time. On a machine that does other work, trust only the CPU time with
`--threads 1`. Training is `train` itself, as in benchmarks/training.py, and has no projection.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from mappable.arrays import Floats32
from mappable.features.encoder import Encoder
from mappable.features.fast_encoder import FastEncoder
from mappable.features.whitening import Whitening
from mappable.learning.settings import load_settings
from mappable.maps.map import Map
from mappable.places.frames import Frame
from mappable.places.images import Size
from mappable.places.table import Places

SIZE: Size = (240, 180)
ENCODERS = ["vgg16-v1/64", "resnet50-keras/64", "resnet50-keras/64/1024"]
IMAGES = 20
GPU_ROUNDS = 50  # times that each encoder answers all images on a GPU
TRAINING_ROUNDS = 3
ANCHORS = (2, 32)
Row = dict[str, Any]


def parsed(name: str) -> tuple[str, int, int | None]:
    weights, clusters, *numbers = name.split("/")
    return weights, int(clusters), int(numbers[0]) if numbers else None


def make_encoder(name: str, files: dict[str, Path], images: Any) -> Encoder:
    weights, clusters, numbers = parsed(name)
    encoder = Encoder.create(weights=weights, weights_file=files.get(weights), size=SIZE, clusters=clusters)
    encoder.initialize(images)
    if numbers:
        projection = Whitening(encoder.aggregator.dimensions, numbers)
        torch.nn.init.normal_(projection.projection, generator=torch.Generator().manual_seed(0))
        encoder.whitening = projection
    return encoder


def make_landmarks(count: int, dimensions: int) -> Floats32:
    vectors = np.random.default_rng(0).standard_normal((count, dimensions), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def map_of(landmarks: Floats32) -> Map:
    count = len(landmarks)
    line = np.arange(count, dtype=np.float64)
    places = Places(path=[f"{row}.jpg" for row in range(count)], x=line, y=line, frames=Frame("street"))
    return Map.build(places, landmarks, "benchmark")


def searcher(built: Map, query: Floats32) -> Callable[[Any], object]:
    return lambda image: built.store.nearest(query, 1)


def megabytes(built: Map) -> float:
    """Size of the saved map, without its encoder."""
    with TemporaryDirectory() as folder:
        built.save(Path(folder) / "map")
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1e6


def taking_turns(ways: dict[Any, Callable[[Any], object]], images: Any, rounds: int) -> dict[Any, list[Any]]:
    """Wall-clock and CPU milliseconds of each query, by way."""
    taken: dict[Any, list[Any]] = {key: [] for key in ways}
    for way in ways.values():
        way(images[:1])
    for _ in range(rounds):
        for row in range(len(images)):
            for key, way in ways.items():
                start = time.perf_counter(), time.process_time()
                way(images[row : row + 1])
                spent = time.perf_counter() - start[0], time.process_time() - start[1]
                taken[key].append((1000 * spent[0], 1000 * spent[1]))
    return taken


def on_cpu(given: argparse.Namespace, files: dict[str, Path], images: Any) -> list[Row]:
    import backends  # needs onnxruntime

    rows: list[Row] = []
    with TemporaryDirectory() as name:
        ways: dict[Any, Callable[[Any], object]] = {}
        for one in given.encoders:
            folder = Path(name) / one.replace("/", "-")
            folder.mkdir()
            encoder = make_encoder(one, files, images)
            ways |= {(one, way): describe for way, describe in backends.ways_of(encoder, images, folder).items()}
            built = map_of(make_landmarks(given.landmarks, encoder.dimensions))
            query = make_landmarks(1, encoder.dimensions)
            ways[one, "search"] = searcher(built, query)
            rows.append(
                {
                    "encoder": one,
                    "numbers": encoder.dimensions,
                    "parameters": sum(parameter.numel() for parameter in encoder.backbone.parameters()),
                    "map, MB": round(megabytes(built), 1),
                }
            )
        taken = taking_turns(ways, images, given.rounds)
    for row in rows:
        for (one, way), times in taken.items():
            if one == row["encoder"]:
                wall, cpu = np.median(times, axis=0)
                row |= {f"{way}, ms": round(float(wall), 2), f"{way}, ms on CPU": round(float(cpu), 2)}
    return rows


def on_gpu(given: argparse.Namespace, files: dict[str, Path], images: Any) -> list[Row]:
    import training

    rows: dict[str, Row] = {one: {"encoder": one} for one in given.encoders}
    ways: dict[Any, Callable[[Any], object]] = {}
    for one in given.encoders:
        encoder = make_encoder(one, files, images).to("cuda")
        fast = FastEncoder(encoder, make_landmarks(given.landmarks, encoder.dimensions))
        rows[one]["numbers"] = encoder.dimensions
        ways[one] = fast.nearest
    for one, times in taking_turns(ways, images, GPU_ROUNDS).items():
        p50, p99 = np.percentile([wall for wall, _ in times], [50, 99])
        rows[one] |= {"query p50, ms": round(float(p50), 3), "query p99, ms": round(float(p99), 3)}
    del ways
    torch.cuda.empty_cache()
    places = training.make_places(training.COUNTS["oxford"])
    pictures = training.make_images(len(places), SIZE)
    for anchors in ANCHORS:
        every = training.ANCHORS_A_PERIOD // anchors
        speeds: dict[str, list[float]] = {one: [] for one in given.encoders if parsed(one)[2] is None}
        for number in range(TRAINING_ROUNDS + 1):  # the first round warms up
            for one, of_one in speeds.items():
                weights, clusters, _ = parsed(one)
                values = [f"weights={weights}", f"clusters={clusters}", f"anchors={anchors}", f"cache_every={every}"]
                values += [f"iterations={training.PERIODS * every}", f"size={SIZE[0]}x{SIZE[1]}", "monitor_queries=0"]
                values += [f"weights_file={files[weights]}"] if weights in files else []
                _, seconds, trained = training.train_timed(places, pictures, load_settings("oxford", overrides=values))
                if number:
                    of_one.append(trained / seconds)
        for one, of_one in speeds.items():
            rows[one][f"training with {anchors} anchors, images/s"] = round(statistics.median(of_one))
    return list(rows.values())


def show(title: str, rows: list[Row]) -> None:
    """One line per value, one column per encoder."""
    print(f"\n{title}")
    for key in dict.fromkeys(key for row in rows for key in row):
        print(f"{key:44}" + "".join(f"{row.get(key, '-')!s:>26}" for row in rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoders", nargs="+", default=ENCODERS, help="WEIGHTS/CLUSTERS or WEIGHTS/CLUSTERS/NUMBERS")
    parser.add_argument("--weights-file", nargs="*", default=[], metavar="WEIGHTS=FILE", help="instead of a download")
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5, help=f"times that each describes {IMAGES} images on the CPU")
    parser.add_argument("--threads", type=int, default=2, help="of the CPU")
    parser.add_argument("--only", choices=["cpu", "gpu"], help="default: both, if there is a CUDA device")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    files = {name: Path(file) for name, _, file in (text.partition("=") for text in given.weights_file)}
    images = make_images()
    machine = f"{platform.machine()}, {given.threads} threads, torch {torch.__version__}"
    about = {"machine": machine, "size": f"{SIZE[0]}x{SIZE[1]}", "landmarks": given.landmarks}
    found: dict[str, Any] = {"about": about}
    if given.only != "gpu":
        found["cpu"] = on_cpu(given, files, images)
    if given.only != "cpu" and torch.cuda.is_available():
        about["gpu"] = torch.cuda.get_device_name()
        found["gpu"] = on_gpu(given, files, images)
    elif given.only == "gpu":
        raise SystemExit("--only gpu needs a CUDA device; none was found")
    if given.json:
        print(json.dumps(found, indent=1))
        return
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    for part in ("cpu", "gpu"):
        if part in found:
            show(f"{part.upper()}: medians, all take turns", found[part])


def make_images() -> Any:
    """Colored patches."""
    patches = np.random.default_rng(1).integers(0, 256, (IMAGES, SIZE[1] // 20, SIZE[0] // 20, 3), dtype=np.uint8)
    return patches.repeat(20, axis=1).repeat(20, axis=2)


if __name__ == "__main__":
    main()
