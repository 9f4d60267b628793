"""The monitor counts the queries whose nearest landmark, by feature, is near in the world."""

import torch

from mappable.features.monitor import Monitor
from mappable.places.frames import Frame
from mappable.places.table import Places


def places_at(*positions: float, frame: str = "hall") -> Places:
    paths = [f"{frame}-{position}.jpg" for position in positions]
    return Places(path=paths, x=list(positions), y=[0.0] * len(positions), frames=Frame(frame))


def directions(*degrees: float) -> torch.Tensor:
    angles = torch.deg2rad(torch.tensor(degrees))
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def test_the_share_of_queries_near_the_landmark_that_looks_most_alike() -> None:
    train, queries = places_at(0.0, 10.0, 20.0, 30.0), places_at(1.0, 12.0, 13.0, 29.0)
    # Rows 0 to 3 are the training places, 4 to 7 the queries, which look like 0, 10, 10 and,
    # wrongly, 0 m.
    features = directions(0, 90, 180, 270, 10, 80, 100, 350)
    monitor = Monitor(train, queries, landmarks=4, radius=2.0)
    # Of the two that look like 10 m, one is 3 m away.
    assert monitor.accuracy(lambda rows: features[rows]) == 0.5
    assert (
        Monitor(train, queries, landmarks=4, radius=3.0).accuracy(lambda rows: features[rows])
        == 0.75
    )
    assert (
        Monitor(train, queries, landmarks=99, radius=30.0).accuracy(lambda rows: features[rows])
        == 1.0
    )
