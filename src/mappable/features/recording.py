"""CUDA graphs: record work on a GPU once, and start it again with a single call."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from threading import get_ident
from typing import Any, Generic, TypeVar

import torch

Result = TypeVar("Result")
REHEARSALS = 2  # runs before the recording, in which libraries choose and load their kernels


@dataclass(frozen=True)
class Recording(Generic[Result]):
    """Call it to do the GPU's part of the work again; the tensors of `result` then hold the new values."""

    graph: torch.cuda.CUDAGraph
    work: Callable[[], Result]  # kept for the tensors that it reads and writes: the graph only knows where they are
    result: Result

    def __call__(self) -> None:
        self.graph.replay()


def record(work: Callable[[], Result], device: torch.device, pool: Any = None) -> Recording[Result]:
    """What does the GPU's part of `work` again.

    `work` must read its inputs from tensors that stay where they are, must not look at a number on the GPU, and is
    called a few times first. Its results are overwritten each time. Recordings with the same `pool`
    (`torch.cuda.graph_pool_handle()`) share their memory: the results of one last until the next of them is called.
    """
    aside = _stream(device, get_ident())
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.device(device), torch.cuda.stream(aside):
        for _ in range(REHEARSALS):
            work()
    torch.cuda.current_stream(device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    # Other threads may go on, such as one that reads images into pinned memory.
    with (
        torch.cuda.device(device),
        torch.cuda.graph(graph, pool=pool, stream=aside, capture_error_mode="thread_local"),
    ):
        result = work()
    return Recording(graph, work, result)


@cache
def _stream(device: torch.device, thread: int) -> torch.cuda.Stream:
    """The one on which a thread records: for every stream that they ever see, libraries keep memory, 64 MiB each."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
