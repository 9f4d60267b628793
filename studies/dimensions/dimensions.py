"""Measures what a reduction to fewer dimensions costs, at home and away, off the shelf.

    mappable convert manifest IMAGES walks
    python studies/dimensions/dimensions.py walks:2 track:25 line:5 --work work --device cuda --out dimensions.json
    python studies/dimensions/dimensions.py --table dimensions.json

Each argument is a converted set, and the distance within which a query counts as found. Clusters and reductions are
fitted to one part of a set: its training split, or else the first half of its extent. "Home" is another part of that
set: its test split, or else the second half. "Away" are the other sets. Each sequence in turn is the query sequence for
each other one. Queries of the first half of the route are for choosing, the others for reporting.

"ours" is what the setting `dimensions` does. The others are PCA with more or less whitening (0 to 1), PCA fitted to the
map's own images or to those of the other sets, and a random projection of each cluster, in three draws. PCA of n images
has at most n - 1 dimensions; the table also counts it for more. `--work` keeps the backbone's output.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Bools, Ints
from mappable.features.aggregators import find_aggregator
from mappable.features.clusters import sample_local
from mappable.features.embedding import describe
from mappable.features.encoder import Encoder
from mappable.features.inputs import HostInputs
from mappable.features.reduction import MOST_IMAGES, fit_reduction
from mappable.features.vectors import unit
from mappable.places.files import load_places
from mappable.places.images import Size
from mappable.places.pixels import images_of

SIZE: Size = (240, 180)
DIMENSIONS = (256, 512, 1024, 2048)
MORE_DIMENSIONS = (4096, 8192, 16384, 32768)  # of random projections only
EXPONENTS = (0.0, 0.5, 0.75, 1.0)
DRAWS = 3
SMALLEST = 1e-6  # smaller variances, relative to the largest one, are rounding: images may be equal
OTHERS = "PCA 0.5 of other sets"  # tried at home only
HALVES = ("choosing", "reporting")

Row = dict[str, Any]
Reduced = Callable[[Tensor], Tensor]


class Set:
    """A converted set, and the backbone's output for its images."""

    def __init__(self, text: str, encoder: Encoder, given: argparse.Namespace) -> None:
        folder, _, within = text.partition(":")
        self.name, self.within, self.device = Path(folder).name, float(within), given.device
        self.places = load_places(folder)
        self.positions = torch.tensor(self.places.positions, device=given.device)
        along = self.places.positions[:, int(np.ptp(self.places.positions, axis=0).argmax())]
        middle = (along.min() + along.max()) / 2
        split: Bools = self.places.split != ""
        self.fit: Ints = np.flatnonzero(np.where(split.any(), self.places.split == "train", along < middle))
        self.home: Bools = np.where(split.any(), self.places.split == "test", along >= middle)
        self.along = along
        file = Path(given.work) / f"{encoder.about.weights}-{self.name}.npy"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            pixels, rows = HostInputs(images_of(self.places, SIZE, "crop")), np.arange(len(self.places))

            def maps(batch: Tensor) -> Tensor:
                return encoder.backbone.upper(encoder.lower(batch)).half()

            np.save(file, describe(maps, pixels, rows, device=given.device, gather="cpu", title=self.name).numpy())
        self.maps = np.load(file, mmap_mode="r")

    def read(self, rows: Ints) -> Tensor:
        return torch.from_numpy(np.asarray(self.maps[rows])).to(self.device).float()

    def region(self, at_home: bool) -> Ints:
        """Rows of the images that are queries and landmarks."""
        return np.flatnonzero(self.home) if at_home or (self.places.split != "").any() else np.arange(len(self.places))

    def found(self, reduce: Reduced | int, seen: Tensor, at_home: bool) -> dict[str, float]:
        """Percentage of queries found, by half of the route, average over pairs of sequences.

        `seen` are descriptors of the region. `reduce` shortens them; a number of dimensions stands for PCA of the map's
        own images.
        """
        region = self.region(at_home)
        shares: dict[str, list[float]] = {half: [] for half in HALVES}
        short = seen if isinstance(reduce, int) else reduce(seen)
        sequences = [np.flatnonzero(np.isin(region, rows)) for rows in self.places.sequences().values()]
        for asked, mapped in permutations(sequences, 2):
            if isinstance(reduce, int):
                short = Pca(seen[mapped]).reduce(seen, reduce, 0.5)
            nearest = region[mapped[(short[asked] @ short[mapped].T).argmax(1).cpu().numpy()]]
            queries = region[asked]
            right = ((self.positions[nearest] - self.positions[queries]).norm(dim=1) <= self.within).cpu().numpy()
            later = self.along[queries] >= np.median(self.along[queries])
            for half, mask in zip(HALVES, (~later, later), strict=True):
                shares[half].append(100 * float(right[mask].mean()))
        return {half: float(np.mean(values)) for half, values in shares.items()}


