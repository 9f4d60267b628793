"""Requests per second and response times of a server, and whether its memory grows.

    python benchmarks/serving.py                    # --backend onnx; a quarter of an hour on two CPU cores

A server with a map of 200 landmarks runs in its own process, as with `mappable serve`. This process
sends images over loopback, with 1, 8 and 64 clients. Each client sends its next image as soon as
the last one is answered. In turn with that, the bare encoder describes decoded images in this
process, which is the upper limit for a server.

Then this process sends many small images to a server with an encoder for small images, and reads
its memory from time to time.
"""

import argparse
import http.client
import io
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from mappable.arrays import Floats, Floats32, Pixels
from mappable.features.encoder import Encoder
from mappable.features.opening import open_file
from mappable.localization.fitting import calibrate
from mappable.maps.landmarks import Landmarks
from mappable.places.frames import Frame
from mappable.places.images import Size
from mappable.places.table import Places
from mappable.service.batching import Describe, measure

LANDMARKS, SPACING = 200, 5.0  # of the map; metres between landmarks
SCALE = 8.0  # metres over which descriptors change
SIZE, SENT = (240, 180), (640, 480)  # sizes of images: of the encoder, and of those that are sent
SMALL, SMALL_SENT = (64, 48), (128, 96)  # the same for the test of memory
CLIENTS, ROUNDS, SECONDS = (1, 8, 64), 3, 10.0
Backend = Literal["torch", "onnx"]


def make_map(folder: Path, size: Size) -> Path:
    """A calibrated map along a line; its descriptors change smoothly, and its encoder is VGG-16
    with random weights.
    """
    encoder = Encoder.create(weights="random", size=size)
    encoder.initialize(np.stack([patches(size, seed) for seed in range(8)]), most=8)
    encoder.save(folder / "encoder.safetensors")
    along = np.arange(LANDMARKS) * SPACING
    positions = np.column_stack([along, 30 * np.sin(along / 60)])
    places = Places(
        path=[f"{n}.jpg" for n in range(LANDMARKS)],
        x=positions[:, 0],
        y=positions[:, 1],
        frames=Frame("town"),
    )
    described = descriptors(positions, encoder.dimensions, 1)
    bare = Landmarks.build(places, described, encoder.fingerprint, about=encoder.about)
    calibrated = bare.with_calibration(calibrate(bare))
    calibrated.save(folder / "map", encoder)
    return folder / "map"


def descriptors(positions: Floats, numbers: int, seed: int) -> Floats32:
    waves, noise = np.random.default_rng(0), np.random.default_rng(seed)
    seen = np.cos(
        positions @ waves.normal(size=(2, numbers)) / SCALE + waves.uniform(0, 2 * np.pi, numbers)
    )
    seen += 0.25 * noise.normal(size=seen.shape)
    unit: Floats32 = (seen / np.linalg.norm(seen, axis=1, keepdims=True)).astype(np.float32)
    return unit


def patches(size: Size, seed: int) -> Pixels:
    coarse = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC))


def jpegs(size: Size) -> list[bytes]:
    files = []
    for seed in range(16):
        out = io.BytesIO()
        Image.fromarray(patches(size, seed)).save(out, "JPEG", quality=90)
        files.append(out.getvalue())
    return files


