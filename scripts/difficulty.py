"""How hard is a world? Off-the-shelf and plain triplet accuracy, the two figures that set the difficulty of a preset.

    python scripts/difficulty.py --preset street-v1 --seed 0 --weights vgg16.safetensors --out result.json

A stand-in for the encoder and the trainer, and it goes once they exist. On purpose it knows no loss but the plain
triplet: a world tuned with a look at a geometric loss would be no fair judge of one. VGG-16 up to conv5_3 before its
ReLU, NetVLAD with 64 clusters, greedy landmarks out of the training images, nearest landmark in feature distance.
"""

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mappable.arrays import Floats, Ints, Strings
from mappable.errors import BadInputError
from mappable.places.sampling import farthest_points

WIDTHS = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512)  # 0: halve by max-pooling
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet V1: RGB in [0, 1]
CLUSTERS, LOCAL_DESCRIPTORS, SAMPLED_IMAGES, KMEANS_ITERATIONS = 64, 50_000, 1000, 50
POSITIVES, HARD_NEGATIVES, RANDOM_NEGATIVES = 6, 3, 3
MARGIN, LEARNING_RATE, CACHE_EVERY = 0.1, 1e-5, 200
COLUMNS = ("x", "y", "yaw", "split", "sequence", "condition")
PROTOCOL = {"landmarks": int, "positive_radius": float, "negative_radius": float, "yaw_limit": float}  # m, radians
KMEANS, ANCHORS, POSITIVE_DRAWS, NEGATIVE_DRAWS = range(4)  # one stream of random numbers a purpose


def unit(vectors: Tensor) -> Tensor:
    """`vectors` along the last axis at length one; the zero vector stays zero, and so does its gradient."""
    return vectors * torch.rsqrt(vectors.square().sum(-1, keepdim=True) + 1e-12)


class Describer(nn.Module):
    """uint8 images (n, h, w, 3) to unit descriptors (n, 32 768)."""

    def __init__(self, weights: Path) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width in WIDTHS:  # torchvision's numbering: every convolution has its ReLU behind it
            if width:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers[:-1])  # METHOD 2.1: conv5_3 before its ReLU
        self.assignment = nn.Parameter(torch.zeros(CLUSTERS, channels))
        self.centres = nn.Parameter(torch.zeros(CLUSTERS, channels))
        self.scale: Tensor
        self.register_buffer("scale", 255 * torch.tensor((MEAN, STD)), persistent=False)
        self.features.load_state_dict(read_weights(weights), assign=True)

    def locals(self, pixels: Tensor, fast: bool) -> Tensor:
        """Unit local descriptors (n, locations, 512) in float32; `fast` is bfloat16 on the way there, on a GPU."""
        images = ((pixels - self.scale[0]) / self.scale[1]).permute(0, 3, 1, 2)  # channels last as it stands
        with torch.autocast(pixels.device.type, torch.bfloat16, enabled=fast and pixels.is_cuda):
            features = self.features(images)
        return unit(features.permute(0, 2, 3, 1).flatten(1, 2).float())

    def forward(self, pixels: Tensor, fast: bool = False) -> Tensor:
        """METHOD 2.3: soft-assigned residuals to the centres, normalised a cluster at a time, then as a whole."""
        local = self.locals(pixels, fast)
        share = (local @ self.assignment.T).softmax(-1).transpose(1, 2)
        residuals = share @ local - share.sum(-1, keepdim=True) * self.centres
        return unit(unit(residuals).flatten(1))


def read_weights(path: Path) -> dict[str, Tensor]:
    """The `features.*` tensors of a safetensors file in float32, channels last, named without that prefix.

    Read by hand, for the format is small: the header's length in 8 bytes, the header as JSON, then the numbers.
    """
    if not path.is_file():
        raise BadInputError(f"{path}: no such file of weights")
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    tensors = {}
    for name, entry in json.loads(content[8:start]).items():
        if name.startswith("features."):
            first, last = entry["data_offsets"]
            kind = {"F16": "<f2", "F32": "<f4"}[entry["dtype"]]
            numbers = np.frombuffer(content[start + first : start + last], kind).astype(np.float32)
            tensor = torch.from_numpy(numbers.reshape(entry["shape"]))
            tensor = tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor
            tensors[name.removeprefix("features.")] = tensor
    return tensors


