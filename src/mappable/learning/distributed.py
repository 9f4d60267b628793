"""Several processes that train one encoder, started by `torchrun`."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, distributed

from mappable.errors import BadInputError


@dataclass(frozen=True)
class Group:
    """This process among `size`; each takes its share of every batch and of every mining refresh."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """The one process that writes files and speaks."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """This process's part of `count` things that lie in a row; the parts differ by one at most."""
        edges = np.arange(self.size + 1) * count // self.size
        return slice(int(edges[self.rank]), int(edges[self.rank + 1]))

    def gather(self, part: Tensor, count: int) -> Tensor:
        """All parts (k, ...) of `count` rows that were divided by `share`, in order, in every process."""
        if self.size == 1:
            return part
        most = -(-count // self.size)
        padded = part.new_zeros(most, *part.shape[1:])
        padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(parts, padded)
        lengths = [Group(rank, self.size).share(count) for rank in range(self.size)]
        return torch.cat([one[: own.stop - own.start] for one, own in zip(parts, lengths, strict=True)])

    def from_first(self, tensor: Tensor) -> Tensor:
        """The first process's `tensor`, in every process; all have one of its shape."""
        if self.size > 1:
            distributed.broadcast(tensor, src=0)
        return tensor

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Each of the tensors becomes the sum of all processes' own."""
        if self.size > 1:
            for under_way in [distributed.all_reduce(tensor, async_op=True) for tensor in tensors]:
                under_way.wait()

    def any(self, flag: bool, device: torch.device) -> bool:
        """True in every process if it is in one of them."""
        if self.size == 1:
            return flag
        count = torch.tensor(int(flag), device=device)
        distributed.all_reduce(count)
        return bool(count.item())

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            distributed.barrier()


@contextmanager
def joined(device: torch.device) -> Iterator[Group]:
    """The group that `torchrun` announces in the environment; without it, this process alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or distributed.is_initialized():
        yield Group(distributed.get_rank(), distributed.get_world_size()) if distributed.is_initialized() else Group()
        return
    if not distributed.is_available():
        raise BadInputError(f"WORLD_SIZE is {size}, but this build of PyTorch cannot join processes")
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Group(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()
