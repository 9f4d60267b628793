"""The encoder file: safetensors, with the encoder's description as JSON in the metadata."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from mappable.errors import BadInputError
from mappable.features.about import About
from mappable.features.weights import WEIGHT_SETS
from mappable.files import write_atomically
from mappable.formats import KEY, Format

FORMAT = Format("mappable encoder", 1, "train or export it again")
ENCODER = "encoder.safetensors"  # its name in the folder of a training run


def encoder_file(source: Path | str) -> Path:
    """The file of an encoder: `source` itself, or the one in a training run's folder."""
    path = Path(source)
    if str(source) in WEIGHT_SETS and not path.exists():
        remedy = "an encoder needs clusters too: train one (mappable train), then give its folder or file"
        raise BadInputError(f"{source}: is a set of backbone weights; {remedy}")
    if not path.exists():
        raise BadInputError(f"{path}: no such encoder file")
    if path.is_dir() and not (path / ENCODER).is_file():
        raise BadInputError(f"{path}: no encoder here (there is no {ENCODER}); give a training run's folder, or a file")
    return path / ENCODER if path.is_dir() else path


def write_encoder(file: Path, about: About, tensors: Mapping[str, Tensor]) -> None:
    """Write `file` whole or not at all."""
    text = FORMAT.text({"about": about.to_json()}, indent=None)
    content = save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, {KEY: text})
    write_atomically(file, lambda stream: stream.write(content))


def read_encoder(file: Path) -> tuple[About, dict[str, Tensor]]:
    """What `write_encoder` wrote; a damaged or foreign file is an error that says so."""
    if not file.is_file():
        raise BadInputError(f"{file}: no such encoder file")
    with FORMAT.reading(file), safe_open(file, "pt") as opened:
        header = FORMAT.parse((opened.metadata() or {}).get(KEY), file)
        return About.from_json(header["about"]), {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118


@torch.no_grad()
def fill(own: Mapping[str, Tensor], given: Mapping[str, Tensor], name: str) -> None:
    """Copy `given` into the tensors `own`, which they must fit."""
    check_fit(own, given, name)
    for key, tensor in own.items():
        tensor.copy_(given[key])


def check_fit(own: Mapping[str, Tensor], given: Mapping[str, Tensor], name: str) -> None:
    """Refuse missing, surplus or unfit tensors among `given`; `name` is what the error begins with."""
    missing, surplus = sorted(own.keys() - given.keys()), sorted(given.keys() - own.keys())
    if missing or surplus:
        listed = f"lacks {missing[0]}" if missing else f"has {surplus[0]}, which is no part of this network"
        raise BadInputError(f"{name}: {listed}")
    for key, tensor in own.items():
        if given[key].shape != tensor.shape or given[key].dtype != tensor.dtype:
            raise BadInputError(f"{name}: {key} is {_kind(given[key])}, but must be {_kind(tensor)}")


def _kind(tensor: Tensor) -> str:
    return f"{' x '.join(str(length) for length in tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
