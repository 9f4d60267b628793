"""ONNX files of encoders: onnxruntime computes from them what torch does; in int8 nearly, and under another name."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from mappable.arrays import Pixels
from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.features.onnx_encoder import OnnxEncoder
from mappable.features.onnx_export import export_onnx
from mappable.features.onnx_file import FORMAT
from mappable.features.onnx_int8 import to_int8, with_accuracy
from mappable.features.opening import open_file

pytestmark = pytest.mark.medium


@dataclass(frozen=True)
class Exported:
    encoder: Encoder
    own: Path  # encoder.safetensors
    file: Path  # the ONNX file, in a cache


@pytest.fixture(scope="module")
def exported(
    small_backbone: str, pictures: Pixels, tmp_path_factory: pytest.TempPathFactory
) -> Exported:
    """A small encoder with a reduction, for which black is zero all through the network;
    descriptors of 5 numbers.

    It is exported to an empty cache, but for a file that is damaged; an export takes seconds, so
    there is but this one.
    """
    small = Encoder.create(
        weights="random", size=(64, 48), clusters=4, backbone=small_backbone, dimensions=5
    )
    encoder = Encoder(replace(small.about, mean=(0.0, 0.0, 0.0), positive_radius=10.0))
    encoder.load_state_dict(small.state_dict())
    encoder.initialize(pictures)
    folder = tmp_path_factory.mktemp("onnx")
    own, file = (
        folder / "encoder.safetensors",
        folder / f"onnx/{encoder.fingerprint}-v{FORMAT.version}.onnx",
    )
    encoder.save(own)
    file.parent.mkdir()
    file.write_bytes(b"damaged")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAPPABLE_CACHE", str(folder))
        open_file(own, "cpu", "onnx")
    return Exported(encoder, own, file)


@pytest.fixture(scope="module")
def in_int8(exported: Exported, pictures: Pixels) -> Path:
    file = exported.file.with_name("int8.onnx")
    file.write_bytes(with_accuracy(to_int8(exported.file.read_bytes(), pictures), {"int8": 80.0}))
    return file


@pytest.mark.long
@pytest.mark.parametrize("aggregator", ["gem", "transport"])
def test_every_aggregator_is_exported(
    aggregator: str, small_backbone: str, pictures: Pixels, tmp_path: Path
) -> None:
    chosen = {"backbone": small_backbone, "aggregator": aggregator, "clusters": 4, "dimensions": 5}
    encoder = Encoder.create(weights="random", size=(64, 48), **chosen)  # type: ignore[arg-type]
    encoder.initialize(pictures)
    # Raises if onnxruntime describes images in another way.
    export_onnx(encoder, tmp_path / "encoder.onnx")
    theirs = OnnxEncoder(tmp_path / "encoder.onnx").embed(pictures)
    assert (
        np.linalg.norm(theirs - encoder.embed(pictures, precision="float32"), axis=1).max() < 1e-4
    )


def test_onnxruntime_describes_images_as_torch_does(exported: Exported, pictures: Pixels) -> None:
    opened = OnnxEncoder(exported.file)
    ours = exported.encoder.embed(pictures, precision="float32")
    for batch_size in (1, 3):
        theirs = opened.embed(pictures, batch_size=batch_size)
        assert (theirs.shape, theirs.dtype) == ((10, 5), np.float32)
        assert np.linalg.norm(theirs - ours, axis=1).max() < 1e-5
    assert opened.embed(pictures[:0]).shape == (0, 5)


def test_other_programs_may_give_it_images_of_any_number_and_size(exported: Exported) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(exported.file)
    (images,), (descriptors,) = session.get_inputs(), session.get_outputs()
    assert (images.name, images.type, images.shape) == (
        "images",
        "tensor(uint8)",
        ["batch", "height", "width", 3],
    )
    assert (descriptors.name, descriptors.type, descriptors.shape) == (
        "descriptors",
        "tensor(float)",
        ["batch", 5],
    )
    wide = np.random.default_rng(1).integers(0, 256, (3, 72, 136, 3), dtype=np.uint8)
    with torch.no_grad():
        ours = exported.encoder(torch.from_numpy(wide)).numpy()
    np.testing.assert_allclose(session.run(None, {"images": wide})[0], ours, atol=1e-5)


def test_in_int8_it_is_another_encoder_that_is_nearly_the_same(
    exported: Exported, in_int8: Path, pictures: Pixels
) -> None:
    opened = OnnxEncoder(in_int8)
    assert opened.precision == "int8"
    assert opened.facts.of == exported.encoder.fingerprint != opened.fingerprint
    assert (opened.about, opened.facts.accuracy) == (exported.encoder.about, {"int8": 80.0})
    ours, theirs = exported.encoder.embed(pictures, precision="float32"), opened.embed(pictures)
    apart = np.linalg.norm(theirs - ours, axis=1)
    assert 1e-4 < apart.max() < 0.3
    assert ((theirs @ ours.T).argmax(1) == np.arange(10)).all()
    model = onnx.load(in_int8)
    kinds = {one.name: one.data_type for one in model.graph.initializer}
    # The weights of both convolutions.
    assert list(kinds.values()).count(onnx.TensorProto.INT8) >= 2
    assert all(
        kind == onnx.TensorProto.FLOAT
        for name, kind in kinds.items()
        if name.startswith("aggregator")
    )


# Largest length of the difference from torch in float32 on a CPU, as docs/exchange.md states: for
# pictures like those that an int8 file was measured on, and for images that stress rounding.
BOUNDS = {"batches": (1e-5, 1e-5), "onnx": (1e-3, 1e-3), "int8": (0.3, 1.0), "bfloat16": (0.3, 0.3)}


def test_all_ways_of_describing_an_image_stay_within_their_bounds(
    exported: Exported, in_int8: Path, pictures: Pixels
) -> None:
    """Also for images that stress rounding: black, white, one bright pixel, stripes and noise at
    full contrast.
    """
    black = np.zeros((1, 48, 64, 3), dtype=np.uint8)
    point, stripes = black.copy(), black.copy()
    point[0, 20, 30] = 255
    stripes[:, ::2] = 255
    noise = np.random.default_rng(5).choice(np.array([0, 255], dtype=np.uint8), (1, 48, 64, 3))
    images = np.concatenate([pictures, black, 255 - black, point, stripes, noise])
    encoder, opened = exported.encoder, OnnxEncoder(exported.file)
    ours = encoder.embed(images, precision="float32")
    assert np.linalg.norm(ours, axis=1) == pytest.approx(np.ones(len(images)), abs=1e-5)
    ways = {
        "batches": [encoder.embed(images, precision="float32", batch_size=size) for size in (1, 4)],
        "onnx": [opened.embed(images, batch_size=size) for size in (1, 4)]
        + [OnnxEncoder(exported.file, threads=1).embed(images)],
        "int8": [OnnxEncoder(in_int8).embed(images)],
        "bfloat16": [encoder.embed(images, precision="bfloat16")],
    }
    for name, found in ways.items():
        for theirs in found:
            apart = np.linalg.norm(theirs - ours, axis=1)
            assert apart[:10].max() <= BOUNDS[name][0], name
            assert apart[10:].max() <= BOUNDS[name][1], name
            assert ((theirs @ ours[:10].T).argmax(1)[:10] == np.arange(10)).all(), name


def test_a_backend_is_chosen_by_the_file_or_by_name(
    exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAPPABLE_CACHE", str(exported.file.parents[1]))
    assert isinstance(open_file(exported.file), OnnxEncoder)
    assert isinstance(open_file(exported.own.parent), Encoder)
    written = exported.file.stat().st_mtime_ns
    cached = open_file(exported.own, "cpu", "onnx")
    assert isinstance(cached, OnnxEncoder)
    assert (cached.fingerprint, cached.about) == (
        exported.encoder.fingerprint,
        exported.encoder.about,
    )
    assert exported.file.stat().st_mtime_ns == written  # it is exported only once
    with pytest.raises(BadInputError, match=r"\.onnx.*ONNX"):
        open_file(exported.file, "cpu", "torch")
    with pytest.raises(BadInputError, match=r"device.*'gpu'"):
        open_file(exported.file, "gpu")