class Pca:
    """Principal components of descriptors (n, D)."""

    def __init__(self, fit: Tensor) -> None:
        self.known: dict[int, tuple[Tensor, Tensor]] = {}  # descriptors and their components
        self.mean = fit.mean(0)
        centered = fit - self.mean
        variances, vectors = torch.linalg.eigh((centered @ centered.T).double())
        self.variances = variances.flip(0)[: min(len(fit) - 1, max(DIMENSIONS))]
        count = int((self.variances > SMALLEST * self.variances[0]).sum())
        self.variances = self.variances[:count]
        self.basis = centered.T @ (vectors.flip(1)[:, :count] / self.variances.sqrt()).float()

    def reduce(self, seen: Tensor, dimensions: int, exponent: float) -> Tensor:
        """The first components, each divided by a power of its standard deviation, scaled to length one."""
        if id(seen) not in self.known:
            self.known[id(seen)] = (seen, (seen - self.mean) @ self.basis)
        scales = (self.variances[:dimensions] / self.variances[0]) ** (-exponent / 2)
        return unit(self.known[id(seen)][1][:, :dimensions] * scales.float())


def at_random(seen: Tensor, parts: int, dimensions: int, draw: int) -> Tensor:
    """A random projection of each part."""
    channels = seen.shape[1] // parts
    directions = torch.randn(
        parts, channels, max(1, dimensions // parts), generator=torch.Generator().manual_seed(draw)
    ).to(seen.device)
    projected = seen.view(-1, parts, channels).transpose(0, 1) @ directions
    return unit(projected.transpose(0, 1).flatten(1))


def candidates(fit: Tensor, elsewhere: Tensor, parts: int, given: argparse.Namespace) -> Iterator[tuple[str, int, Any]]:
    """Yield name, dimensions and function of each reduction."""
    yield "whole", fit.shape[1], lambda seen: seen

    def named(name: str) -> bool:
        return not given.only or name in given.only

    of_fit, of_other_sets = cache(partial(Pca, fit)), cache(partial(Pca, elsewhere))
    for dimensions in given.dimensions:
        if dimensions >= fit.shape[1]:
            continue
        if dimensions <= max(DIMENSIONS):
            yield "ours", dimensions, fit_reduction(fit, dimensions, 0)
        if named("random"):
            for draw in range(DRAWS):
                yield "random", dimensions, partial(at_random, parts=parts, dimensions=dimensions, draw=draw)
        if dimensions > max(DIMENSIONS):
            continue
        for exponent in EXPONENTS:
            if named(f"PCA {exponent:g}"):
                yield (
                    f"PCA {exponent:g}",
                    dimensions,
                    partial(of_fit().reduce, dimensions=dimensions, exponent=exponent),
                )
        if named(OTHERS):
            yield OTHERS, dimensions, partial(of_other_sets().reduce, dimensions=dimensions, exponent=0.5)
        if named("PCA 0.5 of the map"):
            yield "PCA 0.5 of the map", dimensions, dimensions


def run(given: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    for name in given.weights:
        weights, _, file = name.partition("=")
        encoder = Encoder.create(weights=weights, weights_file=Path(file) if file else None, size=SIZE, clusters=2)
        encoder = encoder.to(given.device).requires_grad_(False)
        sets = [Set(text, encoder, given) for text in given.sets]
        for kind in given.aggregators:
            for own in sets:
                rows += study(own, sets, kind, weights, encoder.backbone.channels, given)
                if given.out:
                    given.out.write_text(json.dumps(rows, indent=1) + "\n")
    return rows


@torch.no_grad()
def study(own: Set, sets: list[Set], kind: str, weights: str, channels: int, given: argparse.Namespace) -> list[Row]:
    """Rows of all reductions that are fitted to one set."""
    layer = find_aggregator(kind)(channels, given.clusters).to(given.device).requires_grad_(False)
    local = sample_local(lambda rows: unit(own.read(own.fit[rows]).permute(0, 2, 3, 1).flatten(1, 2)), len(own.fit))
    layer.initialize(local, 0)

    def described(one: Set, chosen: Ints) -> Tensor:
        return torch.cat([layer(one.read(rows)) for rows in np.split(chosen, range(64, len(chosen), 64))])

    seen = {one.name: described(one, one.region(one is own)) for one in sets}
    random = np.random.default_rng(0)
    fit = described(own, np.sort(random.permutation(own.fit)[:MOST_IMAGES]))
    others = torch.cat([seen[one.name] for one in sets if one is not own])
    rows = []
    for name, dimensions, reduce in candidates(fit, others, layer.parts, given):
        row: Row = {"weights": weights, "aggregator": kind, "fitted to": own.name, "reduction": name}
        row |= {"dimensions": dimensions, "images": len(fit)}
        for one in sets:
            if one is own or name != OTHERS:
                row[one.name] = one.found(reduce, seen[one.name], one is own)
        rows.append(row)
        print(_line(row, "choosing"), flush=True)
    return rows


def _home_and_away(row: Row, half: str) -> tuple[float, float]:
    shares = {name: value[half] for name, value in row.items() if isinstance(value, dict)}
    home = shares.pop(row["fitted to"])
    return home, float(np.mean(list(shares.values()) or [np.nan]))


def _line(row: Row, half: str) -> str:
    home, away = _home_and_away(row, half)
    start = f"{row['weights']}, {row['aggregator']}, fitted to {row['images']} images of {row['fitted to']}"
    return f"{start}: {row['reduction']}, {row['dimensions']:,}: home {home:.1f}, away {away:.1f}"


def table(rows: list[Row]) -> None:
    """Print home and away per network, aggregator, reduction and dimensions, average over the sets fitted to."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        group = (row["weights"], row["aggregator"], row["reduction"], f"{row['dimensions']:,}")
        groups.setdefault(group, []).append(row)
    heads = (
        "weights",
        "aggregator",
        "reduction",
        "dimensions",
        *(f"{at}, {h}" for h in HALVES for at in ("home", "away")),
    )
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for key, own in groups.items():
        values = [np.mean([_home_and_away(row, half)[at] for row in own]) for half in HALVES for at in (0, 1)]
        print("| " + " | ".join([*key, *(f"{value:.1f}" for value in values)]) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="FOLDER:DISTANCE")
    parser.add_argument("--weights", nargs="+", default=["vgg16-v1"], metavar="NAME[=FILE]")
    parser.add_argument("--aggregators", nargs="+", default=["netvlad"])
    parser.add_argument("--clusters", type=int, default=64)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="other reductions to try (default: all)")
    parser.add_argument("--dimensions", nargs="+", type=int, default=[*DIMENSIONS, *MORE_DIMENSIONS])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--work", type=Path, default=Path("work"), help="folder for the backbone's output")
    parser.add_argument("--out", type=Path, help="JSON file to write all rows to")
    parser.add_argument("--table", type=Path, help="only print the table of this JSON file")
    given = parser.parse_args()
    rows = json.loads(given.table.read_text()) if given.table else run(given)
    table(rows)


if __name__ == "__main__":
    main()