def in_batches(function: Callable[[Tensor], Tensor], pixels: Tensor, rows: Ints) -> Tensor:
    """`function` of the images `rows`, in portions that suit the memory of a GPU or of a processor."""
    index = torch.from_numpy(rows).to(pixels.device)
    return torch.cat([function(pixels[batch]) for batch in torch.split(index, 256 if pixels.is_cuda else 32)])


@torch.no_grad()
def initialise(model: Describer, pixels: Tensor, train: Ints, seed: int) -> None:
    """METHOD 2.4 from the training images: k-means on local descriptors, then the alpha rule."""
    generator = np.random.default_rng([seed, KMEANS])
    images = generator.permutation(train)[:SAMPLED_IMAGES]
    local = in_batches(lambda batch: model.locals(batch, fast=False), pixels, images).flatten(0, 1)
    kept = generator.permutation(len(local))[:LOCAL_DESCRIPTORS]
    local = local[torch.from_numpy(kept).to(pixels.device)]
    centres = local[:CLUSTERS]  # they lie in random order
    for _ in range(KMEANS_ITERATIONS):
        labels = (local @ centres.T - centres.square().sum(-1) / 2).argmax(-1)
        members = functional.one_hot(labels, CLUSTERS).float()  # a product, for scattered sums have no fixed order
        counts = members.sum(0)[:, None]
        centres = torch.where(counts > 0, members.T @ local / counts.clamp(min=1), centres)
    directions = unit(centres)
    first, second = (local @ directions.T).topk(2).values.unbind(-1)
    model.centres.copy_(centres)
    model.assignment.copy_(-math.log(0.01) / (first - second).mean() * directions)


@dataclass(frozen=True)
class Tuples:
    """METHOD 3.1-3.3: draws (anchor, 6 positives, 3 hard and 3 random negatives) among the training images.

    Random numbers come from NumPy, so that a seed means the same draws on every device.
    """

    position: Tensor  # (n, 2), metres
    yaw: Tensor  # radians
    positive_radius: float
    negative_radius: float
    yaw_limit: float
    seed: int

    def relations(self, anchors: Tensor) -> tuple[Tensor, Tensor]:
        """Whether each training image is a positive, and whether a negative, of each anchor: two (anchors, n)."""
        squared = (self.position[anchors, None] - self.position[None]).square().sum(-1)
        turn = torch.remainder(self.yaw[anchors, None] - self.yaw[None] + math.pi, 2 * math.pi) - math.pi
        near = (squared <= self.positive_radius**2) & (turn.abs() < self.yaw_limit)
        near[torch.arange(len(anchors), device=anchors.device), anchors] = False
        return near, squared >= self.negative_radius**2

    def usable(self) -> Ints:
        """The training images that have a positive and enough negatives."""
        every = torch.arange(len(self.position), device=self.position.device)
        masks = (self.relations(part) for part in torch.split(every, 1024))
        enough = [near.any(-1) & (far.sum(-1) >= HARD_NEGATIVES + RANDOM_NEGATIVES) for near, far in masks]
        return np.flatnonzero(torch.cat(enough).cpu().numpy())

    def draw(self, anchors: Tensor, cache: Tensor, period: int) -> Tensor:
        """Tuples (anchors, 13) of training rows, negatives mined with the descriptors `cache` (n, 32 768)."""
        near, far = self.relations(anchors)
        shape = (len(anchors), len(cache))
        generator = np.random.default_rng([self.seed, POSITIVE_DRAWS, period])
        keys = torch.from_numpy(generator.random(shape, dtype=np.float32)).to(cache.device)
        order = keys.masked_fill_(~near, -1).topk(POSITIVES).indices
        counts = near.sum(-1, keepdim=True)
        again = torch.from_numpy(generator.random((len(anchors), POSITIVES))).to(cache.device) * counts
        few = order.gather(1, again.long().clamp(max=POSITIVES - 1))  # fewer than six: draw with replacement
        positives = torch.where(counts < POSITIVES, few, order)

        similarity = (cache[anchors] @ cache.T).masked_fill_(~far, -torch.inf)
        hard = similarity.topk(HARD_NEGATIVES).indices
        generator = np.random.default_rng([self.seed, NEGATIVE_DRAWS, period])
        keys = torch.from_numpy(generator.random(shape, dtype=np.float32)).to(cache.device)
        others = keys.masked_fill_(~far, -1).scatter_(1, hard, -1).topk(RANDOM_NEGATIVES).indices
        return torch.cat([anchors[:, None], positives, hard, others], 1)


