"""VGG-16 and ResNet-50 side by side: queries on a CPU, size of a map, and queries and training on a GPU.

    python studies/backbones/backbones.py                               # the CPU; with a CUDA device also the GPU
    python studies/backbones/backbones.py --only gpu --out gpu.json     # a second call continues

An encoder is written as BACKBONE/CLUSTERS, or BACKBONE/CLUSTERS/NUMBERS with a reduction to fewer
numbers. Weights, images, landmarks and reductions are random, because their content does not change
the time. A query is one image and its nearest landmark. All methods take turns; each describes all
images in its turn, so that its weights stay in the processor's cache, as in use. On a machine that
does other work, trust only the CPU time with `--threads 1`. Training is `train` itself, without a
reduction, which is fitted afterward.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from mappable.arrays import Floats32
from mappable.features.encoder import Encoder
from mappable.features.fast_encoder import FastEncoder
from mappable.learning.settings import load_settings
from mappable.maps.landmarks import Landmarks
from mappable.places.frames import Frame
from mappable.places.images import Size
from mappable.places.table import Places

SIZE: Size = (240, 180)
ENCODERS = ["vgg16/64", "resnet50_keras/64", "resnet50_keras/64/1024", "resnet50_keras/64/2048"]
IMAGES = 20
GPU_QUERIES = 1000
# Of a training; the first period warms up.
PLACES, ANCHORS_A_PERIOD, CACHE_SIZE, PERIODS = 3_000, 1_000, 2_000, 2
ANCHORS = (2, 32)
Row = dict[str, Any]
Query = Callable[[Any], object]


def parsed(name: str) -> tuple[str, int, int | None]:
    backbone, clusters, *numbers = name.split("/")
    return backbone, int(clusters), int(numbers[0]) if numbers else None


def make_encoder(name: str, images: Any) -> Encoder:
    backbone, clusters, numbers = parsed(name)
    encoder = Encoder.create(
        weights="random", backbone=backbone, size=SIZE, clusters=clusters, dimensions=numbers
    )
    encoder.initialize(images)
    return encoder


def make_landmarks(count: int, dimensions: int) -> Floats32:
    vectors = np.random.default_rng(0).standard_normal((count, dimensions), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def map_of(landmarks: Floats32) -> Landmarks:
    count = len(landmarks)
    line = np.arange(count, dtype=np.float64)
    places = Places(
        path=[f"{row}.jpg" for row in range(count)], x=line, y=line, frames=Frame("street")
    )
    return Landmarks.build(places, landmarks, "benchmark")


def query(describe: Callable[[Any], Floats32], built: Landmarks) -> Query:
    return lambda image: built.store.nearest(describe(image), 1)


def megabytes(built: Landmarks) -> float:
    """Size of the saved map, without its encoder."""
    with TemporaryDirectory() as folder:
        built.save(Path(folder) / "map")
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1e6


def taking_turns(ways: dict[Any, Query], images: Any, rounds: int) -> dict[Any, list[Any]]:
    """Wall-clock and CPU milliseconds of each query, by way."""
    taken: dict[Any, list[Any]] = {key: [] for key in ways}
    for _ in range(rounds):
        for key, way in ways.items():
            way(images[:1])
            for row in range(len(images)):
                start = time.perf_counter(), time.process_time()
                way(images[row : row + 1])
                spent = time.perf_counter() - start[0], time.process_time() - start[1]
                taken[key].append((1000 * spent[0], 1000 * spent[1]))
    return taken


def on_cpu(given: argparse.Namespace, images: Any) -> list[Row]:
    import query as benchmark  # needs onnxruntime

    rows: list[Row] = []
    with TemporaryDirectory() as name:
        ways: dict[Any, Query] = {}
        for one in given.encoders:
            folder = Path(name) / one.replace("/", "-")
            folder.mkdir()
            encoder = make_encoder(one, images)
            built = map_of(make_landmarks(given.landmarks, encoder.dimensions))
            for way, describe in benchmark.ways_of(encoder, images, folder).items():
                ways[one, way] = query(describe, built)
            rows.append(
                {
                    "encoder": one,
                    "numbers": encoder.dimensions,
                    "parameters": sum(
                        parameter.numel() for parameter in encoder.backbone.parameters()
                    ),
                    "map, MB": round(megabytes(built), 1),
                }
            )
        taken = taking_turns(ways, images, given.rounds)
    for row in rows:
        for (one, way), times in taken.items():
            if one == row["encoder"]:
                wall, cpu = np.median(times, axis=0)
                row |= {
                    f"{way}, ms": round(float(wall), 2),
                    f"{way}, ms on CPU": round(float(cpu), 2),
                }
    return rows


def on_gpu(given: argparse.Namespace, images: Any) -> list[Row]:
    """Print each value, and write it to `given.out`, when it is known. Values in that file are not
    measured again.
    """
    import training

    rows: dict[str, Row] = {one: {"encoder": one} for one in given.encoders}
    if given.out and given.out.is_file():
        rows |= {
            row["encoder"]: row
            for row in json.loads(given.out.read_text())["gpu"]
            if row["encoder"] in rows
        }

    def note(one: str, values: Row) -> None:
        rows[one] |= values
        print(one, values, flush=True)
        if given.out:
            given.out.write_text(json.dumps({"gpu": list(rows.values())}, indent=1) + "\n")

    for one in given.encoders:
        if "query p50, ms" not in rows[one]:
            encoder = make_encoder(one, images).to("cuda")
            fast = FastEncoder(encoder, make_landmarks(given.landmarks, encoder.dimensions))
            times = taking_turns({one: fast.nearest}, images, GPU_QUERIES // len(images))[one]
            p50, p99 = np.percentile([wall for wall, _ in times], [50, 99])
            values = {"query p50, ms": round(float(p50), 3), "query p99, ms": round(float(p99), 3)}
            note(one, {"numbers": encoder.dimensions} | values)
    places, pictures = training.make_places(PLACES), training.make_images(PLACES, SIZE)
    for one in given.encoders:
        for anchors in ANCHORS:
            name = f"training with {anchors} anchors, images/s"
            backbone, clusters, numbers = parsed(one)
            if numbers is None and name not in rows[one]:
                every = ANCHORS_A_PERIOD // anchors
                chosen = [
                    "weights=random",
                    f"backbone={backbone}",
                    f"clusters={clusters}",
                    f"anchors={anchors}",
                ]
                chosen += [
                    f"cache_every={every}",
                    f"monitor_every={every}",
                    f"iterations={PERIODS * every}",
                ]
                chosen += [f"cache_size={CACHE_SIZE}", f"size={SIZE[0]}x{SIZE[1]}", "landmarks=0"]
                settings = load_settings("oxford", overrides=chosen)
                note(one, {name: round(training.warm_speed(places, pictures, settings))})
    return list(rows.values())


def show(title: str, rows: list[Row]) -> None:
    """One line per value, one column per encoder."""
    print(f"\n{title}")
    for key in dict.fromkeys(key for row in rows for key in row):
        print(f"{key:44}" + "".join(f"{row.get(key, '-')!s:>26}" for row in rows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--encoders",
        nargs="+",
        default=ENCODERS,
        help="BACKBONE/CLUSTERS or BACKBONE/CLUSTERS/NUMBERS",
    )
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help=f"times that each describes {IMAGES} images on the CPU",
    )
    parser.add_argument("--threads", type=int, default=2, help="of the CPU")
    parser.add_argument(
        "--only", choices=["cpu", "gpu"], help="default: both, if there is a CUDA device"
    )
    parser.add_argument(
        "--out", type=Path, help="JSON file for the GPU's values, to continue a stopped run"
    )
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    images = make_images()
    machine = f"{platform.machine()}, {given.threads} threads, torch {torch.__version__}"
    about = {"machine": machine, "size": f"{SIZE[0]}x{SIZE[1]}", "landmarks": given.landmarks}
    found: dict[str, Any] = {"about": about}
    if given.only != "gpu":
        with threadpool_limits(given.threads):  # of NumPy, which searches
            found["cpu"] = on_cpu(given, images)
    if given.only != "cpu" and torch.cuda.is_available():
        about["gpu"] = torch.cuda.get_device_name()
        found["gpu"] = on_gpu(given, images)
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
    patches = np.random.default_rng(1).integers(
        0, 256, (IMAGES, SIZE[1] // 20, SIZE[0] // 20, 3), dtype=np.uint8
    )
    return patches.repeat(20, axis=1).repeat(20, axis=2)


if __name__ == "__main__":
    main()
