"""Batches through a network: the same whatever the images come from, ahead of it, and with sentences for what fails."""

from collections.abc import Callable
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.arrays import Pixels
from mappable.errors import BadImageError
from mappable.features.embedding import backbone_precision, describe
from mappable.features.encoder import Encoder
from mappable.features.inputs import HostInputs, TensorRows
from mappable.places.frames import Frame
from mappable.places.images import load_image
from mappable.places.packing import pack_images
from mappable.places.pixels import ImageFiles, ImageRows
from mappable.places.table import Places

Draw = Callable[..., Path]


def inputs(pixels: Pixels) -> HostInputs:
    return HostInputs(ImageRows(pixels, np.arange(len(pixels))))


@pytest.fixture
def places(tmp_path: Path, draw: Draw) -> Places:
    """Seven places whose files are larger than the encoder's images."""
    paths = [f"day/{number}.jpg" for number in range(7)]
    for path in paths:
        draw(tmp_path / path, size=(160, 90))
    return Places(path=paths, x=np.arange(7.0), y=np.zeros(7), frames=Frame("map"), root=tmp_path)


@pytest.mark.parametrize("batch_size", [None, 1, 3, 7, 50])
def test_files_pixels_and_packs_give_the_same_descriptors(
    encoder: Encoder, places: Places, tmp_path: Path, batch_size: int | None
) -> None:
    pixels = np.stack([load_image(file, (64, 48), "crop") for file in places.files])
    pack, _ = pack_images(places, tmp_path / "out", size=(64, 48))
    expected = np.concatenate([encoder.embed(pixels[row : row + 1]) for row in range(7)])
    assert (expected.shape, expected.dtype) == ((7, 24), np.float32)
    for images in (places, pixels, pack.view(places)):
        np.testing.assert_array_equal(encoder.embed(images, batch_size=batch_size), expected)


def test_a_missing_or_damaged_image_is_named(encoder: Encoder, places: Places) -> None:
    content = places.files[4].read_bytes()
    places.files[4].unlink()
    with pytest.raises(BadImageError, match=r"day/4\.jpg.*file"):
        encoder.embed(places, batch_size=2)
    places.files[4].write_bytes(content[: len(content) // 2])
    with pytest.raises(BadImageError, match=r"day/4\.jpg.*damaged"):
        encoder.embed(places)


def test_rows_are_described_in_the_order_asked_for(pictures: Pixels) -> None:
    def brightness(pixels: Tensor) -> Tensor:
        assert len(pixels) <= 2
        return pixels.float().mean((1, 2, 3))

    rows = np.array([7, 2, 2, 9, 0])
    for source in (
        TensorRows(torch.from_numpy(pictures), torch.arange(10)),
        ImageRows(pictures, np.arange(10)),
    ):
        found = describe(brightness, HostInputs(source), rows, device="cpu", batch_size=2)
        np.testing.assert_allclose(found.numpy(), pictures[rows].mean((1, 2, 3)), rtol=1e-5)
        assert not found.requires_grad


def test_batches_are_read_while_the_network_works(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    second_is_read = Event()

    def load(files: ImageFiles, file: Path) -> Pixels:
        if file.name == "3.jpg":
            second_is_read.set()
        return np.zeros((48, 64, 3), dtype=np.uint8)

    def network(pixels: Tensor) -> Tensor:
        assert second_is_read.wait(10), "the network waits for its first batch alone"
        return pixels.float().mean((1, 2, 3))

    monkeypatch.setattr(ImageFiles, "_load", load)
    files = ImageFiles(places, (64, 48), "crop")
    assert len(describe(network, HostInputs(files), np.arange(7), device="cpu", batch_size=2)) == 7


def test_precision_is_that_of_the_convolutions_and_of_nothing_else(
    encoder: Encoder, pictures: Pixels
) -> None:
    pixels = torch.from_numpy(pictures)
    with torch.no_grad(), backbone_precision("cpu", "bfloat16"):
        activations = encoder.lower(pixels)
        assert activations.dtype == torch.bfloat16
        assert encoder.local(activations).dtype == torch.float32
        descriptors = encoder.upper(activations)
    assert descriptors.dtype == torch.float32
    torch.testing.assert_close(descriptors.norm(dim=1), torch.ones(10))
    np.testing.assert_array_equal(
        encoder.embed(pictures, precision="bfloat16"), descriptors.numpy()
    )
    np.testing.assert_allclose(
        encoder.embed(pictures, precision="float32"), descriptors.numpy(), atol=0.05
    )
