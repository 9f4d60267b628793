"""Positions of images for COLMAP's model_aligner."""

from pathlib import Path

import numpy as np

from mappable.exchange.poses import Poses
from mappable.files import write_text
from mappable.places.table import Places


def check_words(poses: Poses) -> str | None:
    """Why a list of words cannot hold the paths of the images; None if it can."""
    return spaced_path(poses.places)


def spaced_path(places: Places | None) -> str | None:
    """Why the paths of places are not single words; None if they are."""
    if places is None:
        return "needs image files: give a folder or files"
    spaced = next((path for path in places.path if len(path.split()) != 1), None)
    return spaced and f"cannot contain the path {spaced!r} with a space; rename the file or folder"


def write_colmap(file: Path, poses: Poses) -> int:
    """Write `image x y z`, then the upper triangle of the covariance, row by row, which COLMAP
    skips.
    """
    lines = []
    for _, pose in poses.trusted:
        numbers = [*pose.xyz]
        if pose.covariance is not None:
            numbers += pose.covariance[np.triu_indices(len(pose.covariance))].tolist()
        lines.append(" ".join([str(pose.path), *(f"{number:.6f}" for number in numbers)]) + "\n")
    write_text(file, "".join(lines))
    return len(lines)
