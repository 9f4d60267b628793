"""Checkpoints: the complete state of a training run in one file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from mappable.files import write_atomically
from mappable.formats import KEY, Format

CHECKPOINT = "checkpoint.safetensors"
FORMAT = Format("mappable checkpoint", 1, "the run cannot continue from it")


@dataclass(frozen=True)
class Checkpoint:
    """State after `iteration` steps: the learner's tensors, the tuples of the current mining period, and JSON.

    `tuples` is empty between two mining periods. Random numbers need no state, because each stream starts from the seed
    and the number of its period.
    """

    iteration: int
    learner: dict[str, Tensor]
    tuples: dict[str, Tensor]
    about: dict[str, Any]

    def save(self, file: Path) -> None:
        tensors = {f"learner/{name}": tensor for name, tensor in self.learner.items()}
        tensors |= {f"tuples/{name}": tensor for name, tensor in self.tuples.items()}
        about = FORMAT.text({"iteration": self.iteration, "about": self.about}, indent=None)
        content = safetensors.torch.save(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
            {KEY: about},
        )
        write_atomically(file, lambda stream: stream.write(content))

    @staticmethod
    def load(file: Path) -> "Checkpoint":
        with FORMAT.reading(file), safetensors.safe_open(file, framework="pt") as opened:
            about = FORMAT.parse((opened.metadata() or {}).get(KEY), file)
            parts: dict[str, dict[str, Tensor]] = {"learner": {}, "tuples": {}}
            for name in opened.keys():  # noqa: SIM118 - `opened` is not a dictionary
                part, _, tensor_name = name.partition("/")
                parts[part][tensor_name] = opened.get_tensor(name)
            return Checkpoint(about["iteration"], parts["learner"], parts["tuples"], about["about"])
