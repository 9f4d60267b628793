"""For hloc: pairs of images and nearby landmarks, and the descriptors of landmarks."""

from pathlib import Path

import numpy as np

from mappable.exchange.colmap import spaced_path
from mappable.exchange.poses import Poses
from mappable.features.export import write_hloc
from mappable.files import write_text
from mappable.maps.landmarks import Landmarks


def check_pairs(poses: Poses) -> str | None:
    """Why a list of pairs cannot hold the paths; None if it can."""
    return spaced_path(poses.places) or spaced_path(poses.needed_map.places)


def write_pairs(file: Path, poses: Poses) -> int:
    """Write the path of each located image with the path of each of its candidate landmarks,
    nearest first.
    """
    places = poses.needed_map.places
    path_of = dict(zip(places.place_id, places.path, strict=True))
    lines = [
        f"{pose.path} {path_of[near['landmark']]}\n"
        for _, pose in poses.located
        for near in pose.record.get("candidates", ())
    ]
    write_text(file, "".join(lines))
    return len(poses.located)


def write_landmarks(file: Path, landmarks: Landmarks) -> None:
    """Write the descriptors of the landmarks: HDF5, float32, of length one."""
    descriptors = landmarks.store.take(np.arange(len(landmarks)))
    # float16 changed lengths.
    descriptors = descriptors / np.linalg.norm(descriptors, axis=1, keepdims=True)
    write_hloc(file, landmarks.places, descriptors)
