"""For `torch.hub`: an encoder that Mappable has trained, as a module."""

import sys
from pathlib import Path

import torch

dependencies = ["torch", "numpy", "PIL", "pyarrow", "safetensors"]


def get_trained_model(path: str | Path, device: str = "cpu") -> torch.nn.Module:
    """The encoder of a file encoder.safetensors, or of the folder of a training run, ready for inference.

    It takes uint8 images (n, height, width, 3), red-green-blue and best of the size that `about.size` says, and gives
    descriptors (n, dimensions), float32 and of length one; normalisation is inside.
    """
    try:
        from mappable.features.encoder import Encoder
        from mappable.features.files import encoder_file
    except ModuleNotFoundError:  # it is not installed, but lies beside this file
        sys.path.append(str(Path(__file__).parent / "src"))
        from mappable.features.encoder import Encoder
        from mappable.features.files import encoder_file

    return Encoder.load(encoder_file(path), device).eval().requires_grad_(False)
