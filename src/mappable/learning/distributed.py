"""Train one encoder with several processes, started by `torchrun`."""

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
    """One of `size` processes. Each takes its share of every batch and of every refresh of the feature cache."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """True in the one process that writes files and prints."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Slice of `count` items for this process. The sizes of all slices differ by at most one."""
        edges = np.arange(self.size + 1) * count // self.size
        return slice(int(edges[self.rank]), int(edges[self.rank + 1]))

    def gather(self, part: Tensor, count: int) -> Tensor:
        """Concatenate the parts (k, ...) of all processes into (count, ...), in every process. Inverse of `share`."""
        if self.size == 1:
            return part
        longest = -(-count // self.size)
        padded = part.new_zeros(longest, *part.shape[1:])
        padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        distributed.all_gather(parts, padded)
        shares = [Group(rank, self.size).share(count) for rank in range(self.size)]
        return torch.cat([part[: share.stop - share.start] for part, share in zip(parts, shares, strict=True)])

    def from_first(self, tensor: Tensor) -> Tensor:
        """Overwrite `tensor` in every process with that of the first one. The shape must be the same everywhere."""
        if self.size > 1:
            distributed.broadcast(tensor, src=0)
        return tensor

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""
        if self.size > 1:
            for reduction in [distributed.all_reduce(tensor, async_op=True) for tensor in tensors]:
                reduction.wait()

    def any(self, flag: bool, device: torch.device) -> bool:
        """True in every process if `flag` is true in at least one."""
        if self.size == 1:
            return flag
        count = torch.tensor(int(flag), device=device)
        distributed.all_reduce(count)
        return bool(count.item())

    def wait(self) -> None:
        """Wait until all processes have called this."""
        if self.size > 1:
            distributed.barrier()


@contextmanager
def joined(device: torch.device) -> Iterator[Group]:
    """Join the process group that `torchrun` announces in the environment. Without `torchrun`: this process alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or distributed.is_initialized():
        yield Group(distributed.get_rank(), distributed.get_world_size()) if distributed.is_initialized() else Group()
        return
    if not distributed.is_available():
        raise BadInputError(
            f"WORLD_SIZE is {size}, but this build of PyTorch has no torch.distributed; train with one process"
        )
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Group(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()
