"""Train one encoder with several processes, started by `torchrun`."""

import hashlib
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

from mappable.errors import BadInputError, MappableError

# All processes wait while the first one computes clusters and activations. The default of NCCL is
# 10 minutes.
TIMEOUT = timedelta(hours=1)
PAUSE = 0.05  # seconds between two looks at the store


@dataclass(frozen=True)
class Group:
    """One of `size` processes. Each takes its share of every batch and of every refresh of the
    feature cache.

    Processes that `torchrun` started are `connected`, even if there is only one.
    """

    rank: int = 0
    size: int = 1
    connected: bool = False

    @property
    def first(self) -> bool:
        """True in the one process that writes files and prints."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Slice of `count` items for this process. The sizes of all slices differ by at most one."""
        edges = np.arange(self.size + 1) * count // self.size
        return slice(int(edges[self.rank]), int(edges[self.rank + 1]))

    def gather(self, part: Tensor, count: int) -> Tensor:
        """Concatenate the parts (k, ...) of all processes into (count, ...), in every process.
        Inverse of `share`.
        """
        if not self.connected:
            return part
        longest = -(-count // self.size)
        padded = part.new_zeros(longest, *part.shape[1:])
        padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        with _together():
            distributed.all_gather(parts, padded)
        shares = [Group(rank, self.size).share(count) for rank in range(self.size)]
        return torch.cat(
            [part[: share.stop - share.start] for part, share in zip(parts, shares, strict=True)]
        )

    def from_first(self, tensor: Tensor) -> Tensor:
        """Overwrite `tensor` in every process with that of the first one. The shape must be the
        same everywhere.
        """
        if self.connected:
            with _together():
                distributed.broadcast(tensor, src=0)
        return tensor

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""
        if self.connected:
            with _together():
                for reduction in [
                    distributed.all_reduce(tensor, async_op=True) for tensor in tensors
                ]:
                    reduction.wait()

    def any(self, flag: bool, device: torch.device) -> bool:
        """True in every process if `flag` is true in at least one."""
        if not self.connected:
            return flag
        count = torch.tensor(int(flag), device=device)
        self.add_up([count])
        return bool(count.item())

    def agrees(self, text: str, device: torch.device) -> bool:
        """True in every process if all of them have the same text."""
        own = torch.frombuffer(
            bytearray(hashlib.sha256(text.encode()).digest()), dtype=torch.uint8
        ).to(device)
        return not self.any(not own.equal(self.from_first(own.clone())), device)

    def wait(self) -> None:
        """Wait until all processes have called this."""
        if self.connected:
            with _together():
                distributed.barrier()


@contextmanager
def _together() -> Iterator[None]:
    """Context of an operation of all processes: if another process died, raise one sentence."""
    try:
        yield
    except RuntimeError as error:
        # Without a file of gloo.
        cause = re.sub(r"^\[[^]]*\] ", "", str(error).partition("\n")[0]).partition(". ")[0]
        raise MappableError(
            f"lost another process of this training run ({cause}); the same command continues from"
            " the last checkpoint, and `torchrun --max-restarts N` runs it by itself"
        ) from None


@contextmanager
def joined(device: torch.device) -> Iterator[Group]:
    """Join the process group that `torchrun` announces in the environment. Without `torchrun`: this
    process alone.
    """
    if "WORLD_SIZE" not in os.environ:
        yield Group()
        return
    if distributed.is_available() and distributed.is_initialized():
        yield _group()
        return
    if not distributed.is_available():
        raise BadInputError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but this build of PyTorch has no"
            " torch.distributed; train without torchrun"
        )
    from torch.distributed.rendezvous import rendezvous  # some builds of PyTorch do not have it

    store, rank, size = next(rendezvous("env://", timeout=TIMEOUT))
    on_gpu = device.type == "cuda"
    distributed.init_process_group(
        "nccl" if on_gpu else "gloo",
        store=_own_store(store, rank, size),
        rank=rank,
        world_size=size,
        timeout=TIMEOUT,
        device_id=device if on_gpu else None,
    )
    try:
        yield _group()
    finally:
        distributed.destroy_process_group()


def _group() -> Group:
    return Group(distributed.get_rank(), distributed.get_world_size(), connected=True)


def _own_store(store: Any, rank: int, size: int) -> Any:
    """The part of `torchrun`'s store that only the present processes use.

    torchrun keeps one store for all attempts of a job, and after a restart processes would find the
    addresses of dead ones in it. So each process registers under a new key, and rank 0 replies with
    the name of the part. Keys of dead processes get a reply, too, but nobody acknowledges it.
    """
    from torch.distributed.distributed_c10d import PrefixStore

    own, waiting = secrets.token_hex(8), set(range(1, size))
    if rank > 0:
        store.set(f"hello {rank}", own)
        answered, name = "", ""
        while answered != own:
            time.sleep(PAUSE)
            answered, _, name = _read(store, f"welcome {rank}").partition(" ")
        store.set(f"thanks {rank}", name)
        return PrefixStore(name, store)
    while waiting:
        for other in sorted(waiting):
            store.set(f"welcome {other}", f"{_read(store, f'hello {other}')} {own}")
            if _read(store, f"thanks {other}") == own:
                waiting.remove(other)
        time.sleep(PAUSE)
    return PrefixStore(own, store)


def _read(store: Any, key: str) -> str:
    """The text of a key, or "" if nobody has set it."""
    text: str = store.get(key).decode() if store.check([key]) else ""
    return text
