"""Inputs of a network by row: images or activations of frozen layers, in the host's memory or on a GPU."""

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from mappable.arrays import Ints, Pixels
from mappable.threads import in_order

BATCHES_AHEAD = 3  # batches that are read, or being read, while the network computes


class Inputs(Protocol):
    """Inputs of a network, by row."""

    def __len__(self) -> int: ...

    def fetch(self, rows: Ints, device: torch.device | str) -> Tensor:
        """The inputs of `rows` on the device."""

    def batches(
        self, portions: Sequence[Ints], device: torch.device
    ) -> Generator[Tensor, None, None]:
        """Yield the inputs of each portion of rows on the device, in order. Close the generator to
        stop early.
        """


class Readable(Protocol):
    """Source of `HostInputs`: `Images`, or rows of a tensor."""

    def __len__(self) -> int: ...

    def read(self, rows: Ints) -> Pixels | Tensor: ...


@dataclass(frozen=True)
class TensorRows:
    """Rows of a tensor in the host's memory. The tensor may be mapped from a file."""

    tensor: Tensor
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, rows: Ints) -> Tensor:
        return self.tensor[self.rows[torch.as_tensor(rows)]]


@dataclass(frozen=True)
class HostInputs:
    """Inputs that are read on the host. A thread reads ahead until the generator is closed.

    They go to a GPU through pinned memory, so that nothing waits for the copy.
    """

    source: Readable

    def __len__(self) -> int:
        return len(self.source)

    def fetch(self, rows: Ints, device: torch.device | str) -> Tensor:
        return torch.as_tensor(self.source.read(rows)).to(device)

    def batches(
        self, portions: Sequence[Ints], device: torch.device
    ) -> Generator[Tensor, None, None]:
        to_gpu = device.type == "cuda"

        def read(portion: Ints) -> Tensor:
            batch = self.fetch(portion, "cpu")
            # Torch reuses pinned memory only after the copy.
            return batch.pin_memory() if to_gpu else batch

        with ThreadPoolExecutor(1) as pool:
            for batch in in_order(pool, read, portions, ahead=BATCHES_AHEAD):
                yield batch.to(device, non_blocking=to_gpu)


@dataclass(frozen=True)
class DeviceInputs:
    """Inputs that are already on a GPU. The row numbers of all portions go there in one transfer."""

    tensor: Tensor

    def __len__(self) -> int:
        return len(self.tensor)

    def fetch(self, rows: Ints, device: torch.device | str) -> Tensor:
        return self.tensor[torch.as_tensor(rows, device=self.tensor.device)].to(device)

    def batches(
        self, portions: Sequence[Ints], device: torch.device
    ) -> Generator[Tensor, None, None]:
        rows = torch.from_numpy(np.concatenate([np.empty(0, dtype=np.int64), *portions])).to(
            self.tensor.device
        )
        for portion in torch.split(rows, [len(portion) for portion in portions]):
            yield self.tensor[portion].to(device)


def tensor_inputs(tensor: Tensor) -> Inputs:
    """Inputs from the rows of a tensor on any device."""
    if tensor.device.type == "cpu":
        return HostInputs(TensorRows(tensor, torch.arange(len(tensor))))
    return DeviceInputs(tensor)
