"""What the measurements leave undetermined, in sentences of one kind: which images, and how far off they may be."""

from collections.abc import Iterator

import numpy as np

from mappable.arrays import Bools, Floats, Ints

MOST = 5  # sentences of each kind


def describe(
    parts: Ints, covariances: Floats, reach: float, *, loose: Bools, placed: bool
) -> tuple[str, ...]:
    """Describe images that are not determined to within the `reach` of ranges, and parts that
    nothing connects.

    `covariances` (n, k, k) are NaN for images without a position. Images in `loose` (n,) are always
    listed.
    """
    sentences = []
    if not placed:
        sentences.append(
            "No position is known: the map begins at the first image, and covariances are relative"
            " to it."
        )
    off = np.sqrt(np.trace(covariances, axis1=1, axis2=2))
    sentences += list_stretches(loose | (np.nan_to_num(off) > reach), off)
    return (*sentences, *unconnected(parts))


def unconnected(parts: Ints) -> list[str]:
    """Describe all parts except part 0."""
    numbers = [number for number in np.unique(parts) if number > 0]
    sentences = [
        f"{_images(np.flatnonzero(parts == number))} not connected to the rest."
        for number in numbers
    ]
    return _first(sentences)


def list_stretches(loose: Bools, off: Floats) -> list[str]:
    """Name each run of `loose` images (n,), and how many metres, `off` (n,), it may be away."""
    return _first(
        [f"{_images(run)} not determined: ± {_metres(off[run])}." for run in _runs(loose)]
    )


def _runs(chosen: Bools) -> Iterator[Ints]:
    """Yield the runs of chosen points; a single point between two of them joins them."""
    points = np.flatnonzero(chosen)
    yield from (
        run for run in np.split(points, np.flatnonzero(np.diff(points) > 2) + 1) if len(run)
    )


def _images(points: Ints) -> str:
    if len(points) == 1:
        return f"Image {points[0]} is"
    if points[-1] - points[0] >= 2 * len(points):
        return f"{len(points):,} images (the first: {points[0]}) are"
    return f"Images {points[0]} to {points[-1]} are"


def _metres(off: Floats) -> str:
    return f"{float(np.sqrt(np.mean(np.square(off)))):.2g} m"


def _first(sentences: list[str]) -> list[str]:
    left = len(sentences) - MOST
    return (
        sentences
        if left <= 0
        else [*sentences[:MOST], f"The same holds for {left:,} more stretches."]
    )
