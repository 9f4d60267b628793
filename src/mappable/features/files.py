"""The encoder file: safetensors, with the encoder's description as JSON in the metadata."""

import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from mappable.checksums import PREFIX, seal
from mappable.containers import read_safetensors
from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.vision_models import PREFIX as TRANSFORMERS
from mappable.features.weights import WEIGHT_SETS
from mappable.formats import KEY, Format
from mappable.progress import speaks

FORMAT = Format("mappable encoder", 2, "train or export it again", sealed_since=2, earliest=1)
ENCODER = "encoder.safetensors"  # name of the file in the folder of a training run


def encoder_file(source: Path | str) -> Path:
    """The file of an encoder: `source` itself, or encoder.safetensors in a training run's folder."""
    path = Path(source)
    if str(source) in WEIGHT_SETS and not path.exists():
        remedy = "train an encoder (mappable train), then give its folder or file"
        raise BadInputError(f"{source}: is a set of backbone weights, but an encoder needs clusters too; {remedy}")
    if str(source).startswith(TRANSFORMERS):
        remedy = f"train an encoder (mappable train PLACES OUT --set backbone={source}), then give OUT"
        raise BadInputError(f"{source}: is a backbone, but an encoder needs clusters too; {remedy}")
    if not path.exists():
        raise BadInputError(f"{path}: no such encoder file")
    if path.is_dir() and not (path / ENCODER).is_file():
        raise BadInputError(f"{path}: contains no {ENCODER}; give the folder of a training run, or an encoder file")
    return path / ENCODER if path.is_dir() else path


def encoder_bytes(about: About, tensors: Mapping[str, Tensor]) -> bytes:
    """The content of an encoder's file."""
    text = FORMAT.text({"about": about.to_json()}, indent=None)
    return seal(save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, {KEY: text}))


def read_encoder(file: Path) -> tuple[About, dict[str, Tensor]]:
    """Read a file of `encoder_bytes`. A damaged file, or a file of another format, raises."""
    if not file.is_file():
        raise BadInputError(f"{file}: no such encoder file")
    with FORMAT.reading(file):
        metadata, tensors = read_safetensors(file, "pt")
        about = About.from_json(FORMAT.parse(metadata.get(KEY), file)["about"])
    if PREFIX.decode() not in metadata[KEY] and speaks():
        print(f"note: {file}: an earlier version wrote it without a checksum, so damage is not found", file=sys.stderr)
    return about, tensors


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
            f"tensor {missing[0]} is missing" if missing else f"tensor {surplus[0]} does not belong to the network"
        )
        raise BadInputError(f"{name}: {problem}")
    for key, tensor in target.items():
        if given[key].shape != tensor.shape or given[key].dtype != tensor.dtype:
            raise BadInputError(f"{name}: tensor {key} is {_kind(given[key])}, expected {_kind(tensor)}")


def _kind(tensor: Tensor) -> str:
    return f"{' x '.join(str(length) for length in tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
