"""Training speed of an encoder on a GPU, compared with a plain loop that decodes its images when it needs them.

    python benchmarks/training.py                                # steps: images per second, and ratios
    python benchmarks/training.py --schedule oxford cold         # and the whole of the paper's trainings

Places and images are synthetic, because their content does not change the time. All layers learn,
with VGG-16's real weights (downloaded without --weights-file). Ours is `train` itself, with mining
and refreshes of the feature cache. The plain loops get their tuples for free.

The share is relative to the GPU's rate for a product of two 8192 x 8192 matrices of bfloat16 in the
same run. It counts the computation of the steps, not of the refreshes. "streamed" is `train` with
images that stay in the host's memory, as if they did not fit on the GPU.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from mappable.arrays import Ints, Pixels
from mappable.features.backbones.vgg16 import WIDTHS
from mappable.features.encoder import Encoder
from mappable.learning import start
from mappable.learning.losses import Loss
from mappable.learning.settings import Settings, load_settings
from mappable.learning.trainer import train
from mappable.places.frames import Frame
from mappable.places.images import Size
from mappable.places.table import Places
from mappable.threads import cores

COUNTS = {"oxford": 15_006, "cold": 29_237}  # the paper's training images
FILES, FILE_SIZE = 400, (1280, 960)  # of the JPEGs that the plain loops decode
ROUNDS = 3
PERIODS, ANCHORS_A_PERIOD = 2, 2_000  # mining periods per round
PLAIN_IMAGES = 832  # per round, at least


def make_places(count: int) -> Places:
    """Drives along a winding street, 3 places per metre in total."""
    rng = np.random.default_rng(0)
    along = np.sort(rng.uniform(0, count / 3, count))
    x, y = along + 619_500, 5_735_000 + 2 * np.sin(along / 150)
    return Places(
        path=[f"{row}.jpg" for row in range(count)],
        x=x,
        y=y,
        yaw=np.zeros(count),
        frames=Frame("street"),
    )


def make_images(count: int, size: Size) -> Pixels:
    """Colored patches with some noise."""
    rng = np.random.default_rng(1)
    width, height = size
    noise = rng.integers(0, 8, (height, width, 3), dtype=np.uint8)
    images = np.empty((count, height, width, 3), dtype=np.uint8)
    for row in range(count):
        patches = rng.integers(0, 192, (height // 20, width // 20, 3), dtype=np.uint8)
        np.add(patches.repeat(20, axis=0).repeat(20, axis=1), noise, out=images[row])
    return images


def operations(size: Size) -> float:
    """Floating-point operations of the convolutions of a training step, for one image.

    They are three times those of a pass without gradients, minus the gradient of the pixels, which
    is not needed.
    """
    width, height = size
    channels, each = 3, []
    for filters in WIDTHS:
        if filters:
            each.append(2.0 * width * height * channels * filters * 9)
            channels = filters
        else:
            width, height = width // 2, height // 2
    return 3 * sum(each) - each[0]


def product_rate(device: torch.device) -> float:
    """Operations per second of an 8192 x 8192 x 8192 product in bfloat16, on random numbers."""
    first, second = (torch.randn(8192, 8192, device=device, dtype=torch.bfloat16) for _ in range(2))
    taken = [seconds_of(lambda: first @ second) for _ in range(20)]
    return 2 * 8192**3 / statistics.median(taken[5:])


def seconds_of(work: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


class PlainLoop:
    """The plain loop, in eager float32: threads decode the images of the next steps with Pillow."""

    def __init__(
        self, files: list[Path], size: Size, weights_file: Path | None, device: torch.device
    ) -> None:
        self.files, self.size, self.device = files, size, device
        self.encoder = Encoder.create(weights_file=weights_file, size=size).to(device)
        for parameter in self.encoder.aggregator.parameters():
            nn.init.normal_(parameter, std=0.1)
        self.optimizer = torch.optim.Adam(self.encoder.parameters(), 1e-6)
        self.loss = Loss("triplet+huber", feature_scale_squared=2.0, positive_radius=10.0)

    def decode(self, row: int) -> Pixels:
        with Image.open(self.files[row]) as image:
            return np.asarray(image.convert("RGB").resize(self.size, Image.Resampling.BILINEAR))

    def batches(self, steps: int, images: int) -> Iterator[Tensor]:
        rows: Ints = np.random.default_rng(2).integers(0, len(self.files), (steps, images))
        with ThreadPoolExecutor(cores()) as pool:
            asked = [[pool.submit(self.decode, int(row)) for row in batch] for batch in rows]
            for batch in asked:
                yield torch.from_numpy(np.stack([image.result() for image in batch])).to(
                    self.device
                )

    def run(self, anchors: int, tf32: bool) -> float:
        """Images per second of some steps."""
        images = anchors * self.loss.layout.images
        # Enough steps that the first decoding hardly matters.
        steps = max(10, PLAIN_IMAGES // images)
        apart = torch.rand(anchors, 6, device=self.device) * 100

        def work() -> None:
            for batch in self.batches(steps, images):
                self.optimizer.zero_grad()
                with torch.backends.cudnn.flags(enabled=True, allow_tf32=tf32):
                    descriptors = self.encoder(batch).view(anchors, self.loss.layout.images, -1)
                    torch.autograd.backward(self.loss(descriptors, apart).total.mean())
                self.optimizer.step()

        return steps * images / seconds_of(work)


def train_timed(places: Places, images: Pixels, settings: Settings) -> tuple[float, float, int]:
    """Total seconds, seconds of steps with mining, and the number of images in the steps."""
    whole, seconds = trained_seconds(places, images, settings)
    steps = max(seconds)
    return whole, seconds[steps], steps * images_per_step(settings)


def warm_speed(places: Places, images: Pixels, settings: Settings) -> float:
    """Images per second of a training, with mining, after its first period of `monitor_every`
    steps.
    """
    _, seconds = trained_seconds(places, images, settings)
    steps, before = max(seconds), settings.monitor_every
    return (steps - before) * images_per_step(settings) / (seconds[steps] - seconds[before])


def trained_seconds(
    places: Places, images: Pixels, settings: Settings
) -> tuple[float, dict[int, float]]:
    """Total seconds of a training, and seconds of steps with mining up to each step."""
    with tempfile.TemporaryDirectory() as out:
        whole = seconds_of(lambda: train(places, images, settings, out=out, device="cuda"))
        lines = [
            json.loads(line) for line in (Path(out) / "metrics.jsonl").read_text().splitlines()
        ]
    return whole, {line["iteration"]: line["seconds"] for line in lines if "seconds" in line}


def images_per_step(settings: Settings) -> int:
    return settings.anchors * settings.build_loss(1.0).layout.images


def compare_steps(given: argparse.Namespace, device: torch.device, rate: float) -> None:
    size: Size = (240, 180)
    places, images = make_places(COUNTS["oxford"]), make_images(COUNTS["oxford"], size)
    work = operations(size)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.jpg" for number in range(FILES)]
        for file, image in zip(files, make_images(FILES, FILE_SIZE), strict=True):
            Image.fromarray(image).save(file, quality=90)
        loop = PlainLoop(files, size, given.weights_file, device)
        decoding = PLAIN_IMAGES / seconds_of(lambda: list(loop.batches(1, PLAIN_IMAGES)))
        print(
            f"decoding {FILE_SIZE[0]}x{FILE_SIZE[1]} JPEGs alone, {cores()} threads:"
            f" {decoding:,.0f} images/s"
        )
        print(
            f"{'':10}{'float32 loop':>14}{'TF32 loop':>14}{'train':>14}{'share':>9}{'ratios':>16}{'streamed':>12}"
        )
        for anchors in given.anchors:
            every = max(1, ANCHORS_A_PERIOD // anchors)
            values = [
                f"anchors={anchors}",
                f"cache_every={every}",
                f"iterations={PERIODS * every}",
                *weights(given),
            ]
            settings = load_settings("oxford", overrides=values)
            speeds: list[list[float]] = [[], [], []]
            loop.run(anchors, tf32=False)
            loop.run(anchors, tf32=True)
            for _ in range(ROUNDS):
                speeds[0].append(loop.run(anchors, tf32=False))
                speeds[1].append(loop.run(anchors, tf32=True))
                torch.cuda.empty_cache()
                _, seconds, trained = train_timed(places, images, settings)
                speeds[2].append(trained / seconds)
            resident, start.RESIDENT = start.RESIDENT, 0.0
            _, seconds, trained = train_timed(places, images, settings)
            start.RESIDENT, streamed = resident, trained / seconds
            full, tf32, ours = (statistics.median(of_one) for of_one in speeds)
            share, ratios = 100 * ours * work / rate, f"{ours / full:.1f}, {ours / tf32:.1f}"
            name = f"{anchors} anchors"
            loops = f"{name:10}{full:12,.0f}/s{tf32:12,.0f}/s"
            print(
                f"{loops}{ours:12,.0f}/s{share:7.1f} %{ratios:>16}{streamed:10,.0f}/s", flush=True
            )


def run_schedule(name: str, given: argparse.Namespace, rate: float) -> None:
    settings = load_settings(name, overrides=["landmarks=0", *weights(given)])
    places, images = make_places(COUNTS[name]), make_images(COUNTS[name], settings.size)
    whole, seconds, trained = train_timed(places, images, settings)
    steps = trained // (settings.anchors * settings.build_loss(1.0).layout.images)
    share = 100 * trained * operations(settings.size) / seconds / rate
    print(
        f"{name}: {steps:,} steps of {settings.anchors} anchors,"
        f" {settings.size[0]}x{settings.size[1]}, {len(places):,} places: {whole:.1f} s in all;"
        f" steps, mining and refreshes {seconds:.1f} s, {trained / seconds:,.0f} images/s, share"
        f" {share:.1f} %",
        flush=True,
    )


def weights(given: argparse.Namespace) -> list[str]:
    return [f"weights_file={given.weights_file}"] if given.weights_file else []


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--anchors", type=int, nargs="*", default=[2, 32], help="of a step; 13 images each"
    )
    parser.add_argument(
        "--schedule", nargs="*", default=[], choices=list(COUNTS), help="of the paper, whole"
    )
    parser.add_argument(
        "--weights-file", type=Path, help="VGG-16's weights, if they are not to be fetched"
    )
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("this benchmark needs a CUDA device; none was found")
        return
    device = torch.device("cuda")
    rate = product_rate(device)
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}: 8192³ bfloat16"
        f" {rate / 1e12:.0f} TFLOP/s"
    )
    if given.anchors:
        compare_steps(given, device, rate)
    for name in given.schedule:
        run_schedule(name, given, rate)


if __name__ == "__main__":
    main()
