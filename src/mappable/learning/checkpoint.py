"""Checkpoints: the complete state of a training run in one file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from mappable.checksums import seal
from mappable.containers import read_safetensors
from mappable.files import write_atomically
from mappable.formats import KEY, Format

CHECKPOINT = "checkpoint.safetensors"
FORMAT = Format(
    "mappable checkpoint", 2, "the run cannot continue from it", sealed_since=2, earliest=1
)


@dataclass(frozen=True)
class Checkpoint:
    """State after `iteration` steps: the learner's tensors, the tuples of the current mining
    period, and JSON.

    `tuples` is empty between two mining periods. Random numbers need no state, because each stream
    starts from the seed and the number of its period.
    """

    iteration: int
    learner: dict[str, Tensor]
    tuples: dict[str, Tensor]
    about: dict[str, Any]

    def save(self, file: Path) -> None:
        tensors = {f"learner/{name}": tensor for name, tensor in self.learner.items()}
        tensors |= {f"tuples/{name}": tensor for name, tensor in self.tuples.items()}
        about = FORMAT.text({"iteration": self.iteration, "about": self.about}, indent=None)
        copies = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        content = seal(safetensors.torch.save(copies, {KEY: about}))
        write_atomically(file, lambda stream: stream.write(content))

    @staticmethod
    def load(file: Path) -> "Checkpoint":
        with FORMAT.reading(file):
            metadata, tensors = read_safetensors(file, "pt")
            about = FORMAT.parse(metadata.get(KEY), file)
            parts: dict[str, dict[str, Tensor]] = {"learner": {}, "tuples": {}}
            for name, tensor in tensors.items():
                part, _, tensor_name = name.partition("/")
                parts[part][tensor_name] = tensor
            return Checkpoint(about["iteration"], parts["learner"], parts["tuples"], about["about"])
