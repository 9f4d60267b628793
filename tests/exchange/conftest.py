"""Twenty poses on a plane and in space (ten are trusted), and one image that cannot be read."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mappable.exchange.poses import Pose, Poses
from mappable.places.frames import Frame
from mappable.places.table import Places

OXFORD = Frame("town", crs="EPSG:32630", origin=(620_000.0, 5_735_000.0, 0.0))
COUNT, UNREAD = 21, 10
TIMES = 1_700_000_000_000_000_000 + 10**8 * np.arange(COUNT)


def _pose(number: int, dimensions: int) -> Pose:
    random = np.random.default_rng(number)
    image: dict[str, Any] = {
        "name": f"{number}.jpg",
        "path": f"images/{number}.jpg",
        "sequence": "drive",
    }
    image |= {"time": int(TIMES[number])}
    if number == UNREAD:
        error = "10.jpg: not an image"
        return Pose(**image, record={"image": image["name"], "error": error}, reason=error)
    position = tuple(random.normal(size=dimensions).tolist())
    root = random.normal(size=(dimensions, dimensions))
    covariance, trusted = root @ root.T + np.eye(dimensions), number < UNREAD
    record = {"image": image["name"], "coordinates": position, "covariance": covariance.tolist()}
    record |= {
        "landmark": "0.jpg",
        "low": 1.0,
        "high": 3.0,
        "distance": 2.0,
        "coverage": 0.9,
        "confident": trusted,
    }
    record |= {
        "frame": "town",
        "unit": "m",
        "candidates": [{"landmark": "1.jpg"}, {"landmark": "0.jpg"}],
    }
    reason = "" if trusted else "looks like two places"
    return Pose(
        **image, record=record, position=position, covariance=covariance, heading=0.5, heading_deviation=0.1,
        trusted=trusted, reason=reason,
    )  # fmt: skip


@pytest.fixture(params=[2, 3])
def poses(request: pytest.FixtureRequest) -> Poses:
    """Poses in Oxford, with two or three coordinates."""
    made = [_pose(number, request.param) for number in range(COUNT)]
    places = Places(
        path=[str(pose.path) for pose in made], x=np.zeros(COUNT), y=np.zeros(COUNT), frames=OXFORD
    )
    return Poses(OXFORD, made, places=places)


@pytest.fixture
def on_map(poses: Poses, tmp_path: Path) -> Poses:
    """The poses on a map of two landmarks, without images."""
    positions = {"x": [0.0, 4.0], "y": [0.0, 0.0]}
    landmarks = Places(
        path=["map/0.jpg", "map/1.jpg"], place_id=["0.jpg", "1.jpg"], frames=OXFORD, **positions
    )
    known: Any = SimpleNamespace(
        frame=OXFORD,
        places=landmarks.replace(root=tmp_path),
        unit="m",
        about=None,
        estimated=np.zeros(2, dtype=bool),
    )
    return replace(poses, landmarks=known)