def triplet_loss(descriptors: Tensor) -> Tensor:
    """METHOD 1.1, triplet, of descriptors (anchors, 13, 32 768): best positive, sum of hinges, mean over anchors."""
    squared = (descriptors[:, :1] - descriptors[:, 1:]).square().sum(-1)
    best = squared[:, :POSITIVES].min(-1, keepdim=True).values
    return (MARGIN + best - squared[:, POSITIVES:]).relu().sum(-1).mean()


def train_triplet(
    model: Describer, pixels: Tensor, train: Ints, tuples: Tuples, order: Ints, anchors: int
) -> list[float]:
    """Fine-tune all layers on the anchors `order`, `anchors` a step; returns the mean loss of each mining period."""
    rows = torch.from_numpy(train).to(pixels.device)
    optimiser = torch.optim.Adam(model.parameters(), LEARNING_RATE, fused=pixels.is_cuda)
    losses = []
    coming = torch.split(torch.from_numpy(order).to(pixels.device), CACHE_EVERY * anchors)
    for period, chosen in enumerate(coming):
        with torch.no_grad():
            cache = in_batches(lambda batch: model(batch, fast=True), pixels, train)
            drawn = rows[tuples.draw(chosen, cache, period)]
        steps = torch.split(drawn, anchors)
        total = torch.zeros((), device=pixels.device)  # read once a period: reading waits for the GPU
        for step in steps:
            loss = triplet_loss(model(pixels[step.flatten()], fast=True).unflatten(0, step.shape))
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            total += loss.detach()
        losses.append(total.item() / len(steps))
        print(f"mining period {period + 1} of {len(coming)}: loss {losses[-1]:.4f}", file=sys.stderr)
    return losses


@torch.no_grad()
def retrieve(model: Describer, pixels: Tensor, queries: Ints, landmarks: Ints) -> Ints:
    """For each query the index into `landmarks` of the nearest descriptor; full float32, alike on every device."""
    reference = in_batches(model, pixels, landmarks)
    return in_batches(lambda batch: (model(batch) @ reference.T).argmax(-1), pixels, queries).cpu().numpy()


def shares(error: Floats, radii: tuple[float, float], groups: dict[str, Strings]) -> dict[str, Any]:
    """Percentage of `error` (metres) within each radius: of all queries, and of those of each value in `groups`."""

    def within(errors: Floats) -> list[float]:
        return [round(100 * float((errors <= radius).mean()), 2) for radius in radii]

    by = {key: {str(one): within(error[values == one]) for one in np.unique(values)} for key, values in groups.items()}
    return {"all": within(error), **by}


