"""Checkpoints: all that a run needs to go on as if it had never stopped, in one file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from mappable.errors import BadInputError
from mappable.files import write_atomically

CHECKPOINT = "checkpoint.safetensors"
FORMAT, VERSION = "mappable checkpoint", 1


@dataclass(frozen=True)
class Checkpoint:
    """After `iteration` steps: the learner's tensors, the tuples of the mining period under way (if any is), and JSON.

    Random numbers need no state here: each stream begins anew from the seed and the number of its period.
    """

    iteration: int
    learner: dict[str, Tensor]
    tuples: dict[str, Tensor]
    about: dict[str, Any]

    def save(self, file: Path) -> None:
        tensors = {f"learner/{name}": tensor for name, tensor in self.learner.items()}
        tensors |= {f"tuples/{name}": tensor for name, tensor in self.tuples.items()}
        about = {"format": FORMAT, "version": VERSION, "iteration": self.iteration, "about": self.about}
        content = safetensors.torch.save(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
            {"mappable": json.dumps(about)},
        )
        write_atomically(file, lambda stream: stream.write(content))

    @staticmethod
    def load(file: Path) -> "Checkpoint":
        try:
            with safetensors.safe_open(file, framework="pt") as opened:
                about = json.loads((opened.metadata() or {})["mappable"])
                if about["format"] != FORMAT:
                    raise ValueError(f"its format is {about['format']!r}")
                if about["version"] > VERSION:
                    raise BadInputError(f"{file}: written by a later version of mappable (format {about['version']})")
                parts: dict[str, dict[str, Tensor]] = {"learner": {}, "tuples": {}}
                for name in opened.keys():  # noqa: SIM118 - it is no dictionary
                    part, _, own = name.partition("/")
                    parts[part][own] = opened.get_tensor(name)
            return Checkpoint(about["iteration"], parts["learner"], parts["tuples"], about["about"])
        except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
            raise BadInputError(f"{file}: not a checkpoint that can be read ({error})") from None
