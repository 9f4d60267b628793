"""`torch.hub` finds an encoder by the file `hubconf.py` at the root."""

from pathlib import Path

import numpy as np
import torch

from mappable.features.encoder import Encoder

ROOT = str(Path(__file__).parent.parent)


def test_a_trained_encoder_comes_from_the_hub_ready_for_inference(
    small_backbone: str, tmp_path: Path
) -> None:
    encoder = Encoder.create(weights="random", size=(64, 48), clusters=2, backbone=small_backbone)
    images = np.random.default_rng(0).integers(0, 256, (4, 48, 64, 3), dtype=np.uint8)
    encoder.initialize(images)
    encoder.save(tmp_path / "encoder.safetensors")
    for path in (tmp_path, tmp_path / "encoder.safetensors"):
        model = torch.hub.load(ROOT, "get_trained_model", source="local", path=path)
        assert isinstance(model, torch.nn.Module)
        assert not model.training
        descriptors = model(torch.from_numpy(images))
        assert not descriptors.requires_grad
        np.testing.assert_array_equal(
            descriptors.numpy(), encoder.embed(images, precision="float32")
        )
