"""Images found with short descriptors of any number of images, against whole descriptors.

    python studies/dimensions/short.py FOLDER:METRES:MAP:QUERIES... --out short.json

A folder of `mappable embed` has whole descriptors. Landmarks are all images of the sequence MAP. An
image of the sequence QUERIES is found if its nearest landmark is within METRES. Descriptors are
compared as they are, and without the mean of their visit (shrunk to the map's mean with the weight
of ten images).
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from mappable.arrays import Bools, Floats32
from mappable.features.descriptors import read_descriptors
from mappable.features.reduction import SKETCH, fit_reduction

PARTS = 64  # clusters
PRIOR = 10  # images

Method = Callable[[Floats32, Bools], Floats32]


def unit(vectors: Floats32) -> Floats32:
    lengths: Floats32 = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths


def without_mean(vectors: Floats32, landmarks: Bools) -> Floats32:
    """Vectors without the shrunk mean of their visit."""
    mean, moved = vectors[landmarks].mean(0), vectors.copy()
    for visit in (landmarks, ~landmarks):
        moved[visit] -= (vectors[visit].sum(0) + PRIOR * mean) / (visit.sum() + PRIOR)
    return unit(moved)


def by_axes(numbers: int) -> Method:
    """The reduction of the product: one bit per number of an axis, and a sketch of the rest."""

    def project(vectors: Floats32, landmarks: Bools) -> Floats32:
        layer = fit_reduction(torch.from_numpy(vectors[landmarks]), numbers, parts=PARTS)
        reduced: Floats32 = layer(torch.from_numpy(vectors)).numpy()
        return reduced

    return project


def by_exact_axes(numbers: int) -> Method:
    """Axes in float16 and a sketch of the rest, as the product had until 2026-11-19."""

    def project(vectors: Floats32, landmarks: Bools) -> Floats32:
        products = vectors[landmarks] @ vectors[landmarks].T
        squares, mixed = np.linalg.eigh(products.astype(np.float64))
        axes = ((mixed / squares.clip(1e-9) ** 0.5).T.astype(np.float32) @ vectors[landmarks])[
            ::-1
        ][: numbers - SKETCH]
        random = np.random.default_rng(0).standard_normal((SKETCH, vectors.shape[1])) / SKETCH**0.5
        rest = random - random @ axes.T @ axes
        projection: Floats32 = np.concatenate([axes, rest]).astype(np.float16).astype(np.float32)
        return unit(vectors @ projection.T)

    return project


METHODS: dict[str, Method] = {
    "whole": lambda vectors, landmarks: vectors,
    "one bit, 768": by_axes(768),
    "exact axes, 768": by_exact_axes(768),
    "one bit, 384": by_axes(384),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = []
    for pair in given.pairs:
        folder, metres, of_map, of_queries = pair.split(":")
        described = read_descriptors(Path(folder))
        chosen = np.flatnonzero(np.isin(described.places.sequence, (of_map, of_queries)))
        places, vectors = described.places[chosen], described.descriptors[chosen]
        landmarks: Bools = places.sequence == of_map
        apart = np.linalg.norm(
            places.positions[~landmarks][:, None] - places.positions[landmarks][None], axis=-1
        )
        for name, method in METHODS.items():
            reduced = unit(method(vectors, landmarks)).astype(np.float16).astype(np.float32)
            row = {"set": Path(folder).name, "map": of_map, "queries": of_queries, "method": name}
            row |= {"numbers": reduced.shape[1]}
            for space, compared in (
                ("as they are", reduced),
                ("without mean", without_mean(reduced, landmarks)),
            ):
                nearest = (compared[~landmarks] @ compared[landmarks].T).argmax(1)
                row[space] = 100 * float(
                    (apart[np.arange(len(nearest)), nearest] <= float(metres)).mean()
                )
            rows.append(row)
            print(row, flush=True)
            given.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
