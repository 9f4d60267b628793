"""Batches through a network: the same whatever the images come from, ahead of it, and with sentences for what fails."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mappable.arrays import Ints, Pixels
from mappable.errors import BadImageError, BadInputError
from mappable.features import embedding
from mappable.features.embedding import backbone_precision, describe, out_of_memory_means
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


def test_no_images_give_no_descriptors(encoder: Encoder, places: Places) -> None:
    assert encoder.embed(places[:0]).shape == (0, 24)
    assert encoder.embed(np.zeros((0, 48, 64, 3), dtype=np.uint8)).shape == (0, 24)


def test_a_missing_or_damaged_image_is_named(encoder: Encoder, places: Places) -> None:
    content = places.files[4].read_bytes()
    places.files[4].unlink()
    with pytest.raises(BadImageError, match=r"day/4\.jpg.*file"):
        encoder.embed(places, batch_size=2)
    places.files[4].write_bytes(content[: len(content) // 2])
    with pytest.raises(BadImageError, match=r"day/4\.jpg.*damaged"):
        encoder.embed(places)


@pytest.mark.parametrize("batch_size", [0, -4])
def test_a_batch_has_an_image(encoder: Encoder, pictures: Pixels, batch_size: int) -> None:
    with pytest.raises(BadInputError, match=rf"batch_size.*{batch_size}"):
        encoder.embed(pictures, batch_size=batch_size)


def test_rows_are_described_in_the_order_asked_for(pictures: Pixels) -> None:
    def brightness(pixels: Tensor) -> Tensor:
        assert len(pixels) <= 2
        return pixels.float().mean((1, 2, 3))

    rows = np.array([7, 2, 2, 9, 0])
    for source in (TensorRows(torch.from_numpy(pictures), torch.arange(10)), ImageRows(pictures, np.arange(10))):
        found = describe(brightness, HostInputs(source), rows, device="cpu", batch_size=2)
        np.testing.assert_allclose(found.numpy(), pictures[rows].mean((1, 2, 3)), rtol=1e-5)
        assert not found.requires_grad


def test_results_carry_no_gradients_but_may_be_trained_on(encoder: Encoder, pictures: Pixels) -> None:
    activations = describe(encoder.lower, inputs(pictures), np.arange(4), device="cpu", precision="float32")
    torch.autograd.backward(encoder.upper(activations)[:, 0].sum())
    assert encoder.get_parameter("backbone.second.weight").grad is not None
    assert encoder.get_parameter("backbone.first.weight").grad is None


def test_batches_are_read_while_the_network_works(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_precision_is_that_of_the_convolutions_and_of_nothing_else(encoder: Encoder, pictures: Pixels) -> None:
    pixels = torch.from_numpy(pictures)
    with torch.no_grad(), backbone_precision("cpu", "bfloat16"):
        activations = encoder.lower(pixels)
        assert activations.dtype == torch.bfloat16
        assert encoder.local(activations).dtype == torch.float32
        descriptors = encoder.upper(activations)
    assert descriptors.dtype == torch.float32
    torch.testing.assert_close(descriptors.norm(dim=1), torch.ones(10))
    np.testing.assert_array_equal(encoder.embed(pictures, precision="bfloat16"), descriptors.numpy())
    np.testing.assert_allclose(encoder.embed(pictures, precision="float32"), descriptors.numpy(), atol=0.05)


@pytest.mark.parametrize("has_it", [True, False])
def test_auto_is_bfloat16_where_the_device_has_it(monkeypatch: pytest.MonkeyPatch, has_it: bool) -> None:
    monkeypatch.setattr(embedding, "has_bfloat16", lambda _: has_it)
    with backbone_precision("cpu", "auto"):
        assert torch.is_autocast_enabled("cpu") == has_it
    assert not torch.is_autocast_enabled("cpu")


def test_float32_is_not_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    with backbone_precision("cpu", "float32"):
        assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.allow_tf32


def test_an_unknown_precision_is_refused(encoder: Encoder, pictures: Pixels) -> None:
    with pytest.raises(BadInputError, match=r"precision.*'half'"):
        encoder.embed(pictures, precision="half")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "too_much",
    [
        lambda: torch.empty(2**58),  # what the allocator itself says
        lambda: np.empty(2**58),
        lambda: (_ for _ in ()).throw(torch.OutOfMemoryError("CUDA out of memory")),
    ],
)
def test_too_little_memory_says_what_to_lower(pictures: Pixels, too_much: Callable[[], Any]) -> None:
    def network(pixels: Tensor) -> Tensor:
        next(too_much())
        return pixels

    problem = r"on cpu for 5 images at a time.*10.*batch_size"
    with pytest.raises(BadInputError, match=rf"memory.*{problem}"):
        describe(network, inputs(pictures), np.arange(10), device="cpu", batch_size=5)


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="shapes"), out_of_memory_means("lower it"):
        raise RuntimeError("shapes do not fit")


def test_rows_may_be_a_view(encoder: Encoder, pictures: Pixels) -> None:
    rows: Ints = np.arange(10)[::-3]
    found = describe(encoder, inputs(pictures), rows, device="cpu", precision="float32").numpy()
    np.testing.assert_array_equal(found, encoder.embed(pictures[rows], precision="float32"))
