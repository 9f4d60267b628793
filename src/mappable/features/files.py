"""The encoder file: safetensors, with the encoder's description as JSON in the metadata.

Tensors that an encoder shares with its weight set are not in the file. They come from the cache of
weight sets, and a checksum of them is in the description. So the file of ResNet-50 off the shelf
has less than a megabyte.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from mappable.checksums import digest, seal
from mappable.containers import read_safetensors
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.vision_models import PREFIX as TRANSFORMERS
from mappable.features.weights import WEIGHT_SETS, load_weights, stored_weights
from mappable.formats import KEY, Format

FORMAT = Format("mappable encoder", 3, "train or export it again", sealed_since=3)
ENCODER = "encoder.safetensors"  # name of the file in the folder of a training run


def encoder_file(source: Path | str) -> Path:
    """The file of an encoder: `source` itself, or encoder.safetensors in a training run's folder."""
    path = Path(source)
    if str(source) in WEIGHT_SETS and not path.exists():
        remedy = "train an encoder (mappable train), then give its folder or file"
        raise BadInputError(
            f"{source}: is a set of backbone weights, but an encoder needs clusters too; {remedy}"
        )
    if str(source).startswith(TRANSFORMERS):
        remedy = (
            f"train an encoder (mappable train PLACES OUT --set backbone={source}), then give OUT"
        )
        raise BadInputError(f"{source}: is a backbone, but an encoder needs clusters too; {remedy}")
    if not path.exists():
        raise BadInputError(f"{path}: no such encoder file")
    if path.is_dir() and not (path / ENCODER).is_file():
        raise BadInputError(
            f"{path}: contains no {ENCODER}; give the folder of a training run, or an encoder file"
        )
    return path / ENCODER if path.is_dir() else path


def encoder_bytes(about: About, tensors: Mapping[str, Tensor]) -> bytes:
    """The content of an encoder's file, without the tensors that equal those of the cached weight
    set.
    """
    published = stored_weights(about.weights)
    shared = {
        name: tensor for name, tensor in published.items() if tensor.equal(tensors[name].cpu())
    }
    text = FORMAT.text({"about": about.to_json(), "shared": _checksum(shared)}, indent=None)
    own = {
        name: tensor.cpu().contiguous() for name, tensor in tensors.items() if name not in shared
    }
    return seal(save(own, {KEY: text}))


def read_encoder(file: Path) -> tuple[About, dict[str, Tensor]]:
    """Read a file of `encoder_bytes`. A damaged file, or a file of another format, raises."""
    if not file.is_file():
        raise BadInputError(f"{file}: no such encoder file")
    with FORMAT.reading(file):
        metadata, own = read_safetensors(file, "pt")
        facts = FORMAT.parse(metadata.get(KEY), file)
        about, checksum = About.from_json(facts["about"]), str(facts["shared"])
    if checksum == _checksum({}):
        return about, own
    # The second checks all of the set, and fetches it.
    for weights in (stored_weights, load_weights):
        shared = {
            name: tensor for name, tensor in weights(about.weights).items() if name not in own
        }
        if _checksum(shared) == checksum:
            return about, own | shared
    raise BadInputError(
        f"{file}: needs weights {about.weights} with the checksum {checksum}; fetch the published"
        " ones"
    )


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    each = [
        f"{name} {digest(tensor.contiguous().numpy())}" for name, tensor in sorted(tensors.items())
    ]
    return digest("\n".join(each).encode())


@torch.no_grad()
def copy_tensors(target: Mapping[str, Tensor], given: Mapping[str, Tensor], name: str) -> None:
    """Copy the tensors `given` into those of `target`. Names, shapes and types must agree."""
    check_tensors_fit(target, given, name)
    for key, tensor in target.items():
        tensor.copy_(given[key])


def check_tensors_fit(target: Mapping[str, Tensor], given: Mapping[str, Tensor], name: str) -> None:
    """Raise if `given` lacks a tensor of `target`, has another one, or differs in shape or type.

    The error begins with `name`.
    """
    missing, surplus = sorted(target.keys() - given.keys()), sorted(given.keys() - target.keys())
    if missing or surplus:
        problem = (
            f"tensor {missing[0]} is missing"
            if missing
            else f"tensor {surplus[0]} does not belong to the network"
        )
        raise BadInputError(f"{name}: {problem}")
    for key, tensor in target.items():
        if given[key].shape != tensor.shape or given[key].dtype != tensor.dtype:
            raise BadInputError(
                f"{name}: tensor {key} is {_kind(given[key])}, expected {_kind(tensor)}"
            )


def _kind(tensor: Tensor) -> str:
    return (
        f"{' x '.join(str(length) for length in tensor.shape)}"
        f" {str(tensor.dtype).removeprefix('torch.')}"
    )