def measure(
    images: Tensor, x: Floats, y: Floats, yaw: Floats | None, split: Strings, sequence: Strings, condition: Strings, *,
    weights: Path, landmarks: int, positive_radius: float, negative_radius: float, yaw_limit: float | None,
    seed: int, iterations: int, anchors: int = 8, device: str = "cpu",
) -> dict[str, Any]:  # fmt: skip
    """Accuracy of images (n, h, w, 3) uint8 at positions in metres, yaws in radians; no training for 0 iterations.

    Training images are those whose split is "train", queries those of "test". All results are lists of two
    percentages: correct within the positive radius, and within the negative radius. A yaw limit is for positives alone.
    """
    train, queries = np.flatnonzero(split == "train"), np.flatnonzero(split == "test")
    if not len(train) or not len(queries):
        raise BadInputError(f"needs images of split train and of split test, not {len(train)} and {len(queries)}")
    torch.backends.cudnn.allow_tf32 = False  # ten bits of mantissa would make the figures depend on the device
    torch.backends.cudnn.deterministic = True
    radii = (positive_radius, negative_radius)
    position = np.stack([x, y], 1)
    chosen = train[farthest_points(position[train], landmarks, seed)]
    separation = np.hypot(*(position[queries, None] - position[None, chosen]).transpose(2, 0, 1))
    groups = {"by_condition": condition[queries], "by_sequence": sequence[queries]}
    pixels = images.to(device)
    model = Describer(weights).to(device)

    def accuracy() -> dict[str, Any]:
        found = retrieve(model, pixels, queries, chosen)
        return shares(separation[np.arange(len(queries)), found], radii, groups)

    clock = [time.perf_counter()]
    initialise(model, pixels, train, seed)
    result: dict[str, Any] = {"train": len(train), "queries": len(queries), "landmarks": len(chosen)}
    result["upper_bound"] = shares(separation.min(1), radii, groups)
    result["off_the_shelf"] = accuracy()
    clock.append(time.perf_counter())
    if iterations:
        if yaw is None or yaw_limit is None:
            yaw, yaw_limit = np.zeros(len(x)), math.inf
        where, turned = (torch.from_numpy(values[train]).to(device) for values in (position, yaw))
        tuples = Tuples(where, turned, *radii, yaw_limit, seed)
        usable = tuples.usable()
        if not len(usable):
            raise BadInputError("no training image has a positive and six negatives: look at the radii")
        generator = np.random.default_rng([seed, ANCHORS])  # every usable image once an epoch
        epochs = [generator.permutation(usable) for _ in range(math.ceil(iterations * anchors / len(usable)))]
        order = np.concatenate(epochs)[: iterations * anchors]
        result["anchors_dropped"] = len(train) - len(usable)
        result["losses"] = train_triplet(model, pixels, train, tuples, order, anchors)
        result["triplet"] = accuracy()
        clock.append(time.perf_counter())
    return {**result, "seconds": np.diff(clock).round(1).tolist()}


def main() -> None:
    """Read the arguments and the images, measure, print a table and write everything as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--preset", help="a simulated world, for example street-v1")
    source.add_argument("--npz", help="a file of arrays images, x, y, yaw, split, sequence, condition")
    parser.add_argument("--weights", type=Path, required=True, help="VGG-16 (ImageNet V1), torchvision's names")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--iterations", type=int, default=1200)
    parser.add_argument("--off-the-shelf-only", action="store_true", help="no training")
    parser.add_argument("--seed", type=int, default=0)
    for name, kind in PROTOCOL.items():
        parser.add_argument("--" + name.replace("_", "-"), type=kind, help="for --npz, or in place of the preset's")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    protocol = {name: getattr(given, name) for name in PROTOCOL}
    if given.preset:
        from mappable.places.worlds.presets import find_preset
        from mappable.places.worlds.simulation import simulate

        if find_preset(given.preset).dimensions == 3:
            raise BadInputError(f"{given.preset}: z counts there, and this measures in x and y alone")
        world = simulate(given.preset, parts=("main",), device=device)
        columns, pixels = [getattr(world.places, name) for name in COLUMNS], world.pixels
        protocol = {name: getattr(world.preset, name) if own is None else own for name, own in protocol.items()}
    elif None in (given.landmarks, given.positive_radius, given.negative_radius):
        parser.error("--npz needs --landmarks, --positive-radius and --negative-radius")
    else:
        *columns, pixels = (np.load(given.npz)[name] for name in (*COLUMNS, "images"))
    settings = {"seed": given.seed, "iterations": 0 if given.off_the_shelf_only else given.iterations, **protocol}
    result = measure(torch.from_numpy(pixels), *columns, weights=given.weights, device=device, **settings)
    hardware = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    described = {"source": given.preset or given.npz, "image_shape": pixels.shape[1:], **settings}
    written = {"settings": described, "hardware": hardware, "torch": torch.__version__, **result}
    given.out.write_text(json.dumps(written, indent=1) + "\n")
    print("{source}: % within {positive_radius:g} / {negative_radius:g}".format(**described), result["seconds"], "s")
    for row in [name for name in ("upper_bound", "off_the_shelf", "triplet") if name in result]:
        cells = {"all": result[row]["all"], **result[row]["by_condition"]}
        print(f"{row:14}" + "".join(f"  {name} {near:.1f} / {far:.1f}" for name, (near, far) in cells.items()))


if __name__ == "__main__":
    try:
        main()
    except BadInputError as problem:
        sys.exit(f"difficulty: {problem}")