@dataclass(frozen=True)
class Server:
    """A running server: its address, its process, and its message about the encoder."""

    port: int
    process: int
    said: str

    @property
    def megabytes(self) -> float:
        """Megabytes of its private memory now."""
        status = Path(f"/proc/{self.process}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024


@contextmanager
def serving(folder: Path, backend: Backend) -> Iterator[Server]:
    command = [sys.executable, "-c", "from mappable.cli import main; main()", "serve", str(folder)]
    with subprocess.Popen(
        [*command, "--port", "0", "--backend", backend], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        _, said, address = (process.stdout.readline().strip() for _ in range(3))
        try:
            yield Server(int(address.rsplit(":", 1)[1]), process.pid, said)
        finally:
            process.terminate()


@dataclass(frozen=True)
class Load:
    """Seconds of each answered request, and the number of errors."""

    taken: list[float]
    errors: int
    seconds: float

    @property
    def per_second(self) -> float:
        return len(self.taken) / self.seconds


def load(
    port: int, files: list[bytes], clients: int, *, seconds: float = 1e9, requests: int = 10**9
) -> Load:
    """Send requests from several clients until time or requests run out; each client keeps its
    connection.
    """
    taken: list[float] = []
    errors, left, lock = 0, requests, threading.Lock()
    start = time.perf_counter()

    def ask(number: int) -> None:
        nonlocal errors, left
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while time.perf_counter() - start < seconds:
            with lock:
                if not left:
                    break
                left -= 1
            begun = time.perf_counter()
            connection.request(
                "POST", "/locate", files[number % len(files)], {"Content-Type": "image/jpeg"}
            )
            response = connection.getresponse()
            response.read()
            with lock:
                taken.append(time.perf_counter() - begun)
                errors += response.status != 200
            number += 1
        connection.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Load(taken, errors, time.perf_counter() - start)


def bare_encoder(folder: Path, backend: Backend) -> Describe:
    encoder = open_file(folder.parent / "encoder.safetensors", backend=backend)
    return encoder.for_queries()


def bare_speed(describe: Describe, images: Pixels, seconds: float) -> float:
    """Images per second; all `images` are described at once."""
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        describe(images)
        count += len(images)
    return count / (time.perf_counter() - start)


def print_load(folder: Path, backend: Backend, seconds: float) -> None:
    describe, files = bare_encoder(folder, backend), jpegs(SENT)
    size = measure(describe, SIZE).images
    images = np.stack([patches(SIZE, seed) for seed in range(size)])
    bare: list[float] = []
    loads: dict[int, list[Load]] = {clients: [] for clients in CLIENTS}
    with serving(folder, backend) as server:
        print(f"the server says: {server.said}; images sent are JPEGs of {SENT[0]}x{SENT[1]}")
        for _ in range(ROUNDS):
            for clients in CLIENTS:
                bare.append(bare_speed(describe, images, seconds / 2))
                loads[clients].append(load(server.port, files, clients, seconds=seconds))
            bare.append(bare_speed(describe, images, seconds / 2))
    best = float(np.median(bare))
    print(
        f"{'':26}{'requests/s':>12}{'of bare':>9}{'p50 ms':>9}{'p99 ms':>9}{'errors':>8}{'requests':>10}"
    )
    print(f"{f'bare encoder, {size} at a time':26}{best:12.1f}")
    for clients, some in loads.items():
        speed = float(np.median([one.per_second for one in some]))
        # The bare encoder runs just before and after each, because the machine may do other work.
        around = [
            (bare[n] + bare[n + 1]) / 2
            for n in range(CLIENTS.index(clients), len(bare) - 1, len(CLIENTS) + 1)
        ]
        share = float(
            np.median([one.per_second / beside for one, beside in zip(some, around, strict=True)])
        )
        taken = np.concatenate([one.taken for one in some]) * 1000
        errors = sum(one.errors for one in some)
        p50, p99 = np.percentile(taken, [50, 99])
        name = f"{clients} client{'s' if clients > 1 else ''}"
        print(
            f"{name:26}{speed:12.1f}{100 * share:8.0f}%{p50:9.1f}{p99:9.1f}{errors:8}{len(taken):10,}"
        )


def print_memory(folder: Path, backend: Backend, requests: int) -> None:
    files, parts = jpegs(SMALL_SENT), 10
    with serving(folder, backend) as server:
        before = server.megabytes
        said, errors, start = [], 0, time.perf_counter()
        for _ in range(parts):
            errors += load(server.port, files, 8, requests=requests // parts).errors
            said.append(f"{server.megabytes:.0f}")
        speed = requests / (time.perf_counter() - start)
    print(
        f"{requests:,} requests of {SMALL_SENT[0]}x{SMALL_SENT[1]}, 8 clients: {speed:.1f}"
        f" requests/s, {errors} errors"
    )
    print(
        f"memory of the server in MB: {before:.0f} at first, then after each tenth"
        f" {', '.join(said)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", choices=("torch", "onnx"), default="torch")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each measurement")
    parser.add_argument(
        "--requests", type=int, default=10_000, help="small ones, for the memory; 0: none"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for size in (SIZE, SMALL):
            folder = Path(name) / f"{size[0]}"
            folder.mkdir()
            made = make_map(folder, size)
            if size == SIZE:
                print_load(made, given.backend, given.seconds)
            elif given.requests:
                print_memory(made, given.backend, given.requests)


if __name__ == "__main__":
    main()
