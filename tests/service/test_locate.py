"""`POST /locate`: images to positions, the same as by `mappable locate`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.features import Encoder
from mappable.localization import Map
from mappable.maps import Landmarks
from mappable.places import Places

Images = list[tuple[str, bytes]]


@pytest.fixture(scope="session")
def expected(map_folder: Path, wall: Places) -> list[Any]:
    """The locations of the test drive, image by image, without a server."""
    opened = Landmarks.open(map_folder)
    encoder = Encoder.load(map_folder.parent / "encoder.safetensors")
    descriptors = encoder.embed(wall.where(split="test"))
    return [asdict(one) for one in Map(opened).locate_all(descriptors)]


def test_one_image_is_located_as_without_a_server(
    client: Any, images: Images, expected: list[Any]
) -> None:
    answer = client.post("/locate?top_k=3", images[7][1])
    assert answer.status == 200
    (found,) = answer.json["positions"]
    for name in ("frame", "unit", "landmark", "confident", "reason", "refined", "coverage"):
        assert found[name] == expected[7][name]
    for name in (
        "coordinates",
        "latitude",
        "longitude",
        "distance",
        "low",
        "high",
        "covariance",
        "feature_distance",
    ):
        np.testing.assert_allclose(found[name], expected[7][name], rtol=1e-3, atol=0.1)
    assert found["error"] is None
    assert [one["landmark"] for one in found["candidates"]] == [
        one["landmark"] for one in expected[7]["candidates"][:3]
    ]


def test_several_images_come_back_in_order_and_near_the_truth(
    client: Any, images: Images, wall: Places
) -> None:
    answer = client.post_files("/locate", images)
    assert answer.status == 200
    found = answer.json["positions"]
    assert [one["image"] for one in found] == [name for name, _ in images]
    off = np.linalg.norm(
        [one["coordinates"] for one in found] - wall.where(split="test").positions, axis=1
    )
    assert np.median(off) < 2


def test_a_bad_image_does_not_spoil_the_others(client: Any, images: Images) -> None:
    good, bad = images[3], ("notes.txt", b"no picture")
    answer = client.post_files("/locate", [good, bad, images[4]])
    assert answer.status == 207
    first, second, third = answer.json["positions"]
    assert first["landmark"]
    assert second == {"image": "notes.txt", "error": "notes.txt: not a JPEG, PNG or WebP image"}
    assert third["image"] == images[4][0]
    all_bad = client.post_files("/locate", [bad, bad])
    assert all_bad.status == 422
    assert all_bad.error == "none of the images can be used"
    assert len(all_bad.json["positions"]) == 2
    assert client.post_files("/locate", [bad]).error == second["error"]


def test_a_drive_is_recovered_from_its_images(client: Any, images: Images) -> None:
    answer = client.post_files("/recover", images)
    assert answer.status == 200
    told = answer.json
    assert [one["image"] for one in told["images"]] == [name for name, _ in images]
    assert told["known"] == 0
    assert told["undetermined"]
    assert sum(told["parts"]) == len(images)


def test_known_positions_put_a_drive_into_the_map(
    client: Any, images: Images, wall: Places
) -> None:
    images = images[:24]
    true = wall.where(split="test").positions[:24]
    rows = range(0, 24, 6)
    known = json.dumps([{"point": n, "coordinates": true[n].tolist(), "sigma": 0.3} for n in rows])
    answer = client.post_files("/recover", images, known=known)
    assert answer.status == 200
    points = answer.json["images"]
    assert answer.json["known"] == len(rows)
    assert points[1]["covariance"]
    off = np.linalg.norm([one["coordinates"] for one in points] - true, axis=1)
    assert np.median(off) < 3
