"""Descriptors instead of images over HTTP, and servers of maps with foreign encoders or none."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mappable.arrays import Floats32
from mappable.features.opening import open_file
from mappable.localization import build_map
from mappable.maps import Landmarks
from mappable.maps.encoders import encoder_of
from mappable.places import Places

pytestmark = pytest.mark.medium
Start = Callable[..., Any]
JSON, NPY = "application/json", "application/x-npy"


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.fixture(scope="module")
def asked(wall: Places, map_folder: Path) -> tuple[str, Floats32]:
    """The encoder of the map, and descriptors of the first test images."""
    encoder = encoder_of(Landmarks.open(map_folder), device="cpu")
    return encoder.fingerprint, encoder.embed(wall.where(split="test")[:6], progress=False)


def test_descriptors_are_located_like_their_images(
    client: Any, asked: tuple[str, Floats32], images: list[tuple[str, bytes]]
) -> None:
    encoder, descriptors = asked
    by_image = client.post_files("/locate?top_k=2", images[:6]).json["positions"]
    address = f"/locate/descriptors?top_k=2&encoder={encoder}"
    body = {"descriptors": (2 * descriptors).tolist(), "images": [name for name, _ in images[:6]]}
    for sent in (
        client.post(address, json.dumps(body).encode(), JSON),
        client.post(address, npy(descriptors), NPY),
    ):
        assert sent.status == 200, sent.body
        found = sent.json["positions"]
        assert [one["landmark"] for one in found] == [one["landmark"] for one in by_image]
        for one, other in zip(found, by_image, strict=True):
            np.testing.assert_allclose(one["coordinates"], other["coordinates"], atol=0.05)
    assert [one["image"] for one in found] == ["0", "1", "2", "3", "4", "5"]
    drive = client.post(f"{address}&sequence=true", npy(descriptors), NPY)
    assert len(drive.json["positions"]) == 6


def test_a_trajectory_is_recovered_from_descriptors(
    client: Any, asked: tuple[str, Floats32]
) -> None:
    encoder, descriptors = asked
    body = {"descriptors": descriptors.tolist(), "known": [{"point": 0, "coordinates": [2.0, 1.0]}]}
    recovered = client.post(
        f"/recover/descriptors?encoder={encoder}", json.dumps(body).encode(), JSON
    )
    assert recovered.status == 200, recovered.body
    assert (len(recovered.json["images"]), recovered.json["known"]) == (6, 1)
    assert (
        client.post(f"/recover/descriptors?encoder={encoder}", npy(descriptors), NPY).status == 200
    )


def test_descriptors_that_cannot_be_used_are_refused(
    client: Any, asked: tuple[str, Floats32]
) -> None:
    encoder, descriptors = asked
    length = descriptors.shape[1]
    row, ones = descriptors[:1].tolist(), np.ones((1, length), np.float32)
    for body, kind, status, problem in (
        (npy(descriptors)[:-4], NPY, 400, "not a .npy file"),
        (b"[" * 9999, JSON, 400, "not JSON"),
        (npy(descriptors), "image/png", 415, "application/json or application/x-npy"),
        (npy(np.array([["a"] * length])), NPY, 400, "not a .npy file of numbers"),
        (npy(descriptors[:, 1:]), NPY, 422, f"expected (n, {length})"),
        (npy(descriptors[:0]), NPY, 422, "expected (n,"),
        (npy(np.ones((101, length), np.float32)), NPY, 413, "101 images"),
        (npy(ones * 0), NPY, 422, "descriptor 0 is zero, or has NaN"),
        (npy(ones.astype(np.float64) * 1e300), NPY, 422, "infinite"),
        (json.dumps({"descriptors": row, "names": []}), JSON, 422, "descriptors, images or known"),
        (json.dumps({"descriptors": [*row, [1.0]]}), JSON, 422, "not an array of numbers"),
        (json.dumps({"descriptors": [[10**400] * length]}), JSON, 422, "not an array of numbers"),
        (json.dumps({"descriptors": row, "images": ["a", "b"]}), JSON, 422, "1 names in Unicode"),
        (json.dumps({"descriptors": row, "images": ["\ud800"]}), JSON, 422, "names in Unicode"),
        (json.dumps({"descriptors": row, "known": [1]}), JSON, 422, "known"),
    ):
        sent = client.post(f"/locate/descriptors?encoder={encoder}", body, kind)
        assert (sent.status, problem in sent.error) == (status, True), sent.body
    other = client.post("/locate/descriptors?encoder=others", npy(descriptors), NPY)
    assert (other.status, other.error) == (
        422,
        f"encoder others made the descriptors, but the map needs encoder {encoder}",
    )
    missing = client.post("/locate/descriptors", npy(descriptors), NPY)
    assert (missing.status, "encoder" in missing.error) == (422, True)


@pytest.mark.parametrize("kind", ["hub", "onnx"])
@pytest.mark.usefixtures("own_cache")
def test_a_map_with_a_foreign_encoder_is_served(
    start: Start,
    wall: Places,
    images: list[tuple[str, bytes]],
    foreign_hub: Path,
    foreign_onnx: Callable[..., Path],
    tmp_path: Path,
    kind: str,
) -> None:
    encoder = open_file(foreign_hub if kind == "hub" else foreign_onnx(), "cpu", trust_code=True)
    build_map(wall, encoder=encoder, landmarks=40).save(tmp_path / "map")
    found = start(tmp_path / "map").post_files("/locate", images[:4]).json["positions"]
    queries = wall.where(split="test")[:4]
    off = [
        np.linalg.norm(one["coordinates"] - at)
        for one, at in zip(found, queries.positions, strict=True)
    ]
    assert np.median(off) < 4
