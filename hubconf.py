"""Entry point for `torch.hub`: loads an encoder that Mappable has trained, as a module."""

import sys
from pathlib import Path

import torch

dependencies = ["torch", "numpy", "PIL", "pyarrow", "safetensors"]


def get_trained_model(path: str | Path, device: str = "cpu") -> torch.nn.Module:
    """Load an encoder for inference from a file encoder.safetensors, or from the folder of a
    training run.

    It takes uint8 images (n, height, width, 3) in RGB, preferably of the size `about.size`. It
    returns descriptors (n, dimensions) in float32 with length one. The encoder normalizes images
    itself.
    """
    try:
        from mappable.features.encoder import Encoder
        from mappable.features.files import encoder_file
    except ModuleNotFoundError:  # the package is not installed, but lies beside this file
        sys.path.append(str(Path(__file__).parent / "src"))
        from mappable.features.encoder import Encoder
        from mappable.features.files import encoder_file

    return Encoder.load(encoder_file(path), device).eval().requires_grad_(False)
