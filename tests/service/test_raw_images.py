"""`POST /locate` with raw images, for a map whose landmarks are raw images."""

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mappable.features import Encoder
from mappable.localization import build_map
from mappable.places import Places
from mappable.places.decoding import RawDecoding

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def lens(wall: Places, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of a lens that turns images of the wall upside down."""
    file = tmp_path_factory.mktemp("lens") / "lens.bin"
    with Image.open(wall.files[0]) as image:
        width, height = image.size
    rows, columns = np.mgrid[:height, :width]
    np.stack([columns, height - 1 - rows]).astype("<f8").tofile(file)
    return file


@pytest.fixture(scope="module")
def raw_client(
    start: Any, map_folder: Path, wall: Places, lens: Path, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """A client of a server with a map of raw images; the images and their lens table no longer
    exist.
    """
    folder = tmp_path_factory.mktemp("raw-map")
    for path in wall.path:
        (folder / "images" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "images" / path).write_bytes(as_raw((wall.root / path).read_bytes()))
    shutil.copy(lens, folder / "images/lens.bin")
    places = wall.replace(
        root=folder / "images", decoding=RawDecoding("RGGB", str(folder / "images/lens.bin"))
    )
    encoder_file = map_folder.parent / "encoder.safetensors"
    build_map(places, encoder=Encoder.load(encoder_file), landmarks=40).save(folder / "map")
    shutil.rmtree(folder / "images")
    return start(folder / "map")


def as_raw(data: bytes) -> bytes:
    """The raw image of an RGGB camera with that lens."""
    color = np.asarray(Image.open(io.BytesIO(data)))[::-1]
    raw = color[..., 1].copy()
    raw[0::2, 0::2], raw[1::2, 1::2] = color[0::2, 0::2, 0], color[1::2, 1::2, 2]
    return as_png(raw)


def as_png(pixels: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def test_raw_bytes_are_located_as_their_decoded_image_is(
    raw_client: Any, lens: Path, wall: Places, images: list[tuple[str, bytes]]
) -> None:
    raw = [as_raw(data) for _, data in images[::8]]
    decoding = RawDecoding("RGGB", str(lens))
    straight = [as_png(decoding.decode(np.asarray(Image.open(io.BytesIO(data))))) for data in raw]
    found = [raw_client.post("/locate", data).json["positions"][0] for data in raw]
    assert found[0]["error"] is None
    for one, data in zip(found, straight, strict=True):
        (expected,) = raw_client.post("/locate", data).json["positions"]
        np.testing.assert_allclose(one["coordinates"], expected["coordinates"], atol=1e-3)
    true = wall.where(split="test").positions[::8]
    assert np.median(np.linalg.norm([one["coordinates"] for one in found] - true, axis=1)) < 2
